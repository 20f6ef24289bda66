"""Rollouts for GRPO: TRL hands over prompts, the rollout engine plays the episodes.

A prompt is the id of a task. TRL repeats it once per generation and groups by position, so two tasks with the same
question are two groups.

Of several processes each plays its own slice of the step's groups, and each group whole. From the first episode to the
last no process waits for another, however uneven their turns; after that one gather adds up the numbers of the step.
What is played does not depend on how many processes share the step.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from horma_rl.evaluation.config import ShellConfig
from horma_rl.evaluation.store import drop_unfinished_line
from horma_rl.retrieval.engine import EpisodeSpec, RolloutEngine, in_order
from horma_rl.retrieval.seeds import rollout_seed
from horma_rl.retrieval.types import Trajectory
from horma_rl.training.curriculum import Curriculum
from horma_rl.training.engines import whole_policy
from horma_rl.training.rewards import plain_reward
from horma_rl.training.rollout_metrics import Group, add_up, means, task_means, totals, varies
from memory_shell.cache import WorkspaceCache
from memory_shell.episode import MemoryShell
from memory_shell.types import Task


class RolloutFunction:
    """TRL's `rollout_func`: plays one episode per prompt and returns ids, masks, log-probabilities and rewards.

    Seeds depend on the run's seed, the optimiser step, the task and the place in the group, so that a step repeated
    after a resume samples the same episodes. Groups without reward variance teach nothing: each is replaced by a group
    of another task, at most `resample` times, and the share that was drawn without variance is logged. The other task
    depends on the one that it replaces, not on what else the step holds.

    `step_s`: seconds for all episodes of a step; what is not finished then is dropped (no reward), and flat groups are
    not replaced any more. `log`: the file that this process appends its episodes to. `training_reward`: what the
    update is given for an episode; groups are flat, and metrics counted, by the overlap itself. `curriculum`: draws
    the tasks of a step instead of those that TRL hands over.
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
        step_s: float | None = None,
        training_reward: Callable[[Trajectory], float | None] = plain_reward,
        curriculum: Curriculum | None = None,
    ) -> None:
        self._make_engine = make_engine
        self._tasks = {task.id: task for task in tasks}
        self._workspaces = workspaces
        self._shell = shell
        self._seed = seed
        self._resample = resample
        self._log = log
        self._step_s = step_s
        self._training_reward = training_reward
        self._curriculum = curriculum
        drop_unfinished_line(log)
        self._engine: RolloutEngine | None = None

    def __call__(self, prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        """One row per prompt, in order, with TRL's keys and `reward` (None where scoring failed)."""
        started = time.monotonic()
        step, size = trainer.state.global_step, trainer.num_generations
        with trainer.phases("rollout"), whole_policy(trainer) as policy:
            self._engine = self._engine or self._make_engine(policy)
            tasks = self._drawn(prompts[::size], step, trainer.accelerator)
            until = None if self._step_s is None else started + self._step_s
            environment_s, sampled = self._engine.environment_s, self._engine.sampled_tokens
            drawn, groups = self._step(self._engine, tasks, size, step, until)
            trainer.phases.add("environment", self._engine.environment_s - environment_s)
            trainer.phases.count("rollout", self._engine.sampled_tokens - sampled)
        trajectories = [trajectory for group in groups for trajectory in group]
        counts = totals(drawn, trajectories, time.monotonic() - started)
        for name, value in means(add_up(counts, trainer.accelerator)).items():
            trainer._metrics["train"][name].append(value)
        self._learn(drawn, groups, step, trainer)
        self._write(trajectories, step)
        made = rows(trajectories, trainer.processing_class.eos_token_id)
        return {**made, "reward": [self._training_reward(trajectory) for trajectory in trajectories]}

    def _step(
        self, engine: RolloutEngine, tasks: Sequence[Task], size: int, step: int, until: float | None
    ) -> tuple[list[Group], list[Group]]:
        """The groups as they were drawn, and those that are kept."""
        drawn = self._play(engine, tasks, size, [rollout_salt(task, 0) for task in tasks], step, until)
        groups = list(drawn)
        for attempt in range(1, self._resample + 1):
            flat = [place for place, group in enumerate(groups) if not varies(group)]
            if not flat or (until is not None and time.monotonic() >= until):
                break
            others = [self._other_task(tasks[place], step, attempt) for place in flat]
            salts = [rollout_salt(new, attempt, tasks[place]) for place, new in zip(flat, others, strict=True)]
            again = self._play(engine, others, size, salts, step, until)
            for place, group in zip(flat, again, strict=True):
                groups[place] = group
        return drawn, groups

    def _play(
        self,
        engine: RolloutEngine,
        tasks: Sequence[Task],
        size: int,
        salts: Sequence[str],
        step: int,
        until: float | None,
    ) -> list[Group]:
        """One group of `size` episodes for each of `tasks`; `salts`: what their seeds are drawn from, besides."""
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
                seed=rollout_seed(self._seed, step, salts[place], index),
                index=place * size + index,
            )
            for place, task in enumerate(tasks)
            for index in range(size)
        ]
        played = in_order(engine.run(specs, until))
        return [played[start : start + size] for start in range(0, len(played), size)]

    def _drawn(self, names: Sequence[str], step: int, accelerator: Any) -> list[Task]:
        """The tasks of this process: those that TRL hands over, or its part of those that the curriculum draws."""
        if self._curriculum is None:
            return [self._tasks[name] for name in names]
        first = accelerator.process_index * len(names)
        return self._curriculum.draw(step, accelerator.num_processes * len(names))[first : first + len(names)]

    def _learn(self, drawn: Sequence[Group], kept: Sequence[Group], step: int, trainer: Any) -> None:
        """Tell the curriculum, in every process, how all processes did."""
        if self._curriculum is None:
            return
        for name, value in self._curriculum.measures(step).items():
            trainer._metrics["train"][f"rollout/{name}"].append(value)
        played = [*drawn, *(new for old, new in zip(drawn, kept, strict=True) if new is not old)]
        self._curriculum.learn(task_means(played, list(self._tasks), trainer.accelerator))

    def _other_task(self, task: Task, step: int, attempt: int) -> Task:
        """The task that replaces `task` at this attempt."""
        if self._curriculum is not None:
            return self._curriculum.other(task, step, attempt)
        pool = [other for other in self._tasks.values() if other.id != task.id] or [task]
        return random.Random(f"{self._seed}/{step}/{attempt}/{task.id}").choice(pool)

    def _write(self, trajectories: Sequence[Trajectory], step: int) -> None:
        lines = [json.dumps({"step": step, **t.as_json(), **self._shaped(t)}, ensure_ascii=False) for t in trajectories]
        with self._log.open("a", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")

    def _shaped(self, trajectory: Trajectory) -> dict[str, float | None]:
        """The training reward of an episode, where it is not its overlap."""
        given = self._training_reward(trajectory)
        return {} if given == trajectory.reward else {"training_reward": given}


def rollout_salt(task: Task, attempt: int, replaced: Task | None = None) -> str:
    """What the seeds of a group's episodes are drawn from, besides step and place. Two groups that drew the same other
    task differ by the task that it replaces."""
    return f"{task.id}/{attempt}" + (f"/{replaced.id}" if replaced else "")


def trajectory_log(run_dir: Path, process: int) -> Path:
    """The file that a process appends its training episodes to."""
    return run_dir / ("trajectories.jsonl" if process == 0 else f"trajectories.rank{process}.jsonl")


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
