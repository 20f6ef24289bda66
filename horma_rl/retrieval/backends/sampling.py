"""Drawing tokens so that a request's tokens depend on its seed and its logits, never on what else is in the batch."""

from __future__ import annotations

import numpy as np
import torch

from horma_rl.retrieval.types import Sampling


def uniforms(seed: int, count: int) -> np.ndarray:
    """`count` numbers in [0, 1), float64: entry i belongs to the i-th token of the request with this seed.

    Philox is counter-based, so that every (seed, position) has its own number whatever else was drawn.
    """
    return np.random.Generator(np.random.Philox(key=seed % 2**64)).random(count)


def draw(logits: torch.Tensor, noise: torch.Tensor, sampling: Sampling) -> tuple[torch.Tensor, torch.Tensor]:
    """Sample one token per row by inverting the cumulative distribution at `noise`.

    `logits` [B, V]; `noise` [B] float64 in [0, 1). Returns tokens [B] and, float32, their log-probabilities [B] under
    the distribution they were drawn from: temperature, then top_k, then top_p. With temperature 0 the most likely token
    is taken, and its log-probability is the one at temperature 1.
    """
    scores = logits.float()
    if sampling.temperature > 0 and sampling.temperature != 1:
        scores = scores / sampling.temperature
    scores = _truncate(scores, sampling)
    logprobs = torch.log_softmax(scores, dim=-1)
    if sampling.temperature == 0:
        tokens = logprobs.argmax(dim=-1, keepdim=True)
    else:
        cumulative = logprobs.exp().cumsum(dim=-1, dtype=torch.float64)
        # The total differs from 1 by rounding. `right` skips tokens of probability 0, whose steps have no width.
        target = noise[:, None] * cumulative[:, -1:]
        tokens = torch.searchsorted(cumulative, target, right=True).clamp_(max=logits.shape[-1] - 1)
    return tokens.squeeze(1), logprobs.gather(1, tokens).squeeze(1)


def _truncate(scores: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    if sampling.temperature == 0:
        return scores
    if 0 < sampling.top_k < scores.shape[-1]:
        kept = scores.topk(sampling.top_k, dim=-1).values[:, -1:]
        scores = scores.masked_fill(scores < kept, -torch.inf)
    if sampling.top_p < 1:
        ordered, order = scores.sort(dim=-1, descending=True)
        mass = ordered.softmax(dim=-1)
        # A token stays while the mass before it is under top_p, so the most likely one always does.
        dropped = (mass.cumsum(dim=-1) - mass) >= sampling.top_p
        scores = scores.masked_fill(dropped.scatter(1, order, dropped), -torch.inf)
    return scores
