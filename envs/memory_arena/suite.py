"""MemoryArena as a suite: rows of published files, or generated ones, each with its domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from interactive_env.types import EnvTask
from memory_arena.domain import Builder, Domain, Grader, Maker, Part, remembered, same_text
from memory_arena.env import MemoryArenaEnv
from memory_arena.rows import DOMAINS, MATH, PHYSICS, SEARCH, SHOPPING, TRAVEL, read_rows

PUBLISHED = "MemoryArena (arXiv:2602.16313), rows under CC BY 4.0"
GENERATED = "generated rows in MemoryArena's schema (this project's own)"


class MemoryArena:
    """Rows of one or more domains. A split is a domain's name, or `all`."""

    name = "memory_arena"

    def __init__(self, parts: Sequence[Part], provenance: str, show_results: bool = False) -> None:
        """`show_results`: tell the policy, at the end of a subtask, whether it passed (the benchmark does not)."""
        self._domains: dict[str, Domain] = {part.domain.name: part.domain for part in parts}
        self._tasks = {
            part.domain.name: [
                EnvTask(f"{part.domain.name}/{row.id}", part.domain.name, {"row": row}) for row in part.rows
            ]
            for part in parts
        }
        self.provenance = provenance
        self._show_results = show_results

    def tasks(self, split: str) -> list[EnvTask]:
        """The tasks of a domain, or of `all`, in the order of the files."""
        if split == "all":
            return [task for tasks in self._tasks.values() for task in tasks]
        if split not in self._tasks:
            raise ValueError(f"no split '{split}': there are {', '.join([*self._tasks, 'all'])}")
        return list(self._tasks[split])

    def make(self, task: EnvTask) -> MemoryArenaEnv:
        """An environment for a task of this suite."""
        return MemoryArenaEnv(self._domains[task.family], task, self._show_results)


def load_suite(
    files: Mapping[str, Path],
    options: Mapping[str, Mapping[str, Any]] | None = None,
    grader: Grader = same_text,
    show_results: bool = False,
) -> MemoryArena:
    """The suite of published files, `{domain: JSON Lines file}`, with the options of each domain.

    Raises ValueError for an unknown domain or option, and for a file that is missing or wrong.
    """
    given, graded = options or {}, remembered(grader)
    for name in [*files, *given]:
        _known(name)
    parts = [
        Part(builder(name)(given.get(name, {}), graded), read_rows(Path(path), name)) for name, path in files.items()
    ]
    return MemoryArena(parts, PUBLISHED, show_results)


def generated_suite(
    domains: Sequence[str] = DOMAINS,
    count: int = 10,
    seed: int = 0,
    grader: Grader = same_text,
    show_results: bool = False,
) -> MemoryArena:
    """`count` generated rows of each domain, over generated tables: no data is needed. The same seed gives the same."""
    for name in domains:
        _known(name)
    graded = remembered(grader)
    return MemoryArena([maker(name)(count, seed, graded) for name in domains], GENERATED, show_results)


def builder(name: str) -> Builder:
    """What makes the domain from a user's options."""
    if name == SHOPPING:
        from memory_arena import shopping

        return shopping.build
    if name == SEARCH:
        from memory_arena import search

        return search.build
    if name == TRAVEL:
        from memory_arena import travel

        return travel.build
    from memory_arena import formal

    return formal.build_math if name == MATH else formal.build_physics


def maker(name: str) -> Maker:
    """What generates rows and the domain that they are played in."""
    if name in (SHOPPING, SEARCH):
        from memory_arena.catalogue import make_search, make_shopping

        return make_shopping if name == SHOPPING else make_search
    from memory_arena.make_rows import make_math, make_physics, make_travel

    return {TRAVEL: make_travel, MATH: make_math, PHYSICS: make_physics}[name]


def _known(name: str) -> None:
    if name not in DOMAINS:
        raise ValueError(f"unknown domain '{name}': known are {', '.join(DOMAINS)}")
