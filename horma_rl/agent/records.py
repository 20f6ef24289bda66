"""What an episode leaves behind: a row for every move and every operation on memory, and the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from horma_rl.llm.types import Role, Usage

Kind = Literal["act", "mark", "revise", "recall", "malformed", "compress", "maintain"]
"""A move of the actor's (the first five; `revise` is also what a failed Maintain brings), Compress by fallback, or
Maintain."""
End = Literal["success", "failed", "step_cap", "move_cap", "stuck", "error"]
"""Why an episode ended. `failed`: the environment ended it unsolved. `move_cap`: too many moves that were no actions
of the environment. `stuck`: the same thing over and over. `error`: never by `play`, which raises; for those who keep a
result in spite of it."""
Spent = Mapping[Role, Usage]
"""Tokens by whose account they are on: the actor's, the judge's, the manager's (summaries by fallback)."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """One line of an episode's log. Token counts of the prompt are 0 where the actor was not asked."""

    move: int
    """Moves so far, this one included."""
    step: int
    """Actions done in the environment so far."""
    kind: Kind
    text: str
    """The action, the summary, the question, the feedback, or what was written and could not be read."""
    thought: str
    observation: str
    """What it brought: the environment's observation, or the context that was recalled."""
    valid: bool
    """Whether it was done: False for a refused move and for what the environment calls invalid, and for Maintain that
    found a fault."""
    prompt_tokens: int
    state_tokens: int
    context_tokens: int
    usage: Spent
    p_b: int
    p_t: int
    notice: str
    """What the actor is told with its next prompt."""

    def as_json(self) -> dict[str, Any]:
        """A plain mapping."""
        return asdict(self)


@dataclass(slots=True)
class EpisodeResult:
    """How an episode went. Counts are of moves unless they say otherwise."""

    success: bool = False
    progress: float = 0.0
    stop: End = "error"
    steps: int = 0
    """Actions done in the environment, those of a replay apart."""
    moves: int = 0
    malformed: int = 0
    invalid: int = 0
    """Actions that the environment could not do."""
    refused: int = 0
    """Moves on memory that could not be done."""
    repeated: int = 0
    """Moves that were the same, and brought the same, as the one before."""
    compressions: int = 0
    """By the actor's mark."""
    compressions_fallback: int = 0
    maintain_passed: int = 0
    maintain_failed: int = 0
    maintain_unread: int = 0
    """Summaries that stayed unvalidated, because the judge could not be read."""
    revisions: int = 0
    rewinds: dict[str, int] = field(default_factory=dict)
    """How the environment went back: `restored`, `replayed`, `not`."""
    drifts: int = 0
    """Replays that did not bring the same observations."""
    replayed_steps: int = 0
    recalls: int = 0
    """Retrievals from long-term memory."""
    usage: dict[Role, Usage] = field(default_factory=dict)
    most_context_tokens: int = 0
    """The longest prompt."""
    over_budget: int = 0
    """Prompts over `prompt_tokens` with everything left out that may be."""

    def spend(self, role: Role, usage: Usage) -> None:
        """Enter `usage` on the account of `role`."""
        before = self.usage.get(role, Usage())
        self.usage[role] = Usage(
            before.prompt_tokens + usage.prompt_tokens, before.completion_tokens + usage.completion_tokens
        )

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens of all accounts."""
        return sum(usage.total for usage in self.usage.values())

    def as_json(self) -> dict[str, Any]:
        """A plain mapping."""
        return asdict(self)
