"""A vLLM server over its OpenAI-compatible `/v1/completions`: prompt token ids in, sampled token ids out.

Requests are in flight all at once; the server batches them. A request that the client drops (`release`) is one whose
connection closes, which makes the server abort it. A cut connection or an overloaded server is tried again: the same
request with the same seed asks for the same tokens. A server that takes a request and says nothing is not asked again.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import httpx

from horma_rl.errors import UserError
from horma_rl.retrieval.backends.checks import check_request, check_url
from horma_rl.retrieval.types import Completion, Request, Sampling

TOKEN_VARIABLE = "HORMA_SERVER_TOKEN"
"""The environment variable that holds the server's bearer token."""
TRIES = 5
"""How often a request is sent before the server counts as gone; the pause between two tries doubles."""
_BUSY = frozenset({408, 429, 500, 502, 503, 504})
ANSWER_S = 600.0
"""Seconds in which a server that has answered before answers a request."""
FIRST_ANSWER_S = 120.0
"""Seconds in which a server gives its first answer; a long response has TOKEN_S for each token that it may take."""
TOKEN_S = 0.1
_CONNECT_S = 10.0
_MODELS_TIMEOUT = httpx.Timeout(30.0, connect=_CONNECT_S)
_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server that answered: `url` up to `/v1`, the model's name there, and the bearer token, if it takes one."""

    url: str
    model: str
    token: str | None = None
    pause_s: float = 0.5
    """Seconds before the second try."""

    @property
    def headers(self) -> dict[str, str]:
        """What every request carries."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


def connect(url: str, models: Sequence[str] = (), max_context: int | None = None, pause_s: float = 0.5) -> Endpoint:
    """Ask the server at `url` what it serves.

    Of several models, the first that `models` names is taken. `max_context`: the tokens of the longest episode.

    Raises:
        UserError: no URL, no server there, a refused token, no such model, or a shorter context than episodes need.
    """
    check_url(url)
    endpoint = Endpoint(url.rstrip("/").removesuffix("/v1"), "", os.environ.get(TOKEN_VARIABLE) or None, pause_s)
    served = {entry["id"]: entry for entry in _get(endpoint, "/v1/models").get("data", [])}
    entry = next((served[name] for name in models if name in served), None)
    if entry is None and len(served) == 1:
        (entry,) = served.values()
    if entry is None:
        listed = ", ".join(sorted(served)) or "no model"
        raise UserError(f"server: {endpoint.url} serves {listed}, not {' or '.join(models) or 'one model alone'}")
    longest = entry.get("max_model_len")
    if longest is not None and max_context is not None and longest < max_context:
        raise UserError(
            f"server: {endpoint.url} takes {longest} tokens, rollout.max_context_tokens is {max_context}: start the "
            f"server with --max-model-len {max_context}, or lower rollout.max_context_tokens"
        )
    return Endpoint(endpoint.url, entry["id"], endpoint.token, pause_s)


class ServerGenerator:
    """A `Generator` over `endpoint`. `eos_ids` alone end a response; at most `concurrency` requests are sent at once.

    A request that the server refuses fails its own episode. When the server cannot be reached after `TRIES` tries,
    or takes a request and is silent until the time is over, or answers without choices, `poll` raises UserError: the
    run ends there, instead of failing every episode to come.

    Raises UserError for a temperature, top_p or top_k under which the server would not give the log-probabilities of
    the distribution that it samples from.
    """

    def __init__(
        self, endpoint: Endpoint, eos_ids: Sequence[int], sampling: Sampling | None = None, concurrency: int = 64
    ) -> None:
        self._endpoint = endpoint
        self._eos = frozenset(eos_ids)
        self._sampling = sampling or Sampling()
        self._flying: dict[int, tuple[int, Future[None]]] = {}
        self._done: queue.SimpleQueue[tuple[int, Completion | UserError]] = queue.SimpleQueue()
        self._count = 0
        self._answered = False
        self._loop = asyncio.new_event_loop()
        self._client = httpx.AsyncClient(
            headers=endpoint.headers,
            limits=httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency),
            trust_env=False,
        )
        self._slots = asyncio.Semaphore(concurrency)
        threading.Thread(target=self._loop.run_forever, name="server-requests", daemon=True).start()
        weakref.finalize(self, _stop, self._loop, self._client)
        if _truncates(self._sampling):
            self._check_logprobs()

    def submit(self, request: Request) -> None:
        """Send `request`. Raises ValueError for what no backend takes: see `check_request`."""
        check_request(request, busy=request.episode in self._flying)
        self._count += 1
        task = asyncio.run_coroutine_threadsafe(self._answer(self._count, request), self._loop)
        self._flying[request.episode] = (self._count, task)

    def poll(self) -> list[Completion]:
        """Wait until something finishes, at most half a second. Raises UserError when the server is gone."""
        finished: list[Completion] = []
        while self._flying:
            try:
                number, answer = self._done.get(block=not finished, timeout=_POLL_S)
            except queue.Empty:
                break
            if isinstance(answer, UserError):
                raise answer
            if self._flying.get(answer.episode, (None,))[0] == number:
                del self._flying[answer.episode]
                finished.append(answer)
        return finished

    def release(self, episode: int) -> None:
        """Drop the request of `episode`, if one is in flight, and its connection with it."""
        flying = self._flying.pop(episode, None)
        if flying is not None:
            flying[1].cancel()

    @property
    def pending(self) -> int:
        """Requests not yet answered."""
        return len(self._flying)

    async def _answer(self, number: int, request: Request) -> None:
        answer: Completion | UserError
        try:
            async with self._slots:
                reply = await self._post(_body(request, self._sampling, self._eos, self._endpoint.model))
            answer = self._completion(request.episode, reply)
        except UserError as error:
            answer = error
        except (_RefusedError, ValueError, KeyError, TypeError, IndexError) as error:
            answer = Completion(request.episode, (), (), False, error=f"{type(error).__name__}: {error}")
        self._done.put((number, answer))

    async def _post(self, body: Mapping[str, Any]) -> Any:
        """The parsed reply. Raises UserError when the server is gone or refuses the token, _RefusedError else."""
        fault, seconds = "", self._patience(body["max_tokens"])
        timeout = httpx.Timeout(seconds, connect=_CONNECT_S)
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(self._endpoint.pause_s * 2 ** (attempt - 1))
            try:
                reply = await self._client.post(f"{self._endpoint.url}/v1/completions", json=body, timeout=timeout)
            except httpx.ReadTimeout:
                raise _silent(self._endpoint, seconds) from None
            except httpx.TransportError as error:
                fault = f"{type(error).__name__} {error}".strip()
                continue
            self._answered = True
            if reply.status_code not in _BUSY:
                return _parsed(self._endpoint, reply)
            fault = f"HTTP {reply.status_code} {_told(reply)}"
        raise _gone(self._endpoint, fault)

    def _patience(self, tokens: int) -> float:
        """Seconds to wait for a response of up to `tokens`."""
        return ANSWER_S if self._answered else min(ANSWER_S, max(FIRST_ANSWER_S, tokens * TOKEN_S))

    def _completion(self, episode: int, reply: Any) -> Completion:
        choice = _choice(self._endpoint, reply)
        if choice.get("token_ids") is None or choice.get("logprobs") is None:
            raise UserError(
                f"server: {self._endpoint.url} gives no token ids and log-probabilities back: it must be `vllm serve` "
                "of a release that knows return_token_ids"
            )
        ids, logprobs = tuple(choice["token_ids"]), tuple(map(float, choice["logprobs"]["token_logprobs"]))
        if not ids or len(ids) != len(logprobs):
            raise ValueError(f"{len(ids)} token ids came with {len(logprobs)} log-probabilities")
        return Completion(episode, ids, logprobs, ids[-1] in self._eos)

    def _check_logprobs(self) -> None:
        """A server that reports the raw distribution says the same of a token at any temperature."""
        first, second = (self._top_logprobs(sampling) for sampling in (Sampling(), self._sampling))
        if abs(max(first.values()) - max(second.values())) < 1e-6:
            raise UserError(
                f"server: {self._endpoint.url} reports log-probabilities of another distribution than it samples from: "
                "start it with --logprobs-mode processed_logprobs, or sample at temperature 1 or 0 without top_p, top_k"
            )

    def _top_logprobs(self, sampling: Sampling) -> dict[str, float]:
        sent = asyncio.run_coroutine_threadsafe(self._post(self._probe(sampling)), self._loop)
        try:
            top: dict[str, float] = _choice(self._endpoint, sent.result())["logprobs"]["top_logprobs"][0]
        except (_RefusedError, ValueError, KeyError, TypeError, IndexError) as error:
            told = f"{type(error).__name__}: {error}"
            raise UserError(f"server: {self._endpoint.url} gives no log-probabilities back: {told}") from None
        return top

    def _probe(self, sampling: Sampling) -> dict[str, Any]:
        request = Request(0, (min(self._eos, default=0),), 1, 0)
        return {**_body(request, sampling, self._eos, self._endpoint.model), "logprobs": 1}


class _RefusedError(Exception):
    """The server refuses one request."""


def _body(request: Request, sampling: Sampling, eos_ids: frozenset[int], model: str) -> dict[str, Any]:
    """The request. Everything is said that the server would else take from the model's generation config."""
    return {
        "model": model,
        "prompt": list(request.prompt_ids),
        "max_tokens": request.max_tokens,
        "seed": request.seed,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "ignore_eos": True,
        "stop_token_ids": sorted(eos_ids),
        "skip_special_tokens": False,
        "logprobs": 0,
        "return_token_ids": True,
    }


def _truncates(sampling: Sampling) -> bool:
    """Whether the sampling distribution is another than the model's own."""
    if sampling.temperature == 0:
        return False
    return sampling.temperature != 1 or sampling.top_p < 1 or sampling.top_k > 0


def _get(endpoint: Endpoint, path: str) -> Any:
    fault = ""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(endpoint.pause_s * 2 ** (attempt - 1))
        try:
            reply = httpx.get(endpoint.url + path, headers=endpoint.headers, timeout=_MODELS_TIMEOUT, trust_env=False)
        except httpx.InvalidURL as error:
            raise UserError(f"server: '{endpoint.url}' is no URL: {error}") from None
        except httpx.ReadTimeout:
            raise _silent(endpoint, _MODELS_TIMEOUT.read or 0) from None
        except httpx.TransportError as error:
            fault = f"{type(error).__name__} {error}".strip()
            continue
        if reply.status_code not in _BUSY:
            try:
                return _parsed(endpoint, reply)
            except (_RefusedError, ValueError) as error:
                raise UserError(f"server: {endpoint.url}{path} is no vLLM server: {error}") from None
        fault = f"HTTP {reply.status_code} {_told(reply)}"
    raise _gone(endpoint, fault)


def _parsed(endpoint: Endpoint, reply: httpx.Response) -> Any:
    if reply.status_code in (401, 403):
        raise UserError(f"server: {endpoint.url} refuses the token (HTTP {reply.status_code}): set {TOKEN_VARIABLE}")
    if reply.status_code != 200:
        raise _RefusedError(f"HTTP {reply.status_code} {_told(reply)}")
    return reply.json()


def _gone(endpoint: Endpoint, fault: str) -> UserError:
    return UserError(f"server: {endpoint.url} does not answer ({TRIES} tries, the last: {fault})")


def _silent(endpoint: Endpoint, seconds: float) -> UserError:
    return UserError(f"server: {endpoint.url} took the request and was silent for {seconds:g} s: see its log")


def _choice(endpoint: Endpoint, reply: Any) -> Any:
    """The one choice of a reply. Raises UserError when there is none: every other reply would be as empty."""
    choices = reply.get("choices") if isinstance(reply, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        told = " ".join(str(reply).split())[:200]
        raise UserError(f"server: {endpoint.url} answers without choices, as no `vllm serve` does: {told}")
    return choices[0]


def _told(reply: httpx.Response) -> str:
    return " ".join(reply.text.split())[:200]


def _stop(loop: asyncio.AbstractEventLoop, client: httpx.AsyncClient) -> None:
    closing = asyncio.run_coroutine_threadsafe(client.aclose(), loop)
    closing.add_done_callback(lambda _: loop.call_soon_threadsafe(loop.stop))
