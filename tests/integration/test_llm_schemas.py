"""Answers of the local server under JSON schemas: with random weights only the schema can make them valid."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from horma_rl.llm.client import Llm
from horma_rl.llm.config import LlmConfig
from horma_rl.llm.local import trial
from horma_rl.llm.local.engine import Engine, Job
from horma_rl.llm.local.schemas import Grammars
from horma_rl.retrieval.backends.transformers import TransformersGenerator
from horma_rl.retrieval.types import Completion, Request, Sampling
from tests.rollout_parts import tiny_qwen3, tiny_qwen3_5, tokenizer

for package in ("llguidance", "starlette", "openai"):
    pytest.importorskip(package, reason="needs the extras `llm` and `serving`")
httpx2 = pytest.importorskip("httpx2", reason="the openai package of the extra `llm` brings it")

EOS = (258,)
TOKEN = "token-of-the-schemas"


class Thing(BaseModel):
    """Every kind of field that a small answer has."""

    kind: str = Field(pattern="^(cup|pot)-[0-9]{1,2}$")
    size: int = Field(ge=0, le=99)
    whole: bool
    names: list[str] = Field(min_length=1, max_length=2)


def form(fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def thing(characters: int = 6) -> dict[str, Any]:
    schema = Thing.model_json_schema()
    schema["properties"]["names"]["items"]["maxLength"] = characters
    return {**schema, "additionalProperties": False}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    made = Engine(tiny_qwen3(), EOS, slots=3)
    yield made
    made.stop()


def server(engine: Engine) -> Any:
    from horma_rl.llm.local.app import ChatServer

    tokens = tokenizer("simple")
    return ChatServer(engine, tokens, "tiny", TOKEN, 2048, lambda: Grammars(tokens, EOS, 300)).app()


def ask(engine: Engine, *bodies: dict[str, Any]) -> list[Any]:
    """The answers to requests that are sent at once."""

    async def together() -> list[Any]:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        local = httpx2.ASGITransport(server(engine))
        async with httpx2.AsyncClient(transport=local, base_url="http://local", headers=headers, timeout=60) as http:
            posts = (http.post("/v1/chat/completions", json=body) for body in bodies)
            return list(await asyncio.gather(*posts))

    return asyncio.run(together())


def body(schema: Any, **fields: Any) -> dict[str, Any]:
    named = {"name": "answer", "schema": schema, "strict": True}
    return {
        "model": "tiny",
        "messages": [{"role": "user", "content": "a thing"}],
        "max_tokens": 200,
        "temperature": 1.0,
        "seed": 1,
        "response_format": {"type": "json_schema", "json_schema": named},
        **fields,
    }


def said(reply: Any) -> tuple[str, str]:
    assert reply.status_code == 200, reply.text
    choice = reply.json()["choices"][0]
    return choice["message"]["content"], choice["finish_reason"]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_every_answer_validates_or_is_told_to_be_cut(engine: Engine, temperature: float) -> None:
    bodies = [body(thing(), temperature=temperature, seed=seed, logprobs=True) for seed in range(6)]
    for reply in ask(engine, *bodies):
        text, finish = said(reply)
        assert finish == "stop"
        found = TypeAdapter(Thing).validate_json(text, strict=True)
        assert all(len(name) <= 6 for name in found.names)
        entries = reply.json()["choices"][0]["logprobs"]["content"]
        assert len(entries) == reply.json()["usage"]["completion_tokens"] - 1
        assert all(entry["logprob"] <= 0 for entry in entries)
        assert any(entry["logprob"] == 0 for entry in entries)
    cut, finish = said(ask(engine, body(thing(), max_tokens=12))[0])
    assert finish == "length"
    assert len(cut) == 12
    with pytest.raises(ValueError, match="json_invalid"):
        Thing.model_validate_json(cut)


def test_requests_that_are_decoded_together_keep_to_their_own_schemas(engine: Engine) -> None:
    """None of one in another, nor in one that has none."""
    digits = form({"n": {"type": "integer", "minimum": 100, "maximum": 999}})
    word = form({"w": {"type": "string", "enum": ["left", "right"]}})
    free = {**body(None), "max_tokens": 30}
    del free["response_format"]
    alone = [said(ask(engine, one)[0]) for one in (body(digits), body(word), free)]
    mixed = [body(digits), body(word), free, body(thing()), body(word), body(digits), free]
    replies = [said(reply) for reply in ask(engine, *mixed)]
    for text, _ in (replies[0], replies[5]):
        assert 100 <= json.loads(text)["n"] <= 999
    for text, _ in (replies[1], replies[4]):
        assert json.loads(text)["w"] in ("left", "right")
    Thing.model_validate_json(replies[3][0])
    assert [replies[0], replies[1], replies[2], replies[6]] == [*alone, alone[2]]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "(?=a)b"},
        {"not": {"type": "string"}},
        {"type": "mug"},
        {"$ref": "http://127.0.0.1:1/x"},
        None,
        ["type"],
        {"type": "array", "uniqueItems": True},
    ],
)
def test_a_schema_that_cannot_be_kept_to_is_refused_with_the_reason(engine: Engine, schema: Any) -> None:
    reply = ask(engine, body(schema))[0]
    assert reply.status_code == 400
    assert "response_format: " in reply.json()["error"]["message"]


def chained(links: int) -> dict[str, Any]:
    """Objects in objects, each by a reference."""
    defs = {f"a{i}": form({"x": {"$ref": f"#/$defs/a{i + 1}"}}) for i in range(links)}
    return {"$ref": "#/$defs/a0", "$defs": {**defs, f"a{links}": {"type": "integer"}}}


def doubling(links: int) -> dict[str, Any]:
    """Each link needs the next one twice, and has to be merged with it."""
    both = ({k: {"$ref": f"#/$defs/a{i + 1}", "required": []} for k in "xy"} for i in range(links))
    defs = {f"a{i}": {"type": "object", "properties": properties} for i, properties in enumerate(both)}
    return {"$ref": "#/$defs/a0", "$defs": {**defs, f"a{links}": {"type": "object"}}}


def test_schemas_that_break_the_compiler_break_nothing_else(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "_CPU_S", 1)
    plain = body({}, response_format=None, max_tokens=8)
    word = body(form({"w": {"enum": ["left", "right"]}}))
    replies = ask(engine, body(chained(3000)), plain, body(doubling(30)), word)
    for refused in (replies[0], replies[2]):
        assert refused.status_code == 400
        assert "too deep or too large" in refused.json()["error"]["message"]
    assert said(replies[1])[0] == said(ask(engine, plain)[0])[0]
    assert json.loads(said(replies[3])[0])["w"] in ("left", "right")
    assert json.loads(said(ask(engine, body(chained(20), max_tokens=400))[0])[0])


def test_a_schema_without_a_finite_value_is_told(engine: Engine) -> None:
    endless = {"$ref": "#/$defs/a", "$defs": {"a": form({"x": {"$ref": "#/$defs/a"}})}}
    for schema in (endless, {"$ref": "#"}, {"enum": []}, {"type": "integer", "minimum": 5, "maximum": 1}):
        reply = ask(engine, body(schema))[0]
        assert reply.status_code == 400
        assert "could not be kept to" in reply.text or "cannot be kept to" in reply.text
    assert ask(engine, body(thing(), max_tokens=1))[0].json()["choices"][0]["finish_reason"] == "length"


def test_a_job_that_cannot_begin_fails_alone(engine: Engine) -> None:
    good, bad, next_one = (Job(prompt, 4, 0, Sampling(0.0)) for prompt in ((40, 41), (), (40, 41)))
    for job in (good, bad, next_one):
        engine.submit(job)
    with pytest.raises(ValueError, match="needs a prompt"):
        bad.done.result(60)
    assert good.done.result(60).token_ids == next_one.done.result(60).token_ids


def test_a_form_of_another_kind_is_refused(engine: Engine) -> None:
    for wrong in (
        {"type": "grammar"},
        {"type": "json_object"},
        {"type": "json_schema"},
        {"type": "json_schema", "json_schema": 1},
        7,
    ):
        assert ask(engine, body({}, response_format=wrong))[0].status_code == 400
    assert ask(engine, body({}, response_format={"type": "text"}, max_tokens=4))[0].status_code == 200


def test_the_client_asks_in_words_where_a_schema_is_refused(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORMA_LLM_KEY", TOKEN)
    transport = httpx2.ASGITransport(server(engine))
    config = LlmConfig(base_url="http://local/v1", model="tiny", cache=None, max_tokens=40, temperature=1.0)

    async def both() -> tuple[str, str]:
        async with Llm(config, transport=transport) as llm:
            asked = [{"role": "user", "content": "left or right?"}]
            kept = await llm.complete(asked, role="actor", schema=form({"w": {"enum": ["left", "right"]}}))  # type: ignore[arg-type]
            free = await llm.complete(asked, role="actor", schema={"not": {}})  # type: ignore[arg-type]
            return kept.text, free.text

    kept, free = asyncio.run(both())
    assert json.loads(kept)["w"] in ("left", "right")
    assert free


def test_a_row_goes_on_from_what_a_constrained_answer_left() -> None:
    """The cache of a row holds what was fed, forced ids among it, for full attention and for recurrent states."""
    tokens = tokenizer("simple")
    for model in (tiny_qwen3(), tiny_qwen3_5()):
        prompt = tuple(tokens("a thing")["input_ids"])
        generator = TransformersGenerator(model, EOS, Sampling(0.0))
        kept = Grammars(tokens, EOS, 300).keep_to(form({"long name of a field": {"enum": ["one", "two"]}}))
        generator.submit(Request(0, prompt, 60, 0), kept)
        first = answer(generator)
        assert json.loads(tokens.decode(first.token_ids[:-1]))["long name of a field"] in ("one", "two")
        longer = (*prompt, *first.token_ids, 40, 41)
        generator.submit(Request(0, longer, 12, 0))
        fresh = TransformersGenerator(model, EOS, Sampling(0.0))
        fresh.submit(Request(0, longer, 12, 0))
        assert answer(generator).token_ids == answer(fresh).token_ids


def answer(generator: TransformersGenerator) -> Completion:
    while not (done := generator.poll()):
        pass
    return done[0]
