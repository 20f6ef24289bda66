"""The execution state as text in a prompt: its layout (docs/mage.md), its tokens, and what a budget leaves out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from horma_rl.agent.types import Hint, Pair, State, Summary
from horma_rl.tokens import TokenCounter
from memory_shell.text import neutralise

SUBGOALS = "Completed subgoals (in brackets the step to go back to, to do one again):\n"
STEPS = "Steps since then:\n"
PATH = "Steps so far:\n"
TRIED = "Tried from here before:\n"
FEEDBACK = "Why the last attempt was given up:\n"

_LINE = re.compile(r"\n(?!\n)")
_Item = Pair | Summary | Hint | str


@dataclass(frozen=True, slots=True)
class Rendered:
    """A state as text. `tokens` is the sum of what its parts count each for itself, at least what the text counts.
    `left_out`: steps of R that the budget had no room for."""

    text: str
    tokens: int
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class _Part:
    """Whole lines, and their tokens."""

    text: str
    tokens: int


@dataclass(slots=True)
class _Section:
    """A heading and what stands below it, oldest first; the first `dropped` of it are left out. `whole`: all of it."""

    heading: _Part
    parts: list[_Part]
    kind: str
    whole: _Part
    dropped: int = 0

    def shown(self, line: Callable[[int, str], _Part]) -> list[_Part]:
        """What the section puts into the text; `line` tells what is left out."""
        if not self.parts:
            return []
        if not self.dropped:
            return [self.heading, self.whole]
        return [self.heading, line(self.dropped, self.kind), *self.parts[self.dropped :]]


class StateRenderer:
    """Renders the states of one episode, one after the other. The same state gives the same text.

    A part that was in the last state is not made and counted again, so that a step costs what is new in it, and the
    joining of the text. Texts come from environments and models: they are made harmless (`neutralise`), indented so
    that none can pass for a heading, and cut, with a mark, when they are longer than `limit` tokens.
    """

    def __init__(self, counter: TokenCounter, limit: int = 400) -> None:
        self.counter = counter
        self.limit = limit
        self._known: dict[_Item, _Part] = {}
        self._used: dict[_Item, _Part] = {}
        self._compressed: tuple[Summary, ...] = ()
        self._subgoals: list[_Part] = []
        self._all_subgoals = _joined(())
        self._fixed: dict[str, _Part] = {}

    def render(self, state: State, budget: int | None = None) -> Rendered:
        """`state` in at most `budget` tokens; an empty text for an empty state.

        Over the budget, hints are left out first, then steps, then summaries, of each kind the oldest first; a line
        says how many. Headings, these lines and the feedback stay, whatever the budget.
        """
        hints = self._section(TRIED, "alternatives", dict.fromkeys(state.hints))
        steps = self._section(STEPS if state.compressed else PATH, "steps", state.raw)
        self._keep_subgoals(state.compressed)
        subgoals = _Section(self._line(SUBGOALS), self._subgoals, "subgoals", self._all_subgoals)
        feedback = self._section(FEEDBACK, "", [state.feedback] if state.feedback else [])
        self._known, self._used = self._used, {}  # forget what the state no longer has
        sections = (subgoals, steps, hints, feedback)
        if budget is not None:
            over = self._tokens(sections) - budget
            for section in (hints, steps, subgoals):
                over -= self._shorten(section, over)
        parts = [part for section in sections for part in section.shown(self._left_out)]
        return Rendered("".join(part.text for part in parts), sum(part.tokens for part in parts), steps.dropped)

    def render_path(self, pairs: Sequence[Pair], budget: int | None = None) -> Rendered:
        """Steps alone, without summaries and hints: the whole path, or the end of it."""
        return self.render(State((), tuple(pairs), ()), budget)

    def _tokens(self, sections: Sequence[_Section]) -> int:
        return sum(part.tokens for section in sections for part in section.shown(self._left_out))

    def _shorten(self, section: _Section, over: int) -> int:
        """Leave out the oldest parts until `over` tokens are gone, or all are; none if that gains nothing, as the line
        that tells of it takes tokens too. Returns the tokens that are gone."""
        gone = saved = 0
        while saved < over and section.dropped < len(section.parts):
            gone += section.parts[section.dropped].tokens
            section.dropped += 1
            saved = gone - self._left_out(section.dropped, section.kind).tokens
        if saved <= 0:
            section.dropped = saved = 0
        return saved

    def _keep_subgoals(self, summaries: tuple[Summary, ...]) -> None:
        """The parts of C, which a boundary makes longer at its end, or shorter: between two of them nothing is looked
        at one by one."""
        if summaries is self._compressed:
            return
        same = min(len(summaries), len(self._compressed))
        if summaries[:same] != self._compressed[:same]:
            same = 0
        self._subgoals = self._subgoals[:same] + [self._made(summary) for summary in summaries[same:]]
        self._all_subgoals = _joined(self._subgoals)
        self._compressed = summaries

    def _section(self, heading: str, kind: str, items: Iterable[_Item]) -> _Section:
        parts = [self._part(item) for item in items]
        return _Section(self._line(heading), parts, kind, _joined(parts))

    def _part(self, item: _Item) -> _Part:
        part = self._used[item] = self._used.get(item) or self._known.get(item) or self._made(item)
        return part

    def _made(self, item: _Item) -> _Part:
        text = self._text(item)
        return _Part(text, self.counter.count(text))

    def _text(self, item: _Item) -> str:
        if isinstance(item, Pair):
            observation = f"  {self._clean(item.observation)}\n" if item.observation.strip() else ""
            return f"[{item.id}] > {self._clean(item.action)}\n{observation}"
        if isinstance(item, Summary):
            return f"[{item.id}] {self._clean(item.text)}\n"
        if isinstance(item, Hint):
            note = f"  found wrong: {self._clean(item.note)}\n" if item.note else ""
            return f"- {item.layer}: {self._clean(item.text)}\n{note}"
        return f"  {self._clean(item)}\n"

    def _clean(self, text: str) -> str:
        """Harmless, cut to the limit, and indented from its second line on."""
        text = neutralise(text.replace("\r\n", "\n")).strip()
        if self.counter.count(text) > self.limit:
            kept = self.counter.head(text, self.limit).rstrip()
            text = f"{kept} [... {len(text) - len(kept):,} characters cut]"
        return _LINE.sub("\n  ", text)

    def _left_out(self, number: int, kind: str) -> _Part:
        return self._line(f"({number:,} earlier {kind} left out)\n")

    def _line(self, text: str) -> _Part:
        part = self._fixed.get(text)
        if part is None:
            part = self._fixed[text] = _Part(text, self.counter.count(text))
        return part


def _joined(parts: Sequence[_Part]) -> _Part:
    return _Part("".join(part.text for part in parts), sum(part.tokens for part in parts))
