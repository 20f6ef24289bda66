"""The environment of the family: one game, played by choices that cannot be taken back, under a cap on steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from interactive_env.types import Capabilities, EnvTask, Outcome, Rewind, Start

Made = tuple[Any, ...]
"""The choices so far, one for each subtask that is done. They are all the state that a game has."""

_MAX_WORD = 64
_MAX_WORDS = 4
"""Of an action: longer than any name, and as many as the longest command has. The rest would only be echoed."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What an action brings: an observation, the `choice` it makes (which ends a subtask), and whether that is all."""

    observation: str
    choice: Any = None
    finished: bool = False
    valid: bool = True


class Game(Protocol):
    """One generated task. It does not change while it is played."""

    @property
    def count(self) -> int:
        """Subtasks."""

    @property
    def actions(self) -> str:
        """The grammar, for a policy."""

    @property
    def instruction(self) -> str:
        """What holds for the whole task."""

    def reply(self, said: list[str], made: Made) -> Reply:
        """What the action with these words brings after the choices `made`."""

    def sound(self, made: Made) -> int:
        """How many of the first choices belong to a full solution together."""

    def optimal(self) -> tuple[str, ...]:
        """The fewest actions that win."""


@dataclass(frozen=True, slots=True)
class _Now:
    made: Made = ()
    finished: bool = False


class World:
    """An InteractiveEnv over a game. `game` generates it for a task."""

    def __init__(self, game: Callable[[EnvTask], Game], task: EnvTask, rewind: Rewind, max_steps: int) -> None:
        self._generate = game
        self._game = game(task)
        self._max_steps = max_steps
        self._rewind = rewind
        self._now: _Now | None = None
        self._steps = 0

    @property
    def capabilities(self) -> Capabilities:
        """The grammar of the task's kind, and how this environment goes back."""
        return Capabilities(self._game.actions, self._rewind, self._max_steps)

    def reset(self, task: EnvTask) -> Start:
        """Start `task` anew."""
        self._game = self._generate(task)
        self._now, self._steps = _Now(), 0
        return Start(self._game.instruction, self._game.reply(["status"], ()).observation)

    def step(self, action: str) -> Outcome:
        """Do `action`. Raises RuntimeError before `reset` and after the end."""
        now = self._now
        if now is None:
            raise RuntimeError("reset the environment before the first step")
        if now.finished or self._steps >= self._max_steps:
            raise RuntimeError("the task has ended: reset the environment")
        self._steps += 1
        said = [word[:_MAX_WORD] for word in action.split(maxsplit=_MAX_WORDS)]
        reply = self._game.reply(said, now.made)
        chosen = () if reply.choice is None else (reply.choice,)
        self._now = _Now(now.made + chosen, reply.finished)
        truncated = self._steps >= self._max_steps and not reply.finished
        return Outcome(reply.observation, reply.finished, truncated, reply.valid, bool(chosen))

    @property
    def success(self) -> bool:
        """Whether the task was finished with every constraint held."""
        return self._now is not None and self._now.finished and self.progress == 1.0

    @property
    def progress(self) -> float:
        """The share of subtasks that are done right, and so that all the others can still be done right."""
        return 0.0 if self._now is None else self._game.sound(self._now.made) / self._game.count

    def snapshot(self) -> object:
        """The choices so far. Raises NotImplementedError where the suite was told that environments cannot restore."""
        if self._rewind != "restore":
            raise NotImplementedError(f"this environment goes back by {self._rewind!r}, not by snapshots")
        return self._now

    def restore(self, snapshot: object) -> None:
        """Go back to `snapshot`; the step count stays. Raises as `snapshot` does, and TypeError for what is none."""
        self.snapshot()
        if not isinstance(snapshot, _Now):
            raise TypeError("not a snapshot of this environment")
        self._now = snapshot

    def close(self) -> None:
        """Nothing to free."""
