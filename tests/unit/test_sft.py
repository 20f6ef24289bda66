"""The warm start: its loss against one computed by hand, its batches, and that a small model learns from it."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from horma_rl.training.corpus import Example
from horma_rl.training.sft import POOL, Batches, collate, rate, sft_loss, token_weights, train_sft
from horma_rl.training.sft_config import SftConfig
from tests.training_parts import examples, memory, tiny_model, tokenizer


def random_examples(count: int, seed: int = 0, longest: int = 40) -> list[Example]:
    """Sequences of any tokens with spans of the model's own; the first token is never the model's."""
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        n = rng.randint(4, longest)
        mask = [0, *(int(rng.random() < 0.4) for _ in range(n - 2)), 1]
        made.append(Example([rng.randrange(4, 2600) for _ in range(n)], mask))
    return made


PAD = tokenizer().pad_token_id
WEIGHTS = token_weights(tokenizer(), SftConfig())


def by_hand(model: torch.nn.Module, batch: list[Example], candidates: list[int] | None) -> torch.Tensor:
    """The weighted mean of -log p over the model's own tokens, one sequence and one token at a time."""
    total, weight = torch.zeros(()), 0.0
    for example in batch:
        logits = model(input_ids=torch.tensor([example.ids])).logits[0]
        for place in range(1, len(example.ids)):
            if example.mask[place]:
                row = logits[place - 1] if candidates is None else logits[place - 1][candidates]
                target = example.ids[place] if candidates is None else candidates.index(example.ids[place])
                w = float(WEIGHTS[example.ids[place]])
                total = total - w * (row[target] - torch.logsumexp(row, 0))
                weight += w
    return total / weight


@pytest.mark.parametrize("restricted", [False, True])
def test_the_loss_is_a_masked_cross_entropy(restricted: bool) -> None:
    model, batch = tiny_model(), random_examples(5)
    seen = sorted({i for example in batch for i in example.ids} | {PAD})
    expected = by_hand(model, batch, seen if restricted else None)
    loss, target, right = sft_loss(model, batch, PAD, WEIGHTS, restricted)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    own = [i for e in batch for i, m in zip(e.ids, e.mask, strict=True) if m]
    assert target.tolist() == own
    assert right.shape == target.shape
    ours = torch.autograd.grad(loss, list(model.parameters()))
    theirs = torch.autograd.grad(expected, list(model.parameters()))
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b, atol=1e-5)


def test_right_says_whether_the_greedy_token_is_the_target() -> None:
    model, (example,) = tiny_model(), random_examples(1, seed=3)
    greedy = model(input_ids=torch.tensor([example.ids])).logits[0].argmax(-1).tolist()
    taught = Example([*example.ids[:-1], greedy[-2]], example.mask)
    *_, right = sft_loss(model, [taught], PAD, WEIGHTS, restricted=False)
    assert bool(right[-1])
    wrong = Example([*example.ids[:-1], (greedy[-2] + 1) % 2000], example.mask)
    assert not bool(sft_loss(model, [wrong], PAD, WEIGHTS, restricted=False)[2][-1])


@pytest.mark.parametrize("restricted", [False, True])
def test_observations_are_no_targets(restricted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the hidden states held fixed, other tokens where the mask is 0 change neither loss nor gradient."""
    model, batch = tiny_model(), random_examples(4)
    ids, _, _ = collate(batch, PAD)
    hidden = torch.randn(*ids.shape, 32, requires_grad=True)
    monkeypatch.setattr(model.model, "forward", lambda **_: type("Out", (), {"last_hidden_state": hidden})())
    everything = Example(list(range(2600)), [0] * 2600)  # so that the restricted softmax has the same candidates
    own = [i for e in batch for i, m in zip(e.ids, e.mask, strict=True) if m]
    changed = [Example([i if m else 7 for i, m in zip(e.ids, e.mask, strict=True)], e.mask) for e in batch]
    results = []
    for rows in (batch, changed):
        if restricted:
            monkeypatch.setattr(torch, "unique", lambda _: torch.arange(len(everything.ids)))
        loss, target, _ = sft_loss(model, rows, PAD, WEIGHTS, restricted)
        assert target.tolist() == own
        results.append((loss.item(), torch.autograd.grad(loss, hidden)[0]))
    assert results[0][0] == results[1][0]
    assert torch.equal(results[0][1], results[1][1])
    masked = ~torch.nn.functional.pad(collate(batch, PAD)[2][:, 1:], (0, 1))
    assert bool((results[0][1][masked] == 0).all())
    assert bool((results[0][1][~masked] != 0).any())


def test_padding_changes_nothing() -> None:
    model, batch = tiny_model(), random_examples(3)
    together = sft_loss(model, batch, PAD, WEIGHTS, restricted=False)
    alone = [sft_loss(model, [example], PAD, WEIGHTS, restricted=False) for example in batch]
    weights = [float(WEIGHTS[target].sum()) for _, target, _ in alone]
    mean = sum(w * loss.item() for w, (loss, _, _) in zip(weights, alone, strict=True)) / sum(weights)
    assert together[0].item() == pytest.approx(mean, rel=1e-5)


def test_weights_tell_ids_words_and_fixed_parts_apart() -> None:
    config = SftConfig(id_weight=3.0, word_weight=1.5, fixed_weight=0.4)
    weights = token_weights(tokenizer(), config)

    def weight(token: str) -> float:
        return round(float(weights[tokenizer().convert_tokens_to_ids(token)]), 3)

    assert [weight(t) for t in ("D1:1", "D35:50")] == [3.0, 3.0]
    assert [weight(t) for t in ("▁job", "‿ed")] == [1.5, 1.5]
    assert [weight(t) for t in ("<|im_end|>", "-rhi -e '\\\\b", "⁀", '"}}\n</tool_call>', "[")] == [0.4] * 5
    assert weights.shape == (len(tokenizer()),)


def stream(pool: list[Example]) -> Iterator[Example]:
    yield from pool


@pytest.mark.parametrize("tokens", [60, 200, 1000])
def test_batches_hold_to_the_limit_and_lose_nothing(tokens: int) -> None:
    pool = random_examples(3000, longest=50)
    batches = Batches(stream(pool), tokens, random.Random(0))
    seen: list[Example] = []
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            break
        assert max(len(e.ids) for e in batch) * len(batch) <= tokens or len(batch) == 1
        seen += batch
    # What was drawn into the last, unfinished pool is less than a pool.
    left = pool[len(seen) :]
    assert sum(len(e.ids) for e in left) <= POOL * tokens + 50
    assert sorted(map(id, seen)) == sorted(map(id, pool[: len(seen)]))


def test_an_example_longer_than_the_limit_is_a_batch_of_its_own() -> None:
    batches = Batches(itertools.cycle([Example([1] * 90, [1] * 90)]), 50, random.Random(0))
    assert [len(next(batches)) for _ in range(30)] == [1] * 30


def test_little_of_a_batch_is_padding_and_their_order_is_random() -> None:
    batches = Batches(stream(random_examples(4000, longest=60)), 300, random.Random(0))
    drawn = [next(batches) for _ in range(60)]
    cells = sum(len(b) * max(len(e.ids) for e in b) for b in drawn)
    assert sum(len(e.ids) for b in drawn for e in b) > 0.8 * cells
    lengths = [len(batch[0].ids) for batch in drawn[:10]]
    assert lengths not in (sorted(lengths), sorted(lengths, reverse=True))


def test_rate_warms_up_and_comes_down_to_a_tenth() -> None:
    config = SftConfig(steps=100, learning_rate=2.0, warmup_steps=10)
    rates = [rate(config, step / 100, step) for step in range(101)]
    assert rates[0] == pytest.approx(0.2)
    assert rates[4] == pytest.approx(2.0 * 0.5 * (0.1 + 0.45 * (1 + math.cos(math.pi * 0.04))))
    assert max(rates) == rates[9]
    assert rates[9:] == sorted(rates[9:], reverse=True)
    assert rates[100] == pytest.approx(0.2)
    assert rate(config, 3.0, 300) == pytest.approx(0.2)
    assert rate(SftConfig(learning_rate=2.0, warmup_steps=0), 0.0, 0) == 2.0


def test_a_small_model_learns_twenty_episodes_by_heart(tmp_path: Path) -> None:
    shown = examples(memory(tmp_path / "memory"), 20)
    model = tiny_model(width=64)
    config = SftConfig(
        steps=220, tokens_per_step=1500, learning_rate=4e-3, warmup_steps=10, fixed_weight=1.0, restricted_share=0.3
    )
    said: list[str] = []
    last = train_sft(
        model, tokenizer(), iter(shown * 1000), config, seed=0, log=tmp_path / "log.jsonl", report=said.append, every=55
    )
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [55, 110, 165, 220]
    assert rows[-1] == last
    assert len(said) == 4
    assert last["loss"] < 0.1 < rows[0]["loss"]
    assert last["id_accuracy"] > 0.95
    assert not model.training
    with torch.no_grad():
        *_, right = sft_loss(model, shown, PAD, WEIGHTS, restricted=False)
    # The expert's own choices (which search, whether it misses first) cannot be told from the question.
    assert right.float().mean() > 0.93


def test_the_same_seed_trains_the_same_weights(tmp_path: Path) -> None:
    config = SftConfig(steps=3, tokens_per_step=300, warmup_steps=1)

    def trained(seed: int) -> list[torch.Tensor]:
        model = tiny_model()
        pool = random_examples(3000, longest=30)
        train_sft(model, tokenizer(), iter(pool), config, seed=seed, log=tmp_path / "log.jsonl")
        return [p.detach() for p in model.parameters()]

    first, again, other = trained(1), trained(1), trained(2)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


def test_a_time_limit_brings_the_rate_down_and_ends_it(tmp_path: Path) -> None:
    config = SftConfig(steps=10_000_000, max_minutes=0.01, tokens_per_step=200)
    train_sft(
        tiny_model(), tokenizer(), itertools.cycle(random_examples(50)), config, seed=0, log=tmp_path / "log", every=1
    )
    assert 1 <= len((tmp_path / "log").read_text().splitlines()) < 1000
