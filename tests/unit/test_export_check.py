"""Where two episodes part: the place, the tokens, and by how much each model prefers its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from horma_rl.retrieval.backends.transformers import TransformersGenerator
from horma_rl.retrieval.engine import RolloutEngine
from horma_rl.retrieval.types import Sampling, Trajectory
from horma_rl.serving.check import Checked, _compare, choose
from tests.rollout_parts import codec, task, tiny_qwen3

PROMPT = [5, 6, 7]
MASK = [1, 1, 0, 0, 1, 1, 1]


def engine(seed: int) -> RolloutEngine:
    made = codec()
    return RolloutEngine(TransformersGenerator(tiny_qwen3(seed=seed), made.eos_ids, Sampling(0.0)), made)


def episode(ids: list[int]) -> Trajectory:
    return Trajectory(task(), 0, PROMPT, list(ids), MASK[: len(ids)])


def compare(first: list[int], second: list[int]) -> Any:
    return _compare(task(), episode(first), episode(second), engine(0), engine(1))


def test_equal_episodes_do_not_part() -> None:
    assert compare([1, 2, 3], [1, 2, 3]) is None


@pytest.mark.parametrize(("place", "turn", "position"), [(0, 1, 0), (1, 1, 1), (4, 2, 0), (6, 2, 2)])
def test_a_parting_is_told_by_turn_and_place_in_it(place: int, turn: int, position: int) -> None:
    ids = [10, 11, 12, 13, 14, 15, 16]
    other = [*ids[:place], 40, *ids[place + 1 :]]
    found = compare(ids, other)
    assert (found.turn, found.position) == (turn, position)
    tokens = codec().tokenizer
    assert (found.token_trained, found.token_exported) == (tokens.decode([ids[place]]), tokens.decode([40]))
    for seed, margin in ((0, found.margin_trained), (1, found.margin_exported)):
        with torch.no_grad():
            logits = tiny_qwen3(seed=seed)(input_ids=torch.tensor([[*PROMPT, *ids[:place]]])).logits[0, -1]
        assert margin == pytest.approx(float(logits[ids[place]] - logits[40]), abs=1e-5)
    assert f"turn {turn}, token {position}" in str(found)


def test_an_episode_that_ended_sooner_parts_at_its_end() -> None:
    found = compare([10, 11], [10])
    assert (found.turn, found.position, found.token_exported, found.margin_trained) == (1, 1, "", None)
    assert Checked(20, 300, [found]).as_json()["same"] == 19
    assert not Checked(20, 300, [found]).same


def test_held_out_tasks_come_first_and_the_training_ones_fill_up() -> None:
    held_out, training = [task(f"h{n}") for n in range(7)], [task(f"t{n}") for n in range(30)]
    chosen = [one.id for one in choose(held_out, training, 20, seed=1)]
    assert {name[0] for name in chosen[:7]} == {"h"}
    assert [name[0] for name in chosen[7:]] == ["t"] * 13
    assert len(set(chosen)) == 20
    assert len(choose(training, held_out, 20, seed=1)) == 20
    assert len(choose(held_out, [], 20, seed=1)) == 7
