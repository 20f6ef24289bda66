"""Rows and summaries: what is averaged, what is only counted, and how two systems are paired."""

from __future__ import annotations

import math
from typing import Any

import pytest

from horma_rl.commands.eval import tell_failures
from horma_rl.errors import UserError
from horma_rl.evaluation.metrics import OVERALL, by_category, compare, compare_by_category, summarise
from horma_rl.evaluation.rows import EpisodeRow, context_size, row_from_json, row_from_trajectory
from horma_rl.retrieval.types import Trajectory, TurnRecord
from horma_rl.viewer.data import SystemRows
from memory_shell.types import Stop, Task, Turn

TURNS = {
    "D1:1": Turn("D1:1", None, "Ann", "I fired the kiln today", "raw_logs/traj_0001.jsonl", 1, "a red pot"),
    "D1:2": Turn("D1:2", None, "Bo", "Nice", "raw_logs/traj_0001.jsonl", 2),
}


def row(task: str, reward: float | None, category: str = "single", **changes: Any) -> EpisodeRow:
    values: dict[str, Any] = {
        "system": "s", "task": task, "workspace": "w", "category": category, "seed": 0, "selected": ("D1:1",),
        "evidence": ("D1:1",), "reward": reward, "precision": reward or 0.0, "recall": 1.0, "f1": 0.5, "exact": False,
        "turns": 3, "commands": 4, "calls": {"grep": 2}, "invalid": 1, "stop": "done", "context_tokens": 10,
        "model_tokens": 20, "wall_s": 0.1,
    }  # fmt: skip
    return EpisodeRow(**{**values, **changes})


def test_failed_episodes_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    lost = [row("t1", None, error="RuntimeError: the generator failed:\n  HTTP 400"), row("t2", None, error="other")]
    assert not tell_failures(
        [SystemRows("sound", "", [row("t1", 0.0)]), SystemRows("part", "", [row("t0", 1.0), *lost])]
    )
    told = "2 of 3 episodes failed, the first (t1): RuntimeError: the generator failed: HTTP 400"
    assert capsys.readouterr().err == f"horma-rl: part: {told}\n"
    assert tell_failures([SystemRows("sound", "", [row("t1", 0.5)]), SystemRows("lost", "", lost)])
    assert "lost: 2 of 2 episodes failed" in capsys.readouterr().err


def trajectory(**changes: Any) -> Trajectory:
    task = Task("w/q-1", "What did Ann fire?", ("D1:1",), "w", category="single")
    calls = [{"name": "grep", "args": "kiln"}, {"name": "select", "args": "D1:1"}]
    values: dict[str, Any] = {
        "task": task, "seed": 3, "prompt_ids": [1, 2], "completion_ids": [3, 4, 5], "mask": [1, 1, 0],
        "selected": ["D1:1", "D1:2"], "turns": [TurnRecord("text", calls, "out", True, 2, True)],
        "stop": Stop.DONE, "reward": 0.5, "commands": 2,
    }  # fmt: skip
    return Trajectory(**{**values, **changes})


def test_a_row_says_what_the_trajectory_did() -> None:
    made = row_from_trajectory("policy", trajectory(), TURNS)
    assert (made.reward, made.precision, made.recall, made.exact) == (0.5, 0.5, 1.0, False)
    assert made.f1 == pytest.approx(2 / 3)
    assert made.calls == {"grep": 1, "select": 1}
    assert (made.turns, made.commands, made.model_tokens, made.stop) == (1, 2, 2, "done")


def test_calls_that_could_not_be_read_are_counted_as_such() -> None:
    record = TurnRecord("??", [{"error": "not a call"}, {"name": "done", "args": ""}], "", False, 2, True)
    assert row_from_trajectory("p", trajectory(turns=[record]), TURNS).calls == {"unreadable": 1, "done": 1}


def test_context_counts_each_selected_turn_once_with_speaker_and_caption() -> None:
    assert context_size(["D1:1", "D1:1", "D9:9"], TURNS) == 10  # Ann: I fired the kiln today (shares a red pot)
    assert context_size(["D1:2"], TURNS, count_tokens=len) == len("Bo: Nice")


def test_rows_survive_json() -> None:
    made = row_from_trajectory("policy", trajectory(), TURNS)
    assert row_from_json(made.as_json(), "here") == made
    with pytest.raises(UserError, match=r"rows\.jsonl, line 3"):
        row_from_json({"task": "x"}, "rows.jsonl, line 3")


def test_unscored_episodes_are_counted_and_never_averaged() -> None:
    summary = summarise([row("a", 1.0), row("b", 0.5), row("c", None, precision=0.0, invalid=4)])
    assert summary.jaccard.mean == 0.75
    assert summary.jaccard.n == 2
    assert summary.precision == 0.75
    assert summary.invalid_rate == 2 / 8
    assert (summary.episodes, summary.unscored) == (3, 1)
    assert summary.stops == {"done": 3}


def test_several_episodes_of_a_task_count_as_one_task() -> None:
    summary = summarise([row("a", 1.0), row("a", 0.0, seed=1), row("a", 0.5, seed=2), row("b", 0.0)])
    assert summary.jaccard.n == 2
    assert summary.jaccard.mean == 0.25


def test_nothing_at_all_is_no_number() -> None:
    summary = summarise([])
    assert math.isnan(summary.precision)
    assert summary.as_json()["precision"] is None
    assert summary.as_json()["jaccard"]["mean"] is None


def test_categories_partition_the_rows() -> None:
    parts = by_category([row("a", 1.0, "x"), row("b", 0.0, "y"), row("c", 0.5, "x"), row("d", 0.25, "")])
    assert list(parts) == [OVERALL, "uncategorised", "x", "y"]
    assert parts["x"].jaccard.mean == 0.75
    assert sum(part.episodes for name, part in parts.items() if name != OVERALL) == parts[OVERALL].episodes


def test_comparison_pairs_tasks_by_id_and_not_by_place() -> None:
    before = [row("a", 0.0), row("b", 0.5), row("only-before", 1.0), row("unscored", 1.0)]
    after = [row("b", 0.5), row("a", 1.0), row("unscored", None)]
    comparison = compare(before, after)
    assert (comparison.before, comparison.after, comparison.delta.mean) == (0.25, 0.75, 0.5)
    assert comparison.delta.n == 2
    assert comparison.unpaired == 2


def test_comparison_by_category_keeps_categories_of_either_side() -> None:
    parts = compare_by_category([row("a", 0.0, "x")], [row("a", 1.0, "x"), row("b", 1.0, "y")])
    assert list(parts) == [OVERALL, "x", "y"]
    assert parts["x"].as_json() == {
        "before": 0.0, "after": 1.0, "delta": 1.0, "ci95": [1.0, 1.0], "n": 1, "unpaired": 0,
    }  # fmt: skip
    assert parts["y"].as_json()["delta"] is None
