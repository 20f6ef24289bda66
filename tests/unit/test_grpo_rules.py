"""What the `grpo` section refuses: every rule has an example here that it alone names, and sound sections pass."""

from __future__ import annotations

from typing import Any

import pytest

from horma_rl.config import load_config
from horma_rl.errors import UserError
from horma_rl.training.config import TrainConfig
from horma_rl.training.grpo_rules import DEFAULTS, RULES, check_grpo
from tests.conftest import REPOSITORY

TINY = REPOSITORY / "configs/train/tiny_cpu.yaml"

REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("num_generations", {"num_generations": 1}),
    ("per_device_train_batch_size", {"per_device_train_batch_size": 0}),
    ("gradient_accumulation_steps", {"gradient_accumulation_steps": 0}),
    ("num_generations", {"num_generations": 8, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 3}),
    ("generation_batch_size", {"generation_batch_size": 64}),
    ("num_generations", {"steps_per_generation": 2, "per_device_train_batch_size": 3}),
    ("auto_find_batch_size", {"auto_find_batch_size": True}),
    ("steps_per_generation", {"steps_per_generation": 12, "gradient_accumulation_steps": 8}),
    ("num_iterations", {"num_iterations": 0}),
    ("temperature", {"temperature": 0}),
    ("top_p", {"top_p": 0.9}),
    ("top_k", {"top_k": 5}),
    ("min_p", {"min_p": 0.1}),
    ("repetition_penalty", {"repetition_penalty": 1.1}),
    ("vllm_structured_outputs_regex", {"vllm_structured_outputs_regex": "a+"}),
    ("generation_kwargs", {"generation_kwargs": {"max_new_tokens": 5}}),
    ("chat_template_kwargs", {"chat_template_kwargs": {"enable_thinking": False}}),
    ("max_tool_calling_iterations", {"max_tool_calling_iterations": 5}),
    ("cache_implementation", {"cache_implementation": "static"}),
    ("use_transformers_continuous_batching", {"use_transformers_continuous_batching": True}),
    ("use_transformers_paged", {"use_transformers_paged": True}),
    ("loss_type", {"loss_type": "vespo"}),
    ("loss_type", {"loss_type": "bnpo"}),
    ("loss_type", {"loss_type": "ppo"}),
    ("importance_sampling_level", {"importance_sampling_level": "episode"}),
    ("scale_rewards", {"scale_rewards": "std"}),
    ("importance_sampling_level", {"importance_sampling_level": "sequence"}),
    ("loss_type", {"loss_type": "luspo"}),
    ("epsilon_high", {"loss_type": "cispo"}),
    ("epsilon", {"epsilon": 1.5}),
    ("epsilon_high", {"epsilon_high": -0.1}),
    ("delta", {"delta": 1.2, "epsilon_high": 0.28}),
    ("sapo_temperature_neg", {"sapo_temperature_neg": 0}),
    ("sapo_temperature_pos", {"sapo_temperature_pos": -1.0}),
    ("beta", {"beta": -0.01}),
    ("sync_ref_model", {"sync_ref_model": True, "beta": 0.1}),
    ("mask_truncated_completions", {"mask_truncated_completions": True}),
    ("top_entropy_quantile", {"top_entropy_quantile": -0.1}),
    ("top_entropy_quantile", {"top_entropy_quantile": 20}),
    ("entropy_coef", {"entropy_coef": -0.1}),
    ("off_policy_mask_threshold", {"off_policy_mask_threshold": 0}),
    ("vllm_importance_sampling_mode", {"vllm_importance_sampling_mode": "sequence_mask"}),
    ("vllm_importance_sampling_mode", {"vllm_importance_sampling_mode": "token"}),
    ("vllm_importance_sampling_clip_max", {"vllm_importance_sampling_clip_max": 0.5}),
    ("vllm_importance_sampling_clip_min", {"vllm_importance_sampling_clip_min": 2}),
    ("vllm_mode", {"vllm_mode": "remote"}),
    ("vllm_gpu_memory_utilization", {"vllm_gpu_memory_utilization": 0}),
    ("vllm_gpu_memory_utilization", {"vllm_gpu_memory_utilization": 3}),
    ("vllm_tensor_parallel_size", {"vllm_tensor_parallel_size": 2}),
    ("vllm_enable_sleep_mode", {"vllm_enable_sleep_mode": True}),
    ("reward_weights", {"reward_weights": [0.5]}),
    ("multi_objective_aggregation", {"multi_objective_aggregation": "normalize_then_sum"}),
    ("label_smoothing_factor", {"label_smoothing_factor": 0.1}),
    ("use_liger_kernel", {"use_liger_kernel": True}),
    ("learning_rate", {"learning_rate": -1e-6}),
    ("weight_decay", {"weight_decay": -0.1}),
    ("max_grad_norm", {"max_grad_norm": -1}),
    ("warmup_steps", {"warmup_steps": -5}),
    ("max_steps", {"max_steps": -2}),
    ("num_train_epochs", {"num_train_epochs": 0}),
    ("save_steps", {"save_steps": 0}),
    ("save_steps", {"save_steps": 0.2}),
    ("save_strategy", {"save_strategy": "no"}),
    ("save_only_model", {"save_only_model": True}),
    ("save_total_limit", {"save_total_limit": 1}),
    ("ignore_data_skip", {"ignore_data_skip": True}),
    ("enable_jit_checkpoint", {"enable_jit_checkpoint": True}),
    ("logging_strategy", {"logging_strategy": "epoch"}),
    ("logging_steps", {"logging_steps": 10}),
    ("do_eval", {"do_eval": True}),
    ("eval_strategy", {"eval_strategy": "steps"}),
    ("eval_on_start", {"eval_on_start": True}),
    ("load_best_model_at_end", {"load_best_model_at_end": True}),
    ("metric_for_best_model", {"metric_for_best_model": "reward"}),
    ("model_init_kwargs", {"model_init_kwargs": {"dtype": "bfloat16"}}),
    ("trust_remote_code", {"trust_remote_code": True}),
    ("push_to_hub", {"push_to_hub": True}),
    ("hub_token", {"hub_token": "secret"}),
]  # fmt: skip


@pytest.mark.parametrize(("key", "given"), REFUSED, ids=str)
def test_an_unsound_value_is_named_in_one_line(key: str, given: dict[str, Any]) -> None:
    with pytest.raises(UserError) as error:
        check_grpo(given)
    message = str(error.value)
    assert message.startswith(f"grpo.{key}=")
    assert "\n" not in message
    assert len(message) < 240


def test_every_rule_has_an_example() -> None:
    firsts = [next(rule for rule in RULES if rule.broken({**DEFAULTS, **given})) for _, given in REFUSED]
    assert [rule for rule in RULES if rule not in firsts] == []


@pytest.mark.parametrize(
    "given",
    [
        {"learning_rate": 0},
        {"learning_rate": "1e-6", "beta": 0.01, "scale_rewards": "batch"},
        {"loss_type": "dr_grpo", "scale_rewards": "none"},
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4},
        {"loss_type": "luspo", "importance_sampling_level": "sequence"},
        {"loss_type": "cispo", "epsilon_high": 5.0},
        {"loss_type": "sapo", "delta": 2.0},
        {"steps_per_generation": 16, "gradient_accumulation_steps": 4, "per_device_train_batch_size": 2},
        {"num_iterations": 4, "epsilon_high": 0.28},
        {"use_vllm": True, "vllm_importance_sampling_mode": "token_mask", "vllm_importance_sampling_clip_min": 0.1},
        {"save_total_limit": None, "max_steps": 0, "max_grad_norm": 0},
    ],
    ids="-".join,
)
def test_sound_sections_pass(given: dict[str, Any]) -> None:
    check_grpo(given)


@pytest.mark.parametrize("value", ["nan", ".inf", "-.inf", "[0.1, .nan]", "{a: .nan}"])
def test_no_number_that_is_none_reaches_the_weights(value: str) -> None:
    """Whatever the field, and although `nan` is a word in YAML that the field's type would take for a number."""
    for key in ("learning_rate", "adam_beta1", "lr_scheduler_kwargs"):
        with pytest.raises(UserError, match=rf"grpo\.{key}=.*not a finite number"):
            load_config(TINY, [f"grpo.{key}={value}"], TrainConfig)


def test_a_word_that_reads_as_a_number_is_one() -> None:
    with pytest.raises(UserError, match=r"temperature=-0\.5: must be above 0"):
        check_grpo({"temperature": "-0.5"})


def test_a_value_of_another_type_is_left_to_the_types() -> None:
    check_grpo(
        {"learning_rate": "fast", "num_generations": None, "epsilon": None, "delta": "wide", "epsilon_high": "x"}
    )


def test_a_config_is_refused_when_it_is_read() -> None:
    with pytest.raises(UserError, match=r"grpo\.top_p=0\.9: biases"):
        load_config(TINY, ["grpo.top_p=0.9"], TrainConfig)
