"""TRL's GRPO trainer with five changes for multi-turn episodes: all else (loss, advantages, clipping, KL) is TRL's.

1. Log-probabilities are computed for the model's own tokens only; observations, most of an episode, cost no softmax.
2. Micro-batches of one step are formed by length and trimmed, so that little of a batch is padding.
3. A checkpoint counts only once a marker says that it is whole; resume takes the newest whole one.
4. The order of tasks in each pass over them depends on the seed and the pass alone, so that a run resumed in a later
   pass sees the order that it would have seen.
5. A step whose loss or gradient is not finite changes nothing, and every step measures how far the trained policy is
   from the one that sampled the episodes and from the one that training started with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from trl import GRPOTrainer
from trl.trainer import utils as trl_utils
from trl.trainer.utils import RepeatSampler

from horma_rl.training.checkpoints import mark_complete, rotate
from horma_rl.training.guard import SamplerWatch, drop_nonfinite, poisoned
from horma_rl.training.phases import Phases
from horma_rl.training.scoring import by_rows
from horma_rl.training.start_policy import StartPolicy
from horma_rl.training.state import Stateful, read_state, write_state

_PER_TOKEN = ("completion_ids", "completion_mask", "tool_mask", "sampling_per_token_logps", "old_per_token_logps",
              "ref_per_token_logps", "importance_sampling_ratio")  # fmt: skip

START_SHARE = 1 / 8
"""Share of a step's episodes on which `kl_start` is measured."""


class RetrieverTrainer(GRPOTrainer):
    """GRPO on episodes of the memory shell; see the module's text for what differs from TRL."""

    _buffered_inputs: list[dict[str, Any]]
    _scored: torch.Tensor | None = None
    _trained: torch.Tensor
    _own: Sequence[Sequence[int]] = ()
    """Which tokens of the last generation are the model's own, a row a completion."""

    def __init__(self, *args: Any, start_model: Callable[[], Any] | None = None, **others: Any) -> None:
        """As TRL's. `start_model` loads the policy that training starts from, to measure `kl_start`; without it, or
        with TRL's own reference model, that is left out."""
        self._kept: dict[str, Stateful] = {}
        self._watch = SamplerWatch()
        self.phases = Phases(settle=torch.cuda.synchronize if torch.cuda.is_available() else lambda: None)
        super().__init__(*args, **others)
        self._start = StartPolicy(self, start_model) if start_model and self.beta == 0 else None
        self.add_callback(self.phases)
        if self.use_vllm:
            self.vllm_generation.sync_weights = self.phases("sync")(self.vllm_generation.sync_weights)

    def keep(self, name: str, part: Stateful) -> None:
        """Save the state of `part` in every checkpoint, and give it back before the first step of a resumed run."""
        self._kept[name] = part

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        return PassSampler(super()._get_train_sampler(dataset), lambda: int(self.state.epoch or 0))

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        one_update = self.args.steps_per_generation == self.args.gradient_accumulation_steps
        fresh = self._step % (self.args.steps_per_generation * self.num_iterations) == 0
        with self.phases("other") if fresh else nullcontext():
            inputs = super()._prepare_inputs(generation_batch)
        if not (self.model.training and fresh and one_update):
            return inputs
        self._buffered_inputs = by_length(self._buffered_inputs)
        return self._buffered_inputs[self._step % self.args.steps_per_generation]

    def _generate(self, prompts: Any) -> Any:
        generated = super()._generate(prompts)
        self._own = generated[2] or ()
        return generated

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        inputs = trimmed(inputs)
        self.phases.count("update", int(inputs["prompt_mask"].sum() + inputs["completion_mask"].sum()))
        self._scored = inputs.get("tool_mask")
        try:
            loss: torch.Tensor = super()._compute_loss(model, inputs)
            if self.model.training and self._scored is not None:
                self._compare(inputs, self._trained)
        finally:
            self._scored = None
        return poisoned(loss)

    def _compare(self, inputs: dict[str, Any], trained: torch.Tensor) -> None:
        """Count one micro-batch for the step's figures; `trained`: its log-probabilities [B, T]."""
        unknown = torch.full_like(trained, torch.nan)
        start = self._start_logps(inputs)
        self._watch.add(
            trained=trained,
            before=inputs.get("old_per_token_logps", trained),
            sampled=inputs.get("sampling_per_token_logps", unknown),
            start=unknown if start is None else start,
            mask=inputs["completion_mask"] * inputs["tool_mask"],
        )

    def _start_logps(self, inputs: dict[str, Any]) -> torch.Tensor | None:
        """Log-probabilities [B, T] under the policy that training started from, of an eighth of a step's episodes: of
        one micro-batch, another one in each step, or of its first rows; NaN elsewhere. None in other micro-batches."""
        parts = self.args.gradient_accumulation_steps
        if self._start is None or self._step % parts != self.state.global_step % parts:
            return None
        rows = math.ceil(len(inputs["completion_ids"]) * min(1.0, parts * START_SHARE))
        some = {
            name: inputs[name][:rows] for name in ("prompt_ids", "completion_ids", "prompt_mask", "completion_mask")
        }
        ids = torch.cat([some["prompt_ids"], some["completion_ids"]], dim=1)
        attention = torch.cat([some["prompt_mask"], some["completion_mask"]], dim=1)
        self._scored = inputs["tool_mask"][:rows]
        self.phases.count("logprobs", int(attention.sum()))
        with self._start.in_force() as model, self.phases("logprobs"):
            logps, _, _ = self._get_per_token_logps_and_entropies(
                model, ids, attention, some["completion_ids"].shape[1]
            )
        out = torch.full(inputs["completion_ids"].shape, torch.nan, device=logps.device, dtype=logps.dtype)
        out[:rows] = logps
        return out

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        """The gradient's norm, once a step. A gradient that is not finite is dropped here, before the optimiser."""
        norm = super()._get_grad_norm(model, grad_norm=grad_norm)
        figures = self._watch.take(lambda sums: self.accelerator.reduce(sums, reduction="sum"))
        # DeepSpeed steps within the backward pass, and by itself skips where a gradient is not finite.
        dropped = drop_nonfinite(model, norm) or bool(self.accelerator.optimizer_step_was_skipped)
        for name, value in {**figures, "nonfinite": float(dropped)}.items():
            self._metrics["train"][name].append(value)
        return norm

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        compute_aux_loss: bool = False,
        **others: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """Log-probabilities and entropies [B, T] of the completion; 0 where a token is not the model's own."""
        own = self._scored
        if own is None and not compute_aux_loss and not compute_entropy and len(self._own) == len(input_ids):
            forward = partial(self._forward, model)
            self.phases.count("logprobs", int(attention_mask.sum()))
            with self.phases("logprobs"):
                logps = by_rows(forward, input_ids, attention_mask, self._own, logits_to_keep, batch_size)
            self._trained = logps.detach()
            return logps, None, None
        if own is None or compute_aux_loss:
            logps, entropies, aux_loss = super()._get_per_token_logps_and_entropies(
                model,
                input_ids,
                attention_mask,
                logits_to_keep,
                batch_size,
                compute_entropy,
                compute_aux_loss,
                **others,
            )
            self._trained = logps.detach()
            return logps, entropies, aux_loss
        outputs = self._forward(model, input_ids, attention_mask, own)
        entropies = outputs.entropy[:, -logits_to_keep:] if compute_entropy else None
        logps = outputs.log_probs[:, -logits_to_keep:]
        self._trained = logps.detach()
        return logps, entropies, None

    def _forward(self, model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, own: torch.Tensor) -> Any:
        """A forward with `log_probs` and `entropy` [B, P + T] of the completion's tokens that `own` [B, T] marks."""
        labels = input_ids.masked_fill(attention_mask == 0, -100)
        labels[:, : -own.shape[1]] = -100
        labels[:, -own.shape[1] :].masked_fill_(own == 0, -100)
        with self.accelerator.autocast(), _labelled_positions_only():
            return model(input_ids=input_ids, attention_mask=attention_mask, labels=labels, fused_lm_head=True)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """TRL's metrics, and where the time went."""
        if self.model.training:
            logs |= self.phases.take(self.state.global_step)
        super().log(logs, start_time)

    def create_model_card(self, *_: Any, **__: Any) -> None:
        """None: TRL's card of a checkpoint names a model and a data set that this run does not have."""

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        with self.phases("save"):
            self._save_all(model, trial)

    def _save_all(self, model: Any, trial: Any) -> None:
        """Save in every process; then, once all have, the main process lists the files in the marker and removes what
        is not to be kept. Transformers would remove before the new checkpoint is known to be sound."""
        limit, self.args.save_total_limit = self.args.save_total_limit, None
        try:
            super()._save_checkpoint(model, trial)
        finally:
            self.args.save_total_limit = limit
        folder = Path(self.args.output_dir)
        checkpoint = folder / f"checkpoint-{self.state.global_step}"
        self._save_pending(checkpoint)
        if self.args.should_save:
            write_state(checkpoint, self._kept)
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            mark_complete(checkpoint)
            rotate(folder, limit, self.state.best_model_checkpoint)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            self._load_pending(Path(checkpoint))
            read_state(Path(checkpoint), self._kept)

    def _save_pending(self, checkpoint: Path) -> None:
        """Save the episodes of this process that have steps to come: one generation may serve several steps."""
        if self._step % (self.args.steps_per_generation * self.num_iterations):
            pending = {"step": self._step, "batches": self._buffered_inputs}
            torch.save(pending, checkpoint / f"pending_{self.args.process_index}.pt")

    def _load_pending(self, checkpoint: Path) -> None:
        path = checkpoint / f"pending_{self.args.process_index}.pt"
        if path.is_file():
            pending = torch.load(path, map_location=self.accelerator.device, weights_only=True)
            self._step, self._buffered_inputs = pending["step"], pending["batches"]


class PassSampler(RepeatSampler):
    """TRL's sampler `original` with an order that is drawn anew in each pass from the seed and the pass's number.

    TRL's own draws one order after another from one generator, which starts again from the first after a resume.
    """

    def __init__(self, original: RepeatSampler, number: Callable[[], int]) -> None:
        self.__dict__.update(original.__dict__)
        self._number = number

    def __iter__(self) -> Iterator[int]:
        if self.shuffle:
            self.generator.manual_seed(self.seed + self._number())
        return iter(super().__iter__())


@contextmanager
def _labelled_positions_only() -> Iterator[None]:
    """Make TRL's output head leave out positions without a label on every device. By itself it does so on GPUs only;
    on a CPU it computes the softmax of every observation token too, which takes four times as long."""
    original = trl_utils._use_triton
    trl_utils._use_triton = lambda device: True
    try:
        yield
    finally:
        trl_utils._use_triton = original


def trimmed(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """`inputs` without the columns that are padding in every row: left of the prompts, right of the completions."""
    out = dict(inputs)
    longest = max(1, int(inputs["completion_mask"].sum(1).max()))
    for name in _PER_TOKEN:
        value = out.get(name)
        if torch.is_tensor(value) and value.dim() == 2 and value.shape[1] == inputs["completion_ids"].shape[1]:
            out[name] = value[:, :longest]
    prompt = max(1, int(inputs["prompt_mask"].sum(1).max()))
    out["prompt_ids"], out["prompt_mask"] = inputs["prompt_ids"][:, -prompt:], inputs["prompt_mask"][:, -prompt:]
    return out


def by_length(batches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same rows in the same number of batches, sorted by completion length."""
    sizes = [len(batch["completion_ids"]) for batch in batches]
    keys = [key for key, value in batches[0].items() if torch.is_tensor(value) and value.dim() > 0]
    joined = {key: torch.cat([batch[key] for batch in batches]) for key in keys}
    order = joined["completion_mask"].sum(1).argsort(stable=True)
    pieces = torch.split(order, sizes)
    return [
        {**batch, **{key: joined[key][piece] for key in keys}} for batch, piece in zip(batches, pieces, strict=True)
    ]
