"""`Llm`: one model behind any OpenAI-compatible endpoint.

A request is answered from the disk when it was answered before. Else it waits for its turn and for room in the budget,
is sent, and sent again with growing pauses while the server is busy, silent or garbled. What it took is entered in the
ledger once, when its answer is there.
"""

from __future__ import annotations

import asyncio
import json
import random
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from horma_rl.llm.budget import Budget
from horma_rl.llm.cache import ReplyCache, request_key
from horma_rl.llm.config import LlmConfig
from horma_rl.llm.endpoint import Answer, Endpoint, FaultError
from horma_rl.llm.extract import InvalidError, extract
from horma_rl.llm.ledger import Ledger
from horma_rl.llm.types import (
    Attempt,
    LlmError,
    Message,
    ModelT,
    NoValidAnswer,
    RefusedError,
    Reply,
    Role,
    UnreachableError,
    Usage,
)

_LONGEST_WAIT_S = 600.0
_SHOWN = 2000
"""Characters of a bad answer that the model is shown again."""
_MAY_BE_FORM = {400, 404, 415, 422}
_FORM_WORDS = ("response_format", "schema", "grammar")


class Llm:
    """A `LanguageModel` over HTTP, for one event loop; `async with` closes it.

    `transport`, `sleep`: in place of the network and of `asyncio.sleep`, for tests. `budget` defaults to what `config`
    says.

    Raises UserError when the openai package is missing, or the cache's place cannot be written.
    """

    def __init__(
        self,
        config: LlmConfig,
        *,
        budget: Budget | None = None,
        transport: Any = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.config = config
        self.ledger = Ledger(config.price_in, config.price_out)
        self.budget = budget or Budget(config.budget_tokens, config.budget_cost)
        self._endpoint = Endpoint(config, transport)
        self._cache = ReplyCache(config.cache) if config.cache else None
        self._sleep = sleep
        self._turn = asyncio.Semaphore(config.concurrency)
        self._same: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._schemas = config.structured != "instructions"
        self._limit_name = "max_tokens"

    async def __aenter__(self) -> Llm:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close connections and cache."""
        await self._endpoint.aclose()
        if self._cache:
            self._cache.close()

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        role: Role,
        max_tokens: int | None = None,
        temperature: float | None = None,
        schema: Mapping[str, Any] | None = None,
        describe: bool = True,
    ) -> Reply:
        """One reply; see `LanguageModel`. `describe`: put `schema` in the messages when the server does not take it."""
        request = self._request(messages, max_tokens, temperature, schema, describe)
        if self._cache is None:
            return await self._send(request, role)
        key = request_key({**request, "base_url": self.config.base_url, "structured": self.config.structured})
        lock = self._same.get(key)
        if lock is None:
            self._same[key] = lock = asyncio.Lock()
        async with lock:  # what is asked twice at once is sent once
            if stored := self._cache.get(key):
                self.ledger.accounts[role].cached += 1
                text, finish, usage = stored
                return Reply(text, usage, cached=True, finish=finish)
            reply = await self._send(request, role)
            self._cache.put(key, reply.text, reply.finish, reply.usage)
            return reply

    async def structured(
        self,
        messages: Sequence[Message],
        schema: type[ModelT],
        *,
        role: Role,
        check: Callable[[ModelT], str | None] | None = None,
        max_tokens: int | None = None,
        describe: bool = True,
    ) -> ModelT:
        """One value of type `schema`; see `LanguageModel`."""
        asked = list(messages)
        attempts: list[Attempt] = []
        form = schema.model_json_schema()
        while len(attempts) <= self.config.reasks:
            if attempts:
                self.ledger.accounts[role].reasks += 1
                asked = [*messages, *_corrected(attempts[-1])]
            reply = await self.complete(asked, role=role, max_tokens=max_tokens, schema=form, describe=describe)
            try:
                return extract(reply.text, schema, check, cut=reply.finish == "length")
            except InvalidError as error:
                called = " (call no tool: answer with text)" if reply.finish == "tool_calls" else ""
                attempts.append(Attempt(reply.text, f"{error}{called}"))
        raise NoValidAnswer(attempts)

    # One request ---------------------------------------------------------------------------------------------------

    def _request(
        self,
        messages: Sequence[Message],
        max_tokens: int | None,
        temperature: float | None,
        schema: Mapping[str, Any] | None,
        describe: bool,
    ) -> dict[str, Any]:
        """Everything that the reply depends on."""
        config = self.config
        return {
            "model": config.model,
            "messages": [{"role": m["role"], "content": _encodable(m["content"])} for m in messages],
            "max_tokens": max_tokens or config.max_tokens,
            "temperature": config.temperature if temperature is None else temperature,
            "seed": config.seed,
            "extra_body": config.extra_body,
            "schema": schema,
            "describe": describe and schema is not None,
        }

    def _body(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """`request` in the way that the server takes it."""
        body: dict[str, Any] = {"model": request["model"], "messages": request["messages"]}
        body[self._limit_name] = request["max_tokens"]
        for name in ("temperature", "seed"):
            if request[name] is not None:
                body[name] = request[name]
        if request["extra_body"]:
            body["extra_body"] = request["extra_body"]
        if request["schema"] is None:
            return body
        if self._schemas:
            form = {"name": "answer", "schema": request["schema"], "strict": False}
            return {**body, "response_format": {"type": "json_schema", "json_schema": form}}
        if request["describe"]:
            body["messages"] = _described(request["messages"], request["schema"])
        return body

    async def _send(self, request: Mapping[str, Any], role: Role) -> Reply:
        try:
            async with self._turn:
                return await self._tries(request, role)
        except LlmError:
            self.ledger.accounts[role].failed += 1
            raise

    async def _tries(self, request: Mapping[str, Any], role: Role) -> Reply:
        failed, tries = "", 0
        while tries <= self.config.retries:
            try:
                body = self._body(request)
                return await self._try(body, role)
            except FaultError as error:
                failed = str(error)
                tries += 1
                if tries <= self.config.retries:
                    self.ledger.accounts[role].retries += 1
                    await self._sleep(self._pause(tries, error.wait_s))
            except RefusedError as error:
                if not self._adapted(error, body):
                    raise
        raise UnreachableError(f"{self.config.base_url} gives no answer ({tries} tries, the last: {failed})")

    async def _try(self, body: Mapping[str, Any], role: Role) -> Reply:
        """Send `body` once, within the budget, and enter what it took."""
        limit = int(body["max_tokens"] if "max_tokens" in body else body["max_completion_tokens"])
        most = Usage(_estimate(body["messages"], 3), limit)
        reserved = most.total, self.ledger.cost(most)
        await self.budget.reserve(*reserved)
        spent = Usage()
        try:
            answer = await self._endpoint.ask(body)
            spent = answer.usage or _guessed(body, answer, limit)
            self.ledger.reply(role, spent, estimated=answer.usage is None)
            return Reply(answer.text, spent, cached=False, finish=answer.finish)
        except (FaultError, asyncio.CancelledError) as error:
            if not isinstance(error, FaultError) or error.worked:
                spent = Usage(_estimate(body["messages"], 4), 0)
                self.ledger.lost(role, spent)
            raise
        finally:
            self.budget.settle(reserved, spent.total, self.ledger.cost(spent))

    def _pause(self, tries: int, asked: float | None) -> float:
        """Seconds before the next try: doubled each time, a random half off, and never less than the server asks."""
        wait = min(self.config.backoff_s * 2 ** min(tries - 1, 30), self.config.backoff_max_s)
        # So that clients that were cut off together do not come back together.
        jittered: float = wait * random.uniform(0.5, 1.0)
        return max(jittered, min(asked or 0.0, _LONGEST_WAIT_S))

    def _adapted(self, error: RefusedError, body: Mapping[str, Any]) -> bool:
        """Whether what was refused in `body` can be asked in another way, which then holds for all requests."""
        told = str(error).lower()
        if "max_tokens" in body and "max_completion_tokens" in told:
            self._limit_name = "max_completion_tokens"
            return True
        if "response_format" not in body or self.config.structured == "json_schema":
            return False
        if error.status not in _MAY_BE_FORM or not any(word in told for word in _FORM_WORDS):
            return False
        self._schemas = False
        return True


def _estimate(messages: Sequence[Mapping[str, str]], bytes_per_token: int) -> int:
    """Tokens of `messages`, with those that a chat template puts around each."""
    return sum(len(message["content"].encode()) // bytes_per_token + 8 for message in messages)


def _guessed(body: Mapping[str, Any], answer: Answer, limit: int) -> Usage:
    """What an answer may have taken, from the length of the texts."""
    return Usage(_estimate(body["messages"], 4), min(len(answer.text.encode()) // 4 + 1, limit))


def _described(messages: Sequence[Message], schema: Mapping[str, Any]) -> list[Message]:
    """`messages` with the schema at the end of the last one: some chat templates know no system message."""
    told = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    ask = f"\n\nAnswer with one JSON value that matches this JSON schema, and with nothing else:\n{told}"
    *before, last = messages
    return [*before, {"role": last["role"], "content": last["content"] + ask}]


def _corrected(attempt: Attempt) -> list[Message]:
    """The last bad answer and what was wrong with it. Earlier ones are left out: the prompt must not grow."""
    shown = attempt.text[:_SHOWN] + ("..." if len(attempt.text) > _SHOWN else "")
    told = f"This answer cannot be used: {attempt.reason}\nAnswer again, with one JSON value and nothing else."
    return [{"role": "assistant", "content": shown or "(empty)"}, {"role": "user", "content": told}]


def _encodable(text: str) -> str:
    """`text` without lone surrogates, which no request can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
