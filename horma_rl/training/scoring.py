"""Log-probabilities of a whole generation, a few rows at a time, without padding and for the model's own tokens alone.

TRL takes them once a generation when another engine sampled it. Over all tokens of padded rows that is most of a step:
observations are the larger part of an episode, and the longest episode sets the width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


def by_rows(
    forward: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Any],
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    own: Sequence[Sequence[int]],
    width: int,
    rows: int | None = None,
) -> torch.Tensor:
    """Log-probabilities [B, T] of the completions, T = `width`; 0 where a token is not the model's own.

    `input_ids` and `attention_mask` [B, P + T], prompts padded on the left, completions on the right. `own`: a row of
    ones and zeros a completion. `forward(input_ids [b, p + t], attention_mask [b, p + t], own [b, t])` gives
    `log_probs` [b, p + t]. At most `rows` rows are taken at once, of like lengths together.
    """
    prompts = input_ids.shape[1] - width
    out: torch.Tensor | None = None
    order = attention_mask[:, prompts:].sum(1).argsort(stable=True)
    for some in torch.split(order, rows or len(order)):
        mask = attention_mask[some]
        first = prompts - max(1, int(mask[:, :prompts].sum(1).max()))
        taken = max(1, int(mask[:, prompts:].sum(1).max()))
        marks = torch.zeros(len(some), taken, dtype=torch.long, device=input_ids.device)
        for line, row in enumerate(some.tolist()):
            marks[line, : len(own[row])] = torch.tensor(own[row], device=marks.device)
        columns = slice(first, prompts + taken)
        found = forward(input_ids[some, columns], mask[:, columns], marks).log_probs[:, -taken:]
        if out is None:
            out = found.new_zeros(len(input_ids), width)
        out[some, :taken] = found
    assert out is not None
    return out
