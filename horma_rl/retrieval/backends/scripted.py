"""A generator that replays what it is told to say: for tests, and for running scripted policies through the engine."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from horma_rl.retrieval.types import Completion, Request

Script = Callable[[Request, int], Sequence[int]]


class ScriptedGenerator:
    """Answers each request with `script(request, turn)`: the ids of the whole response, end token included.

    `turn` counts the episode's earlier requests. A response longer than the request allows is cut, as a model's would
    be. Every token gets the log-probability `logprob`.
    """

    def __init__(self, script: Script, eos_ids: Sequence[int], logprob: float = -0.5) -> None:
        self._script = script
        self._eos = frozenset(eos_ids)
        self._logprob = logprob
        self._queue: deque[Request] = deque()
        self._turns: dict[int, int] = {}

    def submit(self, request: Request) -> None:
        """Queue `request`."""
        self._queue.append(request)

    def poll(self) -> list[Completion]:
        """Answer the oldest request."""
        if not self._queue:
            return []
        request = self._queue.popleft()
        turn = self._turns.get(request.episode, 0)
        self._turns[request.episode] = turn + 1
        ids = tuple(self._script(request, turn))[: request.max_tokens]
        finished = bool(ids) and ids[-1] in self._eos
        return [Completion(request.episode, ids, (self._logprob,) * len(ids), finished)]

    def release(self, episode: int) -> None:
        """Forget `episode`."""
        self._turns.pop(episode, None)
        self._queue = deque(request for request in self._queue if request.episode != episode)

    @property
    def pending(self) -> int:
        """Requests not yet answered."""
        return len(self._queue)
