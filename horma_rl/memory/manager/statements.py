"""A line of a note as it is written: the day it was said, its words, and beside each time phrase the days it means."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

from horma_rl.memory.calendar import Span
from horma_rl.memory.dates import Dated, Unresolved, read
from horma_rl.memory.notes import Utterance
from horma_rl.memory.text import one_line

_DAY_FIRST = re.compile(r"^\[?(\d{4}-\d\d-\d\d)\]?\s*[:,-]\s*")
_LIST_MARK = re.compile(r"^(?:[-*+>|#]+\s+)+")


def stated(text: str, turns: Sequence[Utterance]) -> tuple[str, tuple[Span, ...]]:
    """The written line (without its citation), and the days that it names.

    A phrase is resolved against the turn, among those cited, in whose words it stands. Where it stands in none of them
    and they are of different days, it is resolved only if the days do not matter ("June 2021"); else it is marked
    unresolved.
    """
    words = plain(text)
    found = [_settled(phrases, turns) for phrases in _by_place(words, turns)]
    spans = tuple(one.span for one in found if isinstance(one, Dated))
    marks = "".join(f" {one}" for one in found)
    return f"{turns[0].day}: {words}{marks}", spans


def plain(text: str) -> str:
    """The words of a proposed line: on one line, defused, without the list mark or the day that it may begin with."""
    return _DAY_FIRST.sub("", _LIST_MARK.sub("", one_line(text)))


def _by_place(words: str, turns: Sequence[Utterance]) -> list[dict[date, Dated | Unresolved]]:
    """For each place where a phrase stands: what it means by the days of the turns."""
    places: dict[int, dict[date, Dated | Unresolved]] = {}
    for day, when in {one.record.time.date(): one.record.time for one in turns}.items():
        for phrase in read(words, when):
            places.setdefault(phrase.at, {})[day] = phrase
    return [places[at] for at in sorted(places)]


def _settled(meanings: dict[date, Dated | Unresolved], turns: Sequence[Utterance]) -> Dated | Unresolved:
    first = next(iter(meanings.values()))
    phrase = first.phrase.casefold()
    for one in turns:
        meaning = meanings.get(one.record.time.date())
        if meaning is not None and phrase in one.text.casefold():
            return meaning
    if len({one.record.time.date() for one in turns}) == len(meanings) and _agree(list(meanings.values())):
        return first
    return Unresolved(first.phrase, first.at)


def _agree(meanings: Sequence[Dated | Unresolved]) -> bool:
    spans = {one.span if isinstance(one, Dated) else None for one in meanings}
    return len(spans) == 1
