"""Supervised warm start on expert episodes: one model, one stream of examples, loss on the model's own tokens.

Two things matter for a small model and cost a large one nothing. The loss weighs the arguments of a call (words to
copy, turn ids) above its fixed parts, which are learned in a minute. And at first the softmax is taken over the tokens
that occur in the batch: copying is then learned many times faster than against the whole vocabulary.
"""

from __future__ import annotations

import json
import math
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from horma_rl.training.corpus import Example
from horma_rl.training.sft_config import SftConfig

POOL = 12
"""Batches drawn together and sorted by length, so that little of a batch is padding."""


class Batches:
    """Batches of at most `tokens` tokens, from `examples` sorted by length within a pool of some batches."""

    def __init__(self, examples: Iterator[Example], tokens: int, rng: random.Random) -> None:
        self._examples = examples
        self._tokens = tokens
        self._rng = rng
        self._ready: list[list[Example]] = []

    def __next__(self) -> list[Example]:
        if not self._ready:
            self._fill()
        return self._ready.pop()

    def _fill(self) -> None:
        drawn: list[Example] = []
        while sum(len(example.ids) for example in drawn) < POOL * self._tokens:
            drawn.append(next(self._examples))
        batch: list[Example] = []
        for example in sorted(drawn, key=lambda e: len(e.ids)):
            if batch and len(example.ids) * (len(batch) + 1) > self._tokens:
                self._ready.append(batch)
                batch = []
            batch.append(example)
        self._ready.append(batch)
        self._rng.shuffle(self._ready)


def token_weights(tokenizer: Any, config: SftConfig) -> torch.Tensor:
    """Loss weight per vocabulary entry [V]: turn ids, words (pieces of an argument), fixed parts."""
    weights = torch.full((len(tokenizer),), config.fixed_weight)
    for token, i in tokenizer.get_vocab().items():
        if re.fullmatch(r"D\d+:\d+", token):
            weights[i] = config.id_weight
        elif re.fullmatch(r"\W?[A-Za-z0-9']{2,}", token):
            weights[i] = config.word_weight
    return weights


def collate(examples: Sequence[Example], pad: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Right-padded ids, attention mask and loss mask, each [B, T]."""
    longest = max(len(example.ids) for example in examples)
    ids = torch.full((len(examples), longest), pad)
    attention = torch.zeros_like(ids)
    loss = torch.zeros(ids.shape, dtype=torch.bool)
    for row, example in enumerate(examples):
        n = len(example.ids)
        ids[row, :n] = torch.tensor(example.ids)
        attention[row, :n] = 1
        loss[row, :n] = torch.tensor(example.mask, dtype=torch.bool)
    return ids, attention, loss


def sft_loss(
    model: Any, batch: Sequence[Example], pad: int, weights: torch.Tensor, restricted: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Weighted mean cross-entropy of the model's own tokens; also, per such token, its id and whether it is the
    greedy choice (both [N])."""
    ids, attention, mask = (tensor.to(model.device) for tensor in collate(batch, pad))
    hidden = model.model(input_ids=ids, attention_mask=attention).last_hidden_state[:, :-1]
    chosen = mask[:, 1:]
    hidden, target = hidden[chosen], ids[:, 1:][chosen]
    head = model.get_output_embeddings().weight
    labels = target
    if restricted:
        candidates = torch.unique(ids)
        head, labels = head[candidates], torch.searchsorted(candidates, target)
    logits = hidden @ head.T
    losses = nn.functional.cross_entropy(logits, labels, reduction="none")
    weight = weights[target]
    return (losses * weight).sum() / weight.sum(), target, logits.detach().argmax(-1) == labels


def rate(config: SftConfig, progress: float, step: int) -> float:
    """Learning rate at `progress` in [0, 1] of the run."""
    warm = min(1.0, (step + 1) / max(1, config.warmup_steps))
    return config.learning_rate * warm * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))


class _Meter:
    """Counts what training saw and writes one log line per window of steps."""

    def __init__(
        self, config: SftConfig, weights: torch.Tensor, log: Path, report: Callable[[str], None], every: int
    ) -> None:
        self._config = config
        self._weights = weights
        self._log = log
        self._report = report
        self._every = every
        self._started = time.monotonic()
        self._tokens = 0
        self._window: list[tuple[float, float, float]] = []
        self.row: dict[str, Any] = {}

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def add(
        self, step: int, batch: Sequence[Example], loss: torch.Tensor, target: torch.Tensor, right: torch.Tensor
    ) -> None:
        """Take one step's results; the window's line is written when `step` (1-based) ends it."""
        kinds = self._weights[target]
        words = _share(right, kinds == self._config.word_weight)
        ids = _share(right, kinds == self._config.id_weight)
        self._window.append((float(loss.detach()), words, ids))
        self._tokens += sum(len(example.ids) for example in batch)
        if step % self._every == 0 or step == self._config.steps:
            self._write(step)

    def _write(self, step: int) -> None:
        elapsed = self.elapsed
        loss, words, ids = (sum(column) / len(self._window) for column in zip(*self._window, strict=True))
        self._window.clear()
        self.row = {
            "step": step, "loss": round(loss, 4), "word_accuracy": round(words, 4), "id_accuracy": round(ids, 4),
            "tokens": self._tokens, "wall_s": round(elapsed, 1),
        }  # fmt: skip
        with self._log.open("a", encoding="utf-8") as out:
            out.write(json.dumps(self.row) + "\n")
        self._report(
            f"sft {step}/{self._config.steps}  loss {loss:.3f}  words {words:.2f}  ids {ids:.2f}  "
            f"{self._tokens / elapsed:,.0f} tokens/s  {elapsed / 60:.1f} min"
        )


def train_sft(
    model: Any,
    tokenizer: Any,
    examples: Iterator[Example],
    config: SftConfig,
    *,
    seed: int,
    log: Path,
    report: Callable[[str], None] = lambda line: None,
    every: int = 50,
) -> dict[str, Any]:
    """Train `model` in place, on the GPU where there is one. A JSON line every `every` steps goes to `log`, a readable
    one to `report`. Gives the last line's values."""
    if torch.cuda.is_available():
        model.to("cuda")
    weights = token_weights(tokenizer, config).to(model.device)
    batches = Batches(examples, config.tokens_per_step, random.Random(seed))
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay, betas=(0.9, 0.98)
    )
    model.train()
    meter = _Meter(config, weights, log, report, every)
    for step in range(config.steps):
        progress = _progress(config, step, meter.elapsed)
        if progress >= 1:
            break
        for group in optimiser.param_groups:
            group["lr"] = rate(config, progress, step)
        batch = next(batches)
        restricted = progress < config.restricted_share
        loss, target, right = sft_loss(model, batch, tokenizer.pad_token_id, weights, restricted)
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        meter.add(step + 1, batch, loss, target, right)
    model.eval()
    return meter.row


def _progress(config: SftConfig, step: int, elapsed: float) -> float:
    """How much of the run is over, by steps or by time, whichever is further."""
    by_steps = step / config.steps
    return by_steps if config.max_minutes is None else max(by_steps, elapsed / 60 / config.max_minutes)


def _share(right: torch.Tensor, where: torch.Tensor) -> float:
    return float(right[where].float().mean()) if bool(where.any()) else 0.0
