"""What a response may be made of, token by token: masks that are laid on single rows of a batch before sampling.

Training and evaluation use none, and rows without one are sampled from the logits as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch

Array = np.ndarray[Any, Any]


class Constraint(Protocol):
    """The state of one response. Its generator asks and tells it in turn, once for each token."""

    def allowed(self) -> Array:
        """Which ids may come next: bool [N], at least one of them true. Ids from N on may not."""

    def take(self, token: int) -> list[int]:
        """`token` was sampled. Gives back the ids that must follow it, which are taken as they are; often none."""


def masked(logits: torch.Tensor, constraints: Mapping[int, Constraint]) -> torch.Tensor:
    """A copy of `logits` [B, V] in which what the constraint of a line does not allow is -inf."""
    refused = np.zeros(logits.shape, dtype=bool)
    for line, constraint in constraints.items():
        allowed = constraint.allowed()[: logits.shape[1]]
        refused[line] = True
        refused[line, : len(allowed)] = ~allowed
    return logits.masked_fill(torch.from_numpy(refused).to(logits.device), -torch.inf)
