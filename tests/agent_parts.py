"""What the tests of the agent share: a world of said words, actors that follow a list, judges by rule."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from horma_rl.agent.config import SystemConfig
from horma_rl.agent.episode import EpisodeResult, Parts, StepRow, play
from horma_rl.agent.types import Decision, Judge, Move, Pair, Recaller, Summarised, Verdict, View
from horma_rl.llm.types import Usage
from horma_rl.tokens import Estimate
from interactive_env.types import Capabilities, EnvTask, Outcome, Rewind, Start
from memory_shell.types import Turn
from memory_shell.workspace import Workspace

TASK = EnvTask("say/abc")
FIRST = "Nothing is said."


class Words:
    """A world that remembers the letters that were said. `done` ends it, solved when they are `a b c`.

    Longer words are invalid; `part` ends a part of the task. `calls` is everything that was asked of it.
    """

    def __init__(self, rewind: Rewind = "restore", max_steps: int = 50) -> None:
        self.capabilities = Capabilities("Say a letter, or done.", rewind, max_steps)
        self.said: list[str] = []
        self.calls: list[str] = []
        self.closed = 0

    def reset(self, task: EnvTask) -> Start:
        self.calls.append("reset")
        self.said = []
        return Start("Say a, b and c, in this order.", FIRST)

    def step(self, action: str) -> Outcome:
        self.calls.append(action)
        if action == "done":
            return Outcome("It is over.", terminated=True)
        if len(action) > 1 and action != "part":
            return Outcome("Nothing happens.", valid=False)
        self.said.append(action)
        return Outcome(f"Said so far: {' '.join(self.said)}", subtask=action == "part")

    @property
    def success(self) -> bool:
        return self.said == ["a", "b", "c"]

    @property
    def progress(self) -> float:
        return len([1 for said, wanted in zip(self.said, "abc", strict=False) if said == wanted]) / 3

    def snapshot(self) -> object:
        return tuple(self.said)

    def restore(self, snapshot: object) -> None:
        assert isinstance(snapshot, tuple)
        self.said = list(snapshot)

    def close(self) -> None:
        self.closed += 1


class Listed:
    """An actor that makes the moves of a list, whatever it sees; `views` is what it saw."""

    def __init__(self, *moves: Move) -> None:
        self.moves = list(moves)
        self.views: list[View] = []

    async def act(self, view: View) -> Decision:
        self.views.append(view)
        return Decision(self.moves.pop(0), "as listed", Usage(10, 2))


class Endless(Listed):
    """Begins its list again at its end."""

    async def act(self, view: View) -> Decision:
        self.moves.append(self.moves[0])
        return await super().act(view)


class RuleJudge:
    """Finds fault with summaries that say `bad`."""

    async def validate(self, instruction: str, trace: Sequence[Pair], summary: str) -> Verdict:
        passed = "bad" not in summary
        return Verdict(passed, "" if passed else f"{trace[-1].action} was wrong", Usage(4, 1))


class Joined:
    """Sums up by naming the actions."""

    async def summarise(self, instruction: str, trace: Sequence[Pair]) -> Summarised:
        return Summarised("said " + " ".join(pair.action for pair in trace), Usage(6, 2))


class Everything:
    """Retrieves all turns, the first ones first; `asked` keeps the questions."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def recall(self, workspace: Workspace, question: str) -> Sequence[Turn]:
        self.asked.append(question)
        return list(workspace.turns.values())


def play_moves(
    folder: Path,
    moves: Iterable[Move],
    system: SystemConfig | None = None,
    *,
    env: Words | None = None,
    judge: Judge | None = None,
    recaller: Recaller | None = None,
    log: Callable[[StepRow], None] = lambda row: None,
    endless: bool = False,
    max_moves: int | None = None,
) -> tuple[EpisodeResult, Listed]:
    """Play a list of moves in a world of words."""
    actor = Endless(*moves) if endless else Listed(*moves)
    parts = Parts(actor, Estimate(), judge or RuleJudge(), Joined(), recaller)
    run = play(env or Words(), TASK, system or SystemConfig(), parts, folder, log, max_moves=max_moves)
    return asyncio.run(run), actor
