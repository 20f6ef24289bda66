"""What an actor is shown: selected turns with time and speaker, in the order in which they were said, within a budget.

Systems that retrieve give turn ids, best first. Three that do not retrieve are here: `full-history` shows every turn
whatever the budget, `truncation` keeps the beginning of the history, `sliding-window` its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from horma_rl.evaluation.rows import turn_text
from horma_rl.tokens import TokenCounter
from memory_shell.types import Turn

Whole = Literal["full-history", "truncation", "sliding-window"]
WHOLE: tuple[Whole, ...] = get_args(Whole)
GIVEN: Mapping[str, str] = {
    "full-history": "the whole history, without a budget",
    "truncation": "the beginning of the history, as much as the budget holds",
    "sliding-window": "the end of the history, as much as the budget holds",
}
SMALLEST = 16
"""Tokens that a cut turn must keep to be shown: fewer hold little but its time and speaker."""


@dataclass(frozen=True, slots=True)
class Context:
    """What the actor sees of a memory: the text, its tokens by the actor's tokenizer, the turns in it, and how many of
    the turns that were meant for it were left out or cut."""

    text: str
    tokens: int
    shown: tuple[str, ...]
    left_out: int = 0
    cut: bool = False


def render(turn: Turn) -> str:
    """A turn as the actor reads it: `[2023-05-08 13:56] Caroline: ...`, on one line."""
    time = f"[{turn.time.replace('T', ' ')[:16]}] " if turn.time else ""
    return f"{time}{' '.join(turn_text(turn).split())}"


def retrieved_context(
    ids: Sequence[str], turns: Mapping[str, Turn], counter: TokenCounter, budget: int | None
) -> Context:
    """The turns `ids`, best first, that fit into `budget` tokens; the first that does not fit is cut at its end.

    Ids that `turns` lacks are left out. A context is never larger than the budget.
    """
    known = [turn_id for turn_id in dict.fromkeys(ids) if turn_id in turns]
    return _fitted(known, known, turns, counter, budget, keep_end=False)


def whole_context(kind: Whole, turns: Mapping[str, Turn], counter: TokenCounter, budget: int) -> Context:
    """The history under `kind`. At the edge, `truncation` cuts a turn's end off and `sliding-window` its beginning."""
    ids = list(turns)
    if kind == "full-history":
        return _fitted(ids, ids, turns, counter, None, keep_end=False)
    order = ids if kind == "truncation" else ids[::-1]
    return _fitted(ids, order, turns, counter, budget, keep_end=kind == "sliding-window")


def _fitted(
    ids: Sequence[str],
    order: Sequence[str],
    turns: Mapping[str, Turn],
    counter: TokenCounter,
    budget: int | None,
    *,
    keep_end: bool,
) -> Context:
    """Take turns in `order` while they fit, and show them in the archive's order."""
    taken: dict[str, str] = {}
    left, cut = budget, False
    for turn_id in order:
        line = render(turns[turn_id])
        size = counter.count(f"{line}\n")
        if left is not None and size > left:
            room = left - 1  # one token is kept back for the line's end
            if room >= SMALLEST:
                taken[turn_id] = counter.tail(line, room) if keep_end else counter.head(line, room)
                cut = True
            break
        taken[turn_id] = line
        left = None if left is None else left - size
    return _joined(ids, taken, turns, counter, budget, cut, keep_end)


def _joined(
    ids: Sequence[str],
    taken: Mapping[str, str],
    turns: Mapping[str, Turn],
    counter: TokenCounter,
    budget: int | None,
    cut: bool,
    keep_end: bool,
) -> Context:
    shown = [turn_id for turn_id in turns if turn_id in taken]
    text = "\n".join(taken[turn_id] for turn_id in shown)
    tokens = counter.count(text)
    if budget is not None and tokens > budget:
        # Lines that are counted one by one may come to a token or two less than the text that they make.
        text = counter.tail(text, budget) if keep_end else counter.head(text, budget)
        tokens, cut = counter.count(text), True
    return Context(text, tokens, tuple(shown), len(ids) - len(shown), cut)
