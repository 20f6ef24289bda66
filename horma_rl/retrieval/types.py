"""The values that flow through a rollout: requests to a generator, its completions, and the finished trajectory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from memory_shell.types import Coverage, Stop, Task


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn. Training needs `top_p=1` and `top_k=0`: anything else biases the importance ratio."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """Ask for one response. `episode` is stable over an episode's turns, so that a backend may keep its KV cache:
    `prompt_ids` then extends the ids (prompt + completion) of the same episode's last request."""

    episode: int
    prompt_ids: tuple[int, ...]
    max_tokens: int
    seed: int


@dataclass(frozen=True, slots=True)
class Completion:
    """One response: the sampled ids (the end token included when it was sampled), the log-probability of each under
    the sampling distribution, and whether the end token, and not the cap, ended it."""

    episode: int
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finished: bool
    error: str | None = None


class Generator(Protocol):
    """Token ids in, token ids out, many requests in flight, finished ones handed back as they finish."""

    def submit(self, request: Request) -> None:
        """Queue `request`; it starts when there is room."""

    def poll(self) -> Iterable[Completion]:
        """Advance by at least one token and give back what finished; empty when nothing did."""

    def release(self, episode: int) -> None:
        """Forget what is kept for `episode` (KV cache); safe to call twice."""

    @property
    def pending(self) -> int:
        """Requests queued or being decoded."""


@dataclass(slots=True)
class TurnRecord:
    """One turn of a trajectory, as people read it."""

    response: str
    calls: list[dict[str, Any]]
    observation: str
    ok: bool
    completion_tokens: int
    finished: bool


@dataclass(slots=True)
class Trajectory:
    """One finished episode.

    `prompt_ids` [P]; `completion_ids`, `mask`, `logprobs` [T]: everything after the prompt, model and observation
    tokens together; `mask` is 1 where the model sampled the token, `logprobs` is 0.0 elsewhere.
    """

    task: Task
    seed: int
    prompt_ids: list[int]
    completion_ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    selected: list[str] = field(default_factory=list)
    turns: list[TurnRecord] = field(default_factory=list)
    stop: Stop = Stop.ERROR
    reward: float | None = None
    """None when scoring failed: masked out of the loss and counted, never taken for 0."""
    commands: int = 0
    invalid: int = 0
    coverage: Coverage | None = None
    wall_s: float = 0.0
    error: str | None = None
    first_observation: str = ""
    index: int = 0
    """The place of its `EpisodeSpec` among those of the run: trajectories come in the order in which they end."""

    def as_json(self) -> Mapping[str, Any]:
        """A plain mapping for the trajectory log (JSONL, schema version 1)."""
        return {
            "v": 1,
            "task": self.task.id,
            "workspace": self.task.workspace,
            "question": self.task.question,
            "category": self.task.category,
            "evidence": list(self.task.evidence),
            "seed": self.seed,
            "selected": self.selected,
            "reward": self.reward,
            "stop": self.stop.value,
            "commands": self.commands,
            "invalid": self.invalid,
            "error": self.error,
            "wall_s": round(self.wall_s, 4),
            "prompt_tokens": len(self.prompt_ids),
            "completion_tokens": len(self.completion_ids),
            "model_tokens": sum(self.mask),
            "first_observation": self.first_observation,
            "turns": [
                {
                    "response": t.response,
                    "calls": t.calls,
                    "observation": t.observation,
                    "ok": t.ok,
                    "completion_tokens": t.completion_tokens,
                    "finished": t.finished,
                }
                for t in self.turns
            ],
        }
