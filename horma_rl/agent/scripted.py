"""A scripted agent for the generated task family: an actor that plans and makes planted errors, a judge, a summariser.

They are programs, so that what a memory system is worth can be measured without a model's noise. The actor reads what a
view shows and nothing else: rules in the instruction, facts in S, C_t and the latest observation. What its memory has
lost it looks up again, asks for, or does without, and is wrong then. `usage` counts texts by the project's estimate.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from horma_rl.agent.types import Act, Decision, Mark, Move, Pair, Recall, Summarised, Verdict, View
from horma_rl.llm.types import Usage
from horma_rl.tokens import Estimate
from interdependent import read_player
from interdependent.player import Player, Seen

_COUNTER = Estimate()
_ABANDONED = re.compile(r"\[step \d+, abandoned")


class ScriptedActor:
    """Plays one episode. `errors`: the subtasks, counted from 1, at which it makes a choice that looks right and is
    wrong, unless S or C_t says that this was found wrong before.

    It marks each subtask when it has ended, with a summary that carries what later choices depend on, and asks
    long-term memory, once a subtask, for what it needs and does not see.
    """

    def __init__(self, errors: Collection[int] = ()) -> None:
        self._errors = frozenset(errors)
        self._last: Move | None = None
        self._asked: set[int] = set()

    async def act(self, view: View) -> Decision:
        """The next move. Raises ValueError for a task that is none of the family."""
        self._last = self._move(view)
        return Decision(self._last, usage=Usage(view.prompt_tokens, _COUNTER.count(str(self._last))))

    def _move(self, view: View) -> Move:
        player, seen = read_player(view.instruction), _seen(view)
        if self._is_to_mark(view, player):
            return Mark(player.summary(seen))
        number = player.now(seen)
        question = player.missing(seen)
        if number is not None and question and "recall" in view.moves and number not in self._asked:
            self._asked.add(number)
            return Recall(question)
        return Act(player.act(seen, err=number in self._errors and not _found_wrong(view, f"{player.part} {number} ")))

    def _is_to_mark(self, view: View, player: Player) -> bool:
        """Whether the last action ended a subtask, and its steps are not compressed yet."""
        just_done = isinstance(self._last, Act) and bool(view.state.raw)
        return just_done and "compress" in view.moves and player.ended(view.observation) is not None


class ScriptedJudge:
    """Maintain by a program: the rules in the instruction, applied to the trace and to what the summary says was before
    it. Its diagnosis names the subtask whose choice is wrong."""

    async def validate(self, instruction: str, trace: Sequence[Pair], summary: str) -> Verdict:
        """See Judge. Raises ValueError for a task that is none of the family."""
        feedback = read_player(instruction).check(_steps(trace), summary)
        read = [instruction, summary, *(text for step in _steps(trace) for text in step)]
        usage = Usage(sum(_COUNTER.count(text) for text in read), _COUNTER.count(feedback))
        return Verdict(not feedback, feedback, usage)


class ScriptedSummariser:
    """Summaries by fallback: the actions of the trace, and each choice that was made in it."""

    async def summarise(self, instruction: str, trace: Sequence[Pair]) -> Summarised:
        """See Summariser. Raises ValueError for a task that is none of the family."""
        text = read_player(instruction).digest(_steps(trace))
        read = sum(_COUNTER.count(text) for step in _steps(trace) for text in step)
        return Summarised(text, Usage(read, _COUNTER.count(text)))


def _seen(view: View) -> Seen:
    remembered = [line for line in view.context.splitlines() if not _ABANDONED.match(line)]
    return Seen(
        [summary.text for summary in view.state.compressed], _steps(view.state.raw), remembered, view.observation
    )


def _steps(trace: Sequence[Pair]) -> list[tuple[str, str]]:
    return [(pair.action, pair.observation) for pair in trace]


def _found_wrong(view: View, what: str) -> bool:
    """Whether a diagnosis that the view shows is about `what`."""
    return any(what in diagnosis and " is wrong: " in diagnosis for diagnosis in _diagnoses(view))


def _diagnoses(view: View) -> Iterator[str]:
    yield view.state.feedback or ""
    yield from (hint.note or "" for hint in view.state.hints)
    yield from (line for line in view.context.splitlines() if _ABANDONED.match(line))
