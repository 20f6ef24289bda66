"""Many requests, one model: a thread that decodes all of them together.

It drives the same continuous batching that plays episodes. A request takes over the row of an answered one with the
longest common beginning, so that instructions that many prompts share are read once.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from horma_rl.retrieval.backends.constraints import Constraint
from horma_rl.retrieval.backends.transformers import TransformersGenerator
from horma_rl.retrieval.types import Completion, Request, Sampling


@dataclass(eq=False)
class Job:
    """A prompt and what becomes of it. `constraint`: what the answer keeps to, for this job alone."""

    prompt_ids: tuple[int, ...]
    max_tokens: int
    seed: int
    sampling: Sampling
    constraint: Constraint | None = None
    done: Future[Completion] = field(default_factory=Future)


class Engine:
    """Decodes jobs on a thread of its own. `slots`: how many at once.

    With one slot every prompt is read alone and from its start, so that an answer depends on its request alone, to the
    last bit. With more, what else is decoded moves the logits by rounding errors, which can turn a near tie.
    """

    def __init__(self, model: Any, eos_ids: Sequence[int], slots: int) -> None:
        self._model, self._eos, self._slots = model, tuple(eos_ids), slots
        self._waiting: list[Job] = []
        self._groups: dict[Sampling, _Group] = {}
        self._wake = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="decoding", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Queue `job`; cancelling its `done` takes it out again."""
        with self._wake:
            self._waiting.append(job)
            self._wake.notify()

    def stop(self) -> None:
        """End the thread; jobs that are not done are cancelled."""
        with self._wake:
            self._stopped = True
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not (self._waiting or self._busy or self._stopped):
                    self._wake.wait()
                if self._stopped:
                    self._fail(None)
                    return
                self._admit()
            try:
                for group in self._groups.values():
                    group.advance()
            except Exception as error:  # whatever decoding raises belongs to those who wait for it
                self._fail(error)

    @property
    def _busy(self) -> int:
        return sum(len(group.running) for group in self._groups.values())

    def _admit(self) -> None:
        """Give waiting jobs their slots, in order."""
        while self._waiting and self._busy < self._slots:
            job = self._waiting.pop(0)
            if job.done.cancelled():
                continue
            try:
                self._group(job.sampling).start(job)
            except Exception as error:  # this job's own: a prompt without a token
                if job.done.set_running_or_notify_cancel():
                    job.done.set_exception(error)

    def _group(self, sampling: Sampling) -> _Group:
        group = self._groups.get(sampling)
        if group is None:
            # Rows are kept for one way of sampling at a time, so that memory does not grow with their number.
            self._groups = {key: kept for key, kept in self._groups.items() if kept.running}
            generator = TransformersGenerator(self._model, self._eos, sampling, max_rows=self._slots)
            group = self._groups[sampling] = _Group(generator, self._slots)
        return group

    def _fail(self, error: Exception | None) -> None:
        jobs = [job for group in self._groups.values() for job in group.running.values()]
        if error is None:
            jobs += self._waiting
        self._groups.clear()
        for job in jobs:
            if error is None:
                job.done.cancel()
            elif job.done.set_running_or_notify_cancel():
                job.done.set_exception(error)


class _Group:
    """The jobs that sample alike. Rows are the generator's episodes, numbered from 0."""

    def __init__(self, generator: TransformersGenerator, slots: int) -> None:
        self.running: dict[int, Job] = {}
        self._generator = generator
        self._slots = slots
        self._held: dict[int, tuple[int, ...]] = {}

    def start(self, job: Job) -> None:
        row = self._row(job.prompt_ids)
        self._generator.submit(Request(row, job.prompt_ids, job.max_tokens, job.seed), job.constraint)
        self.running[row] = job
        self._held.pop(row, None)

    def advance(self) -> None:
        """Decode a few tokens, and hand out what is finished."""
        for row, job in list(self.running.items()):
            if job.done.cancelled():
                self._generator.release(row)
                del self.running[row]
        if not self.running:
            return
        for completion in self._generator.poll():
            job = self.running.pop(completion.episode)
            self._held[completion.episode] = job.prompt_ids
            if self._slots == 1:
                self._generator.release(completion.episode)
                self._held.clear()
            if job.done.set_running_or_notify_cancel():
                job.done.set_result(completion)

    def _row(self, prompt: tuple[int, ...]) -> int:
        """The idle row that holds the most of `prompt`, else one never used, else the one that is idle the longest."""
        best = max(self._held, key=lambda row: _shared(self._held[row], prompt), default=None)
        if best is not None and _shared(self._held[best], prompt) * 2 >= len(prompt):
            return best
        unused = (row for row in range(self._slots) if row not in self.running and row not in self._held)
        row = next(unused, None)
        return next(iter(self._held)) if row is None else row


def _shared(held: tuple[int, ...], prompt: tuple[int, ...]) -> int:
    """How many ids both begin with."""
    for at, (one, other) in enumerate(zip(held, prompt, strict=False)):
        if one != other:
            return at
    return min(len(held), len(prompt))
