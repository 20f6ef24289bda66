"""What the parts of the agent hand one another: the execution state, what the actor sees, and what it may do.

Mage: arXiv:2606.06090, section 3. No part of this imports torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from horma_rl.llm.types import Usage
from memory_shell.types import Turn
from memory_shell.workspace import Workspace

# The execution state S = (C, R, H), section 3.2 ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pair:
    """An action and what it brought: the content of a bottom node. `id` is the node's."""

    id: int
    action: str
    observation: str


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary on the active path, with the id that Revise names it by (that of the boundary before it)."""

    id: int
    text: str


@dataclass(frozen=True, slots=True)
class Hint:
    """A continuation that was tried from here before: an action (bottom layer) or a summary (top layer), with the
    diagnosis if it was found wrong."""

    layer: str
    """`action` or `subgoal`."""
    text: str
    note: str | None = None


@dataclass(frozen=True, slots=True)
class State:
    """S: compressed summaries C, the raw trace since the last boundary R, and hints H. `feedback` is what the last
    Revise was told (f), until the next boundary."""

    compressed: tuple[Summary, ...]
    raw: tuple[Pair, ...]
    hints: tuple[Hint, ...]
    feedback: str | None = None


# What the actor sees, and does ---------------------------------------------------------------------------------------

MemoryMove = Literal["compress", "revise", "recall"]
"""A move on memory, by the word that a policy writes for it: Mark, GoBack and Recall."""


@dataclass(frozen=True, slots=True)
class View:
    """All that an actor sees at one step. `state` is S whole, for actors that are programs; `prompt` shows it
    within the system's budget.

    `context` is C_t: what the retriever picked from long-term memory, rendered; empty without one. `observation` is the
    latest one. `notice` tells what became of the last move when that was not an action: a refusal, a warning.
    """

    instruction: str
    actions: str
    state: State
    context: str
    observation: str
    notice: str
    prompt: str
    prompt_tokens: int
    """Of `prompt` and of what the actor puts before it (`Prefaced`)."""
    moves: tuple[MemoryMove, ...] = ()
    """The memory moves that the system takes; others are refused."""


@dataclass(frozen=True, slots=True)
class Act:
    """Do `action` in the environment."""

    action: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A subgoal is complete; `summary` takes the place of its trace (Compress)."""

    summary: str


@dataclass(frozen=True, slots=True)
class GoBack:
    """Revise to the boundary before summary `step`, because of `reason`."""

    step: int
    reason: str


@dataclass(frozen=True, slots=True)
class Recall:
    """Ask long-term memory."""

    question: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """An answer that is no move, and what is wrong with it. It counts, and is told to the actor."""

    text: str
    reason: str


Move = Act | Mark | GoBack | Recall | Malformed


@dataclass(frozen=True, slots=True)
class Decision:
    """A move, the reasoning before it, and the tokens that it took."""

    move: Move
    thought: str = ""
    usage: Usage = field(default_factory=Usage)


class Actor(Protocol):
    """M_theta: chooses moves. One object for one episode."""

    async def act(self, view: View) -> Decision:
        """The next move. Raises LlmError when no answer can be had."""


@runtime_checkable
class Prefaced(Protocol):
    """An actor that puts a text of its own before every prompt, so that it counts where prompts are bounded."""

    def preamble(self, actions: str, moves: Sequence[MemoryMove]) -> str:
        """The text, for an environment that says `actions` of itself; the same one all through an episode."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What Maintain found: (q, f) of Algorithm 1, and the tokens that it took."""

    passed: bool
    feedback: str = ""
    usage: Usage = field(default_factory=Usage)


class Judge(Protocol):
    """Maintain's judge."""

    async def validate(self, instruction: str, trace: Sequence[Pair], summary: str) -> Verdict:
        """Whether `summary` and the trace that it covers are right so far. Raises LlmError when it cannot be had: a
        NoValidAnswer leaves the summary unvalidated, any other ends the episode."""


@dataclass(frozen=True, slots=True)
class Summarised:
    """A summary and the tokens that it took."""

    text: str
    usage: Usage = field(default_factory=Usage)


class Summariser(Protocol):
    """Compress by fallback: sums up a trace that the actor did not mark."""

    async def summarise(self, instruction: str, trace: Sequence[Pair]) -> Summarised:
        """What `trace` did for `instruction`, and what holds now. Raises LlmError when it cannot be had."""


class Recaller(Protocol):
    """M_r: the retriever, over the workspace of one episode."""

    async def recall(self, workspace: Workspace, question: str) -> Sequence[Turn]:
        """The turns it picks, best first."""
