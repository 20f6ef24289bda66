"""Reward options: the formula by hand, its bounds, and that no option ever makes an episode worth less than nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horma_rl.config import load_config, validate
from horma_rl.errors import UserError
from horma_rl.evaluation.config import ShellConfig
from horma_rl.retrieval.engine import RolloutConfig
from horma_rl.retrieval.types import Trajectory, TurnRecord
from horma_rl.training.config import TrainConfig
from horma_rl.training.rewards import RewardConfig, TrainingReward, most_written
from memory_shell.types import Caps, Task
from tests.conftest import REPOSITORY

LIMITS = RolloutConfig(max_turns=5, max_response_tokens=20, max_context_tokens=1000)


def episode(overlap: float | None, tokens: list[int], commands: int = 0, invalid: int = 0) -> Trajectory:
    """An episode with a response of each of these lengths."""
    made = Trajectory(Task("t", "?", (), "w"), 0, [1], reward=overlap, commands=commands, invalid=invalid)
    made.turns = [TurnRecord("", [], "", True, length, True) for length in tokens]
    return made


def reward(trajectory: Trajectory, **options: float) -> float | None:
    return TrainingReward.of(RewardConfig(**options), LIMITS, ShellConfig(caps=Caps(turns=4)))(trajectory)


def worth(trajectory: Trajectory, **options: float) -> float:
    found = reward(trajectory, **options)
    assert found is not None
    return found


def test_by_default_it_is_the_overlap() -> None:
    assert not RewardConfig().shapes
    for overlap in (0.0, 0.3, 1.0, None):
        assert reward(episode(overlap, [20] * 4, 4, 4)) == overlap


def test_each_option_by_hand() -> None:
    tried = episode(0.5, [10, 15], commands=4, invalid=1)  # 2 of 4 turns, 25 of 100 tokens, 3 of 4 commands
    assert reward(tried, turn_cost=0.4) == pytest.approx(0.5 * (1 - 0.4 * 0.5))
    assert reward(tried, token_cost=0.4) == pytest.approx(0.5 * (1 - 0.4 * 0.25))
    assert reward(tried, format_bonus=0.2) == pytest.approx(0.5 + 0.2 * 0.75)
    together = 0.5 * (1 - 0.4 * 0.5 - 0.2 * 0.25) + 0.1 * 0.75
    assert reward(tried, turn_cost=0.4, token_cost=0.2, format_bonus=0.1) == pytest.approx(together)


def test_what_was_not_scored_stays_so() -> None:
    assert reward(episode(None, [5], 2), turn_cost=0.5, format_bonus=0.5) is None


def test_an_episode_that_does_nothing_never_beats_one_that_finds_something() -> None:
    nothing, late = episode(0.0, []), episode(0.01, [20] * 5, commands=5)
    costs = {"turn_cost": 0.5, "token_cost": 0.49}
    assert reward(nothing, **costs) == 0.0
    assert worth(late, **costs) > 0.0
    assert reward(episode(0.0, [20] * 5, 5, 5), **costs) == 0.0  # one that tried and failed is worth no less


def test_repeated_tokens_cost_among_equal_finds() -> None:
    """Selecting the same turn again changes no overlap; only the token cost tells the two apart."""
    short, long = episode(1.0, [6, 3], 2), episode(1.0, [20, 3], 2)
    assert reward(short) == reward(long)
    assert worth(short, token_cost=0.2) > worth(long, token_cost=0.2)


@given(
    st.floats(0, 1), st.lists(st.integers(0, 50), max_size=8), st.integers(0, 9), st.integers(0, 9),
    st.floats(0, 0.5), st.floats(0, 0.49), st.floats(0, 1),
)  # fmt: skip
def test_it_stays_within_its_bounds(
    overlap: float, tokens: list[int], commands: int, invalid: int, turn: float, token: float, bonus: float
) -> None:
    made = episode(overlap, tokens, commands, min(commands, invalid))
    assert 0.0 <= worth(made, turn_cost=turn, token_cost=token, format_bonus=bonus) <= 1.0 + bonus


def test_the_most_a_model_may_write() -> None:
    assert most_written(LIMITS) == 100
    assert most_written(RolloutConfig(max_turns=5, max_response_tokens=20, max_context_tokens=90)) == 90
    assert most_written(RolloutConfig(max_turns=5, max_response_tokens=20, max_completion_tokens=60)) == 60


@pytest.mark.parametrize("override", ["turn_cost=-0.1", "token_cost=1", "format_bonus=2", "format_bonus=.nan", "fee=1"])
def test_unsound_options_are_refused(override: str) -> None:
    with pytest.raises(UserError, match=r"reward\."):
        load_config(REPOSITORY / "configs/train/tiny_cpu.yaml", [f"reward.{override}"], TrainConfig)


def test_costs_that_eat_the_whole_reward_are_refused() -> None:
    with pytest.raises(UserError, match="together must be below 1"):
        validate({"turn_cost": 0.5, "token_cost": 0.5}, RewardConfig, "here")
