"""Builds by a model with random weights behind the local server: what the request's schema lets through is an operation
in form, whatever the weights are."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from horma_rl.llm.client import Llm
from horma_rl.llm.config import LlmConfig
from horma_rl.llm.local.engine import Engine
from horma_rl.llm.local.schemas import Grammars
from horma_rl.memory.manager.config import ManagerConfig
from horma_rl.memory.manager.journal import Journal, Verdict, journal_path
from horma_rl.memory.manager.manager import Writer
from horma_rl.memory.manager.run import build_one
from tests.manager_parts import assert_sound
from tests.memory_conversation import conversation
from tests.rollout_parts import tiny_qwen3, tokenizer

for package in ("llguidance", "starlette", "openai"):
    pytest.importorskip(package, reason="needs the extras `llm` and `serving`")
httpx2 = pytest.importorskip("httpx2", reason="the openai package of the extra `llm` brings it")

EOS = (258,)
TOKEN = "token-of-the-schemas"


def built(out: Path, config: ManagerConfig, monkeypatch: pytest.MonkeyPatch, **options: Any) -> list[Verdict]:
    """The verdicts of a build of two sessions."""
    from horma_rl.llm.local.app import ChatServer

    monkeypatch.setenv("HORMA_LLM_KEY", TOKEN)
    engine, tokens = Engine(tiny_qwen3(), EOS, slots=1), tokenizer("simple")
    app = ChatServer(engine, tokens, "tiny", TOKEN, 16_384, lambda: Grammars(tokens, EOS, 300)).app()
    told = LlmConfig(base_url="http://local/v1", model="tiny", cache=None, temperature=1.0, **options)

    async def build() -> None:
        async with Llm(told, transport=httpx2.ASGITransport(app)) as llm:
            await build_one(conversation(2), out, Writer(llm, "tiny", config))

    try:
        asyncio.run(build())
    finally:
        engine.stop()
    assert_sound(out, conversation(2))
    return [verdict for batch in Journal(journal_path(out)).batches for verdict in batch.verdicts]


def test_a_plain_request_leaves_nothing_to_get_wrong_but_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ManagerConfig(
        plain=True, max_operations=3, least_operations=2, lines=1, max_tokens=900, rounds=1, batch_tokens=100
    )
    verdicts = built(tmp_path / "conv", config, monkeypatch, structured="json_schema")
    accepted = [verdict for verdict in verdicts if verdict.reason is None]
    assert len(accepted) >= 2
    assert {verdict.kind for verdict in verdicts} <= {"create", "append"}
    said = {turn.id: turn.text for session in conversation(2).sessions for turn in session.turns}
    for verdict in accepted:
        for line in verdict.operation["lines"]:
            assert line["text"].partition(": ")[2] in said[line["turns"][0]]
    for verdict in verdicts:
        assert verdict.reason is None or "exists" in verdict.reason or "says that already" in verdict.reason


def test_any_answer_under_the_full_schema_is_an_operation_in_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ManagerConfig(
        max_operations=2, least_operations=1, lines=1, line_characters=20, max_tokens=3_000, rounds=0
    )
    verdicts = built(tmp_path / "conv", config, monkeypatch, structured="json_schema")
    assert verdicts
    for verdict in verdicts:
        assert verdict.kind != "answer"
        assert verdict.reason is None or not verdict.reason.startswith(("'op' must", "lines", "path", "operations"))
        if isinstance(verdict.operation, str):
            json.loads(verdict.operation)


def test_instructions_still_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = ManagerConfig(plain=True, max_tokens=60, rounds=0)
    verdicts = built(tmp_path / "conv", config, monkeypatch, structured="instructions", reasks=0)
    assert all(verdict.kind == "answer" and verdict.reason for verdict in verdicts)
    assert verdicts
