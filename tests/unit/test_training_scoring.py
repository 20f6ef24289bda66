"""Scoring a generation by rows gives what one padded forward gives, on the model's own tokens."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from horma_rl.training.scoring import by_rows
from tests.rollout_parts import tiny_qwen3

PROMPTS, COMPLETIONS = (3, 7, 5, 4), (12, 1, 30, 7)


def batch() -> tuple[torch.Tensor, torch.Tensor, list[list[int]]]:
    """Four episodes, prompts padded on the left and completions on the right, as TRL pads them."""
    generator = torch.Generator().manual_seed(0)
    width, length = max(PROMPTS), max(COMPLETIONS)
    ids = torch.randint(2, 300, (4, width + length), generator=generator)
    mask = torch.zeros_like(ids)
    own = []
    for row, (prompt, completion) in enumerate(zip(PROMPTS, COMPLETIONS, strict=True)):
        mask[row, width - prompt : width + completion] = 1
        own.append((torch.rand(completion, generator=generator) < 0.4).long().tolist())
    return ids, mask, own


@pytest.mark.parametrize("rows", [None, 1, 3])
def test_by_rows_equals_one_padded_forward(rows: int | None) -> None:
    model = tiny_qwen3()
    ids, mask, own = batch()
    width = max(COMPLETIONS)
    shapes = []

    def forward(some: torch.Tensor, attention: torch.Tensor, marks: torch.Tensor) -> SimpleNamespace:
        shapes.append(tuple(some.shape))
        assert marks.shape[0] == some.shape[0]
        with torch.no_grad():
            logits = model(input_ids=some, attention_mask=attention).logits.log_softmax(-1)
        found = torch.zeros(some.shape)
        found[:, 1:] = logits[:, :-1].gather(2, some[:, 1:, None])[..., 0]
        found[:, -marks.shape[1] :] *= marks
        return SimpleNamespace(log_probs=found)

    found = by_rows(forward, ids, mask, own, width, rows)
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=mask).logits.log_softmax(-1)
    plain = logits[:, -width - 1 : -1].gather(2, ids[:, -width:, None])[..., 0]
    for row, marks in enumerate(own):
        expected = plain[row, : len(marks)] * torch.tensor(marks)
        assert found[row, : len(marks)].tolist() == pytest.approx(expected.tolist(), abs=2e-5)
        assert not found[row, len(marks) :].any()
    assert sum(shape[0] for shape in shapes) == 4
    if rows == 1:
        assert shapes == [(1, 8), (1, 11), (1, 15), (1, 35)], "shortest first, and no padding"
