"""The `grpo` section of a run config: TRL's GRPOConfig, checked before anything is built."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args, get_type_hints

import torch
from pydantic import TypeAdapter, ValidationError
from trl import GRPOConfig

from horma_rl.errors import UserError, nearest
from horma_rl.training.config import TrainConfig
from horma_rl.training.grpo_rules import OURS
from horma_rl.training.launch_config import engine_asked
from horma_rl.training.rewards import most_written

OWNED = {
    "output_dir": "runs", "seed": "seed", "report_to": "trackers", "data_seed": "seed",
    "max_completion_length": "rollout.max_context_tokens", "resume_from_checkpoint": "name",
    "deepspeed": "launch.config", "fsdp": "launch.config", "fsdp_config": "launch.config",
}  # fmt: skip
"""Fields of GRPOConfig that this program sets, and the config's own key for each."""

_RENAMED = {
    "gradient_checkpointing": "activation_checkpointing",
    "gradient_checkpointing_kwargs": "activation_checkpointing_kwargs",
}
"""Names that transformers takes with a warning, and those that it has now."""

_SCALARS = {bool, int, float, str, type(None)}


def grpo_args(config: TrainConfig) -> Any:
    """TRL's GRPOConfig from the `grpo` section. Raises UserError for an unknown, owned, mistyped or unsound field."""
    given = {_name(key): value for key, value in _checked(config.grpo).items()}
    on_gpu = torch.cuda.is_available()
    defaults: dict[str, Any] = {
        "logging_steps": 1, "save_steps": 10, "save_total_limit": 2, "bf16": on_gpu, "use_cpu": not on_gpu,
        "remove_unused_columns": False, "disable_tqdm": True, _name("gradient_checkpointing"): on_gpu,
        "vllm_max_model_length": config.rollout.max_context_tokens, **OURS,
        **_process_defaults(config, on_gpu),
    }  # fmt: skip
    chosen = {**defaults, **given}
    if config.rollout_step_s and config.rollout_step_s >= chosen.get("ddp_timeout", 1800):
        raise UserError("rollout_step_s must be below grpo.ddp_timeout (1800 s): a process waits no longer for another")
    try:
        return GRPOConfig(
            output_dir=str(config.run_dir / "checkpoints"), seed=config.seed, report_to="none",
            max_completion_length=_longest(config, chosen), **chosen,
        )  # fmt: skip
    except (ValueError, TypeError) as error:
        raise UserError(f"grpo: {' '.join(str(error).split())}") from None


def _longest(config: TrainConfig, chosen: Mapping[str, Any]) -> int:
    """What TRL takes for the length of a completion: all that an episode may hold. Where `dr_grpo` divides by it, it is
    what the policy may write: observations would make updates smaller the more there is to read."""
    return most_written(config.rollout) if chosen.get("loss_type") == "dr_grpo" else config.rollout.max_context_tokens


def _process_defaults(config: TrainConfig, on_gpu: bool) -> dict[str, Any]:
    """What differs on a CPU: gloo, and no `use_cpu` in a process of DeepSpeed, which would be ignored with it. Nothing
    does where the config is only checked, outside of the processes that accelerate starts."""
    engine = engine_asked(config.launch)  # raises for a launch that cannot be had
    if on_gpu or "LOCAL_RANK" not in os.environ or engine.kind == "single":
        return {}
    return {"ddp_backend": "gloo", "use_cpu": os.environ.get("ACCELERATE_USE_DEEPSPEED") != "true"}


def _name(key: str) -> str:
    """The field that the installed transformers reads for `key`: releases before 5.20 know the old names only."""
    new = _RENAMED.get(key, key)
    return new if new in {field.name for field in fields(GRPOConfig)} else key


def _checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` with its plain values (numbers, words, yes or no) converted to the types that TRL declares: a dataclass
    takes any value, and a wrong one would show only deep inside a run."""
    known = {field.name for field in fields(GRPOConfig) if field.init}
    hints = get_type_hints(GRPOConfig)
    checked: dict[str, Any] = {}
    for key, value in given.items():
        if key in OWNED:
            raise UserError(f"grpo.{key} is set by this program: use the key '{OWNED[key]}'")
        if key not in known:
            raise UserError(f"unknown key 'grpo.{key}'{nearest(key, known)}: see TRL's GRPOConfig")
        plain = set(get_args(hints[key]) or (hints[key],)) <= _SCALARS
        checked[key] = _typed(key, value, hints[key]) if plain else value
    return checked


def _typed(key: str, value: Any, hint: Any) -> Any:
    try:
        return TypeAdapter(hint).validate_python(value)
    except ValidationError as error:
        message = error.errors()[0]["msg"]
        raise UserError(f"'grpo.{key}' is {value!r}: {message[0].lower()}{message[1:]}") from None
