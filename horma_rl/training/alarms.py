"""Alarms: signs that a run learns nothing, or unlearns, found in the metrics of its steps. No torch is imported here.

An alarm sounds when its figure has been beyond its threshold for `patience` steps in a row. It warns, or it saves a
checkpoint and ends the run with exit code 3. After it sounded it counts from zero again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from horma_rl.config import StrictModel
from horma_rl.errors import UserError

ALARM_EXIT_CODE = 3
"""What `horma-rl train` exits with when an alarm stopped it."""


class AlarmError(Exception):
    """An alarm stopped the training, after the state was saved. The message names it and says what to look at."""


class Rule(StrictModel):
    """When one alarm sounds, and what it does."""

    threshold: float
    """The figure that is too low or too high, depending on the alarm."""
    patience: int = Field(ge=1)
    """Steps in a row beyond the threshold until it sounds."""
    action: Annotated[Literal["off", "warn", "stop"], BeforeValidator(lambda v: "off" if v is False else v)]
    """`off`; `warn`: a line and a mark in `metrics.jsonl`; `stop`: also save and end with exit code 3."""


class AlarmConfig(StrictModel):
    """The alarms of a run. Of each, any of `threshold`, `patience` and `action` may be given; the rest is as here."""

    call_rate: Rule = Rule(threshold=0.05, patience=10, action="stop")
    """`call_rate` below: the model no longer calls its tools, so nothing it does can earn a reward."""
    flat_groups: Rule = Rule(threshold=0.99, patience=20, action="stop")
    """`flat_groups_kept` above: in no group do rewards differ, so the gradient is zero."""
    entropy: Rule = Rule(threshold=0.002, patience=20, action="warn")
    """`entropy` (nats a token) below: the policy has collapsed to one answer and explores no more."""
    logprob_diff: Rule = Rule(threshold=0.2, patience=5, action="stop")
    """`logprob_diff` (nats a token) above: what samples the episodes is not the model that is trained."""
    ess: Rule = Rule(threshold=0.5, patience=10, action="warn")
    """`ess` (0 to 1) below: few tokens carry most of the importance weights, gradients are mostly noise."""
    invalid_rate: Rule = Rule(threshold=0.9, patience=20, action="warn")
    """`invalid_rate` above: nearly every command is unreadable, refused or failed."""
    kl: Rule = Rule(threshold=3.0, patience=10, action="warn")
    """`kl_start`, or `kl` with `grpo.beta` > 0 (nats a token), above: the policy has drifted far from its start. `off`
    also saves measuring `kl_start`: a second copy of the model, and a forward pass over an eighth of the episodes."""
    grad_norm: Rule = Rule(threshold=100.0, patience=5, action="warn")
    """`grad_norm` (before clipping) above: the updates are blowing up."""
    nonfinite: Rule = Rule(threshold=0.5, patience=3, action="stop")
    """`nonfinite` above: a NaN or an infinity in the loss or the gradient; each such step was skipped."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any) -> Any:
        if isinstance(given, cls):
            return given
        if not isinstance(given, Mapping):
            raise UserError(f"alarms is {given!r}, but is a section: switch one off with alarms.NAME.action: off")
        known = {name: field.default.model_dump() for name, field in cls.model_fields.items()}
        return {k: {**known[k], **v} if k in known and isinstance(v, Mapping) else v for k, v in given.items()}


@dataclass(frozen=True)
class _Watch:
    """`keys`: the metrics that hold the figure, the first that is there counts."""

    keys: tuple[str, ...]
    low: bool
    look_at: str


_WATCHES = {
    "call_rate": _Watch(
        ("call_rate",), True, "read the last episodes in trajectories.jsonl; lower the learning rate, or warm up"
    ),
    "flat_groups": _Watch(
        ("flat_groups_kept", "flat_groups"), False,
        "the tasks are too hard or too easy for this model: other tasks, a warm start, or resample_zero_variance",
    ),
    "entropy": _Watch(
        ("entropy",), True, "compare the reward with earlier steps; grpo.entropy_coef or a lower learning rate helps"
    ),
    "logprob_diff": _Watch(
        ("logprob_diff",), False, "are the weights synchronised, and are temperature, dtype and chat template the same?"
    ),
    "ess": _Watch(
        ("ess",), True, "see logprob_diff; fewer updates per generation help (grpo.steps_per_generation)"
    ),
    "invalid_rate": _Watch(
        ("invalid_rate",), False, "read the last episodes in trajectories.jsonl: does the model know the verbs?"
    ),
    "kl": _Watch(("kl_start", "kl"), False, "a lower learning rate, or grpo.beta above 0, holds the policy back"),
    "grad_norm": _Watch(("grad_norm",), False, "a lower learning rate, or grpo.max_grad_norm, tames it"),
    "nonfinite": _Watch(
        ("nonfinite",), False, "the weights are those before the first such step; lower the learning rate, try float32"
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Alarm:
    """An alarm that sounds: its name, whether it stops the run, and one line that says why and what to look at."""

    name: str
    stops: bool
    line: str


class Alarms:
    """Counts, for each alarm, the steps in a row beyond its threshold. Its state goes into checkpoints."""

    def __init__(self, config: AlarmConfig) -> None:
        self._config = config
        self._counts: dict[str, int] = {}

    def check(self, row: Mapping[str, Any]) -> list[Alarm]:
        """The alarms that sound at this step, `row` being its line in `metrics.jsonl`. A figure that the row lacks
        neither adds to the count nor ends it."""
        return [alarm for name in _WATCHES if (alarm := self._look(name, row)) is not None]

    def state_dict(self) -> dict[str, Any]:
        """The counts by alarm."""
        return dict(self._counts)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on counting from `state`."""
        self._counts = dict(state)

    def _look(self, name: str, row: Mapping[str, Any]) -> Alarm | None:
        rule: Rule = getattr(self._config, name)
        watch = _WATCHES[name]
        figure = next((row[key] for key in watch.keys if row.get(key) is not None), None)
        if rule.action == "off" or figure is None:
            return None
        beyond = figure < rule.threshold if watch.low else figure > rule.threshold
        self._counts[name] = self._counts.get(name, 0) + 1 if beyond else 0
        if self._counts[name] < rule.patience:
            return None
        self._counts[name] = 0
        side = "below" if watch.low else "above"
        steps = "at this step" if rule.patience == 1 else f"for {rule.patience} steps"
        line = (
            f"alarm {name} at step {row['step']}: {figure:.4g} is {side} {rule.threshold:g} {steps}; {watch.look_at} "
            f"(alarms.{name})"
        )
        return Alarm(name, rule.action == "stop", line)
