"""Rollouts for GRPO: TRL hands over prompts, the rollout engine plays the episodes.

A prompt is the id of a task. TRL repeats it once per generation and groups by position, so two tasks with the same
question are two groups.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from horma_rl.evaluation.config import ShellConfig
from horma_rl.evaluation.store import drop_unfinished_line
from horma_rl.retrieval.engine import EpisodeSpec, RolloutEngine, in_order
from horma_rl.retrieval.seeds import rollout_seed
from horma_rl.retrieval.types import Trajectory
from memory_shell.cache import WorkspaceCache
from memory_shell.episode import MemoryShell
from memory_shell.types import Stop, Task

Group = list[Trajectory]


class RolloutFunction:
    """TRL's `rollout_func`: plays one episode per prompt and returns ids, masks, log-probabilities and rewards.

    Seeds depend on the run's seed, the optimiser step, the task and the place in the group, so that a step repeated
    after a resume samples the same episodes. Groups without reward variance teach nothing: each is replaced by a group
    of another task, at most `resample` times, and the share that was drawn without variance is logged.
    """

    def __init__(
        self,
        *,
        make_engine: Callable[[Any], RolloutEngine],
        tasks: Sequence[Task],
        workspaces: WorkspaceCache,
        shell: ShellConfig,
        seed: int,
        resample: int,
        log: Path,
    ) -> None:
        self._make_engine = make_engine
        self._tasks = {task.id: task for task in tasks}
        self._workspaces = workspaces
        self._shell = shell
        self._seed = seed
        self._resample = resample
        self._log = log
        drop_unfinished_line(log)
        self._engine: RolloutEngine | None = None

    def __call__(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        """One row per prompt, in order, with TRL's keys and `reward` (None where scoring failed)."""
        started = time.monotonic()
        if self._engine is None:
            self._engine = self._make_engine(trainer.accelerator.unwrap_model(trainer.model))
        step, size = trainer.state.global_step, trainer.num_generations
        tasks = [self._tasks[task_id] for task_id in prompts[::size]]
        groups = self._play(tasks, size, step, 0)
        drawn = first_metrics(groups)
        for attempt in range(1, self._resample + 1):
            flat = [place for place, group in enumerate(groups) if not _varies(group)]
            again = self._other_tasks(tasks, len(flat), step, attempt)
            for place, group in zip(flat, self._play(again, size, step, attempt), strict=True):
                groups[place] = group
        trajectories = [trajectory for group in groups for trajectory in group]
        seconds = time.monotonic() - started
        for name, value in {**rollout_metrics(trajectories, seconds), **drawn}.items():
            trainer._metrics["train"][name].append(value)
        self._write(trajectories, step)
        return rows(trajectories, trainer.processing_class.eos_token_id)

    def _play(self, tasks: Sequence[Task], size: int, step: int, attempt: int) -> list[Group]:
        assert self._engine is not None
        specs = [
            EpisodeSpec(
                task=task,
                shell=MemoryShell(
                    self._workspaces.get(task.workspace),
                    self._shell.caps,
                    self._shell.unit,
                    self._shell.overview,
                    self._shell.zero_on_cap,
                ),
                seed=rollout_seed(self._seed, step, f"{task.id}/{attempt}", index),
                index=place * size + index,
            )
            for place, task in enumerate(tasks)
            for index in range(size)
        ]
        played = in_order(self._engine.run(specs))
        return [played[start : start + size] for start in range(0, len(played), size)]

    def _other_tasks(self, taken: Sequence[Task], count: int, step: int, attempt: int) -> list[Task]:
        names = {task.id for task in taken}
        pool = [task for task in self._tasks.values() if task.id not in names] or list(self._tasks.values())
        rng = random.Random(f"{self._seed}/{step}/{attempt}")
        # The same task twice would be the same episodes twice: their seeds are drawn from the task's name.
        return rng.sample(pool, count) if count <= len(pool) else rng.choices(pool, k=count)

    def _write(self, trajectories: Sequence[Trajectory], step: int) -> None:
        lines = [json.dumps({"step": step, **t.as_json()}, ensure_ascii=False) for t in trajectories]
        with self._log.open("a", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")


def rows(trajectories: Sequence[Trajectory], end_id: int) -> dict[str, Any]:
    """TRL's columns. An episode without a reward is masked whole, so that no term of the loss counts its tokens. Where
    an episode ended before a token was sampled, one masked `end_id` stands, because TRL cannot take an empty row."""
    return {
        "prompt_ids": [t.prompt_ids or [end_id] for t in trajectories],
        "completion_ids": [t.completion_ids or [end_id] for t in trajectories],
        "logprobs": [t.logprobs or [0.0] for t in trajectories],
        "env_mask": [t.mask if t.mask and t.reward is not None else [0] * max(1, len(t.mask)) for t in trajectories],
        "reward": [t.reward for t in trajectories],
    }


def reward(prompts: Sequence[str], reward: Sequence[float | None], **_: Any) -> list[float | None]:
    """TRL's reward function: the episodes were scored when they ended."""
    del prompts
    return list(reward)


def first_metrics(groups: Sequence[Group]) -> Mapping[str, float]:
    """Means over the groups as they were drawn, before flat ones are replaced: `reward` is the policy's expected
    reward on the training tasks, which the groups that are kept would misstate."""
    scored = [t.reward for group in groups for t in group if t.reward is not None]
    flat = sum(not _varies(group) for group in groups) / len(groups)
    return {"rollout/flat_groups": flat, **({"rollout/reward": sum(scored) / len(scored)} if scored else {})}


def rollout_metrics(trajectories: Sequence[Trajectory], seconds: float) -> Mapping[str, float]:
    """Means over one step's episodes, for the log."""
    n = len(trajectories)
    commands = sum(t.commands for t in trajectories)
    calls = sum(bool(turn.calls) for t in trajectories for turn in t.turns)
    turns = sum(len(t.turns) for t in trajectories)
    stops = {f"rollout/stop_{stop.value}": sum(t.stop is stop for t in trajectories) / n for stop in Stop}
    return {
        "rollout/turns": turns / n,
        "rollout/commands": commands / n,
        "rollout/invalid_rate": sum(t.invalid for t in trajectories) / max(1, commands),
        "rollout/call_rate": calls / max(1, turns),
        "rollout/selected": sum(len(t.selected) for t in trajectories) / n,
        "rollout/unscored": sum(t.reward is None for t in trajectories) / n,
        "rollout/seconds": seconds,
        "rollout/tokens_per_s": sum(sum(t.mask) for t in trajectories) / max(seconds, 1e-9),
        **stops,
    }


def _varies(group: Group) -> bool:
    return len({t.reward for t in group if t.reward is not None}) > 1
