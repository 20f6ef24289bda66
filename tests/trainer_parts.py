"""Parts of the tests that drive the trainer itself: episodes that are made up, and a trainer of seconds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, TrainerCallback
from trl import GRPOConfig

from horma_rl.evaluation.config import ShellConfig
from horma_rl.retrieval.engine import EpisodeSpec
from horma_rl.retrieval.types import Trajectory
from horma_rl.training.phases import Phases
from horma_rl.training.rollouts import RolloutFunction, reward
from memory_shell.cache import WorkspaceCache
from memory_shell.types import Stop, Task
from tests.training_parts import tokenizer, world

GROUP = 4
Play = Callable[[EpisodeSpec], Trajectory]


def episode(spec: EpisodeSpec, seed: str | None = None, longest: int = 40) -> Trajectory:
    """An episode of random tokens in spans of response and observation, with a random reward."""
    rng = random.Random(seed or f"{spec.task.id}/{spec.index % GROUP}")
    made = Trajectory(
        spec.task, spec.seed, [rng.randrange(4, 2600) for _ in range(rng.randint(3, 9))], index=spec.index
    )
    while len(made.completion_ids) < rng.randint(6, longest):
        for own, n in ((1, rng.randint(1, 6)), (0, rng.randint(1, 12))):
            made.completion_ids += [rng.randrange(4, 2600) for _ in range(n)]
            made.mask += [own] * n
            made.logprobs += [-rng.random() * own for _ in range(n)]
    made.stop, made.reward = Stop.DONE, rng.choice([0.0, 0.25, 1.0, 0.5])
    return made


class Engine:
    """Stands for the rollout engine: gives the episodes that `play` makes, last one first."""

    environment_s = 0.0
    sampled_tokens = 0

    def __init__(self, play: Play) -> None:
        self.play = play

    def run(self, specs: Sequence[EpisodeSpec], until: float | None = None) -> Iterator[Trajectory]:
        yield from reversed([self.play(spec) for spec in specs])


class Gradients(TrainerCallback):
    """Keeps the gradient of the first step."""

    def __init__(self) -> None:
        self.found: dict[str, torch.Tensor] = {}

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        if not self.found:
            self.found = {name: p.grad.clone() for name, p in model.named_parameters()}


def trainer_of(
    kind: Any,
    checkpoint: Path,
    workspaces: WorkspaceCache,
    folder: Path,
    play: Play = episode,
    tasks: Sequence[Task] = world().train[:2],
    resample: int = 0,
    callbacks: Sequence[Any] = (),
    start_model: Callable[[], Any] | None = None,
    **grpo: Any,
) -> Any:
    """A trainer of class `kind` with one step over two groups of four, unless `grpo` says otherwise."""
    values = {
        "num_generations": GROUP, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1,
        "max_completion_length": 64, "max_steps": 1, "max_grad_norm": 0.0, "learning_rate": 1e-3,
        "logging_steps": 1, "save_strategy": "no", "use_cpu": True, "bf16": False, "report_to": "none",
        "activation_checkpointing": False, "disable_tqdm": True, "shuffle_dataset": False,
        "remove_unused_columns": False, **grpo,
    }  # fmt: skip
    rollouts = RolloutFunction(
        make_engine=lambda _: Engine(play), tasks=tasks, workspaces=workspaces, shell=ShellConfig(), seed=0,
        resample=resample, log=folder / "trajectories.jsonl",
    )  # fmt: skip
    trainer = kind(
        model=AutoModelForCausalLM.from_pretrained(checkpoint),
        reward_funcs=[reward],
        args=GRPOConfig(output_dir=str(folder / "out"), **values),
        train_dataset=Dataset.from_dict({"prompt": [task.id for task in tasks]}),
        processing_class=tokenizer(),
        rollout_func=rollouts,
        callbacks=list(callbacks),
        **({"start_model": start_model} if start_model else {}),
    )
    if not hasattr(trainer, "phases"):
        trainer.phases = Phases()  # TRL's own trainer keeps no stopwatch, which the rollouts use
    trainer.current_gradient_accumulation_steps = values["gradient_accumulation_steps"]
    return trainer


def played(trainer: Any, tasks: Sequence[Task] = world().train[:2]) -> dict[str, Any]:
    """The scored batch of one step, as TRL hands it to the loss."""
    trainer.model.train()
    batch: dict[str, Any] = trainer._generate_and_score_completions(
        [{"prompt": task.id} for task in tasks for _ in range(GROUP)]
    )
    return batch


def loss_and_gradient(trainer: Any, batch: dict[str, Any]) -> tuple[float, dict[str, torch.Tensor]]:
    trainer.model.train()
    trainer.model.zero_grad()
    loss = trainer._compute_loss(trainer.model, batch)
    loss.backward()
    return loss.item(), {name: p.grad.clone() for name, p in trainer.model.named_parameters()}


def apart(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> float:
    """The largest difference of two gradients, as a share of the largest entry."""
    assert first.keys() == second.keys()
    scale = max(float(tensor.abs().max()) for tensor in first.values())
    assert scale > 0
    return max(float((tensor - second[name]).abs().max()) for name, tensor in first.items()) / scale
