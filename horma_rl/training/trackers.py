"""Curves outside the run's folder: wandb and TensorBoard get the lines of `metrics.jsonl` under the same names.

A run that was killed and goes on reports to the same place: to the wandb run whose id is kept in `trackers.json`, and
to the same TensorBoard folder, in which the steps that are repeated take the place of those from before.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import secrets
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from horma_rl.config import dump
from horma_rl.errors import UserError
from horma_rl.training.config import TrainConfig

IDS = "trackers.json"
PROJECT = "horma-rl"
"""The wandb project, unless WANDB_PROJECT names another."""


class Tracker(Protocol):
    """A place that curves go to."""

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Take one step's numbers."""

    def conclude(self, numbers: Mapping[str, float], report: Path, step: int) -> None:
        """Take the run's results and its report page. `step`: the last one."""

    def close(self) -> None:
        """Send what is still waiting."""


class Wandb:
    """A wandb run: online, or offline with WANDB_MODE=offline (`wandb sync` uploads it later)."""

    def __init__(self, config: TrainConfig, step: int) -> None:
        import wandb

        del step  # wandb knows by itself up to which step it has the run, and leaves out what is repeated
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or PROJECT,
            name=config.name,
            id=kept_id(config.run_dir),
            resume="allow",
            dir=os.environ.get("WANDB_DIR") or str(config.run_dir),
            config=config.model_dump(mode="json"),
            # What this program prints would be a line that renews itself. On a busy machine wandb's own process can
            # take longer to start than the 30 s that it is given by default.
            settings=wandb.Settings(console="off", x_service_wait=300),
        )

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """One point of every curve."""
        self._run.log(dict(numbers), step=step)

    def conclude(self, numbers: Mapping[str, float], report: Path, step: int) -> None:
        """The numbers go to the run's summary, the page becomes an artifact of the type `report`."""
        import wandb

        results = {f"summary/{name}": value for name, value in numbers.items()}
        self._run.summary.update({**results, "report": str(report)})
        artifact = wandb.Artifact(f"report-{self._run.id}", type="report", metadata={"path": str(report)})
        artifact.add_file(str(report))
        self._run.log_artifact(artifact)

    def close(self) -> None:
        """Wait until all is sent or, offline, written."""
        self._run.finish()


class Tensorboard:
    """Event files in `<run>/tensorboard`. Points at `step` and after that are there already are purged."""

    def __init__(self, config: TrainConfig, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        folder = config.run_dir / "tensorboard"
        purge_step = step if folder.is_dir() else None
        self._writer: Any = SummaryWriter(str(folder), purge_step=purge_step)
        self._writer.add_text("config", f"```yaml\n{dump(config)}```", step)

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """One point of every curve, on disk at once."""
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def conclude(self, numbers: Mapping[str, float], report: Path, step: int) -> None:
        """The results as single points, and where the page is."""
        self.log({f"summary/{name}": value for name, value in numbers.items()}, step)
        self._writer.add_text("report", str(report), step)

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


KINDS: dict[str, Callable[[TrainConfig, int], Tracker]] = {"wandb": Wandb, "tensorboard": Tensorboard}


class Trackers:
    """Passes each line of the log to `show`, and its numbers to the run's trackers.

    They are opened by the first line, so only the process that logs opens any, and at the step at which a resumed run
    goes on. Use it as a context manager: they are closed at its end, whatever ended it.
    """

    def __init__(self, config: TrainConfig, show: Callable[[Mapping[str, Any], int], None]) -> None:
        self._config = config
        self._show = show
        self._open: list[Tracker] | None = None

    def __enter__(self) -> Trackers:
        return self

    def __exit__(self, *_: object) -> None:
        for tracker in self._open or []:
            tracker.close()
        self._open = None

    def __call__(self, row: Mapping[str, Any], steps: int) -> None:
        """Take the line of a step, of `steps`."""
        self._show(row, steps)
        step = int(row["step"])
        if self._open is None:
            self._open = open_trackers(self._config, step)
        for tracker in self._open:
            tracker.log(numbers_of(row), step)


def report_to_trackers(config: TrainConfig, summary: Mapping[str, Any], report: Path, step: int) -> None:
    """Send a finished run's results and report to its trackers. `step`: the last one."""
    for tracker in open_trackers(config, step + 1):
        tracker.conclude(numbers_of(summary), report, step)
        tracker.close()


def open_trackers(config: TrainConfig, step: int) -> list[Tracker]:
    """The run's trackers, ready for the line of `step` and those after it. One that cannot be opened, such as wandb
    without its server, is left out with a warning: the run's folder has everything, and no run ends for a copy."""
    found = []
    for name in config.trackers:
        try:
            found.append(KINDS[name](config, step))
        except Exception as error:
            text = " ".join(str(error).split())[:300]
            print(f"horma-rl: goes on without {name}: {type(error).__name__}: {text}", file=sys.stderr)
    return found


def check_trackers(config: TrainConfig) -> None:
    """Raise UserError for a tracker that is not installed, or that would ask for a password."""
    for name in config.trackers:
        if importlib.util.find_spec(name) is None:
            raise UserError(f"trackers: {name} is not installed: pip install {name}")
    online = os.environ.get("WANDB_MODE", "online") not in ("offline", "disabled", "dryrun")
    if "wandb" in config.trackers and online:
        import wandb

        if not wandb.login(prompt=False, verify=False):
            raise UserError("trackers: wandb has no API key here: run `wandb login`, or set WANDB_MODE=offline")


def numbers_of(row: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers of a line, without the step that they belong to."""
    return {
        name: value
        for name, value in row.items()
        if name != "step" and isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }


def kept_id(run_dir: Path) -> str:
    """The run's id at wandb: made the first time, and kept in the run's folder."""
    path = run_dir / IDS
    if path.is_file():
        return str(json.loads(path.read_text(encoding="utf-8"))["wandb"])
    made = secrets.token_hex(4)
    unfinished = path.with_name(f".{path.name}.tmp")
    unfinished.write_text(json.dumps({"wandb": made}) + "\n", encoding="utf-8")
    os.replace(unfinished, path)
    return made
