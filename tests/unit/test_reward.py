"""J(C, E) = |C n E| / |C u E| and its companions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_shell.reward import episode_reward, jaccard, overlap

ids = st.lists(st.sampled_from([f"D{s}:{t}" for s in range(1, 4) for t in range(1, 5)]), max_size=8)


@pytest.mark.parametrize(
    ("selected", "evidence", "value"),
    [
        (["D1:1"], ["D1:1"], 1.0),
        (["D1:1", "D1:2"], ["D1:1"], 0.5),
        (["D1:1", "D1:2"], ["D1:2", "D1:3"], 1 / 3),
        (["D1:1", "D1:1"], ["D1:1"], 1.0),
        ([], ["D1:1"], 0.0),
        ([], [], 1.0),
        (["D1:1"], [], 0.0),
        (["D9:9"], ["D1:1"], 0.0),
    ],
)
def test_jaccard(selected: list[str], evidence: list[str], value: float) -> None:
    assert jaccard(selected, evidence) == pytest.approx(value)


@given(ids, ids)
def test_measures_are_bounded_and_consistent(selected: list[str], evidence: list[str]) -> None:
    found = overlap(selected, evidence)
    assert all(0.0 <= value <= 1.0 for value in (found.jaccard, found.precision, found.recall, found.f1))
    assert found.exact == (set(selected) == set(evidence)) == (found.jaccard == 1.0)
    assert found.jaccard == jaccard(evidence, selected)
    assert math.isclose(found.f1, 2 * found.jaccard / (1 + found.jaccard))
    if found.precision + found.recall:
        assert math.isclose(found.f1, 2 * found.precision * found.recall / (found.precision + found.recall))


def test_precision_and_recall_are_not_swapped() -> None:
    found = overlap(["D1:1", "D1:2", "D1:3", "D1:4"], ["D1:1"])
    assert (found.precision, found.recall) == (0.25, 1.0)


def test_unit_session_without_a_workspace_is_the_id_before_the_colon() -> None:
    assert overlap(["D3:12", "D3:13"], ["D3:1"], unit="session").jaccard == 1.0
    assert overlap(["D3:12", "D4:1"], ["D3:1"], unit="session").jaccard == 0.5


def test_unit_note_needs_the_workspace() -> None:
    with pytest.raises(ValueError, match="workspace"):
        overlap(["D1:1"], ["D1:1"], unit="note")


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(ValueError, match="use turn, session or note"):
        overlap(["D1:1"], ["D1:1"], unit="file")  # type: ignore[arg-type]


def test_turn_cap_scores_what_was_selected_unless_told_otherwise() -> None:
    assert episode_reward(["D1:1"], ["D1:1"], capped=True) == 1.0
    assert episode_reward(["D1:1"], ["D1:1"], capped=True, zero_on_cap=True) == 0.0
    assert episode_reward(["D1:1"], ["D1:1"], zero_on_cap=True) == 1.0
