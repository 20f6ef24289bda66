"""Continuous batched decoding with any Hugging Face causal language model, on a CPU or a GPU.

Each episode owns a row of a `SlotCache` from its first request to `release`. A request whose prompt extends what its
row holds feeds only the new ids. Rows decode together, and a row that ends hands its completion back at once while the
others go on. New prompts are fed in batches of their own between decode steps.

Qwen3.5 (hybrid): transformers 5.24 continues a chunk of several tokens from stored convolution and recurrent states,
but padding inside a chunk would decay the recurrent state. So chunks of different lengths are fed without padding: the
first ids of all rows together, up to the shortest, then the rest of the longer ones. A prompt that does not extend
what its row holds is read again from the start, because recurrent states cannot be cut back.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

from horma_rl.errors import UserError
from horma_rl.retrieval.backends.checks import check_request
from horma_rl.retrieval.backends.constraints import Constraint, masked
from horma_rl.retrieval.backends.registers import Registers
from horma_rl.retrieval.backends.slots import SlotCache, Step
from horma_rl.retrieval.types import Completion, Request, Sampling

_STEPS_PER_POLL = 16
_PADDED_TOKENS = 8192


@dataclass
class _Row:
    """An episode's place in the cache. `held`: the ids whose keys are stored. `fresh`: prompt ids still to be fed."""

    episode: int
    index: int
    held: list[int]
    fresh: list[int]
    request: Request | None = None

    @property
    def waiting(self) -> bool:
        return bool(self.fresh)


class TransformersGenerator:
    """A `Generator` over `model`.

    `eos_ids` end a response. `max_rows` bounds the episodes that hold a row at once; more requests wait. The model is
    put in eval mode while it generates and back after; its weights may change between episodes, never within one.
    `prefill_share`: new prompts wait until this share of the rows does, so that they are fed in batches; they never
    wait longer than 8 decode steps.

    Raises UserError for a model whose attention cannot be continued row by row (sliding windows, or an attention
    implementation other than sdpa or eager).
    """

    def __init__(
        self,
        model: Any,
        eos_ids: Sequence[int],
        sampling: Sampling | None = None,
        max_rows: int = 64,
        prefill_share: float = 0.125,
    ) -> None:
        text_config = model.config.get_text_config()
        kinds = set(getattr(text_config, "layer_types", None) or ["full_attention"])
        if not kinds <= {"full_attention", "linear_attention"}:
            raise UserError(f"the transformers backend knows full and linear attention, this model also has {kinds}")
        if text_config._attn_implementation not in ("sdpa", "eager"):
            raise UserError("the transformers backend needs a model loaded with attn_implementation='sdpa' or 'eager'")
        self._model = model
        self._additive_mask = text_config._attn_implementation == "eager"
        self._hybrid = "linear_attention" in kinds
        # An adapter's own forward hides the parameters of the model in it.
        plain = model.get_base_model() if hasattr(model, "get_base_model") else model
        parameters = inspect.signature(plain.forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"
        self._max_rows = max_rows
        self._share = prefill_share
        self._device = next(model.parameters()).device
        self._cache = SlotCache()
        self._rows: list[_Row] = []
        self._by_episode: dict[int, _Row] = {}
        self._queue: dict[int, Request] = {}
        self._constraints: dict[int, Constraint] = {}
        self._waited = 0
        self._registers = Registers(eos_ids, sampling or Sampling(), self._device)

    def submit(self, request: Request, constraint: Constraint | None = None) -> None:
        """Queue `request`, whose response keeps to `constraint`: its log-probabilities are then those of the masked
        distribution. Raises ValueError for an empty prompt, no room to answer, or an episode already busy."""
        row = self._by_episode.get(request.episode)
        check_request(request, busy=request.episode in self._queue or (row is not None and row.request is not None))
        self._queue[request.episode] = request
        if constraint is not None:
            self._constraints[request.episode] = constraint

    @property
    def model(self) -> Any:
        """The model that decodes."""
        return self._model

    @property
    def pending(self) -> int:
        """Requests queued or being decoded."""
        return len(self._queue) + sum(row.request is not None for row in self._rows)

    def release(self, episode: int) -> None:
        """Forget `episode`: its row, and any request of it that is queued or in flight."""
        self._queue.pop(episode, None)
        self._constraints.pop(episode, None)
        row = self._by_episode.pop(episode, None)
        if row is None:
            return
        last = self._rows.pop()
        if last is not row:
            # Rows stay packed at the front, so that decoding works on views and never on finished rows.
            with torch.inference_mode():
                self._cache.move(last.index, row.index)
                self._registers.move(last.index, row.index)
            last.index = row.index
            self._rows[row.index] = last
        if not self._rows:
            self._cache.clear()

    def poll(self) -> list[Completion]:
        """Advance by at least one token and give back what finished; returns after at most 16 steps."""
        finished: list[Completion] = []
        with _evaluating(self._model), torch.inference_mode():
            self._admit()
            for _ in range(_STEPS_PER_POLL):
                if finished or not any(row.request for row in self._rows):
                    break
                waiting = [row for row in self._rows if row.waiting]
                decoding = any(row.request and not row.waiting for row in self._rows)
                enough = len(waiting) >= self._share * len(self._rows) or self._waited >= 8
                if waiting and (enough or not decoding):
                    self._waited = 0
                    finished = self._prefill(waiting)
                else:
                    self._waited += bool(waiting)
                    finished = self._decode()
        return finished

    # Rows ----------------------------------------------------------------------------------------------------------

    def _admit(self) -> None:
        """Give queued requests their rows, in order, while there are rows."""
        for episode, request in list(self._queue.items()):
            row = self._by_episode.get(episode) or self._new_row(episode)
            if row is not None:
                del self._queue[episode]
                self._begin(row, request)

    def _new_row(self, episode: int) -> _Row | None:
        if len(self._rows) >= self._max_rows:
            return None
        row = _Row(episode, len(self._rows), [], [])
        self._rows.append(row)
        self._by_episode[episode] = row
        self._cache.reserve(len(self._rows), 1)
        self._cache.reset_row(row.index)
        return row

    def _begin(self, row: _Row, request: Request) -> None:
        prompt = list(request.prompt_ids)
        # At least one id is fed: its logits start the response.
        shared = min(len(row.held), len(prompt) - 1)
        if row.held[:shared] != prompt[:shared]:
            shared = next(i for i in range(shared) if row.held[i] != prompt[i])
        if self._hybrid and shared != len(row.held):
            shared = 0
            self._cache.reset_row(row.index)
        row.held, row.fresh, row.request = prompt[:shared], prompt[shared:], request
        self._registers.begin(row.index, request, len(row.held))

    # Forward passes ----------------------------------------------------------------------------------------------

    def _prefill(self, rows: list[_Row]) -> list[Completion]:
        """Feed the waiting prompts and sample the first token of each response."""
        finished: list[Completion] = []
        for group in self._groups(rows):
            logits = self._feed_together(group) if not self._hybrid else self._feed_unpadded(group)
            for row in group:
                row.held += row.fresh
                row.fresh = []
                self._registers.start(row.index, len(row.held))
            finished += self._sample(group, logits)
        return finished

    def _groups(self, rows: list[_Row]) -> Iterator[list[_Row]]:
        """Rows of like lengths together: little padding, and no forward larger than a fixed number of tokens."""
        group: list[_Row] = []
        for row in sorted(rows, key=lambda row: len(row.fresh)):
            padded = (len(group) + 1) * len(row.fresh)
            wasteful = padded > 256 and group and len(row.fresh) > 2 * len(group[0].fresh)
            if group and (padded > _PADDED_TOKENS or wasteful):
                yield group
                group = []
            group.append(row)
        yield group

    def _feed_together(self, group: list[_Row]) -> torch.Tensor:
        """One forward, padded on the left so that every row's last token is in the last column. Logits [B, V]."""
        width = max(len(row.fresh) for row in group)
        ids = np.zeros((len(group), width), dtype=np.int64)
        positions = np.full((len(group), width), -1, dtype=np.int64)
        for line, row in enumerate(group):
            pad = width - len(row.fresh)
            ids[line, pad:] = row.fresh
            positions[line, pad:] = np.arange(len(row.held), len(row.held) + len(row.fresh))
        return self._forward([row.index for row in group], ids, positions)

    def _feed_unpadded(self, group: list[_Row]) -> torch.Tensor:
        """Forwards of equal-length chunks: all rows up to the shortest, then what is left of the longer ones."""
        left = sorted(group, key=lambda row: len(row.fresh))
        logits: dict[int, torch.Tensor] = {}
        fed = 0
        while left:
            upto = len(left[0].fresh)
            ids = np.array([row.fresh[fed:upto] for row in left], dtype=np.int64)
            first = np.array([[len(row.held) + fed] for row in left], dtype=np.int64)
            out = self._forward([row.index for row in left], ids, first + np.arange(upto - fed))
            logits.update((row.index, out[line]) for line, row in enumerate(left) if len(row.fresh) == upto)
            left = [row for row in left if len(row.fresh) > upto]
            fed = upto
        return torch.stack([logits[row.index] for row in group])

    def _decode(self) -> list[Completion]:
        """Feed each running row's last token and sample the next."""
        # A row between two turns may be computed along: what it writes is overwritten when its next chunk comes. Not so
        # for recurrent states, where only running rows may take part.
        running = [row for row in self._rows if row.request and not row.waiting]
        rows = running if self._hybrid else self._rows
        ids, positions = self._registers.feed(np.array([row.index for row in rows]))
        return self._sample(rows, self._forward([row.index for row in rows], ids, positions))

    def _forward(self, rows: list[int], ids: Any, positions: Any) -> torch.Tensor:
        """Logits [B, V] of the last column for `ids` [B, Q] at `positions` [B, Q] (-1: padding) of these rows."""
        device = self._device
        span = int(positions.max()) + 1
        self._cache.reserve(len(self._rows), span)
        tokens = torch.as_tensor(ids, device=device)
        at = torch.as_tensor(positions, device=device)
        leading = rows == list(range(len(rows)))
        self._cache.step = Step(torch.tensor(rows, device=device), at, span, leading)
        places = at.clamp(min=0)
        mask = torch.arange(span, device=device)[None, None, None, :] <= places[:, None, :, None]
        out = self._model(
            input_ids=tokens,
            position_ids=places,
            attention_mask=self._float_mask(mask) if self._additive_mask else mask,
            use_cache=True,
            logits_to_keep=1,
            **{self._cache_name: self._cache},
        )
        self._cache.commit()
        logits: torch.Tensor = out.logits[:, -1]
        return logits

    def _float_mask(self, mask: torch.Tensor) -> torch.Tensor:
        dtype = self._model.dtype
        return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, torch.finfo(dtype).min)

    def _sample(self, rows: list[_Row], logits: torch.Tensor) -> list[Completion]:
        """Draw a token for every row and collect the rows that end with it."""
        bound = self._bound(rows) if self._constraints else {}
        if bound:
            logits = masked(logits, bound)
        ended, at_end = self._registers.record(np.array([row.index for row in rows]), logits)
        finished = [self._finish(rows[line], bool(at_end[line])) for line in ended.nonzero()[0]]
        for line, constraint in bound.items():
            if not ended[line] and self._went_on(rows[line], constraint):
                finished.append(self._finish(rows[line], sampled_end=False))
        return finished

    def _went_on(self, row: _Row, constraint: Constraint) -> bool:
        """Tell the row's constraint of the last token, and queue what must follow it as a chunk to be fed. Returns
        whether the response ends there, at its cap."""
        assert row.request is not None
        written = self._registers.written(row.index)
        forced = constraint.take(written[-1])
        if not forced:
            return False
        if self._registers.force(row.index, forced):
            return True
        row.held = [*row.request.prompt_ids, *written[:-1]]
        row.fresh = [written[-1], *forced]
        return False

    def _bound(self, rows: list[_Row]) -> dict[int, Constraint]:
        """The constraints of those of `rows` that are answering, by their line."""
        answering = ((line, row.episode) for line, row in enumerate(rows) if row.request and not row.waiting)
        return {line: self._constraints[episode] for line, episode in answering if episode in self._constraints}

    def _finish(self, row: _Row, sampled_end: bool) -> Completion:
        tokens, logprobs = self._registers.collect(row.index)
        assert row.request is not None
        # The last token was sampled but never fed, so its keys are not there.
        row.held = [*row.request.prompt_ids, *tokens][: self._registers.length(row.index)]
        row.request = None
        self._constraints.pop(row.episode, None)
        return Completion(row.episode, tuple(tokens), tuple(logprobs), sampled_end)


def load_model(folder: Path, device: str = "auto") -> Any:
    """The model of a checkpoint folder, ready to generate. `device` `auto` is a GPU when there is one.

    Raises UserError when it cannot be loaded, or when there is no such device.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    _check_device(device)
    disable_progress_bar()
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype="auto", attn_implementation="sdpa")
    except (OSError, ValueError) as error:
        raise UserError(f"{folder} cannot be loaded: {' '.join(str(error).split())[:300]}") from None
    return model.to(device).eval()


def _check_device(device: str) -> None:
    try:
        torch.empty(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        told = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise UserError(
            f"device '{device}' cannot be used: {told}; take auto, cpu, or cuda where there is one"
        ) from None


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """The model in eval mode (no dropout, no gradient checkpointing), then back as it was."""
    training = [module for module in model.modules() if module.training] if model.training else []
    if training:
        model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
