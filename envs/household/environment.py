"""Household tasks (ALFWorld) behind the interactive environments' contract."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from household.commands import normalise
from household.games import data_folder, family, read_game, split_files
from household.goal import Goal
from interactive_env.types import Capabilities, EnvTask, Outcome, Start

if TYPE_CHECKING:
    from household.engine import Game

STEPS = 50
"""Steps of an episode, as in the ALFWorld paper and HORMA's evaluation."""
NOTHING = "Nothing happens."
ACTIONS = """One command a step:
go to RECEPTACLE | open RECEPTACLE | close RECEPTACLE | examine THING | use OBJECT
take OBJECT from RECEPTACLE | move OBJECT to RECEPTACLE
heat OBJECT with RECEPTACLE | clean OBJECT with RECEPTACLE | cool OBJECT with RECEPTACLE | slice OBJECT with OBJECT
look | inventory | help
Things are named with their number, as in: take apple 1 from fridge 1.
`Nothing happens.` means that the command is unknown or cannot be done here."""


class HouseholdEnv:
    """One text game. `rewind` is `replay`: games are deterministic, and a second reset takes hundredths of a second.

    Nothing but the game's own text is shown: neither the admissible commands nor the walkthrough.
    """

    def __init__(self, max_steps: int = STEPS) -> None:
        """`max_steps`: the steps after which the episode ends. Raises ValueError if that is less than 1."""
        if max_steps < 1:
            raise ValueError(f"max_steps {max_steps} is not at least 1")
        self._capabilities = Capabilities(ACTIONS, "replay", max_steps)
        self._file = ""
        self._instruction = ""
        self._game: Game | None = None
        self._goal: Goal | None = None
        self._steps = 0
        self._running = False
        self._won = False

    @property
    def capabilities(self) -> Capabilities:
        """See InteractiveEnv."""
        return self._capabilities

    def reset(self, task: EnvTask) -> Start:
        """See InteractiveEnv. Raises ValueError for a task whose game file is none, or is gone."""
        file = str(task.data.get("file", ""))
        if self._game is not None and file == self._file:
            self._game.restart()
        else:
            self._game = self._load(file)
        self._steps, self._running, self._won = 0, True, False
        return Start(self._instruction, self._game.room)

    def step(self, action: str) -> Outcome:
        """See InteractiveEnv. `info` has the `command` that the action was read as."""
        if not self._running or self._game is None:
            raise RuntimeError("the episode has not begun, or is over: reset it first")
        command = normalise(action)
        told = self._game.do(command)
        self._steps += 1
        self._won = told is not None and self._game.won
        truncated = not self._won and self._steps >= self._capabilities.max_steps
        self._running = not (self._won or truncated)
        return Outcome(told or NOTHING, self._won, truncated, valid=told is not None, info={"command": command})

    @property
    def success(self) -> bool:
        """Whether the game says that it is won."""
        return self._won

    @property
    def progress(self) -> float:
        """1 if won. Else, of the goal's conditions that did not hold at the start, the share that does now."""
        if self._won or self._game is None or self._goal is None:
            return float(self._won)
        return self._goal.progress(self._game.facts)

    def snapshot(self) -> object:
        """Raises NotImplementedError: the way back is a reset and the same actions."""
        raise NotImplementedError("household games go back by replay")

    def restore(self, snapshot: object) -> None:
        """Raises NotImplementedError: the way back is a reset and the same actions."""
        raise NotImplementedError("household games go back by replay")

    def close(self) -> None:
        """See InteractiveEnv."""
        if self._game is not None:
            self._game.close()
        self._game, self._goal, self._running = None, None, False

    def _load(self, file: str) -> Game:
        from household.engine import Game

        self.close()
        read = read_game(Path(file))
        game = Game(read.problem)
        try:
            self._goal = Goal.of(read.problem, game.things, game.facts)
        except ValueError:
            game.close()
            raise
        self._file, self._instruction = file, f"Your task is to: {read.task}"
        return game


class HouseholdSuite:
    """ALFWorld's games below a folder (default: `$ALFWORLD_DATA`).

    A task's `data` has its `file` and, for policies that are programs, its `walkthrough`: commands that win. Raises
    ValueError when the folder or the games' packages are not there.
    """

    def __init__(self, folder: str | Path | None = None, max_steps: int = STEPS) -> None:
        self._root = data_folder(folder)
        self._max_steps = max_steps
        missing = [name for name in ("alfworld", "textworld", "fast_downward") if find_spec(name) is None]
        if missing:
            raise ValueError(
                f"household games need {', '.join(missing)}: bash scripts/setup.sh alfworld (see docs/household.md)"
            )
        # Without it, alfworld makes a folder of its own in the user's home when it is imported.
        os.environ.setdefault("ALFWORLD_DATA", str(self._root))

    @property
    def name(self) -> str:
        """`household`."""
        return "household"

    @property
    def provenance(self) -> str:
        """ALFWorld's games (MIT), from the user's folder."""
        return f"ALFWorld text games (arXiv:2010.03768, MIT; scenes and tasks from ALFRED, MIT), from {self._root}"

    def tasks(self, split: str) -> Sequence[EnvTask]:
        """See Suite. In the order of the folders' names; games that the file calls unsolvable are left out.

        Reads every game file of the split: 0.1 s for `valid_seen`, seconds for `train`.
        """
        tasks = []
        for path in split_files(self._root, split):
            game = read_game(path)
            if game.solvable:
                data = {"file": str(path), "walkthrough": game.walkthrough}
                tasks.append(EnvTask(f"{path.parent.parent.name}/{path.parent.name}", family(path), data))
        return tasks

    def make(self, task: EnvTask) -> HouseholdEnv:
        """See Suite."""
        return HouseholdEnv(self._max_steps)
