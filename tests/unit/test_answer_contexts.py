"""Contexts within a budget, the tokenizers that count them, and the actor that sees nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horma_rl.answers.actor import ABSTENTION, Actor
from horma_rl.answers.contexts import Context, render, retrieved_context, whole_context
from horma_rl.answers.metrics import adv_abstain
from horma_rl.errors import UserError
from horma_rl.llm.types import NoValidAnswer
from horma_rl.tokens import Estimate, TokenCounter, token_counter
from memory_shell.types import Turn
from tests.answer_parts import ScriptedModel, replies

TINY = Path(__file__).resolve().parents[2] / "data" / "models" / "tiny"
TURNS = {
    f"D1:{n}": Turn(f"D1:{n}", f"2023-05-08T13:{n:02}:00", "Mira", f"turn number {n} " + "word " * n, "raw", n)
    for n in range(1, 31)
}


@pytest.fixture(scope="module", params=["estimate", "tokenizer"])
def counter(request: pytest.FixtureRequest) -> TokenCounter:
    return token_counter(None if request.param == "estimate" else TINY)


def test_a_turn_is_shown_with_time_and_speaker_on_one_line() -> None:
    turn = Turn("D1:1", "2023-05-08T13:56:00", "Mira", "a\nb", "raw", 1, caption="a kiln")
    assert render(turn) == "[2023-05-08 13:56] Mira: a b (shares a kiln)"
    assert render(Turn("D1:1", None, "Mira", "a", "raw", 1)) == "Mira: a"


def test_selected_turns_are_shown_as_they_were_said(counter: TokenCounter) -> None:
    context = retrieved_context(["D1:9", "D1:2", "D1:9", "D7:7"], TURNS, counter, 1000)
    assert context.text.splitlines() == [render(TURNS["D1:2"]), render(TURNS["D1:9"])]
    assert (context.shown, context.left_out, context.cut) == (("D1:2", "D1:9"), 0, False)
    assert context.tokens == counter.count(context.text)


@given(budget=st.integers(0, 400), first=st.permutations(list(TURNS)))
def test_no_context_is_over_its_budget(budget: int, first: list[str]) -> None:
    for counter in (Estimate(), token_counter(TINY)):
        for context in (
            retrieved_context(first, TURNS, counter, budget),
            whole_context("truncation", TURNS, counter, budget),
            whole_context("sliding-window", TURNS, counter, budget),
        ):
            assert counter.count(context.text) == context.tokens <= budget
            assert context.left_out + len(context.shown) == len(TURNS)


def test_the_best_turns_come_first_into_a_small_budget(counter: TokenCounter) -> None:
    room = counter.count(render(TURNS["D1:20"])) + counter.count(render(TURNS["D1:3"])) + 3
    context = retrieved_context(["D1:20", "D1:3", "D1:1"], TURNS, counter, room)
    assert context.text.startswith(render(TURNS["D1:3"]) + "\n" + render(TURNS["D1:20"]))
    assert "number 1 word" not in context.text


def test_whole_histories_keep_head_tail_or_everything(counter: TokenCounter) -> None:
    everything = "\n".join(map(render, TURNS.values()))
    head, tail = (whole_context(kind, TURNS, counter, 100) for kind in ("truncation", "sliding-window"))
    assert everything.startswith(head.text)
    assert everything.endswith(tail.text)
    assert min(head.tokens, tail.tokens) > 80
    full = whole_context("full-history", TURNS, counter, 100)
    assert (full.text, full.left_out) == (everything, 0)


def test_cuts_lose_no_characters(counter: TokenCounter) -> None:
    text = "Zoë said: naïve 🎉 café, twice! " * 20
    assert text.startswith(counter.head(text, 17))
    assert text.endswith(counter.tail(text, 17))
    assert counter.head(text, 10_000) == counter.tail(text, 10_000) == text
    assert counter.head(text, 0) == counter.tail(text, 0) == ""


def test_a_missing_tokenizer_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no tokenizer\.json"):
        token_counter(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match="not a tokenizer"):
        token_counter(tmp_path)


def test_the_actor_sees_question_day_and_context_only() -> None:
    model = replies(" 8 May 2023 \n")
    actor = Actor(model, Estimate(), 1000)
    answer = asyncio.run(
        actor.answer("When?", "2023-06-01T10:00", Context("[2023-05-08 13:56] Mira: hi", 7, ("D1:1",)))
    )
    assert (answer.text, answer.asked) == ("8 May 2023", True)
    ((role, messages),) = model.requests
    assert role == "actor"
    assert messages[1]["content"] == (
        "Excerpts:\n[2023-05-08 13:56] Mira: hi\n\nToday is 2023-06-01 10:00.\nQuestion: When?\nAnswer:"
    )
    assert answer.input_tokens == sum(Estimate().count(message["content"]) for message in messages)
    assert answer.usage_tokens > 0


def test_the_actor_abstains_when_it_is_told_nothing() -> None:
    model = ScriptedModel(lambda messages, role: "made up")
    answer = asyncio.run(Actor(model, Estimate(), 1000).answer("When?", None, Context("", 0, ())))
    assert (answer.text, answer.asked, model.requests) == (ABSTENTION, False, [])
    assert adv_abstain(ABSTENTION) == 1.0


def test_an_empty_answer_is_an_error() -> None:
    with pytest.raises(NoValidAnswer):
        asyncio.run(Actor(replies("  "), Estimate(), 1000).answer("When?", None, Context("x", 1, ("D1:1",))))


@given(budget=st.integers(100, 600))
def test_a_request_is_never_over_the_budget(budget: int) -> None:
    actor = Actor(replies(), Estimate(), budget)
    room = actor.room("When was it?", "2023-06-01T10:00")
    context = whole_context("truncation", TURNS, Estimate(), room)
    messages = actor.messages("When was it?", "2023-06-01T10:00", context.text)
    size = sum(Estimate().count(message["content"]) for message in messages)
    assert size <= budget or not context.text
