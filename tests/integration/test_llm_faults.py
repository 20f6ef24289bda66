"""The client against a real HTTP server with faults: a valid answer or a typed error, true accounts, no key to see."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from horma_rl.llm.client import Llm
from horma_rl.llm.config import LlmConfig
from horma_rl.llm.types import LlmError, Message, NoValidAnswer, UnreachableError
from tests.faulty_server import ANSWER_FAULTS, TRANSPORT_FAULTS, FaultyServer

pytest.importorskip("openai", reason="needs the extra `llm`")

KEY = "sk-do-not-show-me-0123456789"


class Number(BaseModel):
    operations: list[int]


def model(body: dict[str, Any]) -> str:
    """A model that answers with the number in the question."""
    return json.dumps({"operations": [int(body["messages"][0]["content"].split()[0])]})


def question(number: int) -> list[Message]:
    return [{"role": "user", "content": f"{number} is the number."}]


def config(server: FaultyServer, **fields: Any) -> LlmConfig:
    return LlmConfig(**{"base_url": server.url, "model": "scripted", "backoff_s": 0.01, "cache": None, **fields})


async def ask_all(llm: Llm, count: int) -> list[Any]:
    async with llm:
        asked = (llm.structured(question(n), Number, role="manager", max_tokens=64) for n in range(count))
        return await asyncio.gather(*asked, return_exceptions=True)


@pytest.mark.parametrize("fault", TRANSPORT_FAULTS)
def test_each_fault_of_the_way_is_got_over(fault: str) -> None:
    with FaultyServer(model, script=[fault, fault], share=0.0, silence_s=5) as server:
        llm = Llm(config(server, timeout_s=0.5))
        (answer,) = asyncio.run(ask_all(llm, 1))
    assert answer == Number(operations=[0])
    account = llm.ledger.accounts["manager"]
    assert (account.requests, account.retries, account.reasks) == (1, 2, 0)


@pytest.mark.parametrize("fault", ANSWER_FAULTS)
def test_each_bad_answer_is_asked_again_or_told(fault: str) -> None:
    with FaultyServer(model, script=[fault, "ok", fault, fault], share=0.0) as server:
        llm = Llm(config(server, reasks=1))
        (answer,) = asyncio.run(ask_all(llm, 1))
        (told,) = asyncio.run(ask_all(Llm(config(server, reasks=1)), 1))
    assert answer == Number(operations=[0])
    assert llm.ledger.accounts["manager"].reasks == 1
    assert isinstance(told, NoValidAnswer)
    assert len(told.attempts) == 2
    assert max(len(json.dumps(body)) for body in server.requests) < 10_000  # a megabyte is not sent back


@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_server_does(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HORMA_LLM_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    with FaultyServer(model, seed=seed, share=0.6, silence_s=1, key=KEY, echo_key=True) as server:
        settings = config(server, timeout_s=0.6, retries=3, concurrency=6, cache=tmp_path / "replies.sqlite")
        first = Llm(settings)
        results = asyncio.run(ask_all(first, 30))
        again = Llm(settings)
        repeated = asyncio.run(ask_all(again, 30))
    valid = [n for n, result in enumerate(results) if isinstance(result, Number)]
    assert all(results[n] == repeated[n] == Number(operations=[n]) for n in valid)
    assert len(valid) > 15
    assert all(isinstance(result, Number | LlmError) for result in results)
    assert len(server.injected) > 8  # the draws were of every kind
    both = [llm.ledger.accounts["manager"] for llm in (first, again)]
    # What the server sent whole and the client entered are the same, but for answers to clients that had hung up.
    assert sum(account.requests for account in both) <= len(server.served)
    assert sum(account.prompt_tokens + account.completion_tokens for account in both) <= sum(map(sum, server.served))
    assert again.ledger.accounts["manager"].cached >= len(valid)
    told = [repr(first), repr(settings), json.dumps(first.ledger.as_json()), caplog.text]
    told += [f"{result} {result!r} {vars(result) if isinstance(result, Exception) else ''}" for result in results]
    told += [path.read_bytes().decode("latin-1") for path in tmp_path.iterdir()]
    assert not [text for text in told if KEY in text]


def test_a_budget_holds_between_faults() -> None:
    with FaultyServer(model, seed=5, share=0.4, faults=("429", "500", "cut", "malformed_json")) as server:
        llm = Llm(config(server, budget_tokens=600, concurrency=4))
        results = asyncio.run(ask_all(llm, 60))
    account = llm.ledger.accounts["manager"]
    assert llm.budget.spent_tokens == account.prompt_tokens + account.completion_tokens + account.lost_tokens
    assert sum(map(sum, server.served)) <= 600
    assert {type(result).__name__ for result in results} >= {"Number", "BudgetSpent"}


def test_nobody_there_is_one_error() -> None:
    with FaultyServer(model) as server:
        settings = config(server, retries=1)
    (told,) = asyncio.run(ask_all(Llm(settings), 1))
    assert isinstance(told, UnreachableError)


def test_a_server_without_schemas_serves_all_the_same() -> None:
    with FaultyServer(model, share=0.0, takes_schemas=False) as server:
        results = asyncio.run(ask_all(Llm(config(server)), 5))
    assert results == [Number(operations=[n]) for n in range(5)]
