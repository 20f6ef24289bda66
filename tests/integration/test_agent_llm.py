"""The agent over real HTTP: actor, judge and summaries by a scripted model behind a server that has faults; and with a
trained retriever."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from horma_rl.agent.actor import LlmActor, Style
from horma_rl.agent.config import SystemConfig
from horma_rl.agent.episode import EpisodeResult, Parts, StepRow, play
from horma_rl.agent.events import replay
from horma_rl.agent.judge import LlmJudge, LlmSummariser
from horma_rl.agent.recall import make_recaller
from horma_rl.agent.types import Act, Mark, Move, Recall
from horma_rl.llm.client import Llm
from horma_rl.llm.config import LlmConfig
from horma_rl.llm.types import RefusedError, Role
from horma_rl.tokens import Estimate
from memory_shell.workspace import Workspace
from tests.agent_parts import TASK, Words, play_moves
from tests.conftest import REPOSITORY
from tests.export_parts import export, make_run
from tests.faulty_server import TRANSPORT_FAULTS, FaultyServer

TINY = REPOSITORY / "data/models/tiny"
Answer = Callable[[dict[str, Any]], str]


def _config(url: str) -> LlmConfig:
    return LlmConfig(base_url=url, model="scripted", cache=None, retries=8, backoff_s=0.01, timeout_s=5)


def _play(
    server: FaultyServer, folder: Path, style: Style = "text", **system: Any
) -> tuple[EpisodeResult, list[StepRow], dict[Role, int]]:
    """One episode, its rows, and the tokens in the client's ledger by role."""
    rows: list[StepRow] = []

    async def run() -> tuple[EpisodeResult, dict[Role, int]]:
        async with Llm(_config(server.url)) as model:
            parts = Parts(
                LlmActor(model, style), Estimate(), LlmJudge(model, Estimate()), LlmSummariser(model, Estimate()),
                make_recaller("bm25-3"),
            )  # fmt: skip
            result = await play(Words("replay"), TASK, SystemConfig(**system), parts, folder, rows.append)
            accounts = model.ledger.accounts
            return result, {role: a.prompt_tokens + a.completion_tokens for role, a in accounts.items()}

    result, ledger = asyncio.run(run())
    return result, rows, ledger


def _speaker(body: dict[str, Any]) -> str:
    """Who asks: the actor's, the judge's and the summariser's requests begin differently."""
    system = body["messages"][0]["content"]
    return "judge" if "check the work" in system else "manager" if "keep the notes" in system else "actor"


def policy(body: dict[str, Any]) -> str:
    """Says x first, is found wrong, and then says a, b and c; marks `x` and `a b`; once it forgets the form."""
    if _speaker(body) == "judge":
        wrong = "> x" in body["messages"][1]["content"]
        return '{"passed": false, "feedback": "x is not asked for"}' if wrong else 'Yes: {"passed": true}'
    prompt = body["messages"][1]["content"]
    said = re.findall(r"^  Nothing is said\.|^  Said so far: (.*)$", prompt, re.MULTILINE)[-1].split()
    if not said:
        return "Thought: I begin.\nAction: " + ("a" if "x is not asked for" in prompt else "x")
    if said == ["x"]:
        return "Action: compress[I said x.]"
    if said == ["a"] and "no move" not in prompt:
        return "I am not sure.\nThere are many letters.\nWhich one is next?"
    if said == ["a", "b"] and "I said a and b" not in prompt:
        return "Thought: half of it.\nAction: compress[I said a and b.]"
    return "Thought: on.\nAction: " + ["", "b", "c", "done"][len(said)]


def structured(body: dict[str, Any]) -> str:
    """The same policy, in the form that the request asks for."""
    text = policy(body)
    if _speaker(body) != "actor" or "Action: " not in text:
        return text
    action = text.partition("Action: ")[2]
    return f'{{"thought": "t", "action": "{action}"}}'


@pytest.mark.parametrize(("style", "answer"), [("text", policy), ("json", structured)])
def test_an_episode_survives_the_faults_of_a_server(tmp_path: Path, style: Style, answer: Answer) -> None:
    faults = [fault for fault in TRANSPORT_FAULTS if fault != "timeout"]
    with FaultyServer(answer, seed=3, share=0.4, faults=faults) as server:
        result, rows, ledger = _play(server, tmp_path, style)
    assert sum(count for fault, count in server.injected.items() if fault != "ok") > 0
    assert (result.stop, result.success) == ("success", True)
    assert (result.malformed, result.maintain_failed, result.maintain_passed) == (1, 1, 1)
    assert result.rewinds == {"replayed": 1}
    assert [row.kind for row in rows] == [
        "act", "mark", "maintain", "revise", "act", "malformed", "act", "mark", "maintain", "act", "act",
    ]  # fmt: skip
    assert [pair.action for pair in replay(tmp_path / "tree.jsonl").path()] == ["a", "b", "c", "done"]
    assert Workspace.load(tmp_path / "memory/say-abc").problems() == []
    assert all(body.get("response_format") for body in server.requests) == (style == "json")
    assert {role: usage.total for role, usage in result.usage.items()}.keys() == {"actor", "judge"}
    for role, usage in result.usage.items():
        # A request that was cut off may have been worked on, so the client's own account can only be higher.
        assert 0 < usage.total <= ledger[role]


def test_every_answer_that_is_no_move_is_told_and_counted(tmp_path: Path) -> None:
    texts = iter(["", "{", "Thought: hm", "Action:", "Action: compress[]", "Action: revise[x]", "Action: done"])
    with FaultyServer(lambda body: next(texts), share=0) as server:
        result, rows, _ = _play(server, tmp_path, maintain=False)
    assert (result.stop, result.malformed, result.moves, result.steps) == ("failed", 5, 7, 2)
    told = [body["messages"][1]["content"].partition("Notice: ")[2] for body in server.requests]
    assert [text.startswith("Your last answer was no move") for text in told] == [
        False, True, False, True, True, True, True,
    ]  # fmt: skip
    assert [row.kind for row in rows].count("malformed") == 5


def test_a_judge_that_babbles_and_a_silent_summariser_do_not_stop_an_episode(tmp_path: Path) -> None:
    letters = iter("pqrstuvwxyz")

    def answer(body: dict[str, Any]) -> str:
        speaker = _speaker(body)
        if speaker == "actor":
            letter = next(letters, None)
            return f"Action: {letter}" if letter else "Action: done"
        return "Well, who can say." if speaker == "judge" else ""

    with FaultyServer(answer, share=0) as server:
        result, rows, _ = _play(server, tmp_path, compress_tokens=50)
    assert result.stop == "failed"
    assert result.maintain_unread == result.compressions_fallback >= 1
    assert result.maintain_passed == 0
    assert next(row.text for row in rows if row.kind == "compress").startswith("Did p; q;")


def test_a_server_that_refuses_leaves_the_episode_unfinished(tmp_path: Path) -> None:
    with FaultyServer(policy, share=0, key="another") as server, pytest.raises(RefusedError):
        _play(server, tmp_path)


def test_a_trained_retriever_walks_the_workspace_of_an_episode(tmp_path: Path) -> None:
    assert export(make_run(tmp_path, TINY), tmp_path / "out") == 0
    recaller = make_recaller(str(tmp_path / "out"), "cpu")
    moves: list[Move] = [
        Act("kiln"), Act("lake"), Mark("walked"), Recall("which lake"), Act("mill"), Mark("bad: mill"),
        Recall("which mill"), Act("done"),
    ]  # fmt: skip
    result, actor = play_moves(tmp_path / "episode", moves, SystemConfig(recall="ask"), recaller=recaller)
    assert result.recalls == 2
    assert "[step 2] Action: lake" in actor.views[4].context
    assert "[step 3, abandoned: mill was wrong] Action: mill" in actor.views[7].context
