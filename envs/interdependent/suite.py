"""The suite of generated tasks: a kind, a size, and seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args

from interactive_env.types import EnvTask, Rewind
from interdependent import bundle, schedule
from interdependent.words import MOST_NAMES
from interdependent.world import Game, World

Kind = Literal["bundle", "schedule"]
SPLITS = ("train", "valid", "test")
MOST_TASKS = 1_000_000
"""Tasks of one split, at most. Each split has this many seeds of its own."""
_GENERATORS: Mapping[str, Callable[[int, int], Game]] = {"bundle": bundle.generate, "schedule": schedule.generate}
_STEPS_PER_SUBTASK = 40


class InterdependentSuite:
    """Tasks of one kind. `size`: purchases or meetings, 1 to 256. `tasks` in each split. `seed`: the first one's.

    `rewind` is how the environments go back; a test of an agent may take a way from them that they have. `max_steps`
    defaults to 40 for each purchase or meeting, which leaves room for revisions. Raises ValueError for what is out of
    range.
    """

    def __init__(
        self,
        kind: Kind = "bundle",
        size: int = 6,
        tasks: int = 20,
        seed: int = 0,
        rewind: Rewind = "restore",
        max_steps: int | None = None,
    ) -> None:
        if kind not in _GENERATORS:
            raise ValueError(f"no kind {kind!r} of interdependent task: there are {', '.join(_GENERATORS)}")
        if rewind not in get_args(Rewind):
            raise ValueError(f"no way {rewind!r} to go back: there are {', '.join(get_args(Rewind))}")
        if not 1 <= size <= MOST_NAMES:
            raise ValueError(f"size {size} is not from 1 to {MOST_NAMES}")
        if not (tasks >= 1 and seed >= 0 and tasks + seed <= MOST_TASKS):
            raise ValueError(f"{tasks} tasks from seed {seed}: seeds go from 0 to {MOST_TASKS - 1}")
        if max_steps is not None and max_steps < 1:
            raise ValueError(f"max_steps {max_steps} is not at least 1")
        self._kind, self._size, self._count, self._seed = kind, size, tasks, seed
        self._rewind: Rewind = rewind
        self._max_steps = max_steps or _STEPS_PER_SUBTASK * size

    @property
    def name(self) -> str:
        """`interdependent_bundle` or `interdependent_schedule`."""
        return f"interdependent_{self._kind}"

    @property
    def provenance(self) -> str:
        """No data: tasks are made from their seeds."""
        return "generated from seeds by this package"

    def tasks(self, split: str) -> Sequence[EnvTask]:
        """The tasks of `train`, `valid` or `test`, whose seeds have nothing in common. Raises ValueError for others."""
        if split not in SPLITS:
            raise ValueError(f"no split {split!r}: there are {', '.join(SPLITS)}")
        first = SPLITS.index(split) * MOST_TASKS + self._seed
        return [self._task(seed) for seed in range(first, first + self._count)]

    def make(self, task: EnvTask) -> World:
        """See Suite. Raises ValueError for a task that no suite of the family has made."""
        return World(_game, task, self._rewind, self._max_steps)

    def _task(self, seed: int) -> EnvTask:
        data = {"kind": self._kind, "size": self._size, "seed": seed}
        return EnvTask(f"{self._kind}-{self._size}-{seed}", self._kind, data)


def optimal(task: EnvTask) -> tuple[str, ...]:
    """The fewest actions that win `task`: the known optimal policy."""
    return _game(task).optimal()


def _game(task: EnvTask) -> Game:
    try:
        generate, seed, size = _GENERATORS[task.data["kind"]], task.data["seed"], task.data["size"]
    except KeyError as missing:
        raise ValueError(f"task {task.id!r} is none of this family: no {missing}") from None
    return generate(seed, size)
