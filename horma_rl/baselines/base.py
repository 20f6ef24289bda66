"""The protocol of every compared retriever, and the two that bound the others: chance and the annotation itself."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Protocol

from horma_rl.retrieval.types import TurnRecord
from memory_shell.types import Stop, Task
from memory_shell.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What a retriever gave back: turn ids, best first, and what it did in the shell if it used one."""

    selected: tuple[str, ...]
    turns: tuple[TurnRecord, ...] = ()
    commands: int = 0
    invalid: int = 0
    stop: Stop = Stop.DONE
    first_observation: str = ""


class Retriever(Protocol):
    """A method that answers a task with turns of its workspace. The same task and the same state of `rng` give the
    same answer."""

    @property
    def name(self) -> str:
        """Its name in configs and tables."""

    @property
    def given(self) -> str:
        """What it may look at, in a few words, for the tables."""

    def retrieve(self, task: Task, workspace: Workspace, rng: random.Random) -> Retrieved:
        """Select turns for `task.question`. Only the oracle may read `task.evidence`; none reads `task.category`."""


@dataclass(frozen=True)
class Oracle:
    """The annotated evidence: what a perfect retriever would select."""

    name: str = "oracle"
    given: str = "the annotated evidence"

    def retrieve(self, task: Task, workspace: Workspace, rng: random.Random) -> Retrieved:
        """The evidence, as annotated."""
        return Retrieved(task.evidence)


@dataclass(frozen=True)
class RandomTurn:
    """One turn of the archive, drawn uniformly: what chance gets without looking."""

    name: str = "random"
    given: str = "nothing"

    def retrieve(self, task: Task, workspace: Workspace, rng: random.Random) -> Retrieved:
        """One random turn; nothing from an empty archive."""
        ids = list(workspace.turns)
        return Retrieved((rng.choice(ids),) if ids else ())


def turn_texts(workspace: Workspace, *, captions: bool = True) -> dict[str, str]:
    """Turn id -> what ranking baselines index: the speaker's name, the text and, with `captions`, the image caption."""
    return {
        turn.id: f"{turn.speaker}: {turn.text} {(turn.caption or '') if captions else ''}".rstrip()
        for turn in workspace.turns.values()
    }
