"""One try of one request at an OpenAI-compatible endpoint, through the `openai` package.

Whatever the server does ends here in an `Answer` or a `Fault`. The key is read from the environment when the endpoint
is made and taken out of every text that comes back.
"""

from __future__ import annotations

import asyncio
import email.utils
import json
import os
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from horma_rl.errors import UserError
from horma_rl.llm.config import LlmConfig
from horma_rl.llm.types import RefusedError, Usage

_AGAIN = {408, 409, 425, 429}
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_TOLD = 300
_SHORTEST_KEY = 8
"""Shorter keys are placeholders like `none`, which texts may hold for good reasons."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A well-formed answer. `usage` is None when the server does not count tokens."""

    text: str
    finish: str
    usage: Usage | None


class FaultError(Exception):
    """A try gave no usable answer and the next may. `worked`: the server may have spent tokens on it; `wait_s`: how
    long it asks to be left alone."""

    def __init__(self, reason: str, worked: bool, wait_s: float | None = None) -> None:
        self.worked, self.wait_s = worked, wait_s
        super().__init__(reason)


class Endpoint:
    """The chat completions of `config.base_url`. For one event loop. `transport`: in place of the network, for tests.

    Raises UserError when the `openai` package is missing or the key cannot be sent in a header.
    """

    def __init__(self, config: LlmConfig, transport: Any = None) -> None:
        try:
            import openai
        except ImportError:
            raise UserError("llm: the openai package is missing: pip install 'horma-rl[llm]'") from None
        self._openai = openai
        self._config = config
        self._key = os.environ.get(config.api_key_env, "").strip()
        if not self._key.isascii() or not self._key.isprintable():
            raise UserError(f"llm: the key in {config.api_key_env} holds characters that no key has")
        local = urlsplit(config.base_url).hostname in _LOOPBACK
        # Proxies are for the world outside; retries are the client's, where budget and ledger see them.
        options: dict[str, Any] = {"transport": transport} if transport is not None else {"trust_env": not local}
        # Without a key none is sent, not even one that the openai package finds in the environment.
        self._headers: Any = None if self._key else {"Authorization": openai.Omit()}
        self._client = openai.AsyncOpenAI(
            base_url=config.base_url,
            api_key=self._key or "unsent",
            max_retries=0,
            timeout=config.timeout_s,
            http_client=openai.DefaultAsyncHttpxClient(**options),
        )

    async def ask(self, body: Mapping[str, Any]) -> Answer:
        """Send `body` once.

        Raises:
            FaultError: no usable answer, but the next try may give one.
            RefusedError: the server refuses this request.
        """
        return self._answer(await self._content(self._chat(body)))

    async def ask_raw(self, body: Mapping[str, Any]) -> Any:
        """As `ask`, but the answer as JSON, whatever is in it."""
        return self._json(await self._content(self._chat(body)))

    async def models(self) -> list[str]:
        """The names of what the endpoint serves. Raises what `ask` does."""
        listed = self._json(
            await self._content(self._client.models.with_raw_response.list(extra_headers=self._headers))
        )
        try:
            return [self.redacted(str(entry["id"])) for entry in listed["data"]]
        except (KeyError, TypeError):
            raise FaultError("/models gives no list of models", worked=False) from None

    def _chat(self, body: Mapping[str, Any]) -> Awaitable[Any]:
        return self._client.chat.completions.with_raw_response.create(**body, extra_headers=self._headers)

    async def _content(self, request: Awaitable[Any]) -> bytes:
        """The body of a successful answer to `request`."""
        failed: FaultError | RefusedError
        try:
            async with asyncio.timeout(self._config.timeout_s):
                content: bytes = (await request).content
                return content
        except self._openai.APIStatusError as error:
            failed = self._by_status(error.status_code, error.response.headers, error.response.text)
        except (TimeoutError, self._openai.APITimeoutError):
            failed = FaultError(f"no answer in {self._config.timeout_s:g} s", worked=True)
        except self._openai.OpenAIError as error:
            cause = error.__cause__ or error
            failed = FaultError(self.redacted(f"{type(cause).__name__} {cause}".strip()), worked=_was_sent(cause))
        # Raised here, outside the handlers: the openai package's errors hold the request with its headers.
        raise failed

    def _json(self, content: bytes) -> Any:
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            told = content[:80].decode("utf-8", "replace")
            raise FaultError(self.redacted(f"the answer is no JSON: {told!r}"), worked=True) from None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    def redacted(self, text: str) -> str:
        """`text` without the key."""
        return text.replace(self._key, "[key]") if len(self._key) >= _SHORTEST_KEY else text

    def _answer(self, content: bytes) -> Answer:
        reply = self._json(content)
        try:
            choice = reply["choices"][0]
            text, finish = choice["message"].get("content"), choice.get("finish_reason")
        except (KeyError, TypeError, IndexError, AttributeError):
            told = content[:80].decode("utf-8", "replace")
            raise FaultError(self.redacted(f"the answer is no chat completion: {told!r}"), worked=True) from None
        if isinstance(text, list):
            text = "".join(part.get("text", "") for part in text if isinstance(part, dict) and _is_text(part))
        if text is not None and not isinstance(text, str):
            raise FaultError("the answer's content is no text", worked=True)
        clean = self.redacted((text or "").encode("utf-8", "replace").decode("utf-8"))
        return Answer(clean, finish if isinstance(finish, str) else "stop", _usage(reply.get("usage")))

    def _by_status(self, status: int, headers: Mapping[str, str], text: str) -> FaultError | RefusedError:
        told = f"HTTP {status} {' '.join(self.redacted(text).split())[:_TOLD]}".strip()
        if status in (401, 403):
            return RefusedError(
                f"{self._config.base_url} refuses the key: set {self._config.api_key_env} ({told})", status
            )
        if (status in _AGAIN and "insufficient_quota" not in text) or status >= 500:
            return FaultError(told, worked=False, wait_s=_retry_after(headers))
        return RefusedError(f"{self._config.base_url} refuses the request: {told}", status)


def _is_text(part: Mapping[str, Any]) -> bool:
    return isinstance(part.get("text", ""), str)


def _was_sent(cause: BaseException) -> bool:
    """Whether the server may have seen the request: not when no connection was made."""
    return "Connect" not in type(cause).__name__


def _usage(told: Any) -> Usage | None:
    if not isinstance(told, dict):
        return None
    counts = [told.get("prompt_tokens"), told.get("completion_tokens")]
    whole = [count for count in counts if isinstance(count, int) and not isinstance(count, bool) and count >= 0]
    return Usage(*whole) if len(whole) == 2 else None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that Retry-After asks for: a number, or a date."""
    text = headers.get("retry-after")
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
        except ValueError:
            return None
    return seconds if 0 <= seconds < float("inf") else None
