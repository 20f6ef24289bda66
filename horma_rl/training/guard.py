"""What guards the weights and watches the sampler: non-finite numbers never reach the optimiser, and the policy that is
trained is compared with the one that sampled the episodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from horma_rl.errors import UserError

T = TypeVar("T")

_LARGEST = 20.0
"""Differences of log-probabilities are cut at this many nats, beyond which their exponential says no more."""


def poisoned(loss: torch.Tensor) -> torch.Tensor:
    """`loss` itself when it is finite; else a loss whose whole gradient is NaN. A non-finite loss may have a finite
    gradient, which would pass; NaN passes through every way of summing gradients over processes, so all processes
    see it and skip the step together."""
    return loss * torch.where(torch.isfinite(loss.detach()), 1.0, math.nan).to(loss.dtype)


def drop_nonfinite(model: Any, norm: float | torch.Tensor | None) -> bool:
    """Whether the gradient's norm is NaN or infinite; if so the gradients are removed, and an optimiser step then
    changes neither weights nor moments."""
    if norm is None or math.isfinite(float(norm)):
        return False
    model.zero_grad()  # sets them to None, so that the optimiser passes these parameters over
    return True


class SamplerWatch:
    """Sums over the model's own tokens of one step: how the trained policy differs from the one that sampled."""

    def __init__(self) -> None:
        self._sums: torch.Tensor | None = None

    def add(
        self,
        trained: torch.Tensor,
        before: torch.Tensor,
        sampled: torch.Tensor,
        start: torch.Tensor,
        mask: torch.Tensor,
    ) -> None:
        """Count one micro-batch; all tensors are [B, T].

        Args:
            trained: log-probabilities under the weights of this update.
            before: under the weights that the episodes were sampled with, by the trainer's own forward pass.
            sampled: as the sampler reported them; NaN where it reported none.
            start: under the policy that training started from; NaN where it was not measured.
            mask: 1 where a token is the model's own.
        """
        own = mask.bool()
        known = own & torch.isfinite(sampled)
        weight = _cut(trained - sampled).exp().where(known, 0.0)
        gap = _cut(before - sampled).abs().where(known, 0.0)
        measured = own & torch.isfinite(start)
        moved = _cut(trained - start).where(measured, 0.0)
        sums = [known, gap, weight, weight.square(), measured, moved]
        added = torch.stack([part.double().sum() for part in sums])
        self._sums = added if self._sums is None else self._sums + added

    def take(self, total: Callable[[torch.Tensor], torch.Tensor]) -> dict[str, float]:
        """The step's figures, summed over all processes by `total`; the next step begins at zero.

        `logprob_diff`: mean distance of log-probabilities, trainer and sampler, nats a token. `ess`: effective sample
        size of the importance weights as a share of the tokens, (sum w)^2 / (n sum w^2) (Kish 1965). `kl_start`: the
        KL divergence from the start, nats a token, as the mean of log-ratios (k1): TRL's k3 has far larger outliers
        once the policies are apart.
        """
        if self._sums is None:
            return {}
        known, gap, weights, squares, measured, kl = total(self._sums).tolist()
        self._sums = None
        sampler = {"logprob_diff": gap / known, "ess": weights**2 / (known * squares)} if known and squares else {}
        return {**sampler, **({"kl_start": kl / measured} if measured else {})}


def from_main(find: Callable[[], T]) -> T:
    """What `find` returns in the main process, in every process; a UserError there is raised in all of them."""
    if not (dist.is_available() and dist.is_initialized()):
        return find()
    found: list[Any] = [None, None]
    if dist.get_rank() == 0:
        try:
            found[0] = find()
        except UserError as error:
            found[1] = error
    dist.broadcast_object_list(found)
    if found[1] is not None:
        raise found[1]
    result: T = found[0]
    return result


def _cut(difference: torch.Tensor) -> torch.Tensor:
    return torch.nan_to_num(difference).clamp(-_LARGEST, _LARGEST)
