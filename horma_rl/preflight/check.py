"""One check: what it found, in a figure, and what to do when it failed."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Result = Literal["ok", "warn", "fail", "skip"]


@dataclass(frozen=True)
class Check:
    """What a check found. `advice`: what to do, where the result is `warn` or `fail`."""

    name: str
    result: Result
    figure: str
    advice: str = ""


@dataclass(frozen=True)
class Found:
    """What a check's function returns: a check before it has its name."""

    result: Result
    figure: str
    advice: str = ""


class ChildError(Exception):
    """A process of a check failed, or took too long; the message tells how."""


def bounded(name: str, seconds: float, look: Callable[[], Found], advice: str) -> Check:
    """Run `look` for at most `seconds`; a fault or no answer is a failed check with `advice`.

    The check runs in a thread that is left alone when it does not come back: a file system that hangs cannot be
    interrupted.
    """
    answers: queue.SimpleQueue[Found] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put(look())
        except Exception as error:
            told = " ".join(str(error).split())[:300] or type(error).__name__
            answers.put(Found("fail", told, advice))

    threading.Thread(target=run, daemon=True).start()
    try:
        found = answers.get(timeout=seconds)
    except queue.Empty:
        found = Found("fail", f"no answer within {seconds:.0f} s", advice)
    return Check(name, found.result, found.figure, found.advice)


def children(commands: Sequence[tuple[Sequence[str], dict[str, str]]], seconds: float) -> list[dict[str, Any]]:
    """Run Python modules (arguments after `-m`, environment) side by side; each prints one JSON object last.

    Their process groups are killed when `seconds` are over, or when one of them fails.

    Raises:
        ChildError: one of them failed, with its last line; or they took too long.
    """
    running = [
        subprocess.Popen(
            [sys.executable, "-m", *arguments], env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
        )
        for arguments, environment in commands
    ]  # fmt: skip
    ended: queue.SimpleQueue[tuple[int, str, str]] = queue.SimpleQueue()

    def collect(place: int) -> None:
        ended.put((place, *running[place].communicate()))

    for place in range(len(running)):
        threading.Thread(target=collect, args=(place,), daemon=True).start()
    answers: dict[int, dict[str, Any]] = {}
    deadline = time.monotonic() + seconds
    try:
        while len(answers) < len(running):
            place, out, err = ended.get(timeout=max(0.0, deadline - time.monotonic()))
            if running[place].returncode:
                last = (err or out).strip().splitlines()[-1:] or [f"exit code {running[place].returncode}"]
                raise ChildError(last[0])
            answers[place] = json.loads(out.strip().splitlines()[-1])
    except queue.Empty:
        raise ChildError(f"no answer within {seconds:.0f} s") from None
    finally:
        for process in running:
            _kill_group(process)
    return [answers[place] for place in range(len(running))]


def _kill_group(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
