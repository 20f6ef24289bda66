"""The runs of an ablation as processes: several at once, each with a log, each resumed when it was cut short."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

from horma_rl.ablation.config import CellRun
from horma_rl.config import dump
from horma_rl.errors import UserError
from horma_rl.training.config import TrainConfig

POLL_S = 0.2


def is_finished(config: TrainConfig) -> bool:
    """Whether the run of `config` has its results. Raises UserError when its folder holds a run with other settings."""
    path = config.run_dir / "config.yaml"
    if path.is_file() and path.read_text(encoding="utf-8") != dump(config):
        raise UserError(
            f"{config.run_dir} holds a run with other settings ({path}): give the ablation another name (name=...), or "
            "remove that folder"
        )
    return (config.run_dir / "summary.json").is_file()


@dataclass
class _Process:
    run: CellRun
    process: subprocess.Popen[bytes]
    log: IO[bytes]
    started: float


class RunSet:
    """Does runs, at most `jobs` at once, and writes what each prints to `<folder>/logs/<run>.log`.

    The first Ctrl-C or SIGTERM is passed to the runs, each of which saves and ends, and starts no other.
    """

    def __init__(self, folder: Path, jobs: int, say: Callable[[str], None]) -> None:
        self._logs = folder / "logs"
        self._jobs = jobs
        self._say = say
        self._active: list[_Process] = []
        self._stopped = 0

    def do(self, runs: Sequence[CellRun]) -> list[str]:
        """Do every run that is not finished. Returns a line for each that failed.

        Raises:
            KeyboardInterrupt: stopped by a signal, after the runs ended.
            UserError: a cell's config is at fault, or a folder holds another run; nothing was started.
        """
        waiting = [run for run in runs if not is_finished(run.config())]
        self._logs.mkdir(parents=True, exist_ok=True)
        failed: list[str] = []
        self._say(f"{len(runs)} runs, {len(runs) - len(waiting)} of them finished before")
        old = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            while self._active or (waiting and not self._stopped):
                while waiting and len(self._active) < self._jobs and not self._stopped:
                    self._start(waiting.pop(0))
                time.sleep(POLL_S)
                failed += self._collect()
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)
            for process in self._active:
                process.process.kill()
        if self._stopped:
            raise KeyboardInterrupt
        return failed

    def _start(self, run: CellRun) -> None:
        log = (self._logs / f"{run.config().name}.log").open("ab")
        command = [sys.executable, "-m", "horma_rl.cli", *run.command]
        # A group of its own: Ctrl-C in a terminal reaches it once, through this process.
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, process_group=0
        )
        self._active.append(_Process(run, process, log, time.monotonic()))
        self._say(f"started {run.config().name}")

    def _collect(self) -> list[str]:
        """Take the processes that ended out of the active ones; a line for each that failed."""
        failed = []
        for ended in [active for active in self._active if active.process.poll() is not None]:
            self._active.remove(ended)
            ended.log.close()
            name, code = ended.run.config().name, ended.process.returncode
            took = time.monotonic() - ended.started
            self._say(f"{name}: {'done' if code == 0 else f'exit code {code}'} after {took:.0f} s")
            if code != 0 and not self._stopped:
                failed.append(f"{name} failed with exit code {code}: {_last_line(Path(ended.log.name))}")
        return failed

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopped = self._stopped or number
        for active in self._active:
            active.process.send_signal(number)


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"{lines[-1]} ({log})" if lines else str(log)
