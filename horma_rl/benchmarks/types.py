"""What every benchmark reader and the generator give: dated conversations, and tasks about them by split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from horma_rl.errors import UserError
from memory_shell.types import Task

Split = Literal["train", "eval", "all"]
SPLITS: tuple[Split, ...] = ("train", "eval", "all")


@dataclass(frozen=True, slots=True)
class RawTurn:
    """One utterance as the source has it. `id` is unique within its conversation: `D<session>:<turn>`."""

    id: str
    speaker: str
    text: str
    caption: str | None = None
    """What a shared image shows, in words. The image itself is never read."""
    image_url: str | None = None
    image_query: str | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """One sitting: its number as the source counts it, when it took place (naive local time), its turns in order."""

    index: int
    time: datetime
    turns: tuple[RawTurn, ...]


@dataclass(frozen=True, slots=True)
class Observation:
    """One annotated fact that a benchmark ships with a conversation. No run uses it unless it asks to."""

    session: int
    speaker: str
    text: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A whole memory before it is written down. `name` becomes the workspace's folder name."""

    name: str
    speakers: tuple[str, ...]
    sessions: tuple[Session, ...]
    observations: tuple[Observation, ...] = ()

    def turns(self) -> Iterator[RawTurn]:
        """Every turn, in order."""
        for session in self.sessions:
            yield from session.turns

    def turn_ids(self) -> tuple[str, ...]:
        """Every turn's id, in order."""
        return tuple(turn.id for turn in self.turns())


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Conversations and the tasks about them.

    `train` and `eval` are the two halves of the split; a benchmark without one half leaves it empty. `provenance`
    and `licence` are sentences for reports.
    """

    name: str
    conversations: tuple[Conversation, ...]
    train: tuple[Task, ...]
    eval: tuple[Task, ...]
    provenance: str
    licence: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def tasks(self, split: Split = "all") -> list[Task]:
        """The tasks of `split`, in file order. Raises UserError for a split that does not exist."""
        check_split(split)
        halves: dict[str, Sequence[Task]] = {"train": self.train, "eval": self.eval}
        return list(halves[split]) if split != "all" else [*self.train, *self.eval]

    def conversations_of(self, tasks: Sequence[Task]) -> list[Conversation]:
        """The conversations that `tasks` ask about, in file order."""
        wanted = {task.workspace for task in tasks}
        return [conversation for conversation in self.conversations if conversation.name in wanted]


def check_split(split: str) -> None:
    """Raise UserError when `split` is none of SPLITS."""
    if split not in SPLITS:
        raise UserError(f"unknown split '{split}': use one of {', '.join(SPLITS)}")
