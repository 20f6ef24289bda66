"""`horma-rl eval` with `kind: agent`: every system plays every task with every seed, some of them at once.

What is played is on disk, so a run that is stopped, killed or out of budget goes on where it was. An episode that fails
(no answer from a server, a fault of an environment) is unfinished work: it is told, and the next run plays it again.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from horma_rl.agent.config import SystemConfig
from horma_rl.agent.episode import Parts, play
from horma_rl.agent.records import EpisodeResult, StepRow
from horma_rl.config import dump
from horma_rl.errors import UserError, nearest
from horma_rl.evaluation.agents.config import AgentsConfig
from horma_rl.evaluation.agents.store import WHOLE, AgentRow, AgentStore, Key, Shard, write_atomically
from horma_rl.evaluation.agents.suites import SUITES
from horma_rl.llm.types import BudgetSpent, RefusedError
from interactive_env.types import EnvTask, Suite

STEPS = "steps.jsonl"
Progress = Callable[[str, int, int], None]
"""Called with a system's name, its finished episodes, and all of its episodes."""
_HOPELESS = (401, 403, 404)
"""Refusals that every request would meet: no key, no right, no such model."""
_REASON = 300


class MakeParts(Protocol):
    """What plays one episode: actor, judge, summariser and retriever."""

    def __call__(self, system: SystemConfig, task: EnvTask, seed: int) -> Parts:
        """New parts, or parts that episodes share. Raises UserError."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An episode that was not finished, and why."""

    system: str
    task: str
    seed: int
    reason: str


@dataclass
class Played:
    """An evaluation, finished or not. `stopped` says why it ended before all was played."""

    config: AgentsConfig
    suite: Suite
    tasks: list[EnvTask]
    """Those of the shard."""
    store: AgentStore
    shard: Shard
    failures: list[Failure] = field(default_factory=list)
    stopped: str | None = None
    wall_s: float = 0.0

    @property
    def failures_file(self) -> str:
        """Name of the file of failures."""
        return self.shard.rows.replace("rows", "failures").replace(".jsonl", ".json")

    def rows(self, system: str) -> list[AgentRow]:
        """The finished rows of a system, task by task. The folder may hold rows of other tasks too."""
        keys = ((system, task.id, seed) for task in self.tasks for seed in self.config.seeds)
        return [row for key in keys if (row := self.store.get(key)) is not None]

    def unfinished(self, system: str) -> int:
        """Episodes of a system that have no row."""
        return len(self.tasks) * len(self.config.seeds) - len(self.rows(system))


def choose_tasks(suite: Suite, config: AgentsConfig) -> list[EnvTask]:
    """The tasks of the config's split, families and limits, in the suite's order.

    Raises:
        UserError: an unknown split, a family that no task has, or nothing left.
    """
    try:
        tasks = list(suite.tasks(config.split))
    except ValueError as error:
        raise UserError(f"split: {error}") from None
    families = {task.family for task in tasks}
    for name in config.families or ():
        if name not in families:
            raise UserError(
                f"families: no task has '{name}'{nearest(name, families)}: use {', '.join(sorted(families))}"
            )
    if config.families is not None:
        tasks = [task for task in tasks if task.family in config.families]
    if config.per_family is not None:
        by_family = {name: [task for task in tasks if task.family == name] for name in sorted(families)}
        kept = {task.id for group in by_family.values() for task in _drawn(group, config.per_family, config.seed)}
        tasks = [task for task in tasks if task.id in kept]
    if config.limit is not None:
        tasks = _drawn(tasks, config.limit, config.seed)
    if not tasks:
        raise UserError(f"suite '{suite.name}' has no task in split '{config.split}'")
    return tasks


async def play_all(
    config: AgentsConfig,
    suite: Suite,
    make_parts: MakeParts,
    progress: Progress = lambda system, done, total: None,
    shard: Shard = WHOLE,
) -> Played:
    """Play what is not finished yet.

    Raises:
        UserError: something in the config, the data or the output folder is at fault.
    """
    begin = time.monotonic()
    tasks = choose_tasks(suite, config)[shard.index - 1 :: shard.count]
    store = AgentStore(config.out_dir, config.identity(), shard)
    try:
        write_atomically(config.out_dir / "config.yaml", dump(config))
        played = Played(config, suite, tasks, store, shard)
        await _Run(played, make_parts, progress).all()
    finally:
        store.close()
    played.wall_s = time.monotonic() - begin
    return played


class _Run:
    """Plays the missing episodes, system by system, a bounded number at a time."""

    def __init__(self, played: Played, make_parts: MakeParts, progress: Progress) -> None:
        self.played, self.make_parts, self.progress = played, make_parts, progress
        self.done = {name: len(played.rows(name)) for name in played.config.systems}

    async def all(self) -> None:
        for name in self.done:
            self._tell(name)
        missing = list(self._missing())
        queue = iter(missing)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self.played.config.concurrency, len(missing))):
                    group.create_task(self._work(queue))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None

    def _missing(self) -> Iterator[tuple[str, EnvTask, int]]:
        played = self.played
        for name in played.config.systems:
            for task in played.tasks:
                for seed in played.config.seeds:
                    if played.store.get((name, task.id, seed)) is None:
                        yield name, task, seed

    async def _work(self, missing: Iterator[tuple[str, EnvTask, int]]) -> None:
        for name, task, seed in missing:
            if self.played.stopped is not None:
                return
            await self._episode(name, task, seed)
            self._tell(name)

    async def _episode(self, name: str, task: EnvTask, seed: int) -> None:
        try:
            await self._play(name, task, seed)
            self.done[name] += 1
        except UserError:
            raise
        except Exception as error:  # whatever an environment or a server does ends one episode only
            asked = error.__cause__ or error  # an environment wraps what its grader raised
            if isinstance(asked, BudgetSpent):
                self.played.stopped = str(asked)
                return
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:_REASON]}"
            self.played.failures.append(Failure(name, task.id, seed, reason))
            if isinstance(asked, RefusedError) and asked.status in _HOPELESS:
                self.played.stopped = str(asked)

    async def _play(self, name: str, task: EnvTask, seed: int) -> None:
        config, store = self.played.config, self.played.store
        system, key = config.systems[name], (name, task.id, seed)
        begin = time.monotonic()
        parts = self.make_parts(system, task, seed)
        env = await asyncio.to_thread(self.played.suite.make, task)
        folder = store.start(key)
        with StepLog(folder / STEPS) as log:
            result = await play(env, task, system, parts, folder, log.add, max_moves=config.max_moves)
        scores = SUITES[config.suite.name].scores(env)
        store.finish(row_of(key, task, result, log.contexts, scores, time.monotonic() - begin))
        if not config.keep_memory:
            store.forget(key, STEPS)

    def _tell(self, name: str) -> None:
        self.progress(name, self.done[name], len(self.played.tasks) * len(self.played.config.seeds))


class StepLog:
    """Appends the rows of an episode to a file, line by line, and keeps the length of each prompt."""

    def __init__(self, path: Path) -> None:
        self.contexts: list[int] = []
        self._file: IO[str] = path.open("a", encoding="utf-8", newline="\n")

    def add(self, row: StepRow) -> None:
        """Write one row at once: what a kill leaves tells how far the episode came."""
        self._file.write(json.dumps(row.as_json(), ensure_ascii=True) + "\n")
        self._file.flush()
        if row.prompt_tokens:
            self.contexts.append(row.prompt_tokens)

    def __enter__(self) -> StepLog:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def row_of(
    key: Key, task: EnvTask, result: EpisodeResult, contexts: list[int], scores: Mapping[str, Any], wall_s: float
) -> AgentRow:
    """The row of a finished episode."""
    system, _, seed = key
    return AgentRow(
        system=system,
        task=task.id,
        family=task.family,
        seed=seed,
        success=result.success,
        progress=round(result.progress, 6),
        stop=result.stop,
        steps=result.steps,
        moves=result.moves,
        malformed=result.malformed,
        invalid=result.invalid,
        refused=result.refused,
        compressions=result.compressions + result.compressions_fallback,
        faults=result.maintain_failed,
        unvalidated=result.maintain_unread,
        revisions=result.revisions,
        not_rewound=result.rewinds.get("not", 0) + result.drifts,
        recalls=result.recalls,
        over_budget=result.over_budget,
        tokens=result.tokens,
        contexts=tuple(contexts),
        scores=scores,
        wall_s=round(wall_s, 4),
    )


def write_failures(played: Played) -> None:
    """`failures.json`: what this run could not finish, and why. A shard has a file of its own."""
    text = json.dumps([asdict(failure) for failure in played.failures], indent=1, ensure_ascii=False) + "\n"
    write_atomically(played.config.out_dir / played.failures_file, text)


def _drawn(tasks: list[EnvTask], limit: int, seed: int) -> list[EnvTask]:
    """`limit` of the tasks, in their order; all when there are no more."""
    if limit >= len(tasks):
        return tasks
    return [tasks[index] for index in sorted(random.Random(seed).sample(range(len(tasks)), limit))]
