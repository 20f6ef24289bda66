"""A real HTTP server with the faults of real ones between a client and a scripted model, the same ones for a seed.

    with FaultyServer(answer, seed=1, share=0.5) as server:
        LlmConfig(base_url=server.url, ...)

`answer(body) -> str` is the model: it sees the parsed request. Faults that are drawn for a request are injected instead
of its answer, or into it. Draws depend on the seed, the request's content and how often it was sent, not on timing.
"""

from __future__ import annotations

import hashlib
import json
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TRANSPORT_FAULTS = ("429", "500", "timeout", "cut", "malformed_body", "no_choices")
"""The client sends the request again."""
ANSWER_FAULTS = ("malformed_json", "wrong_schema", "empty", "megabyte", "wrong_tool")
"""Well-formed answers of a model that did not do what it was asked."""
FAULTS = TRANSPORT_FAULTS + ANSWER_FAULTS


class FaultyServer:
    """Serves on a free port of 127.0.0.1. `script`: faults (or `ok`) for the first requests, before draws begin.

    `share`: the part of requests with a fault. `silence_s`: how long a time-out is silent. `key`: the bearer token to
    demand. `echo_key`: put the request's Authorization header into every answer and error. `takes_schemas`: whether
    response_format is accepted.
    """

    def __init__(
        self,
        answer: Callable[[dict[str, Any]], str],
        *,
        seed: int = 0,
        share: float = 0.5,
        faults: Sequence[str] = FAULTS,
        script: Sequence[str] = (),
        silence_s: float = 2.0,
        key: str | None = None,
        echo_key: bool = False,
        takes_schemas: bool = True,
        retry_after: str = "0",
    ) -> None:
        self.answer, self.seed, self.share, self.faults = answer, seed, share, tuple(faults)
        self.silence_s, self.key, self.echo_key, self.takes_schemas = silence_s, key, echo_key, takes_schemas
        self.retry_after = retry_after
        self.script = list(script)
        self.injected: Counter[str] = Counter()
        self.requests: list[dict[str, Any]] = []
        self.served: list[tuple[int, int]] = []
        """(prompt, completion) tokens of every chat completion that was sent whole."""
        self._times: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    def __enter__(self) -> FaultyServer:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """The base URL, with `/v1`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def draw(self, body: dict[str, Any]) -> str:
        """The fault for this request, or `ok`."""
        text = json.dumps(body["messages"], sort_keys=True)
        with self._lock:
            self.requests.append(body)
            if self.script:
                fault = self.script.pop(0)
            else:
                self._times[text] += 1
                digest = hashlib.sha256(f"{self.seed} {self._times[text]} {text}".encode()).digest()
                dice = random.Random(digest)
                fault = dice.choice(self.faults) if self.faults and dice.random() < self.share else "ok"
            self.injected[fault] += 1
        return fault

    def wait(self) -> None:
        """Be silent, as long as a time-out takes."""
        self._stopping.wait(self.silence_s)


def completion(text: str | None, body: dict[str, Any], **message: Any) -> dict[str, Any]:
    """A chat completion with plausible token counts, never over the request's limit."""
    limit = body.get("max_tokens") or body.get("max_completion_tokens") or 16
    prompt = sum(len(m["content"].encode()) // 4 + 4 for m in body["messages"])
    said = min(len((text or "").encode()) // 4 + 1, limit)
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body.get("model", ""),
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls" if "tool_calls" in message else "stop",
                "message": {"role": "assistant", "content": text, **message},
            }
        ],
        "usage": {"prompt_tokens": prompt, "completion_tokens": said, "total_tokens": prompt + said},
    }


def _handler(server: FaultyServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            if self._allowed():
                self._send(200, {"object": "list", "data": [{"id": "scripted", "object": "model"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                if self._allowed():
                    self._reply(body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def _allowed(self) -> bool:
            if server.key is None or self.headers.get("Authorization") == f"Bearer {server.key}":
                return True
            self._send(401, {"error": {"message": f"Incorrect API key provided: {self.headers.get('Authorization')}"}})
            return False

        def _reply(self, body: dict[str, Any]) -> None:
            if "response_format" in body and not server.takes_schemas:
                self._send(400, {"error": {"message": "response_format is not supported"}})
                return
            fault = server.draw(body)
            if fault == "429":
                self._send(429, {"error": {"message": "slow down"}}, {"Retry-After": server.retry_after})
            elif fault == "500":
                self._send(500, {"error": {"message": f"out of order{self._echo()}"}})
            elif fault == "timeout":
                server.wait()
                self.close_connection = True
            elif fault == "malformed_body":
                self._send_bytes(200, b'{"id": "chatcmpl-1", "choices": [{"index')
            elif fault == "no_choices":
                self._send(200, {"id": "chatcmpl-1", "choices": []})
            elif fault == "cut":
                self._cut(body)
            else:
                self._answer(fault, body)

        def _answer(self, fault: str, body: dict[str, Any]) -> None:
            texts = {
                "malformed_json": '{"a": [1, 2, {"b": "c',
                "wrong_schema": '{"colour": "green", "operations": 7}',
                "empty": "",
                "megabyte": '{"x": "' + "lorem [ipsum] {dolor} " * 47_000,
            }
            if fault == "wrong_tool":
                call = {"id": "1", "type": "function", "function": {"name": "rm", "arguments": '{"path": "/"}'}}
                reply = completion(None, body, tool_calls=[call])
            else:
                text = texts[fault] if fault in texts else server.answer(body)
                reply = completion(text + self._echo(), body)
            usage = reply["usage"]
            with server._lock:
                server.served.append((usage["prompt_tokens"], usage["completion_tokens"]))
            self._send(200, reply)

        def _cut(self, body: dict[str, Any]) -> None:
            content = json.dumps(completion(server.answer(body), body)).encode()
            self._head(200, len(content), {})
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True

        def _echo(self) -> str:
            return f" {self.headers.get('Authorization')}" if server.echo_key else ""

        def _send(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
            self._send_bytes(status, json.dumps(value).encode(), headers or {})

        def _send_bytes(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
            self._head(status, len(content), headers or {})
            self.wfile.write(content)

        def _head(self, status: int, length: int, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", "Content-Length": str(length), **headers}.items():
                self.send_header(name, value)
            self.end_headers()

    return Handler
