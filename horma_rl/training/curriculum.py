"""Which tasks a step draws, by how hard they are. No torch is imported.

Two parts, alone or together. *Pools*: the tasks are sorted by a difficulty that is known before the run and cut into
pools of equal size; training begins with the easiest pool, and the others are opened one after another. *Adaptive*: a
task whose recent groups were nearly all right, or nearly all wrong, teaches little and is drawn less often.

Every draw depends on the run's seed, the step and the recent rewards. These are the only state; they are gathered from
all processes before they count, and kept in the checkpoints. So the tasks of a step are the same in a resumed run and
for any number of processes.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from horma_rl.benchmarks.types import Benchmark
from horma_rl.config import StrictModel
from horma_rl.errors import UserError
from memory_shell.types import Task

Order = Literal["evidence", "memory", "category", "rate"]


class CurriculumConfig(StrictModel):
    """Which tasks a step draws; by default each pass draws every task once, in a new order."""

    order: Order | None = None
    """What makes a task hard: `evidence` (turns to find; none counts as hardest), `memory` (turns of the conversation),
    `category` (as listed in `categories`), or `rate` (low overlap in `rates`); null: no pools."""
    categories: list[str] = Field(default_factory=list)
    """Categories of the benchmark, easiest first, for `order: category`. Those not listed come last."""
    rates: Path | None = None
    """`rows.jsonl` of a `horma-rl eval` of the starting policy on `split: train`, for `order: rate`."""
    pools: int = Field(default=3, ge=2, le=100)
    """Pools of equal size."""
    steps: int = Field(default=30, ge=1)
    """Steps after which all pools are open."""
    window: int = Field(default=0, ge=0)
    """Groups of a task whose mean overlap decides whether it is drawn less often; 0: none is."""
    low: float = Field(default=0.1, ge=0.0, le=1.0)
    """A mean below is too hard for now."""
    high: float = Field(default=0.9, ge=0.0, le=1.0)
    """A mean above is learned."""
    outside: float = Field(default=0.2, gt=0.0, le=1.0)
    """Weight of such a task in the draw; others, and tasks not seen yet, weigh 1."""

    @model_validator(mode="after")
    def _complete(self) -> CurriculumConfig:
        if self.low >= self.high:
            raise UserError(f"curriculum.low={self.low} must be below curriculum.high={self.high}")
        for order, key, given in (("category", "categories", self.categories), ("rate", "rates", self.rates)):
            if (self.order == order) != bool(given):
                raise UserError(f"curriculum.{key} goes with curriculum.order={order}: set both or neither")
        return self

    @property
    def draws(self) -> bool:
        """Whether the curriculum chooses the tasks."""
        return self.order is not None or self.window > 0


class Curriculum:
    """Draws the tasks of each step. Its state is the recent mean overlap of each task."""

    def __init__(self, config: CurriculumConfig, benchmark: Benchmark, seed: int) -> None:
        self._config = config
        self._seed = seed
        self._tasks = list(benchmark.train)
        self._pools = pools(config, benchmark, seed)
        self._recent: dict[str, list[float]] = {}

    def draw(self, step: int, count: int) -> list[Task]:
        """`count` different tasks for all processes of a step, more likely those that weigh more. Where fewer are open,
        the easiest of the others come too."""
        opened, closed = self._split(step)
        rng = random.Random(f"curriculum/{self._seed}/{step}")
        # Efraimidis and Spirakis (2006): the largest u^(1/w) are a weighted sample without replacement.
        keys = {task.id: rng.random() ** (1.0 / self._weight(task)) for task in opened}
        drawn = sorted(opened, key=lambda task: -keys[task.id])[:count]
        return drawn + closed[: count - len(drawn)]

    def other(self, task: Task, step: int, attempt: int) -> Task:
        """An open task in place of `task`, whose group was flat."""
        pool = [other for other in self._split(step)[0] if other.id != task.id] or [task]
        rng = random.Random(f"{self._seed}/{step}/{attempt}/{task.id}")
        return rng.choices(pool, [self._weight(other) for other in pool])[0]

    def learn(self, means: Mapping[str, float]) -> None:
        """Take the mean overlap of each task that a step played, in any process."""
        for name, mean in sorted(means.items()):
            self._recent[name] = [*self._recent.get(name, []), mean][-max(1, self._config.window) :]

    def measures(self, step: int) -> dict[str, float]:
        """Shares of all tasks that are open, and of the open ones that are drawn less often."""
        opened, _ = self._split(step)
        outside = sum(self._weight(task) < 1 for task in opened)
        return {"tasks_open": len(opened) / len(self._tasks), "tasks_outside": outside / len(opened)}

    def state_dict(self) -> dict[str, Any]:
        """The recent means by task."""
        return {"recent": self._recent}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the means of a checkpoint."""
        self._recent = {name: list(means) for name, means in state["recent"].items()}

    def _split(self, step: int) -> tuple[list[Task], list[Task]]:
        """The tasks that are open at a step, and the others, easiest first."""
        count = min(len(self._pools), 1 + step * (len(self._pools) - 1) // self._config.steps)
        opened, closed = self._pools[:count], self._pools[count:]
        return [task for pool in opened for task in pool], [task for pool in closed for task in pool]

    def _weight(self, task: Task) -> float:
        recent = self._recent.get(task.id)
        if not self._config.window or not recent:
            return 1.0
        mean = sum(recent) / len(recent)
        return 1.0 if self._config.low <= mean <= self._config.high else self._config.outside


def pools(config: CurriculumConfig, benchmark: Benchmark, seed: int) -> list[list[Task]]:
    """The tasks to train on by difficulty, in pools whose sizes differ by one at most; tasks that are equally hard are
    in an order drawn with the seed. One pool without an order.

    Raises:
        UserError: there are more pools than tasks, or the difficulty of a task is not known.
    """
    tasks = list(benchmark.train)
    if config.order is None:
        return [tasks]
    if config.pools > len(tasks):
        raise UserError(f"curriculum.pools={config.pools}, but there are {len(tasks)} tasks to train on: use fewer")
    hard = difficulties(config, benchmark)
    random.Random(f"pools/{seed}").shuffle(tasks)
    tasks.sort(key=lambda task: hard[task.id])
    bounds = [len(tasks) * number // config.pools for number in range(config.pools + 1)]
    return [tasks[low:high] for low, high in itertools.pairwise(bounds)]


def difficulties(config: CurriculumConfig, benchmark: Benchmark) -> dict[str, float]:
    """How hard each task to train on is, by `config.order`; larger is harder. Raises UserError when one is unknown."""
    if config.order == "rate":
        rates = _rates(config.rates or Path())
        missing = next((task.id for task in benchmark.train if task.id not in rates), None)
        if missing:
            raise UserError(f"{config.rates} has no row of task '{missing}': run horma-rl eval with split=train")
        return {task.id: -rates[task.id] for task in benchmark.train}
    if config.order == "memory":
        sizes = {conversation.name: len(conversation.turn_ids()) for conversation in benchmark.conversations}
        return {task.id: float(sizes[task.workspace]) for task in benchmark.train}
    if config.order == "category":
        known = {task.category for task in benchmark.train}
        for name in config.categories:
            if name not in known:
                raise UserError(f"curriculum.categories: no task has category '{name}': there are {sorted(known)}")
        places = {name: float(place) for place, name in enumerate(config.categories)}
        return {task.id: places.get(task.category, float(len(places))) for task in benchmark.train}
    return {task.id: float(len(task.evidence) or 1e9) for task in benchmark.train}


def _rates(path: Path) -> dict[str, float]:
    """Mean overlap by task of one policy's evaluation. Raises UserError when the file is none."""
    found: dict[str, list[float]] = {}
    systems = set()
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            systems.add(row["system"])
            if row["reward"] is not None:
                found.setdefault(row["task"], []).append(float(row["reward"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"curriculum.rates: {path} is not the rows.jsonl of an evaluation") from None
    if len(systems) != 1:
        raise UserError(
            f"curriculum.rates: {path} has rows of {len(systems)} systems: evaluate one policy, baselines=[]"
        )
    return {name: sum(scores) / len(scores) for name, scores in found.items()}
