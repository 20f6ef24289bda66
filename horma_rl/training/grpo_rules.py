"""What may not stand in the `grpo` section: one table of rules, checked when a config is read. No torch is imported.

TRL's GRPOConfig takes any value of the right type, and some that are sound for one response are not for an episode of
many turns. Every rule says what is refused, why, and what to do instead. Types and names are TRL's to check.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from horma_rl.errors import UserError

DEFAULTS: dict[str, Any] = {
    "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "num_generations": 8, "loss_type": "dapo",
    "importance_sampling_level": "token", "epsilon": 0.2, "epsilon_high": None, "delta": None,
    "vllm_importance_sampling_mode": "token_truncate",
}  # fmt: skip
"""The values that rules meet where a config is silent: TRL's defaults, and ours where they differ."""

OURS: dict[str, Any] = {"vllm_importance_sampling_mode": "token_truncate"}
"""Defaults that differ from TRL's. TRL corrects for another engine's probabilities by the product of the ratios of a
whole completion and drops it when that is above 3; over the thousands of tokens of an episode the product leaves any
bound, so that whole episodes are lost to rounding. A ratio a token, cut at the bound, keeps them."""

Settings = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """`key` may not have its value when `broken`; `why` says the reason and what to do instead."""

    key: str
    broken: Callable[[Settings], bool]
    why: str


def check_grpo(given: Settings) -> None:
    """Raise UserError for the first rule that the `grpo` section `given` breaks, in one line."""
    plain = {key: _plain(value) for key, value in given.items()}
    for key, value in plain.items():
        if not all(math.isfinite(number) for number in _numbers(value)):
            raise UserError(f"grpo.{key}={value}: not a finite number, which would reach the weights: give a number")
    settings = {**DEFAULTS, **plain}
    for rule in RULES:
        if rule.broken(settings):
            raise UserError(f"grpo.{rule.key}={settings.get(rule.key)}: {rule.why}")


def _plain(value: Any) -> Any:
    """A number for a word that reads as one: TRL's types take both, and `nan` is a word in YAML."""
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return value


def _numbers(value: Any) -> Iterator[float]:
    """The numbers in a value of the config, however deep."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _numbers(item)
    elif _is_number(value):
        yield value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(key: str, broken: Callable[[float], bool], why: str) -> Rule:
    """A bound on a number. What is no number is left to TRL's types."""
    return Rule(key, lambda s: _is_number(s.get(key)) and broken(s[key]), why)


def _at_least(key: str, low: float, why: str = "") -> Rule:
    return _number(key, lambda value: value < low, f"must be at least {low}{why}")


def _above(key: str, low: float, why: str = "") -> Rule:
    return _number(key, lambda value: value <= low, f"must be above {low}{why}")


def _at_most(key: str, high: float, why: str = "") -> Rule:
    return _number(key, lambda value: value > high, f"must be at most {high}{why}")


def _one_of(key: str, *allowed: str) -> Rule:
    return Rule(key, lambda s: s.get(key, allowed[0]) not in allowed, f"must be one of {', '.join(allowed)}")


def _only(key: str, neutral: Any, why: str) -> Rule:
    """`key` stays at `neutral`, which is TRL's default; None: it is not set."""
    return Rule(key, lambda s: s.get(key, neutral) != neutral, why)


def _batches(s: Settings) -> float:
    """Batches of a process that are played at a time; nan where it is no number."""
    value = s.get("steps_per_generation") or s["gradient_accumulation_steps"]
    return float(value) if _is_number(value) and value > 0 else math.nan


def _splits_groups(s: Settings) -> bool:
    """Whether the episodes that one process plays at a time are no whole groups."""
    device, size = s["per_device_train_batch_size"], s["num_generations"]
    if not all(_is_number(value) and value > 0 for value in (device, size)):
        return False
    return bool(device * _batches(s) % size > 0)


def _plays_within_an_update(s: Settings) -> bool:
    accumulated = s["gradient_accumulation_steps"]
    return _is_number(accumulated) and accumulated > 0 and _batches(s) % accumulated > 0


def _upper(s: Settings) -> float:
    """The upper clipping distance; nan where it is no number."""
    value = s["epsilon"] if s["epsilon_high"] is None else s["epsilon_high"]
    return float(value) if _is_number(value) else math.nan


_OTHER_SAMPLING = "samples from another distribution than the one that the loss takes ratios of: leave it out"
_UNREAD = "TRL's own generation reads it, the episodes here do not"
_OWN_EVALUATION = "evaluation during training is this program's own, on its episodes: use evaluation.every"

RULES: tuple[Rule, ...] = (
    # groups and batches
    _at_least("num_generations", 2, ": an advantage compares the episodes of a group"),
    _at_least("per_device_train_batch_size", 1),
    _at_least("gradient_accumulation_steps", 1),
    Rule(
        "num_generations",
        _splits_groups,
        "does not divide per_device_train_batch_size x gradient_accumulation_steps (or x steps_per_generation), and a "
        "process plays whole groups: change one of them",
    ),
    _only(
        "generation_batch_size", None, "follows from per_device_train_batch_size: set that, and steps_per_generation"
    ),
    _only("auto_find_batch_size", False, "would cut groups apart: make per_device_train_batch_size smaller"),
    Rule(
        "steps_per_generation",
        _plays_within_an_update,
        "must be a multiple of gradient_accumulation_steps: episodes are played between updates, not within one",
    ),
    _at_least("num_iterations", 1),
    # sampling
    _above("temperature", 0, ": the loss needs the chance of what was sampled (evaluation.temperature may be 0)"),
    _only("top_p", 1, "biases the importance ratio in training: leave it at 1"),
    _only("top_k", 0, "biases the importance ratio in training: leave it at 0"),
    _only("min_p", None, _OTHER_SAMPLING),
    _only("repetition_penalty", 1, _OTHER_SAMPLING),
    _only("vllm_structured_outputs_regex", None, _OTHER_SAMPLING),
    _only("generation_kwargs", None, f"{_UNREAD}: use rollout.* for limits, and grpo.temperature"),
    _only("chat_template_kwargs", None, f"{_UNREAD}: use prompt, thinking and tools"),
    _only("max_tool_calling_iterations", None, f"{_UNREAD}: use rollout.max_turns"),
    _only("cache_implementation", None, f"{_UNREAD}: leave it out"),
    _only("use_transformers_continuous_batching", False, f"{_UNREAD}; they are batched continuously: leave it out"),
    _only("use_transformers_paged", False, f"{_UNREAD}; they are batched continuously: leave it out"),
    # loss
    Rule(
        "loss_type",
        lambda s: s["loss_type"] == "vespo",
        "weighs an episode by the product of its tokens' ratios, which over many turns leaves any bound: use dapo, or "
        "grpo with importance_sampling_level=sequence (their geometric mean)",
    ),
    Rule(
        "loss_type",
        lambda s: s["loss_type"] == "bnpo",
        "averages over a micro-batch, and those are formed by length, so that the tokens of short episodes would count "
        "more: use dapo, which averages over the step",
    ),
    _one_of("loss_type", "dapo", "grpo", "dr_grpo", "cispo", "sapo", "luspo"),
    _one_of("importance_sampling_level", "token", "sequence"),
    _one_of("scale_rewards", "group", "batch", "none"),
    Rule(
        "importance_sampling_level",
        lambda s: s["importance_sampling_level"] == "sequence" and s["loss_type"] in ("dapo", "dr_grpo", "cispo"),
        "with this loss_type would weigh an episode by its length: use loss_type=grpo (GSPO), luspo or sapo",
    ),
    Rule(
        "loss_type",
        lambda s: s["loss_type"] == "luspo" and s["importance_sampling_level"] != "sequence",
        "is defined for the ratio of an episode: set importance_sampling_level=sequence",
    ),
    Rule(
        "epsilon_high",
        lambda s: s["loss_type"] == "cispo" and _upper(s) < 1,
        "is for cispo the largest ratio itself, and below 1 scales every token down: set 5.0 (ScaleRL)",
    ),
    Rule(
        "epsilon",
        lambda s: _is_number(s["epsilon"]) and not 0 < s["epsilon"] < 1,
        "must be above 0 and below 1: ratios are clipped to 1 - epsilon from below",
    ),
    _above("epsilon_high", 0),
    Rule(
        "delta",
        lambda s: _is_number(s["delta"]) and s["delta"] <= 1 + _upper(s),
        "must be above 1 + epsilon_high: it is a second bound beyond the clipping",
    ),
    _above("sapo_temperature_neg", 0),
    _above("sapo_temperature_pos", 0),
    _at_least("beta", 0),
    _only("sync_ref_model", False, "the moved reference is not in the checkpoints, so a resumed run would differ"),
    _only(
        "mask_truncated_completions",
        False,
        "looks at the last token of an episode only, and misses responses cut in earlier turns: use "
        "rollout.mask_truncated",
    ),
    _at_least("top_entropy_quantile", 0),
    _at_most("top_entropy_quantile", 1),
    _at_least("entropy_coef", 0, ": a negative one rewards collapse"),
    _above("off_policy_mask_threshold", 0),
    Rule(
        "vllm_importance_sampling_mode",
        lambda s: str(s["vllm_importance_sampling_mode"]).startswith("sequence"),
        "multiplies the ratios of all tokens of an episode, which over many turns leaves any bound: use token_truncate "
        "or token_mask",
    ),
    _one_of("vllm_importance_sampling_mode", "token_truncate", "token_mask"),
    _at_least("vllm_importance_sampling_clip_max", 1, ": a ratio of 1 is no mismatch"),
    _at_most("vllm_importance_sampling_clip_min", 1, ": a ratio of 1 is no mismatch"),
    _one_of("vllm_mode", "colocate", "server"),
    _above("vllm_gpu_memory_utilization", 0),
    _at_most("vllm_gpu_memory_utilization", 1, ": it is a share of the GPU's memory"),
    _only(
        "vllm_tensor_parallel_size",
        1,
        "would tie the engines of several processes together, whose episodes are of uneven length: leave it at 1, or "
        "use vllm_mode=server and start the server with --tensor-parallel-size",
    ),
    _only(
        "vllm_enable_sleep_mode", False, "throws the weights away between rollouts: lower vllm_gpu_memory_utilization"
    ),
    _only("reward_weights", None, "there is one reward, and its parts are set elsewhere: use reward.*"),
    _only("multi_objective_aggregation", "sum_then_normalize", "there is one reward: use grpo.scale_rewards"),
    _only("label_smoothing_factor", 0, "GRPO's loss does not read it: leave it out"),
    _only("use_liger_kernel", False, "replaces the forward pass that skips the softmax of observations: leave it out"),
    # optimiser and length of the run
    _at_least("learning_rate", 0),
    _at_least("weight_decay", 0),
    _at_least("max_grad_norm", 0, "; 0 does not clip"),
    _at_least("warmup_steps", 0),
    _at_least("max_steps", -1, "; 0 skips GRPO, -1 counts passes (num_train_epochs)"),
    _above("num_train_epochs", 0, "; max_steps=0 skips GRPO"),
    # checkpoints, log, evaluation
    _number(
        "save_steps", lambda value: value < 1 or value != int(value), "must be a whole number of steps, at least 1"
    ),
    _only("save_strategy", "steps", "a run is resumed from checkpoints by step: use grpo.save_steps"),
    _only(
        "save_only_model", False, "such a checkpoint cannot be resumed: leave it out; `model/` has the weights alone"
    ),
    _number(
        "save_total_limit", lambda value: value < 2, "must be at least 2: a kill while saving may cost the newest one"
    ),
    _only("ignore_data_skip", False, "a resumed run would see its tasks in another order: leave it out"),
    _only("enable_jit_checkpoint", False, "takes SIGTERM, on which this program saves already: leave it out"),
    _only("logging_strategy", "steps", "every step is logged: leave it out"),
    _only("logging_steps", 1, "every step is logged, and alarms count steps: leave it out"),
    _only("do_eval", False, _OWN_EVALUATION),
    _only("eval_strategy", "no", _OWN_EVALUATION),
    _only("eval_on_start", False, _OWN_EVALUATION),
    _only("load_best_model_at_end", False, "looks at TRL's own evaluation: use evaluation.best"),
    _only("metric_for_best_model", None, "looks at TRL's own evaluation: use evaluation.best"),
    # the model
    _only("model_init_kwargs", None, "the checkpoint is loaded by this program: leave it out"),
    _only("trust_remote_code", False, "no code of a checkpoint is run: use a model that transformers has itself"),
    _only("push_to_hub", False, "nothing is published from a run: leave it out"),
    _only("hub_token", None, "would be written to config.yaml: leave it out"),
)
