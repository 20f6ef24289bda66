"""A NaN in the loss of one of two processes, for the test of several processes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback
from trl import GRPOTrainer

from horma_rl.training.trainer import RetrieverTrainer
from memory_shell.cache import WorkspaceCache
from tests.trainer_parts import trainer_of


class WholeWeights(TrainerCallback):
    """Keeps all weights after each step, on the main process."""

    def __init__(self) -> None:
        self.trainer: Any = None
        self.after: list[dict[str, torch.Tensor]] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        whole = self.trainer.accelerator.get_state_dict(self.trainer.model_wrapped) or {}
        self.after.append({name: tensor.detach().float().clone() for name, tensor in whole.items()})


def nan_on_one(checkpoint: Path, workspaces: WorkspaceCache, folder: Path, rank: int, **more: Any) -> dict[str, Any]:
    """Three steps of two micro-batches; in the second step the second process's loss has a NaN added, whose own
    gradient is finite. Tells `nonfinite` of each step, and whether steps 2 and 3 moved a weight (main process)."""
    original, kept = GRPOTrainer._compute_loss, WholeWeights()

    def spoilt(trainer: Any, *args: Any) -> torch.Tensor:
        loss: torch.Tensor = original(trainer, *args)
        return loss + (math.nan if rank == 1 and trainer._step == 2 else 0.0)

    GRPOTrainer._compute_loss = spoilt
    try:
        trainer = kept.trainer = trainer_of(
            RetrieverTrainer, checkpoint, workspaces, folder, callbacks=[kept], max_steps=3, weight_decay=0.1,
            per_device_train_batch_size=2, gradient_accumulation_steps=2, max_grad_norm=0.5, **more,
        )  # fmt: skip
        trainer.train()
    finally:
        GRPOTrainer._compute_loss = original
    return {
        "nonfinite": [row["nonfinite"] for row in trainer.state.log_history if "nonfinite" in row],
        "moved": [
            any(not torch.equal(tensor, after[name]) for name, tensor in before.items())
            for before, after in zip(kept.after, kept.after[1:], strict=False)
        ],
        "finite": all(bool(tensor.isfinite().all()) for after in kept.after for tensor in after.values()),
    }
