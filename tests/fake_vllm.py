"""A toy language model behind the two faces that vLLM shows: the engine in process, and the HTTP server."""

from __future__ import annotations

import json
import math
import random
import threading
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

VOCABULARY = 24
EOS = 1


def table(context: Sequence[int], temperature: float = 1.0) -> list[float]:
    """Log-probabilities of the next token: made up, but the same for the same last ids."""
    scores = [random.Random(f"{tuple(context[-3:])}/{token}").gauss(0, 1.5) for token in range(VOCABULARY)]
    scores[EOS] -= 1.5
    scaled = [score / (temperature or 1.0) for score in scores]
    total = math.log(sum(math.exp(score) for score in scaled))
    return [score - total for score in scaled]


def draw(context: Sequence[int], seed: int, place: int, temperature: float) -> tuple[int, float]:
    """The token at `place` of a response with `seed`, and its log-probability."""
    logprobs = table(context, temperature)
    if temperature == 0:
        token = max(range(VOCABULARY), key=logprobs.__getitem__)
    else:
        chances = [math.exp(logprob) for logprob in logprobs]
        token = random.Random(f"{seed}/{place}").choices(range(VOCABULARY), chances)[0]
    return token, logprobs[token]


@dataclass
class FakeParams:
    """The fields of vLLM's SamplingParams that this project may set; any other is a TypeError."""

    temperature: float
    top_p: float
    top_k: int
    seed: int
    max_tokens: int
    ignore_eos: bool
    stop_token_ids: list[int]
    logprobs: int
    detokenize: bool
    output_kind: str


def modules() -> dict[str, types.ModuleType]:
    """Stand-ins for the modules of vLLM that the backend imports."""
    vllm, params = types.ModuleType("vllm"), types.ModuleType("vllm.sampling_params")
    vllm.SamplingParams = FakeParams  # type: ignore[attr-defined]
    params.RequestOutputKind = SimpleNamespace(FINAL_ONLY="final")  # type: ignore[attr-defined]
    return {"vllm": vllm, "vllm.sampling_params": params}


class FakeEngine:
    """vLLM's `LLMEngine`: each step gives every request one more token."""

    def __init__(self, logprobs_mode: str = "processed_logprobs", prefix_caching: bool = True) -> None:
        self.model_config = SimpleNamespace(logprobs_mode=logprobs_mode, model="toy", dtype="torch.float32")
        self.vllm_config = SimpleNamespace(cache_config=SimpleNamespace(enable_prefix_caching=prefix_caching))
        self.running: dict[str, Any] = {}
        self.aborted: list[str] = []
        self.steps = 0

    def add_request(self, request_id: str, prompt: dict[str, list[int]], params: FakeParams) -> str:
        assert request_id not in self.running
        assert params.output_kind == "final"
        self.running[request_id] = SimpleNamespace(prompt=prompt["prompt_token_ids"], params=params, ids=[], table=[])
        return f"{request_id}-internal"

    def step(self) -> list[Any]:
        assert self.running, "a step without requests blocks for ever in vLLM"
        self.steps += 1
        return [output for name in list(self.running) if (output := self._advance(name))]

    def _advance(self, name: str) -> Any:
        state = self.running[name]
        params = state.params
        token, logprob = draw([*state.prompt, *state.ids], params.seed, len(state.ids), params.temperature)
        state.ids.append(token)
        state.table.append({token: SimpleNamespace(logprob=logprob)})
        if token not in params.stop_token_ids and len(state.ids) < params.max_tokens:
            return None
        del self.running[name]
        reason = "stop" if token in params.stop_token_ids else "length"
        answer = SimpleNamespace(token_ids=state.ids, logprobs=state.table, finish_reason=reason)
        return SimpleNamespace(request_id=name, finished=True, outputs=[answer])

    def abort_request(self, request_ids: list[str]) -> None:
        self.aborted += request_ids
        for name in request_ids:
            self.running.pop(name, None)


@dataclass
class FakeServer:
    """What the HTTP server does and saw. `faults` are used up one a request, before it answers again."""

    faults: list[str] = field(default_factory=list)
    token: str | None = None
    models: list[dict[str, Any]] = field(default_factory=lambda: [{"id": "toy", "max_model_len": 4096}])
    processed: bool = True
    bodies: list[dict[str, Any]] = field(default_factory=list)
    requests: int = 0
    dropped: threading.Event = field(default_factory=threading.Event)
    url: str = ""


@contextmanager
def serving(server: FakeServer) -> Iterator[FakeServer]:
    """`server` on a free port of the loopback."""

    class Handler(_Handler):
        state = server

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    server.url = f"http://127.0.0.1:{httpd.server_address[1]}"
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: FakeServer

    def log_message(self, format: str, *args: Any) -> None:
        del format, args

    def do_GET(self) -> None:
        if self._stopped():
            return
        self._reply(200, {"data": self.state.models})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self._stopped():
            return
        self.state.bodies.append(body)
        self._reply(200, {"choices": [self._choice(body)]})

    def _stopped(self) -> bool:
        self.state.requests += 1
        if self.state.token and self.headers.get("Authorization") != f"Bearer {self.state.token}":
            self._reply(401, {"error": "Unauthorized"})
            return True
        fault = self.state.faults.pop(0) if self.state.faults else ""
        if fault == "cut":
            self.connection.close()
            self.close_connection = True
        elif fault == "hang":
            if self.connection.recv(1) == b"":
                self.state.dropped.set()
            self.close_connection = True
        elif fault == "half":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{")
            self.wfile.flush()
            self.connection.close()
            self.close_connection = True
        elif fault == "garbage":
            self._send(200, b"<html>")
        elif fault.startswith("{"):
            self._send(200, fault.encode())
        elif fault == "no ids":
            self._reply(200, {"choices": [{"text": "a", "logprobs": None}]})
        elif fault:
            self._reply(int(fault), {"error": {"message": f"fault {fault}"}})
        return bool(fault)

    def _choice(self, body: dict[str, Any]) -> dict[str, Any]:
        ids: list[int] = []
        logprobs: list[float] = []
        reported = body["temperature"] if self.state.processed else 1.0
        while len(ids) < body["max_tokens"] and (not ids or ids[-1] not in body["stop_token_ids"]):
            context = [*body["prompt"], *ids]
            token, _ = draw(context, body["seed"], len(ids), body["temperature"])
            ids.append(token)
            logprobs.append(table(context, reported)[token])
        top = max(table(body["prompt"], reported))
        return {"token_ids": ids, "logprobs": {"token_logprobs": logprobs, "top_logprobs": [{"a": top}]}}

    def _reply(self, status: int, content: Any) -> None:
        self._send(status, json.dumps(content).encode())

    def _send(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
