"""What a refinement is put together from. Each part has one protocol, so that any of them can be replaced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from horma_rl.benchmarks.types import Conversation
from horma_rl.llm.types import LanguageModel
from memory_shell.types import Task


@dataclass(frozen=True, slots=True)
class Built:
    """What a manager made: counts over all workspaces."""

    turns: int
    notes: int
    rejected: int
    """Operations that it proposed and that were not carried out."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a retriever hands to the actor, and how it found it."""

    text: str
    selected: tuple[str, ...]
    """Turn ids."""
    notes: tuple[str, ...] = ()
    """Paths of the notes whose lines stand in `text`."""
    commands: tuple[tuple[str, str], ...] = ()
    """Command lines of its trajectory with what they printed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An actor's answer, and how many tokens of context it was given."""

    text: str
    context_tokens: int


class UnscoredError(Exception):
    """There is no score for an answer: the metric does not apply, or a judge's replies cannot be read."""


class Manager(Protocol):
    """Writes memory."""

    async def build(self, conversations: Sequence[Conversation], out: Path, skills: str) -> Built:
        """Build `out/<conversation>` for each conversation; goes on where an earlier call was cut short."""


class Reader(Protocol):
    """Reads memory: a retriever."""

    def read(self, tasks: Sequence[Task], memory: Path) -> Iterator[tuple[Task, Context]]:
        """The context of each task, in any order. Nothing but the question and the workspace is looked at."""


class Actor(Protocol):
    """Answers questions."""

    async def answer(self, task: Task, context: str, limit: int | None) -> Answer:
        """Answer from `context`, of which it sees `limit` tokens at most; None is without limit."""


class Scorer(Protocol):
    """Scores answers."""

    async def score(self, task: Task, answer: str) -> float:
        """How right `answer` is, from 0 to 1. Raises UnscoredError when that cannot be told: never a 0 for that."""


class Purse(Protocol):
    """Knows what has been spent in this process."""

    def spent(self) -> Mapping[str, Mapping[str, float]]:
        """Role -> what it has used up (`requests`, tokens, `cost`), counted from the start of the process."""


@dataclass(frozen=True)
class Parts:
    """Everything a refinement needs that is not data."""

    manager: Manager
    reader: Reader
    actor: Actor
    scorer: Scorer
    analyst: LanguageModel
    purse: Purse
