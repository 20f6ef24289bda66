"""Signals that end a run in good order: Ctrl-C from a person, and SIGTERM or SIGUSR1 from a cluster that wants its
machines back. No torch is imported here."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

RESUME_EXIT_CODE = 75
"""What `horma-rl train` exits with when a cluster stopped it: nothing failed, start it again (EX_TEMPFAIL)."""
CLUSTER_SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
STOP_SIGNALS = (signal.SIGINT, *CLUSTER_SIGNALS)


class Preempted(KeyboardInterrupt):
    """Stopped by a cluster. As with Ctrl-C, what was finished is on disk, and the same command goes on from there."""


def interruption(number: int) -> KeyboardInterrupt:
    """The exception that tells of signal `number`."""
    return Preempted() if number in CLUSTER_SIGNALS else KeyboardInterrupt()


@contextmanager
def preemptible() -> Iterator[None]:
    """Raise Preempted where a cluster's first signal arrives, instead of ending the process there. Main thread only."""

    def stop(number: int, frame: FrameType | None) -> None:
        for each in CLUSTER_SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Preempted

    before = {number: signal.signal(number, stop) for number in CLUSTER_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
