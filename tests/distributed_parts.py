"""What the test of several processes runs in each of them, and in one process to compare with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from horma_rl.evaluation.config import ShellConfig
from horma_rl.retrieval.backends.transformers import TransformersGenerator
from horma_rl.retrieval.engine import EpisodeSpec, RolloutConfig, RolloutEngine
from horma_rl.retrieval.types import Trajectory
from horma_rl.training.engines import EngineCheck, held
from horma_rl.training.launch_config import Engine
from horma_rl.training.rollouts import RolloutFunction, trajectory_log
from horma_rl.training.trainer import RetrieverTrainer
from memory_shell.cache import WorkspaceCache
from memory_shell.types import Caps, Result, ToolCall
from tests.trainer_parts import GROUP, trainer_of
from tests.training_parts import codec, weights, world

PLAIN_STEP = {"optim": "sgd", "learning_rate": 1.0, "lr_scheduler_type": "constant", "weight_decay": 0.0}
"""A step after which the weights have moved by exactly the gradient."""
LOSSES: dict[str, dict[str, Any]] = {
    "dapo": {},
    "grpo": {"loss_type": "grpo"},
    "dr_grpo": {"loss_type": "dr_grpo"},
    "cispo": {"loss_type": "cispo", "epsilon_high": 5.0},
    "sapo": {"loss_type": "sapo"},
    "luspo": {"loss_type": "luspo", "importance_sampling_level": "sequence"},
    "KL": {"beta": 0.1, "max_steps": 2},  # in the first step the policy is the reference
    "rewards over the step": {"scale_rewards": "batch"},
}
SHARDED_LOSSES = ("dapo", "grpo", "KL")
STEPS = ("ragged", "idle", "dying")
"""The steps of the uneven run: the second process takes more turns; in the first one all episodes end at once; one
episode of the second process dies."""


def rows_of(world_size: int, one_by_one: bool) -> dict[str, Any]:
    """The eight episodes of a step on `world_size` processes, in one micro-batch each or one by one."""
    here = 8 // world_size
    shape = (1, here) if one_by_one else (here, 1)
    return {"per_device_train_batch_size": shape[0], "gradient_accumulation_steps": shape[1]}


def moved(
    checkpoint: Path, workspaces: WorkspaceCache, folder: Path, world_size: int, loss: str, one_by_one: bool = False,
    **more: Any,
) -> tuple[dict[str, torch.Tensor], float]:  # fmt: skip
    """What one step adds to each weight, whole, and the norm of the gradient. The weights on the main process only."""
    trainer = trainer_of(
        RetrieverTrainer, checkpoint, workspaces, folder, **PLAIN_STEP, **LOSSES[loss],
        **rows_of(world_size, one_by_one), **more,
    )  # fmt: skip
    trainer.train()
    after = trainer.accelerator.get_state_dict(trainer.model_wrapped) or {}
    before = weights(checkpoint)
    return {name: after[name].float() - tensor for name, tensor in before.items() if after}, _norm(trainer)


def _norm(trainer: Any) -> float:
    return next(float(row["grad_norm"]) for row in trainer.state.log_history if "grad_norm" in row)


class DyingShell:
    """A shell whose second command fails, as a broken environment does."""

    def __init__(self, spec: EpisodeSpec) -> None:
        assert not callable(spec.shell)
        self._shell = spec.shell
        self._left = 1

    def step(self, calls: Sequence[ToolCall | str]) -> list[Result]:
        """The first turn's results; then an error."""
        if self._left == 0:
            raise OSError("the environment is gone")
        self._left -= 1
        return self._shell.step(calls)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shell, name)


def _no_shell() -> Any:
    raise OSError("no environment to be had")


class Uneven:
    """A real engine over the real policy whose episodes differ by process; one call of `run` is one step of STEPS."""

    environment_s = 0.0
    sampled_tokens = 0

    def __init__(self, policy: Any, rank: int) -> None:
        self._generator = TransformersGenerator(policy, codec().eos_ids, max_rows=8)
        self._rank = rank
        self._steps = iter(STEPS)
        self.turns: list[list[int]] = []

    def run(self, specs: Sequence[EpisodeSpec], until: float | None = None) -> Iterator[Trajectory]:
        """Rewards are made up, so that there is something to learn from."""
        step = next(self._steps)
        turns = 4 if self._rank else 1
        if step == "idle" and self._rank == 0:
            specs = [replace(spec, shell=_no_shell) for spec in specs]
        if step == "dying" and self._rank == 1:
            specs = [replace(s, shell=DyingShell(s)) if s.index == 2 else s for s in specs]  # type: ignore[arg-type]
        limits = RolloutConfig(max_turns=turns, max_response_tokens=6, max_context_tokens=900)
        played = list(RolloutEngine(self._generator, codec(), limits).run(specs, until))
        for trajectory in played:
            if trajectory.reward is not None:
                trajectory.reward = trajectory.index % GROUP / GROUP
        self.turns.append([len(t.turns) for t in sorted(played, key=lambda t: t.index)])
        yield from played


def uneven(
    checkpoint: Path, workspaces: WorkspaceCache, folder: Path, rank: int, asked: Engine, **more: Any
) -> dict[str, Any]:
    """Train the steps of STEPS and tell what this process saw. Raises UserError when another engine is in force."""
    said: list[str] = []
    trainer = trainer_of(
        RetrieverTrainer, checkpoint, workspaces, folder, **rows_of(2, False), **{**more, "max_steps": len(STEPS)}
    )
    engines: list[Uneven] = []

    def make_engine(policy: Any) -> Any:
        engines.append(Uneven(policy, rank))
        return engines[0]

    trainer.rollout_func = RolloutFunction(
        make_engine=make_engine, tasks=world().train[:2], workspaces=workspaces, shell=ShellConfig(caps=Caps(turns=9)),
        seed=0, resample=0, log=trajectory_log(folder, rank),
    )  # fmt: skip
    trainer.add_callback(EngineCheck(trainer, asked, said.append))
    trainer.train()
    state = trainer.accelerator.get_state_dict(trainer.model_wrapped)
    return {
        "said": said,
        "shares": held(trainer.model, trainer.optimizer),
        "deepspeed": trainer.is_deepspeed_enabled,
        "turns": engines[0].turns,
        "log": [row for row in trainer.state.log_history if "reward" in row],
        "sum": sum(float(tensor.double().abs().sum()) for tensor in state.values()) if state else None,
    }


def resumed(checkpoint: Path, workspaces: WorkspaceCache, folder: Path, **more: Any) -> bool:
    """Whether two steps, the second one repeated from the checkpoint after the first, give the same weights again."""
    values = {**rows_of(2, False), **more, "max_steps": 2, "save_strategy": "steps", "save_steps": 1}
    states = []
    for start in (None, str(folder / "out" / "checkpoint-1")):
        trainer = trainer_of(RetrieverTrainer, checkpoint, workspaces, folder, **values)
        trainer.train(resume_from_checkpoint=start)
        states.append(trainer.accelerator.get_state_dict(trainer.model_wrapped) or {})
    return states[0].keys() == states[1].keys() and all(
        torch.equal(t, states[1][name]) for name, t in states[0].items()
    )


def kept_whole(make: Callable[[], Any], rank: int) -> dict[str, Any]:
    """FSDP2 on its own: forward passes, a different number in each process, between gathering and spreading."""
    from torch.distributed.fsdp import fully_shard

    from horma_rl.training.engines import unsharded

    plain, model = make().eval(), make().eval()
    for layer in model.model.layers:
        fully_shard(layer)
    fully_shard(model)
    ids = torch.arange(4, 12)[None]
    spread, _ = held(model, torch.optim.SGD(model.parameters()))
    differs = 0.0
    for _ in range(2):
        with unsharded(model), torch.inference_mode():
            for _ in range(1 + 3 * rank):
                differs = max(differs, float((model(ids).logits - plain(ids).logits).abs().max()))
    loss = model(ids).logits.square().mean()
    loss.backward()
    after, _ = held(model, torch.optim.SGD(model.parameters()))
    return {
        "before": spread,
        "after": after,
        "differs": differs,
        "gradients": all(p.grad is not None for p in model.parameters()),
    }
