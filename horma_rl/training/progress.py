"""What a running GRPO shows and writes: a live line, `metrics.jsonl`, and an orderly end on Ctrl-C."""

from __future__ import annotations

import json
import math
import signal
import sys
import time
from collections.abc import Callable, Mapping
from math import nan
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from transformers import TrainerCallback

from horma_rl.evaluation.store import drop_unfinished_line
from horma_rl.training.alarms import Alarms
from horma_rl.training.guard import from_main
from horma_rl.training.signals import STOP_SIGNALS, interruption

RENAMED = {
    "reward": "reward",
    "reward_std": "reward_std",
    "rewards/reward/mean": "training_reward",
    "loss": "loss",
    "grad_norm": "grad_norm",
    "entropy": "entropy",
    "learning_rate": "learning_rate",
    "frac_reward_zero_std": "flat_groups_kept",
    "kl": "kl",
    "clip_ratio/region_mean": "clip_ratio",
    "completions/mean_length": "model_tokens",
    "step_time": "step_s",
    "logprob_diff": "logprob_diff",
    "ess": "ess",
    "kl_start": "kl_start",
    "nonfinite": "nonfinite",
}
"""TRL's names of the metrics that are kept, and ours. Everything under `rollout/` is kept as well, `rollout/reward` in
place of TRL's: TRL sees the groups only after flat ones were replaced."""

AS_THEY_ARE = ("time/", "tokens_per_s/", "eval/")
"""What names begin with that are kept under them: where the time went, and evaluation during training."""


class MetricsLog(TrainerCallback):
    """Appends one JSON line per step to `path` and passes it to `show`. A step repeated after a resume is appended
    again: readers take the last line of each step. `alarms` are checked at each step: those that sound are named in
    its line, and one that stops saves and ends the training."""

    def __init__(
        self, path: Path, show: Callable[[Mapping[str, Any], int], None], alarms: Alarms | None = None
    ) -> None:
        self._path = path
        self._show = show
        self._alarms = alarms
        self.stopped_by: str | None = None
        """What the alarm says that stopped the training."""
        drop_unfinished_line(path)

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any) -> Any:
        """Called by the trainer with every step's metrics, and once with the totals at the end, which are left out."""
        if not logs or not {"reward", "loss"} & logs.keys():  # a step from earlier episodes has a loss alone
            return control
        self.stopped_by = from_main(lambda: self._write(logs, state))
        if self.stopped_by:
            control.should_save = control.should_training_stop = True
        return control

    def _write(self, logs: Mapping[str, Any], state: Any) -> str | None:
        """Write and show a step's line; what the first alarm says that stops, if one does."""
        row = {"step": state.global_step, "time": round(time.time(), 1)}
        row |= {ours: logs[theirs] for theirs, ours in RENAMED.items() if _known(logs.get(theirs))}
        row |= {name.removeprefix("rollout/"): value for name, value in logs.items() if name.startswith("rollout/")}
        row |= {name: value for name, value in logs.items() if name.startswith(AS_THEY_ARE)}
        sounding = self._alarms.check(row) if self._alarms else []
        if sounding:
            row["alarms"] = [alarm.name for alarm in sounding]
        with self._path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")
        self._show(row, state.max_steps)
        for alarm in sounding:
            print(f"\nhorma-rl: {alarm.line}", file=sys.stderr, flush=True)
        return next((alarm.line for alarm in sounding if alarm.stops), None)


def _known(value: Any) -> bool:
    """Whether a metric has a value: JSON knows no NaN and no infinity."""
    return value is not None and math.isfinite(value)


class StopOnInterrupt(TrainerCallback):
    """Within its `with` block, the first Ctrl-C, SIGTERM or SIGUSR1 saves after the step in progress and stops the
    training; a Ctrl-C after it stops at once. Of several processes all stop when one of them was told to."""

    def __init__(self) -> None:
        self.number = 0
        """The signal that came; 0 while none has."""

    @property
    def stopped(self) -> bool:
        """Whether the training was asked to stop."""
        return self.number > 0

    def reason(self) -> KeyboardInterrupt:
        """The exception that tells who stopped the training: a person or a cluster."""
        return interruption(self.number)

    def __enter__(self) -> StopOnInterrupt:
        self._old = {s: signal.signal(s, self._ask) for s in STOP_SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Stop here when asked to."""
        if dist.is_available() and dist.is_initialized():
            asked = torch.tensor(self.number, device=args.device)
            dist.all_reduce(asked, op=dist.ReduceOp.MAX)
            self.number = int(asked)
        if self.stopped:
            control.should_save = control.should_training_stop = True
        return control

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.stopped:
            if number == signal.SIGINT:
                raise self.reason()
            return  # a cluster may send both of its signals, and kills by itself when its patience ends
        self.number = number
        print("\nhorma-rl: finishing this step, then saving (Ctrl-C stops at once)", file=sys.stderr)


class Live:
    """A line that renews itself on a terminal; elsewhere a line for the first step, every few steps, and the last."""

    def __init__(self, every: int = 10) -> None:
        self._every = every
        self._started: tuple[float, int] | None = None
        self._terminal = sys.stderr.isatty()

    def __call__(self, row: Mapping[str, Any], steps: int) -> None:
        """Show one step's metrics. A step whose episodes all failed has no reward."""
        step = int(row["step"])
        started, first = self._started = self._started or (time.monotonic() - float(row.get("step_s", 0.0)), step - 1)
        left = (time.monotonic() - started) / max(1, step - first) * (steps - step)
        text = (
            f"grpo {step}/{steps}  reward {row.get('reward', nan):.3f} (spread {row.get('reward_std', nan):.3f})  "
            f"turns {row.get('turns', 0.0):.1f}  invalid {row.get('invalid_rate', 0.0):.0%}  "
            f"{row.get('tokens_per_s', 0.0):,.0f} tokens/s  {int(left // 60)}:{int(left % 60):02d} left"
        )
        if self._terminal:
            print(f"\r\x1b[2K{text}", end="\n" if step == steps else "", file=sys.stderr, flush=True)
        elif step % self._every == 0 or step in (first + 1, steps):
            print(text, file=sys.stderr, flush=True)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The rows of a metrics log by step, the last one of each step; what is no row (cut short, damaged) is left out."""
    rows: dict[int, dict[str, Any]] = {}
    if not path.is_file():
        return []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
            rows[int(row["step"])] = row
        except (ValueError, TypeError, KeyError):
            continue
    return [rows[step] for step in sorted(rows)]
