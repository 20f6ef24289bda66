"""The bootstrap: exact on trivial input, calibrated on random input, paired where it says so."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from horma_rl.evaluation.bootstrap import bootstrap_mean, paired_bootstrap


def test_constant_values_have_no_spread() -> None:
    interval = bootstrap_mean([0.25] * 40)
    assert (interval.mean, interval.low, interval.high, interval.n) == (0.25, 0.25, 0.25, 40)


def test_same_seed_same_interval_and_other_seed_another() -> None:
    values = np.random.default_rng(1).random(60).tolist()
    again = bootstrap_mean(values[::-1], seed=3)
    assert (again.low, again.high) == (bootstrap_mean(values, seed=3).low, bootstrap_mean(values, seed=3).high)
    assert bootstrap_mean(values, seed=3).low != bootstrap_mean(values, seed=4).low


def test_interval_agrees_with_the_normal_approximation() -> None:
    values = np.random.default_rng(0).normal(0.4, 0.3, size=500)
    interval = bootstrap_mean(values.tolist())
    half = 1.96 * values.std(ddof=1) / math.sqrt(500)
    assert interval.low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(7)
    covered = 0
    for trial in range(200):
        interval = bootstrap_mean(rng.normal(0.0, 1.0, size=60).tolist(), seed=trial, resamples=400, level=0.9)
        covered += interval.low <= 0.0 <= interval.high
    assert 165 <= covered <= 195


def test_agrees_with_resampling_done_by_hand() -> None:
    values = np.random.default_rng(8).choice([0.0, 1 / 3, 0.5, 1.0], size=150)
    rng = np.random.default_rng(0)
    means = [rng.choice(values, size=150).mean() for _ in range(4000)]
    interval = bootstrap_mean(values.tolist())
    assert (interval.low, interval.high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])), abs=0.006)


def test_blocks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(2).random(50).tolist()
    whole = bootstrap_mean(values, resamples=300)
    monkeypatch.setattr("horma_rl.evaluation.bootstrap._DRAWS_AT_ONCE", 170)
    assert bootstrap_mean(values, resamples=300) == whole


def test_pairing_removes_the_difficulty_of_the_tasks() -> None:
    difficulty = np.random.default_rng(5).random(200)
    interval = paired_bootstrap(difficulty.tolist(), (difficulty + 0.05).tolist())
    assert interval.mean == pytest.approx(0.05)
    assert interval.high - interval.low < 1e-9
    assert interval.excludes_zero
    assert not paired_bootstrap(difficulty.tolist(), difficulty[::-1].tolist()).excludes_zero


def test_no_tasks_is_not_a_zero() -> None:
    interval = bootstrap_mean([])
    assert interval.n == 0
    assert math.isnan(interval.mean)
    assert interval.as_json() == {"mean": None, "ci95": [None, None], "n": 0}


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([0.1, float("nan")], {}, "finite"),
        ([0.1], {"level": 1.0}, "level"),
        ([0.1], {"resamples": 0}, "resamples"),
    ],
)
def test_bad_input_is_refused(values: list[float], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bootstrap_mean(values, **options)


def test_unequal_sides_are_refused() -> None:
    with pytest.raises(ValueError, match="same tasks"):
        paired_bootstrap([0.1, 0.2], [0.1])
