"""A small suite and parts for tests of the evaluation of agents: doors that open one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from horma_rl.agent.config import SystemConfig
from horma_rl.agent.episode import Parts
from horma_rl.agent.types import Act, Decision, Mark, Pair, Summarised, Verdict, View
from horma_rl.llm.types import LlmError, Usage
from horma_rl.tokens import Estimate
from interactive_env.types import Capabilities, EnvTask, Outcome, Start

BARE = SystemConfig(state="full", horma=False, maintain=False)
"""The system that needs the fewest parts."""


class Doors:
    """A task is to `open` a number of doors, one after the other."""

    def __init__(self, task: EnvTask) -> None:
        self._doors = int(task.data["doors"])
        self._open = 0

    @property
    def capabilities(self) -> Capabilities:
        """Two actions."""
        return Capabilities("open - open the next door\nleave - give up", "none", 200)

    def reset(self, task: EnvTask) -> Start:
        """All doors are shut."""
        self._open = 0
        return Start(f"Open {self._doors} doors.", "You are in a corridor.")

    def step(self, action: str) -> Outcome:
        """`open` opens a door, `leave` ends the episode."""
        if action == "leave":
            return Outcome("You leave.", terminated=True)
        if action != "open":
            return Outcome("That is no action.", valid=False)
        self._open += 1
        return Outcome(f"Door {self._open} is open.", terminated=self.success)

    @property
    def success(self) -> bool:
        """Whether all are open."""
        return self._open == self._doors

    @property
    def progress(self) -> float:
        """The part that is open."""
        return self._open / self._doors

    def snapshot(self) -> object:
        """There is none."""
        raise NotImplementedError

    def restore(self, snapshot: object) -> None:
        """There is none."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing to free."""


@dataclass
class DoorSuite:
    """`count` tasks of two families."""

    count: int = 6
    name: str = "doors"
    provenance: str = "made for tests"

    def tasks(self, split: str) -> Sequence[EnvTask]:
        """One split."""
        if split != "test":
            raise ValueError(f"no split '{split}': there is test")
        return [EnvTask(f"doors/{n}", ("short", "long")[n % 2], {"doors": 2 + n}) for n in range(self.count)]

    def make(self, task: EnvTask) -> Doors:
        """A corridor."""
        return Doors(task)


@dataclass
class DoorActor:
    """Opens doors; with an odd seed it leaves after the first one. `fails`: it cannot be had."""

    seed: int = 0
    fails: Exception | None = None
    moves: int = 0

    async def act(self, view: View) -> Decision:
        """The next move."""
        if self.fails is not None:
            raise self.fails
        self.moves += 1
        move: Act | Mark = Act("open")
        if self.moves == 2 and self.seed % 2:
            move = Act("leave")
        elif self.moves == 2 and "compress" in view.moves:
            move = Mark("one door is open")
        return Decision(move, usage=Usage(view.prompt_tokens))


class Passing:
    """A judge and a summariser that find everything right."""

    async def validate(self, instruction: str, trace: Sequence[Pair], summary: str) -> Verdict:
        """Right."""
        return Verdict(True)

    async def summarise(self, instruction: str, trace: Sequence[Pair]) -> Summarised:
        """Something."""
        return Summarised(f"{len(trace)} steps")


@dataclass
class DoorParts:
    """Makes parts, and notes what was played. `fails`: ids of tasks whose actor cannot be had, with the reason."""

    fails: dict[str, LlmError]
    played: list[tuple[str, int]]

    def __call__(self, system: SystemConfig, task: EnvTask, seed: int) -> Parts:
        """New parts."""
        self.played.append((task.id, seed))
        return Parts(DoorActor(seed, self.fails.get(task.id)), Estimate(), Passing(), Passing(), None)


def door_parts(fails: dict[str, LlmError] | None = None) -> DoorParts:
    """Parts for the suite."""
    return DoorParts(fails or {}, [])
