"""The policy that training started from, kept to measure how far the trained one has moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelerate.utils import is_peft_model
from trl.models import prepare_deepspeed, prepare_fsdp
from trl.models.utils import disable_gradient_checkpointing
from trl.trainer.utils import add_fused_lm_head, use_adapter


class StartPolicy:
    """A frozen copy of the model, spread over the processes as TRL spreads a reference model. With adapters there is no
    copy: the model without them is the start."""

    def __init__(self, trainer: Any, load: Callable[[], Any]) -> None:
        self._trainer = trainer
        self._copy = None if is_peft_model(trainer.model) else self._prepared(load())

    @contextmanager
    def in_force(self) -> Iterator[Any]:
        """The model to call, without gradients."""
        trainer = self._trainer
        with torch.no_grad():
            if self._copy is not None:
                yield self._copy
                return
            with (
                use_adapter(trainer.accelerator.unwrap_model(trainer.model), None),
                disable_gradient_checkpointing(trainer.model, trainer.args.gradient_checkpointing_kwargs),
            ):
                yield trainer.model

    def _prepared(self, model: Any) -> Any:
        trainer, accelerator = self._trainer, self._trainer.accelerator
        model.eval()
        add_fused_lm_head(
            model, temperature=trainer.temperature, cast_lm_head_to_fp32=trainer.args.cast_lm_head_to_fp32
        )
        if trainer.is_deepspeed_enabled:
            return prepare_deepspeed(model, accelerator)
        if trainer.is_fsdp_enabled:
            return prepare_fsdp(model, accelerator)
        return accelerator.prepare_model(model, evaluation_mode=True)
