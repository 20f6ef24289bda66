"""Formal reasoning, and what the loop over subtasks does in every domain: caps, verdicts, graders that fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from interactive_env.types import EnvTask
from memory_arena.domain import Grader, normalise, remembered, same_text
from memory_arena.env import GradingError, MemoryArenaEnv
from memory_arena.formal import FormalDomain, build_math, build_physics
from memory_arena.rows import MATH, PHYSICS, TRAVEL, FormalRow
from memory_arena.suite import MemoryArena, builder, generated_suite, load_suite
from tests.env_contract import CHECKS, Check, Sample

SUITE = generated_suite((MATH, PHYSICS), 3, 1)
INVALID = ("", "42", "answer 42", "answer[ ]")


def sample(domain: str) -> Sample:
    task = SUITE.tasks(domain)[0]
    return Sample(lambda: SUITE.make(task), task, [f"answer[{gold}]" for gold in task.data["row"].answers], INVALID)


@pytest.mark.parametrize("domain", [MATH, PHYSICS])
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Check, domain: str) -> None:
    check(sample(domain))


ROW = FormalRow(
    "7",
    ("Let a = 2 + 3. Find a.", "Find a^2.", "Find x."),
    ("5", "$25$", r"\frac{1}{2}"),
    "p",
    ("Let a.", "", " "),
    MATH,
)
TASK = EnvTask("formal_reasoning_math/7", MATH, {"row": ROW})


def started(grader: Grader = same_text, step_cap: int = 5, show_results: bool = False) -> MemoryArenaEnv:
    env = MemoryArenaEnv(FormalDomain(MATH, grader, step_cap), TASK, show_results)
    env.reset(TASK)
    return env


def test_a_derivation_is_played_question_by_question() -> None:
    env = started()
    start = env.reset(TASK)
    assert "chain of 3 questions" in start.instruction
    assert start.observation == "Subtask 1 of 3\nLet a.\n\nLet a = 2 + 3. Find a."
    assert env.capabilities.tools == ()
    assert "answer[TEXT]" in env.capabilities.actions
    first = env.step("answer[4]")
    assert first.subtask
    assert first.info == {"subtask": 0, "passed": False, "answered": True, "capped": False, "figures": {}}
    assert first.observation == "The answer is filed.\n\nSubtask 2 of 3\nFind a^2."  # no word of the verdict
    assert env.step(" Answer [25.]\n").info["passed"]
    last = env.step("answer[\\[\\frac{1}{2}\\]]")
    assert (last.terminated, last.truncated) == (True, False)
    assert env.success  # the last one decides
    assert env.progress == pytest.approx(2 / 3)


def test_the_last_one_decides() -> None:
    env = started()
    for answer in ("5", "25", "2"):
        env.step(f"answer[{answer}]")
    assert not env.success
    assert env.progress == pytest.approx(2 / 3)


def test_caps_move_on_and_the_last_truncates() -> None:
    env = started(step_cap=2)
    assert env.capabilities.max_steps == 6
    assert not env.step("what?").subtask
    capped = env.step("what??")
    assert capped.subtask
    assert not capped.valid
    assert capped.info == {"subtask": 0, "passed": False, "answered": False, "capped": True, "figures": {}}
    assert "The 2 steps of this subtask are used up.\n\nSubtask 2 of 3\nFind a^2." in capped.observation
    assert not env.step("x").subtask
    assert env.step("answer[25]").info["passed"]  # with the last step that it has
    env.step("x")
    last = env.step("x")
    assert (last.terminated, last.truncated) == (False, True)
    assert not env.success
    assert env.progress == pytest.approx(1 / 3)


def test_verdicts_are_shown_on_demand() -> None:
    env = started(show_results=True)
    assert "Subtask 1 failed." in env.step("answer[4]").observation
    assert "Subtask 2 passed." in env.step("answer[25]").observation


def failing(times: int) -> tuple[Callable[[str, str, str], bool], list[str]]:
    """A grader that is out of reach for the first `times` requests."""
    asked: list[str] = []

    def grade(question: str, gold: str, answer: str) -> bool:
        asked.append(answer)
        if len(asked) <= times:
            raise TimeoutError("no judge")
        return gold == answer

    return grade, asked


def test_a_grader_that_fails_is_an_error_and_never_a_zero() -> None:
    grade, _ = failing(1)
    env = started(grade)
    with pytest.raises(GradingError, match=r"row 7, subtask 1: the grader failed \(no judge\)"):
        env.step("answer[5]")
    for read in (lambda: env.success, lambda: env.progress, lambda: env.scores, env.result):
        with pytest.raises(GradingError):
            read()
    with pytest.raises(RuntimeError, match="the episode is over"):
        env.step("answer[5]")
    env.reset(TASK)
    assert env.step("answer[5]").info["passed"]
    assert env.progress == pytest.approx(1 / 3)


def test_the_grader_is_not_asked_without_an_answer() -> None:
    grade, asked = failing(0)
    env = started(grade, step_cap=1)
    for _ in ROW.questions:
        env.step("hm")
    assert asked == []
    assert env.progress == 0
    assert [score.answered for score in env.result().scores] == [False] * 3


def test_the_grader_is_asked_once_for_a_replay() -> None:
    grade, asked = failing(1)
    env = started(remembered(grade))
    with pytest.raises(GradingError):
        env.step("answer[5]")
    for _ in range(3):  # what failed is asked again, what was answered is not
        env.reset(TASK)
        assert env.step("answer[5]").info["passed"]
        assert not env.step("answer[24]").info["passed"]
    assert asked == ["5", "5", "24"]


@pytest.mark.parametrize(
    ("gold", "answer", "same"),
    [
        ("25", " 25. ", True),
        (r"$x^2 + 1$", "x^2+1", True),
        (r"\frac{1}{2}", r"\(\frac{1}{2}\)", True),
        (r"a\,b", "a b", True),
        ("Oslo", "OSLO", True),
        ("25", "2 5", True),  # spaces do not count
        ("0.5", "1/2", False),  # equal, but written otherwise: this takes a judge
        ("25", "-25", False),
        ("x", "X_1", False),
        ("", "", False),
        ("$$", "", False),
    ],
)
def test_the_default_grader(gold: str, answer: str, same: bool) -> None:
    assert same_text("q", gold, answer) == same
    assert normalise(normalise(gold)) == normalise(gold)


def test_long_and_odd_answers() -> None:
    env = started()
    outcome = env.step("answer[" + "9" * 20_001 + "]")
    assert not outcome.valid
    assert "20000" in outcome.observation
    odd = env.step("\ud800\n" * 500)
    assert not odd.valid
    odd.observation.encode("utf-8")
    assert len(odd.observation) < 120
    assert env.step("answer[a]\nanswer[b]").subtask  # up to the last bracket


def test_another_domains_row_is_refused() -> None:
    travel = generated_suite((TRAVEL,), 1).tasks("all")[0]
    with pytest.raises(ValueError, match="row 0 is of domain group_travel_planner; expected a FormalRow"):
        (env := started()).reset(travel)
    assert isinstance(env.row, FormalRow)  # as it was
    with pytest.raises(ValueError, match="row 7 is of domain formal_reasoning_math; expected formal_reasoning_phys"):
        FormalDomain(PHYSICS, same_text).play(ROW)


def test_a_suite() -> None:
    assert [task.id for task in SUITE.tasks(PHYSICS)] == [f"formal_reasoning_phys/{number}" for number in range(3)]
    assert len(SUITE.tasks("all")) == 6
    assert SUITE.name == "memory_arena"
    assert "generated" in SUITE.provenance
    with pytest.raises(
        ValueError, match="no split 'test': there are formal_reasoning_math, formal_reasoning_phys, all"
    ):
        SUITE.tasks("test")
    with pytest.raises(ValueError, match="unknown domain 'maths'"):
        generated_suite(("maths",))


def test_a_suite_from_files(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text(
        '{"id": 3, "paper_name": "p", "backgrounds": ["", ""], "questions": ["a", "b"], "answers": ["1", "2"]}\n'
    )
    suite = load_suite({MATH: file}, {MATH: {"step_cap": 2}}, grader=lambda question, gold, answer: True)
    assert isinstance(suite, MemoryArena)
    assert "CC BY 4.0" in suite.provenance
    (task,) = suite.tasks(MATH)
    env = suite.make(task)
    env.reset(task)
    assert env.capabilities.max_steps == 4
    env.step("answer[whatever]")
    assert env.step("answer[else]").terminated
    assert env.success
    with pytest.raises(ValueError, match="unknown domain 'maths'"):
        load_suite({MATH: file}, {"maths": {}})
    with pytest.raises(ValueError, match="no such option 'cap': known are step_cap"):
        load_suite({MATH: file}, {MATH: {"cap": 2}})


def test_options() -> None:
    assert builder(MATH) is build_math
    assert builder(PHYSICS) is build_physics
    assert build_math({}, same_text).step_cap == 5
    assert build_physics({"step_cap": 1}, same_text).name == PHYSICS
    with pytest.raises(ValueError, match="step_cap is to be a whole number from 1 on, got True"):
        build_math({"step_cap": True}, same_text)
