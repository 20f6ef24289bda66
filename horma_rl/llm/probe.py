"""What an endpoint can do: does it answer, count, repeat itself, give log-probabilities, keep to a JSON schema?"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from horma_rl.llm.config import LlmConfig
from horma_rl.llm.endpoint import Endpoint, FaultError
from horma_rl.llm.types import RefusedError

_FORM = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["n"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the table. `needed`: without it nothing works."""

    name: str
    ok: bool
    told: str
    needed: bool


async def probe(config: LlmConfig, transport: Any = None) -> list[Finding]:
    """Ask the endpoint of `config` a few short things, without retries. The first line that is needed and not ok ends
    it."""
    endpoint = Endpoint(config, transport)
    body: dict[str, Any] = {
        "model": config.model,
        "messages": [{"role": "user", "content": "Count to five."}],
        "max_tokens": 16,
        "temperature": 0.0,
    }
    tests: list[tuple[str, bool, Callable[[Endpoint, Mapping[str, Any]], Awaitable[tuple[bool, str]]]]] = [
        ("models", False, _models),
        ("answers", True, _answers),
        ("repeats itself", False, _repeats),
        ("log-probabilities", False, _logprobs),
        ("json_schema", False, _schema),
    ]
    findings = []
    try:
        for name, needed, test in tests:
            try:
                ok, told = await test(endpoint, body)
            except (FaultError, RefusedError) as error:
                ok, told = False, str(error)
            findings.append(Finding(name, ok, told, needed))
            if needed and not ok:
                break
    finally:
        await endpoint.aclose()
    return findings


async def _models(endpoint: Endpoint, body: Mapping[str, Any]) -> tuple[bool, str]:
    names = await endpoint.models()
    listed = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    return body["model"] in names, listed if body["model"] in names else f"no {body['model']}: {listed or 'none'}"


async def _answers(endpoint: Endpoint, body: Mapping[str, Any]) -> tuple[bool, str]:
    start = time.monotonic()
    answer = await endpoint.ask(body)
    counted = f"{answer.usage.completion_tokens} tokens" if answer.usage else "tokens are not counted"
    return True, f"{time.monotonic() - start:.1f} s, {counted}: {' '.join(answer.text.split())[:60]}"


async def _repeats(endpoint: Endpoint, body: Mapping[str, Any]) -> tuple[bool, str]:
    texts = {(await endpoint.ask(body)).text for _ in range(2)}
    return len(texts) == 1, "same answer at temperature 0" if len(texts) == 1 else "other answers at temperature 0"


async def _logprobs(endpoint: Endpoint, body: Mapping[str, Any]) -> tuple[bool, str]:
    reply = await endpoint.ask_raw({**body, "logprobs": True})
    try:
        content = reply["choices"][0]["logprobs"]["content"]
        numbers = [float(entry["logprob"]) for entry in content]
    except (KeyError, TypeError, IndexError, ValueError):
        return False, "none in the answer"
    return bool(numbers), f"of {len(numbers)} tokens"


async def _schema(endpoint: Endpoint, body: Mapping[str, Any]) -> tuple[bool, str]:
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": _FORM, "strict": True}}
    answer = await endpoint.ask({**body, "response_format": form, "max_tokens": 64})
    try:
        kept = isinstance(json.loads(answer.text)["n"], int)
    except (ValueError, KeyError, TypeError):
        kept = False
    return kept, "kept" if kept else "taken, and not kept: set structured: instructions"
