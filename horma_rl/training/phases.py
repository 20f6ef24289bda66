"""Where the time of a training step goes: seconds and tokens by phase, for every line of `metrics.jsonl`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from transformers import TrainerCallback

PHASES = ("rollout", "logprobs", "update", "sync", "save", "evaluate", "other")
"""Together they are all of the time between two lines: `rollout`, the episodes; `logprobs`, passes over them outside
the loss; `update`, forward, backward and optimiser; `sync`, weights to a serving engine; `save`, checkpoints;
`evaluate`, evaluation during training; `other`, the rest (padding, advantages, logging)."""

PARTS = ("environment",)
"""Seconds that are counted within another phase as well: the shell's commands, within `rollout`."""


class Phases(TrainerCallback):
    """A stopwatch of one process that is always in one phase.

    `with phases("rollout"):` enters one (it is a decorator as well), and the phase that was there before goes on after
    it. Between the beginning and the end of a step the phase is `update` unless told otherwise, outside `other`.

    `settle` waits for what a device still has to do; without it, work that was only queued would be counted in the
    phase in which something waits for it.
    """

    def __init__(
        self, settle: Callable[[], None] = lambda: None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._settle = settle
        self._clock = clock
        self._phase = "other"
        self._since = clock()
        self._seconds = dict.fromkeys((*PHASES, *PARTS), 0.0)
        self._tokens: dict[str, int] = {}
        self._step = 0

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Count the time within as `phase`, one of `PHASES`."""
        before = self._enter(phase)
        try:
            yield
        finally:
            self._enter(before)

    def add(self, part: str, seconds: float) -> None:
        """Count `seconds`, measured elsewhere, as `part`, one of `PARTS`."""
        self._seconds[part] += seconds

    def count(self, phase: str, tokens: int) -> None:
        """Tell how many tokens `phase` dealt with."""
        self._tokens[phase] = self._tokens.get(phase, 0) + tokens

    def take(self, step: int) -> dict[str, float]:
        """`time/<phase>_s`, seconds a step since the last call, and `tokens_per_s/<phase>` for the phases that
        dealt with tokens. `step`: optimiser steps that are done."""
        self._enter(self._phase)
        steps = max(1, step - self._step)
        taken = {f"time/{phase}_s": seconds / steps for phase, seconds in self._seconds.items()}
        for phase, tokens in self._tokens.items():
            taken[f"tokens_per_s/{phase}"] = tokens / max(self._seconds[phase], 1e-9)
        self._clear(step)
        return taken

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """What came before the first step, such as loading a checkpoint, is no part of it."""
        self._enter("other")
        self._clear(state.global_step)

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """From here on, what is not counted elsewhere is the update."""
        self._enter("update")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The optimiser has stepped."""
        self._enter("other")

    def _enter(self, phase: str) -> str:
        """Book the time since the last change, and give back the phase that it was booked on."""
        self._settle()
        now, before = self._clock(), self._phase
        self._seconds[before] += now - self._since
        self._phase, self._since = phase, now
        return before

    def _clear(self, step: int) -> None:
        self._seconds = dict.fromkeys(self._seconds, 0.0)
        self._tokens.clear()
        self._step = step
