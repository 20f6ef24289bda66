"""Reading moves, the ReAct actor's request, Maintain's judge, summaries by fallback, and retrievers by name."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horma_rl.agent.actor import LlmActor
from horma_rl.agent.config import SystemConfig
from horma_rl.agent.episode import Parts, play
from horma_rl.agent.judge import LlmJudge, LlmSummariser, UnreadError, listed, trace_text
from horma_rl.agent.moves import CUT, LONGEST, NO_ACTION, read_action, read_answer
from horma_rl.agent.recall import BaselineRecaller, make_recaller
from horma_rl.agent.store import EpisodeStore
from horma_rl.agent.tree import StateTree
from horma_rl.agent.types import Act, GoBack, Malformed, Mark, MemoryMove, Pair, Prefaced, Recall, State, View
from horma_rl.baselines.base import Retrieved
from horma_rl.errors import UserError
from horma_rl.llm.types import Message, Reply, UnreachableError
from horma_rl.tokens import Estimate
from interactive_env.calls import parse_call
from memory_shell.types import Task
from memory_shell.workspace import Workspace
from tests.agent_parts import TASK, Everything, Joined, Listed, Words, play_moves
from tests.answer_parts import ScriptedModel, replies

READ = [
    ("Thought: see\nAction: go to desk 1", "see", Act("go to desk 1")),
    ("Action: look\nThought: to see", "to see", Act("look")),
    ("go to desk 1", "", Act("go to desk 1")),
    ("Thought: see\ngo to desk 1", "see", Act("go to desk 1")),
    ("```\nAction: look\n```", "", Act("look")),
    ("Action:\n```text\nlook\n```", "", Act("look")),
    ("**Thought:** a\n**Action:** `look`", "a", Act("look")),
    ("> action 2 : look", "", Act("look")),
    ("<think>Action: no</think>Thought: t\nAction: yes", "t", Act("yes")),
    ("Action: a\nObservation: it worked\nThought: so\nAction: b", "", Act("a")),
    ("Thought: I could\nAction: a\nor rather\nAction: b", "I could\nAction: a\nor rather", Act("b")),
    ("Action: go to desk 1\n\nI hope that helps!", "", Act("go to desk 1")),
    ('Action: "look"', "", Act("look")),
    ("Action: take [x", "", Act("take [x")),
    ("Action: answer[first\nsecond]", "", Act("answer[first\nsecond]")),
    ('Action: buy {"b": 1,\n "a": [2]} now', "", Act('buy {"a": [2], "b": 1}')),
    ('Action: buy({"a": 1})', "", Act('buy {"a": 1}')),
    ('{"name": "buy", "arguments": {"a": 1}}', "", Act('buy {"a": 1}')),
    ("Action: finish {}", "", Act("finish {}")),
    ("Action: buy {a: 1}", "", Act("buy {a: 1}")),
    ("I will now\nbe done, so\nrecall[where is it?]", "I will now\nbe done, so", Recall("where is it?")),
    ("Action: compress[took [1] and\nthe lamp]", "", Mark("took [1] and\nthe lamp")),
    ("Action: Compress[took it", "", Mark("took it")),
    ("Action: revise[3: wrong shop]", "", GoBack(3, "wrong shop")),
    ("Action: revise(step 12 - wrong shop)", "", GoBack(12, "wrong shop")),
    ("Action: revise[[4]]", "", GoBack(4, "no reason given")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "thought", "move"), READ)
def test_an_answer_is_read(text: str, thought: str, move: object) -> None:
    assert read_answer(text) == (thought, move)


@pytest.mark.parametrize(
    ("text", "cut", "reason"),
    [
        ("", False, "empty"),
        ("Thought: I should look.", False, NO_ACTION),
        ("I think\nthat I\nshould look", False, NO_ACTION),
        ("Action:", False, "nothing after 'Action:'"),
        ("Thought: a long", True, CUT),
        ("Thought: t\nAction: go to de", True, CUT),
        ("Action: compress[I did", True, CUT),
        ("Action: compress[]", False, "nothing in the brackets of compress"),
        ("Action: recall[ ]", False, "nothing in the brackets of recall"),
        ("Action: revise[the shop]", False, "revise[STEP: REASON]"),
        (f"Action: {'x' * 20_000}", False, "at most 16,000 characters"),
        (f"Action: compress[{'x' * 20_000}]", False, "at most 16,000 characters"),
        (f'Action: buy {{"a": "{"x" * 20_000}"}}', False, "at most 16,000 characters"),
        ("x" * 300_000, False, "more than 200,000 characters"),
    ],
)
def test_what_is_no_move_is_told_with_the_reason(text: str, cut: bool, reason: str) -> None:
    _, move = read_answer(text, cut)
    assert isinstance(move, Malformed)
    assert reason in move.reason


PIECES = [
    "Action:",
    "Thought:",
    "Observation:",
    "\n",
    "`",
    "```",
    "compress[",
    "revise[",
    "]",
    "{",
    "}",
    '"',
    "x {",
    "1",
]
WRITTEN = st.text(max_size=200) | st.lists(st.sampled_from(PIECES), max_size=25).map("".join)


@settings(max_examples=60)
@given(WRITTEN, st.booleans())
def test_whatever_is_written_is_a_move_or_malformed(text: str, cut: bool) -> None:
    _, move = read_answer(text, cut)
    match move:
        case Act(said) | Mark(said) | Recall(said):
            assert said.strip()
            said.encode()
        case GoBack(step, reason):
            assert step >= 0
            assert reason
        case Malformed(_, reason):
            assert reason


@pytest.mark.parametrize("unit", ["[", "{", "Action: ", "x {", "`", "compress[", "\n", '{"a":', " "])
@pytest.mark.parametrize("start", ["", "Action", "Thought", "Action: go\nObservation", f"Action: {'a' * 60}"])
def test_hostile_answers_are_read_in_linear_time(start: str, unit: str) -> None:
    begin = time.process_time()
    read_answer(start + unit * (199_900 // len(unit)))
    assert time.process_time() - begin < 1.5


@pytest.mark.parametrize("depth", [10, 100_000 // 6, *range(900, 1_000, 5)])
def test_calls_of_any_depth_are_read_or_refused(depth: int) -> None:
    _, move = read_answer('Action: buy {"a":' + '{"a":' * depth + "1" + "}" * (depth + 1))
    assert isinstance(move, (Act, Malformed))


def test_half_a_character_in_json_does_not_reach_the_environment() -> None:
    _, move = read_answer('Action: buy {"a": "\\ud800"}')
    assert move == Act('buy {"a": "?"}')


def test_calls_are_written_in_the_one_way() -> None:
    move = read_action('search_flights {"to": "Rome",  "day": 3}')
    assert isinstance(move, Act)
    assert parse_call(move.action) == ("search_flights", {"day": 3, "to": "Rome"})


# The actor -----------------------------------------------------------------------------------------------------------


def _view(*moves: MemoryMove) -> View:
    return View("Do it.", "Say a letter.", State((), (), ()), "", "Nothing.", "", "Task:\nDo it.\n", 5, moves)


def test_the_request_is_how_to_act_and_the_prompt_and_nothing_else() -> None:
    model = replies("Thought: t\nAction: a")
    decision = asyncio.run(LlmActor(model).act(_view("compress", "recall")))
    ((role, messages),) = model.requests
    assert role == "actor"
    assert [message["role"] for message in messages] == ["system", "user"]
    assert messages[1]["content"] == "Task:\nDo it.\n"
    system = messages[0]["content"]
    assert "Say a letter." in system
    assert "compress[" in system
    assert "recall[" in system
    assert "revise[" not in system
    assert (decision.move, decision.thought, decision.usage.completion_tokens) == (Act("a"), "t", 4)


def test_moves_that_the_system_does_not_take_are_not_offered() -> None:
    actor = LlmActor(replies())
    assert isinstance(actor, Prefaced)
    assert "memory" not in actor.preamble("Say a letter.", ())


@pytest.mark.parametrize(
    ("text", "move"),
    [
        ('{"thought": "t", "action": "revise[2: no]"}', GoBack(2, "no")),
        ('Sure!\n```json\n{"thought": "t", "action": "buy {\\"a\\": 1}"}\n```', Act('buy {"a": 1}')),
    ],
)
def test_structured_answers(text: str, move: object) -> None:
    decision = asyncio.run(LlmActor(replies(text), style="json").act(_view()))
    assert (decision.move, decision.thought) == (move, "t")


@pytest.mark.parametrize("most", [64, 384])
def test_the_longest_structured_answer_fits_into_the_tokens_of_an_answer(most: int) -> None:
    class Asked(ScriptedModel):
        """Keeps the schema that it is asked for."""

        async def complete(self, messages: Sequence[Message], *, schema: Any = None, **options: Any) -> Reply:
            self.schema = schema
            return await super().complete(messages, role="actor")

    model = Asked(lambda messages, role: '{"thought": "t", "action": "a"}')
    asyncio.run(LlmActor(model, style="json", max_tokens=most).act(_view()))
    longest = {name: "x" * bound["maxLength"] for name, bound in model.schema["properties"].items()}
    assert longest.keys() == {"thought", "action"}
    assert Estimate().count(json.dumps(longest)) <= most


def test_a_structured_answer_that_is_none_is_malformed() -> None:
    decision = asyncio.run(LlmActor(replies("go north " * 100_000), style="json").act(_view()))
    assert isinstance(decision.move, Malformed)
    assert "no JSON" in decision.move.reason
    assert len(decision.move.text) == LONGEST


def test_the_budget_of_a_prompt_holds_with_what_the_actor_puts_before_it(tmp_path: Path) -> None:
    class Wordy(Listed):
        """An actor that puts a long text before every prompt."""

        def preamble(self, actions: str, moves: Sequence[MemoryMove]) -> str:
            return "p" * 400

    actor = Wordy(*(Act(f"n{n}") for n in range(40)))
    system = SystemConfig(maintain=False, prompt_tokens=300)
    parts = Parts(actor, Estimate(), None, Joined(), Everything())
    result = asyncio.run(play(Words(max_steps=40), TASK, system, parts, tmp_path, lambda row: None))
    assert (result.stop, result.over_budget) == ("step_cap", 0)
    assert 250 < result.most_context_tokens <= 300
    for view in actor.views:
        assert Estimate().count("p" * 400 + view.prompt) <= view.prompt_tokens


# Judge and summaries -------------------------------------------------------------------------------------------------

TRACE = [Pair(1, "open box", "a lamp"), Pair(2, "take lamp", "taken")]


def test_a_verdict() -> None:
    model = replies('{"passed": false, "feedback": " the wrong lamp "}')
    verdict = asyncio.run(LlmJudge(model, Estimate()).validate("Get the lamp.", TRACE, "I have it."))
    assert (verdict.passed, verdict.feedback) == (False, "the wrong lamp")
    ((role, messages),) = model.requests
    assert role == "judge"
    for told in ("Get the lamp.", "open box", "a lamp", "I have it."):
        assert told in messages[1]["content"]


def test_a_judge_is_asked_again_and_all_its_tokens_count() -> None:
    model = replies("It is fine.", '{"passed": false}', '{"passed": true}')
    verdict = asyncio.run(LlmJudge(model, Estimate()).validate("t", TRACE, "s"))
    assert verdict.passed
    assert [len(messages) for _, messages in model.requests] == [2, 4, 4]
    assert "`feedback` must say what is wrong" in model.requests[2][1][3]["content"]
    assert verdict.usage.completion_tokens == 3 + 2 + 2


def test_a_judge_that_cannot_be_read_gives_no_verdict() -> None:
    with pytest.raises(UnreadError) as caught:
        asyncio.run(LlmJudge(replies("a", "b", "c"), Estimate()).validate("t", TRACE, "s"))
    assert len(caught.value.attempts) == 3
    assert caught.value.usage.completion_tokens == 3
    with pytest.raises(UnreachableError):
        asyncio.run(LlmJudge(replies(UnreachableError("gone")), Estimate()).validate("t", TRACE, "s"))


def test_summaries() -> None:
    model = replies("<think>hm</think> Took the lamp. ", "  ")
    summariser = LlmSummariser(model, Estimate())
    assert asyncio.run(summariser.summarise("t", TRACE)).text == "Took the lamp."
    assert model.requests[0][0] == "manager"
    said = asyncio.run(summariser.summarise("t", TRACE))
    assert said.text == listed(TRACE) == "Did open box; take lamp. Last observation: taken"
    assert said.usage.prompt_tokens > 0


def test_a_long_trace_is_cut_evenly_and_then_loses_its_oldest_steps() -> None:
    trace = [Pair(n, f"act {n}", "o" * 400) for n in range(1, 41)]
    for budget in (100, 700, 2_000, 5_000):
        text = trace_text(trace, Estimate(), budget)
        assert Estimate().count(text) <= budget + 20
        assert "act 40" in text
    assert "earlier steps left out" in trace_text(trace, Estimate(), 100)
    assert "left out" not in trace_text(trace, Estimate(), 2_000)
    assert trace_text(TRACE, Estimate(), 500) == "[1] > open box\n  a lamp\n[2] > take lamp\n  taken"


# Retrievers ----------------------------------------------------------------------------------------------------------


def _workspace(root: Path) -> Workspace:
    tree, store = StateTree(), EpisodeStore(root)
    for action, seen in (("open box", "a lamp"), ("go north", "a lake"), ("go south", "a hill")):
        store.grow(tree.grow(action, seen))
    return store.workspace()


def test_baselines_retrieve_by_name(tmp_path: Path) -> None:
    workspace = _workspace(tmp_path / "w")
    turns = asyncio.run(make_recaller("bm25-1").recall(workspace, "where is the lake"))
    assert [turn.id for turn in turns] == ["D1:2"]
    with pytest.raises(UserError, match="no oracle"):
        make_recaller("oracle")
    with pytest.raises(UserError, match="unknown baseline 'bm52-1'"):
        make_recaller("bm52-1")


def test_a_retriever_is_told_no_evidence_and_draws_the_same_again(tmp_path: Path) -> None:
    @dataclass
    class Chance:
        name: str = "chance"
        given: str = "nothing"

        def retrieve(self, task: Task, workspace: Workspace, rng: random.Random) -> Retrieved:
            assert task.evidence == ()
            return Retrieved((rng.choice(list(workspace.turns)), "D9:9"))

    workspace = _workspace(tmp_path / "w")
    recaller = BaselineRecaller(Chance())
    found = [[turn.id for turn in asyncio.run(recaller.recall(workspace, "q"))] for _ in range(3)]
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 1


def test_retrieved_turns_reach_the_actor(tmp_path: Path) -> None:
    moves: list[Any] = [Act("kiln"), Act("lake"), Act("mill"), Mark("walked"), Recall("which lake"), Act("done")]
    _, actor = play_moves(tmp_path, moves, SystemConfig(recall="ask"), recaller=make_recaller("bm25-1"))
    assert actor.views[5].context.splitlines()[1:] == ["[step 2] Action: lake Observation: Nothing happens."]
