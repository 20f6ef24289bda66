"""Evaluation during training: a fixed sample of tasks that are not trained on, and the checkpoint that did best on it.

The policy plays each task of the sample once, as the evaluation after training will play its own: same prompt, limits,
shell and decoding, seeds drawn from the task. It draws from no generator of the training, so that a run with it ends
with the weights of one without, as long as both train on the same tasks.

Choosing a checkpoint by a score makes that score too good. The sample is therefore taken out of the train split, never
out of the tasks that the report is about; `during_split: eval` is for looking on, and refuses to choose.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from horma_rl.benchmarks.types import Benchmark
from horma_rl.errors import UserError
from horma_rl.evaluation.systems import plan, run_policy
from horma_rl.retrieval.engine import RolloutEngine
from horma_rl.retrieval.types import Trajectory
from horma_rl.training.checkpoints import damage, newest_checkpoint
from horma_rl.training.config import TrainConfig
from horma_rl.training.engines import whole_policy
from memory_shell.cache import WorkspaceCache
from memory_shell.types import Task

HELD_OUT = "held_out"
"""The key of the sample in the details of a benchmark."""


def hold_out(benchmark: Benchmark, config: TrainConfig) -> Benchmark:
    """`benchmark` with the sample in its details, and without it among the tasks to train on. The sample depends on
    the run's seed and the split alone. Raises UserError when it would take half of the tasks to train on, or more."""
    wanted = config.evaluation
    if not wanted.every:
        return benchmark
    pool = benchmark.train if wanted.during_split == "train" else benchmark.eval
    if wanted.during_split == "train" and wanted.during * 2 >= len(pool):
        raise UserError(
            f"evaluation.during={wanted.during} takes half of the {len(pool)} tasks to train on: make it smaller"
        )
    drawn = random.Random(f"held out/{config.seed}").sample(range(len(pool)), min(wanted.during, len(pool)))
    held = tuple(pool[place] for place in sorted(drawn))
    names = {task.id for task in held}
    train = tuple(task for task in benchmark.train if task.id not in names)
    return replace(benchmark, train=train, details={**benchmark.details, HELD_OUT: held})


class Validation(TrainerCallback):
    """Plays the sample after every `every` steps and after the last one, and marks the best checkpoint.

    Each process plays every n-th task of the sample; none waits for another until all have played theirs, and one
    gather at the end brings the scores of single tasks together. Their mean is the same however many processes there
    are.

    `make_engine`: the rollout engine around a policy. `choose`: keep the checkpoint of the best score, whichever the
    rotation would remove.
    """

    def __init__(
        self,
        trainer: Any,
        tasks: Sequence[Task],
        make_engine: Callable[[Any], RolloutEngine],
        workspaces: WorkspaceCache,
        config: TrainConfig,
    ) -> None:
        self._trainer = trainer
        self._tasks = list(tasks)
        self._make_engine = make_engine
        self._workspaces = workspaces
        self._shell = config.shell
        self._seed = config.seed
        self._every = config.evaluation.every
        self._choose = config.evaluation.best

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Evaluate where it is time. The figures get into the line of the step that has just ended."""
        if state.global_step % self._every and state.global_step != state.max_steps:
            return control
        with self._trainer.phases("evaluate"):
            found = self._evaluate()
        for name, value in found.items():
            self._trainer._metrics["train"][name].append(value)
        score = found.get("eval/jaccard")
        if self._choose and score is not None and (state.best_metric is None or score > state.best_metric):
            state.best_metric, state.best_global_step = score, state.global_step
            control.should_save = True  # the trainer keeps the checkpoint of `best_global_step`
        return control

    def _evaluate(self) -> dict[str, float]:
        trainer, world = self._trainer, self._trainer.accelerator
        if trainer.use_vllm:
            trainer.vllm_generation.sync_weights()
            trainer._last_loaded_step = trainer.state.global_step  # the next rollouts need not send them again
        mine = range(world.process_index, len(self._tasks), world.num_processes)
        jobs = plan([self._tasks[place] for place in mine], self._seed)
        with whole_policy(trainer) as policy:
            engine = self._make_engine(policy)
            table = _table(run_policy(engine, jobs, self._workspaces, self._shell), mine, len(self._tasks))
        gathered = world.gather(table[None].to(world.device))  # [N, tasks, 5]; a task's row is zero but in one process
        return summary(gathered.sum(0).cpu())


def _table(played: Iterable[Trajectory], places: Sequence[int], count: int) -> torch.Tensor:
    """Figures of episodes [count, 5] by the place of their task: scored, overlap, turns, tokens written, done."""
    table = torch.zeros(count, 5, dtype=torch.float64)
    for trajectory in played:
        written = sum(turn.completion_tokens for turn in trajectory.turns)
        scored = trajectory.reward is not None
        row = [scored, trajectory.reward or 0.0, len(trajectory.turns), written, trajectory.stop == "done"]
        table[places[trajectory.index]] = torch.tensor(row, dtype=torch.float64)
    return table


def summary(table: torch.Tensor) -> dict[str, float]:
    """The metrics of one evaluation from its episodes [tasks, 5]; no `eval/jaccard` where none was scored."""
    scored, overlap, turns, written, done = table.unbind(1)
    found = {"eval/turns": turns, "eval/model_tokens": written, "eval/stop_done": done}
    metrics = {name: float(column.mean()) for name, column in found.items()}
    if scored.any():
        metrics["eval/jaccard"] = float(overlap.sum() / scored.sum())
    return metrics


@dataclass(frozen=True, slots=True)
class Chosen:
    """The checkpoint that a run's model is made of: its folder, steps, and mean overlap on the sample."""

    folder: Path
    step: int
    jaccard: float

    def told(self, config: TrainConfig) -> str:
        """What a report says of the choice."""
        return (
            f"step {self.step}, the best of the evaluations every {config.evaluation.every} steps: Jaccard "
            f"{self.jaccard:.3f} on {config.evaluation.during} tasks held out from the train split, none of them below"
        )


def chosen_checkpoint(config: TrainConfig) -> Chosen | None:
    """The best checkpoint of a run whose GRPO is over; None where the last one counts, also where the best one is
    damaged, of which a warning tells."""
    newest = newest_checkpoint(config.run_dir / "checkpoints") if config.evaluation.best else None
    if newest is None:
        return None
    state = json.loads((newest / "trainer_state.json").read_text(encoding="utf-8"))
    if state["best_global_step"] is None:
        return None
    step = int(state["best_global_step"])
    folder = newest.with_name(f"checkpoint-{step}")
    fault = damage(folder)
    if fault is not None:
        print(f"warning: {folder}, the best one, is damaged ({fault}); the last one is taken", file=sys.stderr)
        return None
    return Chosen(folder, step, float(state["best_metric"]))
