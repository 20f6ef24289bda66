"""`horma-rl eval`: run every system over the same tasks, then write the summary and the report."""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from horma_rl.baselines.registry import make_retrievers
from horma_rl.benchmarks.registry import load_benchmark
from horma_rl.benchmarks.types import Benchmark, Conversation
from horma_rl.config import dump
from horma_rl.errors import UserError, nearest
from horma_rl.evaluation.config import EvalConfig, PolicyConfig
from horma_rl.evaluation.metrics import OVERALL, by_category, compare_by_category, summarise
from horma_rl.evaluation.rows import EpisodeRow, row_from_trajectory, turn_text
from horma_rl.evaluation.store import ResultStore
from horma_rl.evaluation.systems import Job, describe_given, load_engine, plan, run_baseline, run_policy
from horma_rl.evaluation.trained import as_trained
from horma_rl.memory.build import build_all, read_manifest
from horma_rl.retrieval.types import Trajectory
from horma_rl.viewer.data import Episode, ReportData, SystemRows, choose_pairs
from horma_rl.viewer.report import write_report
from memory_shell.cache import WorkspaceCache
from memory_shell.types import Stop, Task
from memory_shell.workspace import WorkspaceError

WORKSPACES_KEPT = 64
"""Workspaces that stay loaded: LongMemEval has one a question, and together they would take several GB."""
Progress = Callable[[str, int, int], None]
"""Called with a system's name, its finished episodes, and all of its episodes."""


@dataclass(frozen=True)
class System:
    """A named way to run jobs, and what it is given."""

    name: str
    given: str
    run: Callable[[Sequence[Job]], Iterator[Trajectory]]
    jobs: list[Job]


@dataclass(frozen=True)
class Evaluation:
    """A finished evaluation. `systems` in the order of the config: policies, then baselines."""

    config: EvalConfig
    benchmark: Benchmark
    tasks: list[Task]
    systems: list[SystemRows]
    wall_s: float
    store: ResultStore = field(repr=False)
    workspaces: WorkspaceCache = field(repr=False)

    @property
    def before(self) -> SystemRows | None:
        """The first policy when there are two or more."""
        return self.systems[0] if len(self.config.policies) >= 2 else None

    @property
    def after(self) -> SystemRows | None:
        """The last policy, if any."""
        return self.systems[len(self.config.policies) - 1] if self.config.policies else None


def evaluate(config: EvalConfig, progress: Progress = lambda system, done, total: None) -> Evaluation:
    """Run what is not finished yet, and write `summary.json`, `report.html` and `report.txt` to the output folder.

    Raises:
        UserError: something in the config, the data or the output folder is at fault.
    """
    begin = time.monotonic()
    config = as_trained(config)
    _check_names(config)
    benchmark = load_benchmark(config.benchmark, **config.options)
    tasks = choose_tasks(benchmark, config)
    identity = {**config.identity(), **{f"policy {n}": _fingerprint(p) for n, p in config.policies.items()}}
    store = ResultStore(config.out_dir, identity)
    (config.out_dir / "config.yaml").write_text(dump(config), encoding="utf-8")
    ensure_memory(benchmark.conversations_of(tasks), config)
    workspaces = load_workspaces(config.memory_dir, tasks)
    systems = [*_policies(config, tasks, workspaces), *_baselines(config, tasks, workspaces)]
    for system in systems:
        _run_system(system, store, workspaces, progress)
    finished = [SystemRows(system.name, system.given, _rows(system, store)) for system in systems]
    evaluation = Evaluation(config, benchmark, tasks, finished, time.monotonic() - begin, store, workspaces)
    summary = json.dumps(summarise_evaluation(evaluation), indent=1)
    (config.out_dir / "summary.json").write_text(summary + "\n", encoding="utf-8")
    write_report(config.out_dir / "report.html", report_data(evaluation))
    return evaluation


def choose_tasks(benchmark: Benchmark, config: EvalConfig) -> list[Task]:
    """The tasks of the config's split, categories and limit, in the benchmark's order.

    Raises:
        UserError: a category that no task has, or nothing left.
    """
    tasks = benchmark.tasks(config.split)
    if config.categories is not None:
        known = {task.category for task in tasks}
        for name in config.categories:
            if name not in known:
                raise UserError(
                    f"no task of split '{config.split}' has category '{name}'{nearest(name, known)}: "
                    f"there are {', '.join(sorted(known))}"
                )
        tasks = [task for task in tasks if task.category in config.categories]
    if config.limit is not None and config.limit < len(tasks):
        kept = sorted(random.Random(config.seed).sample(range(len(tasks)), config.limit))
        tasks = [tasks[index] for index in kept]
    if not tasks:
        raise UserError(f"benchmark '{config.benchmark}' has no task in split '{config.split}'")
    return tasks


def ensure_memory(conversations: Sequence[Conversation], config: EvalConfig) -> None:
    """Build the workspaces that are missing or unfinished in the memory folder.

    Raises:
        UserError: a finished workspace has another kind of notes than the config names.
    """
    missing = []
    for conversation in conversations:
        try:
            manifest = read_manifest(config.memory_dir / conversation.name)
        except UserError:
            missing.append(conversation)
            continue
        if manifest.get("notes") != config.notes:
            raise UserError(
                f"{config.memory_dir / conversation.name} has {manifest.get('notes')} notes, the config says "
                f"notes: {config.notes}; name another `memory` folder, or that kind of notes"
            )
    build_all(missing, config.memory_dir, config.notes)


def load_workspaces(memory_dir: Path, tasks: Sequence[Task]) -> WorkspaceCache:
    """The workspaces of `tasks`, loaded once to see that they can be. Raises UserError when one cannot."""
    workspaces = WorkspaceCache(memory_dir, keep=WORKSPACES_KEPT)
    try:
        for name in dict.fromkeys(task.workspace for task in tasks):
            workspaces.get(name)
    except WorkspaceError as error:
        raise UserError(str(error)) from None
    return workspaces


def summarise_evaluation(evaluation: Evaluation) -> dict[str, Any]:
    """The content of `summary.json`. With two policies, `before`, `after`, `delta`, `ci95` and `n` stand at its top."""
    config = evaluation.config
    summary: dict[str, Any] = {}
    if evaluation.before and evaluation.after:
        changes = compare_by_category(evaluation.before.rows, evaluation.after.rows, config.seed)
        summary = {**changes[OVERALL].as_json(), "change_by_category": {n: c.as_json() for n, c in changes.items()}}
    summary |= {
        "name": config.name,
        "benchmark": evaluation.benchmark.name,
        "split": config.split,
        "notes": config.notes,
        "decoding": decoding(config),
        "tasks": len(evaluation.tasks),
        "seed": config.seed,
        "wall_s": round(evaluation.wall_s, 2),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _RSS_UNITS_PER_MB, 1),
        "systems": {
            system.name: {
                "given": system.given,
                **{name: part.as_json() for name, part in by_category(system.rows, config.seed).items()},
            }
            for system in evaluation.systems
        },
    }
    return summary


def decoding(config: EvalConfig) -> str:
    """How the policies' tokens were drawn, in words."""
    temperature = config.sampling.temperature
    return f"sampled at temperature {temperature:g}" if temperature else "greedy"


def report_data(evaluation: Evaluation) -> ReportData:
    """What the report of an evaluation shows. Without policies, the best navigating baseline's episodes are shown."""
    config, before, after = evaluation.config, evaluation.before, evaluation.after
    left, right = before, after or _best_navigator(evaluation)
    pairs = choose_pairs(
        _episodes(evaluation, left), _episodes(evaluation, right), count=config.episodes_shown, seed=config.seed
    )
    used = {str(episode["workspace"]) for pair in pairs for episode in (pair.before, pair.after) if episode}
    texts = {
        name: {turn.id: turn_text(turn) for turn in evaluation.workspaces.get(name).turns.values()} for name in used
    }
    facts = [
        ("Tasks", f"{len(evaluation.tasks)} ({evaluation.benchmark.name}, {config.split} split)"),
        ("Notes", config.notes),
        ("Decoding", decoding(config)),
        ("Data", f"{evaluation.benchmark.provenance}. Licence: {evaluation.benchmark.licence}"),
    ]
    return ReportData(
        title=config.name,
        given=after.given if after else "",
        config_yaml=dump(config),
        seed=config.seed,
        wall_s=evaluation.wall_s,
        before=before,
        after=after,
        baselines=[system for system in evaluation.systems if system not in (before, after)],
        pairs=pairs,
        pair_labels=(left.name if left else "", right.name if right else ""),
        texts=texts,
        facts=facts,
    )


_RSS_UNITS_PER_MB = 2**20 if sys.platform == "darwin" else 2**10


def _best_navigator(evaluation: Evaluation) -> SystemRows | None:
    navigating = [system for system in evaluation.systems if any(row.turns for row in system.rows)]
    return max(navigating, key=lambda system: summarise(system.rows, resamples=1).jaccard.mean, default=None)


def _episodes(evaluation: Evaluation, system: SystemRows | None) -> list[Episode]:
    """The logged episodes of a system on the tasks of this evaluation, in their order."""
    if system is None:
        return []
    every = evaluation.store.trajectories_of(system.name)
    failed_first = sorted(reversed(every), key=lambda episode: episode["stop"] != Stop.ERROR)
    logged = {str(episode["task"]): episode for episode in failed_first}
    return [logged[task.id] for task in evaluation.tasks if task.id in logged]


def _policies(config: EvalConfig, tasks: Sequence[Task], workspaces: WorkspaceCache) -> Iterator[System]:
    jobs = plan(tasks, config.seed, config.samples)
    for name, policy in config.policies.items():

        def run(todo: Sequence[Job], policy: PolicyConfig = policy) -> Iterator[Trajectory]:
            return run_policy(load_engine(policy, config), todo, workspaces, config.shell)

        yield System(name, describe_given(config, policy), run, jobs)


def _baselines(config: EvalConfig, tasks: Sequence[Task], workspaces: WorkspaceCache) -> Iterator[System]:
    jobs = plan(tasks, config.seed)
    for retriever in make_retrievers(config.baselines):

        def run(todo: Sequence[Job], retriever: Any = retriever) -> Iterator[Trajectory]:
            return run_baseline(retriever, todo, workspaces, config.shell.unit)

        yield System(retriever.name, retriever.given, run, jobs)


def _run_system(system: System, store: ResultStore, workspaces: WorkspaceCache, progress: Progress) -> None:
    todo = [(task, seed) for task, seed in system.jobs if not store.has(system.name, task.id, seed)]
    done, total = len(system.jobs) - len(todo), len(system.jobs)
    progress(system.name, done, total)
    if not todo:
        return
    for trajectory in system.run(todo):
        turns = workspaces.get(trajectory.task.workspace).turns
        store.add(row_from_trajectory(system.name, trajectory, turns), trajectory.as_json())
        done += 1
        progress(system.name, done, total)


def _rows(system: System, store: ResultStore) -> list[EpisodeRow]:
    """The system's rows in the order of its jobs. The folder may hold rows of other tasks too."""
    found = {(row.task, row.seed): row for row in store.rows_of(system.name)}
    return [found[task.id, seed] for task, seed in system.jobs]


def _check_names(config: EvalConfig) -> None:
    for retriever in make_retrievers(config.baselines):
        if retriever.name in config.policies:
            raise UserError(f"policy '{retriever.name}' has the name of a baseline: choose another name")


def _fingerprint(policy: PolicyConfig) -> dict[str, Any]:
    """The policy's settings, and size and time of its weights: a retrained checkpoint is not taken for the old one."""
    weights = sorted(Path(policy.model).glob("*.safetensors"))
    files = [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in weights]
    return {**policy.model_dump(mode="json"), "weights": files}
