"""The tasks of a refinement, drawn from a benchmark."""

from __future__ import annotations

import random
from collections.abc import Sequence

from horma_rl.benchmarks.registry import load_benchmark
from horma_rl.errors import UserError, nearest
from horma_rl.memory.refine.config import RefineConfig
from horma_rl.memory.refine.rounds import Data
from memory_shell.types import Task


def load_data(config: RefineConfig) -> Data:
    """The conversations and tasks that `config` names; the guard's conversations are the last ones, and no skill is
    learned from them.

    Raises:
        UserError: no task is left, a category does not exist, or there are too few conversations for a guard.
    """
    benchmark = load_benchmark(config.benchmark, **config.options)
    tasks = _of_categories(benchmark.tasks(config.split), config)
    conversations = benchmark.conversations_of(tasks)[: config.conversations]
    guards = config.guard.conversations if config.guard else 0
    if len(conversations) <= guards:
        raise UserError(
            f"{len(conversations)} conversations of split '{config.split}', of which the guard takes {guards}: "
            "none is left to learn from"
        )
    learning = conversations[: len(conversations) - guards]
    guarding = conversations[len(conversations) - guards :]
    guard_limit = config.guard.tasks if config.guard else None
    return Data(
        learning=tuple(learning),
        tasks=_drawn(tasks, {one.name for one in learning}, config.tasks, config.seed),
        guarding=tuple(guarding),
        guard_tasks=_drawn(tasks, {one.name for one in guarding}, guard_limit, config.seed),
    )


def _of_categories(tasks: list[Task], config: RefineConfig) -> list[Task]:
    known = {task.category for task in tasks}
    for name in config.categories or ():
        if name not in known:
            raise UserError(
                f"no task has category '{name}'{nearest(name, known)}: there are {', '.join(sorted(known))}"
            )
    kept = [task for task in tasks if config.categories is None or task.category in config.categories]
    if not kept:
        raise UserError(f"benchmark '{config.benchmark}' has no task in split '{config.split}'")
    return kept


def _drawn(tasks: Sequence[Task], workspaces: set[str], limit: int | None, seed: int) -> tuple[Task, ...]:
    able = [task for task in tasks if task.workspace in workspaces]
    if limit is None or limit >= len(able):
        return tuple(able)
    return tuple(able[place] for place in sorted(random.Random(seed).sample(range(len(able)), limit)))
