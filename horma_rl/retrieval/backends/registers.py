"""What a decode loop must remember of each row between two tokens, as arrays, so that no step loops over rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from horma_rl.retrieval.backends.sampling import draw, uniforms
from horma_rl.retrieval.types import Request, Sampling

Array = np.ndarray[Any, Any]


class Registers:
    """Per-row state [R] and per-row records [R, N + 1], N being the largest number of tokens asked for so far.

    They live on the host: a step sends each row's id, position and random number to the device and fetches the token
    and its log-probability, one small transfer each way.
    """

    def __init__(self, eos_ids: Sequence[int], sampling: Sampling, device: torch.device) -> None:
        self._eos = np.array(sorted(set(eos_ids)), dtype=np.int64)
        self._sampling = sampling
        self._device = device
        self._token = np.zeros(0, dtype=np.int64)
        self._length = np.zeros(0, dtype=np.int64)
        self._count = np.zeros(0, dtype=np.int64)
        self._limit = np.zeros(0, dtype=np.int64)
        self._running = np.zeros(0, dtype=bool)
        self._noise = np.zeros((0, 0))
        self._tokens = np.zeros((0, 0), dtype=np.int64)
        self._logprobs = np.zeros((0, 0))

    def reserve(self, rows: int, tokens: int) -> None:
        """Make room for `rows` rows that may generate `tokens` tokens each."""
        have, wide = self._noise.shape
        if rows <= have and tokens + 1 <= wide:
            return
        shape = (max(have, rows if rows <= have else 2 * rows), max(wide, tokens + 1))
        for name in ("_token", "_length", "_count", "_limit", "_running"):
            setattr(self, name, _enlarged(getattr(self, name), shape[:1]))
        for name in ("_noise", "_tokens", "_logprobs"):
            setattr(self, name, _enlarged(getattr(self, name), shape))

    def begin(self, row: int, request: Request, held: int) -> None:
        """A request takes `row`, whose cache holds `held` ids; it does not run before `start`."""
        self.reserve(row + 1, request.max_tokens)
        self._noise[row, : request.max_tokens] = uniforms(request.seed, request.max_tokens)
        self._count[row], self._limit[row], self._length[row], self._running[row] = 0, request.max_tokens, held, False

    def start(self, row: int, length: int) -> None:
        """The row's prompt is in the cache, `length` ids with what was there before."""
        self._length[row], self._running[row] = length, True

    def move(self, source: int, target: int) -> None:
        """Copy row `source` over row `target`."""
        for name in ("_token", "_length", "_count", "_limit", "_running", "_noise", "_tokens", "_logprobs"):
            getattr(self, name)[target] = getattr(self, name)[source]

    def feed(self, rows: Array) -> tuple[Array, Array]:
        """The ids [B, 1] to feed to `rows` and their positions [B, 1]; running rows move on by one."""
        ids, positions = self._token[rows, None], self._length[rows, None]
        self._length[rows] += self._running[rows]
        return ids, positions

    def record(self, rows: Array, logits: torch.Tensor) -> tuple[Array, Array]:
        """Draw a token for each of `rows` from `logits` [B, V].

        Returns which rows ended with it [B], and which of these by an end token [B]. Rows that are not running take
        part without effect.
        """
        count = self._count[rows]
        noise = torch.from_numpy(self._noise[rows, count]).to(self._device)
        drawn, logprobs = draw(logits, noise, self._sampling)
        tokens = drawn.cpu().numpy()
        self._tokens[rows, count] = tokens
        self._logprobs[rows, count] = logprobs.cpu().numpy()
        self._token[rows] = tokens
        running = self._running[rows]
        self._count[rows] = count + running
        at_end = np.isin(tokens, self._eos)
        ended = running & (at_end | (self._count[rows] >= self._limit[rows]))
        return ended, at_end

    def written(self, row: int) -> list[int]:
        """The tokens of `row` so far."""
        tokens: list[int] = self._tokens[row, : self._count[row]].tolist()
        return tokens

    def force(self, row: int, tokens: Sequence[int]) -> bool:
        """Take `tokens` as if they had been drawn, with certainty, as far as the row may go; it does not run before
        `start`. Returns whether that was its end."""
        start, stop = int(self._count[row]), min(int(self._count[row]) + len(tokens), int(self._limit[row]))
        self._tokens[row, start:stop] = tokens[: stop - start]
        self._logprobs[row, start:stop] = 0.0
        self._count[row], self._running[row] = stop, False
        return stop >= int(self._limit[row])

    def length(self, row: int) -> int:
        """How many ids of `row` are in the cache."""
        return int(self._length[row])

    def collect(self, row: int) -> tuple[list[int], list[float]]:
        """The tokens of a row that ended, and their log-probabilities; the row stops running."""
        count = int(self._count[row])
        self._running[row] = False
        return self._tokens[row, :count].tolist(), self._logprobs[row, :count].tolist()


def _enlarged(old: Array, shape: tuple[int, ...]) -> Array:
    new = np.zeros(shape, dtype=old.dtype)
    new[tuple(slice(0, size) for size in old.shape)] = old
    return new
