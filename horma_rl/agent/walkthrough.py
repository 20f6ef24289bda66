"""An actor that plays a list of actions: a benchmark's shipped solution, to check an environment and the agent around
it without a model."""

from __future__ import annotations

from collections.abc import Sequence

from horma_rl.agent.types import Act, Decision, Malformed, Mark, Move, View
from horma_rl.llm.types import Usage
from horma_rl.tokens import Estimate

_COUNTER = Estimate()


class WalkthroughActor:
    """Plays `actions` in their order, and with `mark_every` marks a subgoal after every so many of them, where the
    memory system takes marks.

    It does not look at what it is shown, so it is for systems that do not go back. When its list has ended, its
    answers are malformed. `usage` counts texts by the project's estimate.
    """

    def __init__(self, actions: Sequence[str], mark_every: int = 0) -> None:
        """Raises ValueError if `mark_every` is negative; 0 is never."""
        if mark_every < 0:
            raise ValueError(f"mark_every {mark_every} is negative")
        self._actions = tuple(actions)
        self._mark_every = mark_every
        self._played = 0
        self._marked = 0

    async def act(self, view: View) -> Decision:
        """The next move."""
        move = self._move(view)
        return Decision(move, usage=Usage(view.prompt_tokens, _COUNTER.count(_text(move))))

    def _move(self, view: View) -> Move:
        waiting = self._played - self._marked
        if self._mark_every and waiting >= self._mark_every and "compress" in view.moves:
            done = self._actions[self._marked : self._played]
            self._marked = self._played
            return Mark(f"Done: {'; '.join(done)}. Last seen: {view.observation}")
        if self._played == len(self._actions):
            return Malformed("", f"the walkthrough of {len(self._actions)} actions has ended")
        self._played += 1
        return Act(self._actions[self._played - 1])


def _text(move: Move) -> str:
    match move:
        case Act(action):
            return action
        case Mark(summary):
            return summary
        case _:
            return ""
