"""What a player of the family sees and does. Players are programs that know a task by its texts alone.

They are for tests and controlled studies of agents: a player needs what a language model would need, and goes wrong
when its memory has lost that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

Step = tuple[str, str]
"""An action, and what was observed."""


@dataclass(frozen=True, slots=True)
class Seen:
    """All that a player sees at one step. `summaries` and `steps` tell of the path that it is on; so do `remembered`,
    lines from long-term memory, but they may be old."""

    summaries: Sequence[str]
    steps: Sequence[Step]
    remembered: Sequence[str]
    observation: str

    def path(self) -> Iterator[str]:
        """The texts that tell what has been done."""
        yield from self.summaries
        yield from (observation for _, observation in self.steps)
        yield self.observation

    def latest(self, action: str) -> str | None:
        """What `action` brought when it was last done, if that is to be seen."""
        return next((observation for done, observation in reversed(self.steps) if done == action), None)


class Player(Protocol):
    """One kind of task, by the rules of one instruction."""

    @property
    def part(self) -> str:
        """What a subtask is called: `purchase` or `meeting`."""

    def ended(self, observation: str) -> int | None:
        """The number of the subtask that ends with `observation`, from 1; None when none does."""

    def now(self, seen: Seen) -> int | None:
        """The number of the subtask whose turn it is; None when that is not to be seen."""

    def missing(self, seen: Seen) -> str | None:
        """What to ask long-term memory for a fact that the next choice needs and that is not to be seen; None when
        there is none."""

    def act(self, seen: Seen, err: bool) -> str:
        """The next action. With `err`, on the way to a choice that looks right and is wrong."""

    def summary(self, seen: Seen) -> str:
        """What the subtask that has just ended came to: what was chosen, and what later choices depend on."""

    def digest(self, steps: Sequence[Step]) -> str:
        """What `steps` did, for one who knows nothing of what was before them."""

    def check(self, steps: Sequence[Step], summary: str) -> str:
        """What is wrong with `summary` or with the choices in the `steps` that it covers, in words; empty when nothing
        is. What was before them is taken from the summary."""
