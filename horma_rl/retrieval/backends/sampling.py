"""Drawing tokens so that a request's tokens depend on its seed and its logits, never on what else is in the batch."""

from __future__ import annotations

import numpy as np
import torch

from horma_rl.retrieval.types import Sampling

_BLOCK = 128


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
    best = scores.amax(dim=-1, keepdim=True)
    weights = _weights(scores, best)
    masses = weights.sum(dim=-1, dtype=torch.float64).cumsum(dim=-1)
    if sampling.temperature == 0:
        tokens = scores.argmax(dim=-1, keepdim=True)
    else:
        tokens = _invert(weights, masses, noise[:, None])
    logprobs = scores.gather(1, tokens) - best - masses[:, -1:].log().float()
    return tokens.squeeze(1), logprobs.squeeze(1)


def _weights(scores: torch.Tensor, best: torch.Tensor) -> torch.Tensor:
    """exp(scores - best) in blocks [B, N, 128], the last one filled up with zeros."""
    batch, vocabulary = scores.shape
    count = -(-vocabulary // _BLOCK)
    weights = scores.new_zeros(batch, count * _BLOCK)
    weights[:, :vocabulary] = (scores - best).exp_()
    return weights.view(batch, count, _BLOCK)


def _invert(weights: torch.Tensor, masses: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """The token [B, 1] at which the cumulative weight passes `noise` [B, 1] of its total.

    First the block, then the token in it: summing the whole vocabulary up only by blocks takes a fraction of the time
    of a cumulative sum over it. `masses` [B, N]: cumulative block sums.
    """
    block, before = _step(masses, noise * masses[:, -1:])
    inside = weights[torch.arange(len(weights), device=weights.device), block[:, 0]].cumsum(dim=-1, dtype=torch.float64)
    token, _ = _step(inside, noise * masses[:, -1:] - before)
    return block * _BLOCK + token


def _step(cumulative: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The entry [B, 1] of `cumulative` [B, N] that `target` [B, 1] falls in, and what is summed up before it.

    `right` passes over entries of weight 0, which have no width; rounding must not carry the target past the end.
    """
    end = torch.nextafter(cumulative[:, -1:], torch.zeros_like(target))
    entry = torch.searchsorted(cumulative, torch.minimum(target, end), right=True)
    before = cumulative.gather(1, (entry - 1).clamp(min=0))
    return entry, before.masked_fill_(entry == 0, 0)


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
