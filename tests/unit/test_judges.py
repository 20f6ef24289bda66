"""Judges: the right rubric for each question, readable verdicts, and failures that are no verdicts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from horma_rl.answers.judges import (
    JudgeError,
    LocomoJudge,
    LongMemEvalJudge,
    locomo_prompt,
    longmemeval_prompt,
    make_judge,
    says_yes,
)
from horma_rl.benchmarks.longmemeval import TYPES
from horma_rl.llm.types import BudgetSpent, UnreachableError
from memory_shell.types import Task
from tests.answer_parts import ScriptedModel, replies

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "answer_metrics.json"


def question(category: str, name: str = "q1", answer: str | None = "GOLD", trap: str | None = None) -> Task:
    meta = {} if trap is None else {"adversarial_answer": trap}
    return Task(name, "QUESTION?", (), "w", answer, category, meta=meta)


def test_each_type_has_its_rubric() -> None:
    prompts = {name: longmemeval_prompt(question(name), "SAID") for name in TYPES}
    assert all("QUESTION?" in prompt and "GOLD" in prompt and "SAID" in prompt for prompt in prompts.values())
    assert "off by one" in prompts["temporal-reasoning"]
    assert "updated" in prompts["knowledge-update"]
    assert "Rubric: GOLD" in prompts["single-session-preference"]
    plain = {prompts[name] for name in ("single-session-user", "single-session-assistant", "multi-session")}
    assert len(plain) == 1
    assert len(set(prompts.values())) == 4


@pytest.mark.parametrize("category", TYPES)
def test_abs_in_the_id_decides_for_the_rubric_of_abstention(category: str) -> None:
    prompt = longmemeval_prompt(question(category, "gpt4_1_abs"), "SAID")
    assert "cannot be answered" in prompt
    assert "Explanation: GOLD" in prompt
    assert "cannot be answered" not in longmemeval_prompt(question(category, "gpt4_1"), "SAID")


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ValueError, match="single-hop"):
        longmemeval_prompt(question("single-hop"), "SAID")


def test_a_trap_stands_in_the_prompt_as_wrong() -> None:
    for strict in (True, False):
        prompt = locomo_prompt(question("adversarial", answer=None, trap="TRAP"), "SAID", strict=strict)
        assert "Wrong answer: TRAP" in prompt
        assert "Gold" not in prompt
    generous, strict_ = (locomo_prompt(question("single-hop"), "SAID", strict=value) for value in (False, True))
    assert generous != strict_
    assert "Gold answer: GOLD" in generous


@pytest.mark.parametrize(("reply", "right"), [("Yes.", True), (" no\n", False), ("No, it is not.", False)])
def test_a_verdict(reply: str, right: bool) -> None:
    verdict = asyncio.run(LongMemEvalJudge(replies(reply)).judge(question("multi-session"), "SAID"))
    assert (verdict.right, verdict.reply) == (right, reply)
    assert verdict.tokens > 0


def test_an_unreadable_reply_is_asked_for_again_in_other_words() -> None:
    model = replies("", "Correct", "yes")
    assert asyncio.run(LocomoJudge(model, "strict").judge(question("single-hop"), "SAID")).right
    sizes = [len(messages) for _, messages in model.requests]
    assert sizes == [1, 3, 5]
    assert {role for role, _ in model.requests} == {"judge"}


def test_no_verdict_is_an_error_and_never_a_no() -> None:
    with pytest.raises(JudgeError, match="2 replies"):
        asyncio.run(make_judge("generous", replies("hm", ""), 2).judge(question("single-hop"), "SAID"))
    with pytest.raises(JudgeError, match="down"):
        asyncio.run(make_judge("longmemeval", replies(UnreachableError("down"))).judge(question(TYPES[0]), "SAID"))
    with pytest.raises(BudgetSpent):
        asyncio.run(make_judge("strict", replies(BudgetSpent("spent"))).judge(question("single-hop"), "SAID"))


def test_what_can_be_read_is_read_as_the_public_evaluator_reads_it() -> None:
    rows = json.loads(GOLDEN.read_text(encoding="utf-8"))["replies"]
    unreadable = 0
    for row in rows:
        model = ScriptedModel(lambda messages, role, row=row: row["reply"])  # type: ignore[misc]
        try:
            verdict = asyncio.run(LongMemEvalJudge(model, 1).judge(question(TYPES[0]), "SAID"))
        except JudgeError:
            unreadable += 1
            continue
        assert verdict.right == row["label"], row
    assert 0 < unreadable < len(rows) / 2
    assert says_yes("Yesterday")  # the public reading, which is why a verdict must also hold the word itself
