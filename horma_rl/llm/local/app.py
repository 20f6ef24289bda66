"""The HTTP side of the local server: `/v1/models`, `/v1/chat/completions` and `/health`, behind a bearer token.

`transformers serve` (5.24) takes no token and decodes one request at a time, hence this one. Answers keep to a JSON
schema where one is given. What it cannot do (tools, streams, several choices) it refuses, instead of answering as if it
had done it.
"""

from __future__ import annotations

import asyncio
import functools
import hmac
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from horma_rl.llm.local.engine import Engine, Job
from horma_rl.llm.local.schemas import Grammars, Kept, SchemaError
from horma_rl.retrieval.types import Completion, Sampling

_LARGEST_BODY = 8 * 2**20
_ROLES = {"system", "user", "assistant"}
_UNSUPPORTED = ("stream", "tools", "functions", "stop", "logit_bias", "presence_penalty", "frequency_penalty")
_DEFAULT_MAX_TOKENS = 256


class _BadRequestError(Exception):
    """What a request asks for cannot be done; the message says what."""


class ChatServer:
    """One model under one name. `tokenizer` brings the chat template; `context`: the most tokens of prompt and
    answer together; `grammars` makes what compiles schemas for it, once one is asked for."""

    def __init__(
        self, engine: Engine, tokenizer: Any, name: str, token: str, context: int, grammars: Callable[[], Grammars]
    ) -> None:
        self._engine, self._tokenizer, self._name, self._token, self._context = engine, tokenizer, name, token, context
        self._grammars = functools.cache(grammars)
        self._control = [str(t) for t in tokenizer.added_tokens_decoder.values() if t.special]

    def app(self) -> Starlette:
        """The ASGI application."""
        return Starlette(
            routes=[
                Route("/health", self._health),
                Route("/v1/models", self._guarded(self._models)),
                Route("/v1/chat/completions", self._guarded(self._chat), methods=["POST"]),
            ]
        )

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _models(self, request: Request) -> Response:
        entry = {"id": self._name, "object": "model", "owned_by": "horma-rl", "max_model_len": self._context}
        return JSONResponse({"object": "list", "data": [entry]})

    def _guarded(self, handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        expected = f"Bearer {self._token}".encode()

        async def guarded(request: Request) -> Response:
            given = request.headers.get("authorization", "").encode("latin-1", "replace")
            if not hmac.compare_digest(given, expected):
                return _error(401, "a bearer token is needed, and this is not the one")
            try:
                return await handler(request)
            except _BadRequestError as error:
                return _error(400, str(error))

        return guarded

    async def _chat(self, request: Request) -> Response:
        body = await _read(request)
        if body.get("model") != self._name:
            return _error(404, f"there is no model of that name here, only {self._name}")
        form = body.get("response_format")
        # Off the loop, as schemas take their time; other requests do not queue up behind them.
        kept = None if _is_text(form) else await asyncio.to_thread(self._kept, form)
        job = self._job(body, kept)
        self._engine.submit(job)
        completion = await _until_done(asyncio.wrap_future(job.done), request)
        if completion is None:
            return Response(status_code=499)  # nobody is there to read it
        if kept and kept.fault:
            raise _BadRequestError(f"response_format: the schema could not be kept to: {kept.fault}")
        return JSONResponse(self._reply(job, completion, bool(body.get("logprobs"))))

    def _kept(self, form: Any) -> Kept:
        """What keeps an answer to the schema of `form`."""
        named = form.get("json_schema") if isinstance(form, dict) and form.get("type") == "json_schema" else None
        if not isinstance(named, dict):
            raise _BadRequestError("response_format: only text, or json_schema with a schema, is supported")
        try:
            return self._grammars().keep_to(named.get("schema"))
        except SchemaError as error:
            raise _BadRequestError(f"response_format: {error}") from None

    def _job(self, body: Mapping[str, Any], kept: Kept | None) -> Job:
        for name in _UNSUPPORTED:
            if body.get(name):
                raise _BadRequestError(f"{name} is not supported")
        if body.get("n") not in (None, 1):
            raise _BadRequestError("n is not supported")
        prompt = self._prompt(body.get("messages"))
        asked = body.get("max_completion_tokens", body.get("max_tokens"))
        limit = int(_number(asked, "max_tokens", _DEFAULT_MAX_TOKENS, 1, self._context))
        if len(prompt) + limit > self._context:
            raise _BadRequestError(
                f"context length: {len(prompt)} prompt tokens and max_tokens {limit} are over {self._context}"
            )
        sampling = Sampling(
            _number(body.get("temperature"), "temperature", 1.0, 0.0, 2.0),
            _number(body.get("top_p"), "top_p", 1.0, 1e-6, 1.0),
        )
        seed = int(_number(body.get("seed"), "seed", time.time_ns() % 2**31, -(2**63), 2**63))
        return Job(prompt, limit, seed, sampling, kept)

    def _prompt(self, messages: Any) -> tuple[int, ...]:
        if not isinstance(messages, list) or not messages:
            raise _BadRequestError("messages: a list of at least one message is needed")
        for message in messages:
            known = isinstance(message, dict) and message.get("role") in _ROLES
            if not known or not isinstance(message.get("content"), str):
                raise _BadRequestError("messages: each has a role (system, user, assistant) and a text as its content")
        plain = [{"role": message["role"], "content": self._plain(message["content"])} for message in messages]
        try:
            text = self._tokenizer.apply_chat_template(plain, tokenize=False, add_generation_prompt=True)
        except Exception as error:  # templates raise what they like
            raise _BadRequestError(f"the chat template refuses the messages: {error}") from None
        return tuple(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def _plain(self, text: str) -> str:
        """`text` without the chat's control tokens, which would let what is quoted in a message end it."""
        for token in self._control:
            text = text.replace(token, " ")
        return text

    def _reply(self, job: Job, completion: Completion, logprobs: bool) -> dict[str, Any]:
        said = completion.token_ids[:-1] if completion.finished else completion.token_ids
        prompt, used = len(job.prompt_ids), len(completion.token_ids)
        choice: dict[str, Any] = {
            "index": 0,
            "message": {"role": "assistant", "content": self._tokenizer.decode(said, skip_special_tokens=True)},
            "finish_reason": "stop" if completion.finished else "length",
            "logprobs": None,
        }
        if logprobs:
            pairs = zip(said, completion.logprobs, strict=False)
            choice["logprobs"] = {
                "content": [{"token": self._tokenizer.decode([token]), "logprob": value} for token, value in pairs]
            }
        return {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self._name,
            "choices": [choice],
            "usage": {"prompt_tokens": prompt, "completion_tokens": used, "total_tokens": prompt + used},
        }


def _is_text(form: Any) -> bool:
    """Whether `form` asks for nothing but text."""
    return form is None or (isinstance(form, dict) and form.get("type") == "text")


async def _until_done(done: asyncio.Future[Completion], request: Request) -> Completion | None:
    """The completion, or None (and the job cancelled) when the client hangs up: nobody waits for it any more."""
    while not done.done():
        await asyncio.wait([done], timeout=1.0)
        if not done.done() and await request.is_disconnected():
            done.cancel()
            return None
    return done.result()


async def _read(request: Request) -> dict[str, Any]:
    """The JSON object of the request's body."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > _LARGEST_BODY:
            raise _BadRequestError("the request is too large")
    try:
        body = json.loads(bytes(content))
    except (ValueError, RecursionError):
        raise _BadRequestError("the request is no JSON") from None
    if not isinstance(body, dict):
        raise _BadRequestError("the request is no JSON object")
    return body


def _number(value: Any, name: str, default: float, least: float, most: float) -> float:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise _BadRequestError(f"{name} must be a number from {least:g} to {most:g}")
    return value


def _error(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "type": "invalid_request_error", "code": status}}, status)
