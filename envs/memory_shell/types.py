"""The values that cross the boundary of the memory shell. Nothing here imports more than the standard library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

Unit = Literal["turn", "session", "note"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One archived record of `raw_logs/`: the unit of evidence.

    `id` is unique within a workspace ("D3:12": session 3, turn 12); `path` and `line` (1-based) say where it stands.
    """

    id: str
    time: str | None
    speaker: str
    text: str
    path: str
    line: int
    caption: str | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One retrieval task: a question about one workspace, and the turn ids known to hold the answer (E).

    `workspace` names the workspace (a folder name below the folder that holds them). `category` is the benchmark's
    own label and is for reports only: neither the retriever nor the actor ever sees it.
    """

    id: str
    question: str
    evidence: tuple[str, ...]
    workspace: str
    answer: str | None = None
    category: str = ""
    asked_at: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Caps:
    """Limits on one episode and on what one command may print. They are independent of one another."""

    turns: int = 10
    """Model responses an episode may take (paper: 10)."""
    lines: int = 60
    """Lines of output one command may print before the rest is left out behind a marker."""
    bytes: int = 8000
    """Bytes of output one command may print, likewise."""
    line_bytes: int = 2000
    """Bytes of one printed line, likewise."""


class Stop(StrEnum):
    """Why an episode ended."""

    DONE = "done"
    TURN_CAP = "turn_cap"
    TOKEN_CAP = "token_cap"
    TIME_CAP = "time_cap"
    CONTEXT_FULL = "context_full"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call as the model wrote it: a verb and its argument string, as typed after the verb in a shell."""

    name: str
    args: str = ""

    @classmethod
    def of(cls, command: str) -> ToolCall:
        """The call that a command line (`grep -i kiln sessions`) makes."""
        name, _, args = command.strip().partition(" ")
        return cls(name, args)


@dataclass(frozen=True, slots=True)
class Coverage:
    """What an episode looked at, so that an actor can tell `not found` from `not searched`."""

    searched: tuple[str, ...] = ()
    """Files a grep read."""
    matched: tuple[str, ...] = ()
    """Files in which a grep found something."""
    opened: tuple[str, ...] = ()
    """Files shown by cat."""
    skipped: tuple[str, ...] = ()
    """Files that a search left out (binary), with no text shown."""
    unvisited: tuple[str, ...] = ()
    """Directories of the workspace that no command listed, searched or read from."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one command, or one turn of commands, gave back.

    `text` is the observation; `reward` is 0.0 until the episode ends and the overlap with the evidence then.
    `terminated`: the policy said `done`. `truncated`: the turn cap ended the episode.
    """

    text: str
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    ok: bool = True
    """False when the command was refused or failed: an unknown verb, a bad flag, a path that is not there."""
    info: Mapping[str, Any] = field(default_factory=dict)


def turn_ids(turns: Sequence[Turn]) -> tuple[str, ...]:
    """The ids of `turns`, in order."""
    return tuple(turn.id for turn in turns)
