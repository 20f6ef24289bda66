"""The `grpo` section of a run config: TRL's GRPOConfig, checked before anything is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args, get_type_hints

import torch
from pydantic import TypeAdapter, ValidationError
from trl import GRPOConfig

from horma_rl.errors import UserError, nearest
from horma_rl.training.config import TrainConfig
from horma_rl.training.grpo_rules import OURS

OWNED = {
    "output_dir": "runs", "seed": "seed", "report_to": "trackers", "data_seed": "seed",
    "max_completion_length": "rollout.max_context_tokens", "resume_from_checkpoint": "name",
}  # fmt: skip
"""Fields of GRPOConfig that this program sets, and the config's own key for each."""

_SCALARS = {bool, int, float, str, type(None)}


def grpo_args(config: TrainConfig) -> Any:
    """TRL's GRPOConfig from the `grpo` section. Raises UserError for an unknown, owned, mistyped or unsound field."""
    given = _checked(config.grpo)
    on_gpu = torch.cuda.is_available()
    defaults: dict[str, Any] = {
        "logging_steps": 1, "save_steps": 10, "save_total_limit": 2, "bf16": on_gpu, "use_cpu": not on_gpu,
        "remove_unused_columns": False, "disable_tqdm": True, **OURS,
    }  # fmt: skip
    if "gradient_checkpointing" not in given:
        defaults["activation_checkpointing"] = on_gpu
    chosen = {**defaults, **given}
    try:
        return GRPOConfig(
            output_dir=str(config.run_dir / "checkpoints"), seed=config.seed, report_to=config.trackers or "none",
            max_completion_length=config.rollout.max_context_tokens, **chosen,
        )  # fmt: skip
    except (ValueError, TypeError) as error:
        raise UserError(f"grpo: {' '.join(str(error).split())}") from None


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
