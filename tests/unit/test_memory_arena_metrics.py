"""SR, PS, SPS and the two denominators of search, against examples worked out by hand."""

from __future__ import annotations

import json

import pytest

from interactive_env.calls import format_call
from memory_arena.domain import Decides, Score
from memory_arena.metrics import (
    RowResult,
    progress,
    progress_answered,
    progress_micro,
    soft_progress,
    success_rate,
    summarise,
)
from memory_arena.rows import MATH, SEARCH, SHOPPING, TRAVEL, plan_json
from memory_arena.suite import generated_suite

PASSED = Score(passed=True, answered=True)
FAILED = Score(passed=False, answered=True)
SILENT = Score(passed=False, answered=False)


def row(*scores: Score, domain: str = SEARCH, decides: Decides = "last") -> RowResult:
    return RowResult("r", domain, decides, scores)


A = row(PASSED, PASSED, FAILED, SILENT)
B = row(FAILED, PASSED)


def person(passed: int, total: int, whole: bool = False) -> Score:
    return Score(whole, answered=True, figures={"changed_passed": passed, "changed_total": total})


def test_success_where_the_last_subtask_decides() -> None:
    assert success_rate([A, B]) == 1 / 2
    assert success_rate([row(PASSED, PASSED, FAILED)]) == 0


def test_success_where_all_have_to_pass() -> None:
    rows = [row(*result.scores, domain=SHOPPING, decides="all") for result in (A, B)]
    assert success_rate(rows) == 0
    assert success_rate([*rows, row(PASSED, PASSED, domain=SHOPPING, decides="all")]) == pytest.approx(1 / 3)


def test_progress_is_a_mean_over_rows() -> None:
    assert progress([A, B]) == (2 / 4 + 1 / 2) / 2 == 1 / 2
    assert progress([A, B, row(FAILED)]) == pytest.approx(1 / 3)


def test_progress_over_all_subtasks_together() -> None:
    assert progress_micro([A, B]) == 3 / 6
    assert progress_micro([A, B, row(FAILED)]) == 3 / 7
    groups = [row(PASSED, domain=TRAVEL, decides="all"), row(*[FAILED] * 7, domain=TRAVEL, decides="all")]
    assert progress_micro(groups) == 1 / 8  # persons passed / persons
    assert progress(groups) == 1 / 2


def test_progress_over_answered_slots_only_is_higher() -> None:
    assert progress_answered([A, B]) == pytest.approx(7 / 12)
    assert progress_answered([A, B]) > progress([A, B])
    assert progress_answered([row(SILENT, SILENT)]) == 0
    assert progress_answered([row(PASSED, SILENT, SILENT, SILENT)]) == 1  # what skipping does


def test_soft_progress() -> None:
    first = row(person(1, 2), person(3, 4), person(0, 0, whole=True), domain=TRAVEL, decides="all")
    second = row(person(2, 2, whole=True), domain=TRAVEL, decides="all")
    nothing = row(person(0, 0, whole=True), domain=TRAVEL, decides="all")
    assert soft_progress([first, second]) == 13 / 16
    assert soft_progress([first, second, nothing]) == 13 / 16
    assert soft_progress([nothing]) == 0


def test_no_rows() -> None:
    for metric in (success_rate, progress, progress_micro, progress_answered, soft_progress):
        assert metric([]) == 0
    assert summarise([]) == {}


def test_a_summary_by_domain() -> None:
    group = row(person(1, 2), person(2, 2, whole=True), domain=TRAVEL, decides="all")
    assert summarise([A, group, B, row(PASSED, domain=MATH)]) == {
        SEARCH: {
            "rows": 2,
            "subtasks": 6,
            "sr": 1 / 2,
            "ps": 1 / 2,
            "ps_micro": 1 / 2,
            "ps_answered": pytest.approx(7 / 12),
        },
        TRAVEL: {"rows": 1, "subtasks": 2, "sr": 0, "ps": 1 / 2, "ps_micro": 1 / 2, "sps": 3 / 4},
        MATH: {"rows": 1, "subtasks": 1, "sr": 1, "ps": 1, "ps_micro": 1},
    }


def test_results_are_kept_in_a_file() -> None:
    group = row(person(1, 2), domain=TRAVEL, decides="all")
    for result in (A, group):
        assert RowResult.from_json(json.loads(json.dumps(result.as_json()))) == result


def test_an_episode_that_was_stopped_has_all_its_subtasks() -> None:
    """Two persons of a group were planned for, then the budget was spent: the others' slots count as missed."""
    suite = generated_suite((TRAVEL,), 1, 2)
    (task,) = suite.tasks(TRAVEL)
    plans = task.data["row"].answers
    env = suite.make(task)
    env.reset(task)
    for plan in plans[:2]:
        env.step(format_call("SubmitPlan", {"plan": plan_json(plan)}))
    env.step("nonsense")
    result = env.result()
    assert result.subtasks == len(plans) >= 3
    assert (result.passed, result.answered, result.solved) == (2, 2, False)
    assert soft_progress([result]) == pytest.approx(2 / len(plans))
    assert progress([result]) == env.progress == 2 / len(plans)
    for plan in plans[2:]:  # to ask for the result changes nothing
        env.step(format_call("SubmitPlan", {"plan": plan_json(plan)}))
    assert env.success
    assert env.result().solved
    assert soft_progress([env.result()]) == 1
