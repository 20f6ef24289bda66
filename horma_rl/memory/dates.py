"""Resolve the dates that a turn names ("yesterday", "two weekends ago", "in June") against the turn's own time.

The result keeps the phrase, a closed interval of days and its granularity, because "last week" is not a day. English
only. Phrases are read the way the calendar is (`calendar.py`): "last week" is the week before the turn's, "next month"
the month after the turn's. What English leaves open is decided like this:

- "last Friday" is the latest Friday before the turn, "next Friday" the first one after it.
- "this Friday" is the one of the turn's week, unless the sentence looks ahead: then the first one not yet over.
- "on Friday", "in June" and "on 3 July" without a year mean the latest one before the turn, or, in a sentence that
  looks ahead ("will", "going to", "can't wait", ...), the first one after it.
- "last summer" is the latest summer wholly over, "next summer" the first that has not begun, "this summer" this year's.
- "the past week" is the seven days up to the turn.
- "a couple of", "a few" and "several" are 2 to 3, 3 to 5 and 3 to 7, and the granularity is one step coarser.
- "the other day" is one of the seven days before the turn.
- "over the weekend" is the one that began last, "a year and a half ago" three months around that day.

`resolve` leaves alone what names no date ("recently", "years ago", "on weekends") and a date that does not exist.
`read` also finds the phrases that place something in time without saying when ("in her teens", "two days later",
"years ago"), so that a note can mark them unresolved; they are never taken for the turn's own day.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import TypeVar

from horma_rl.memory.calendar import Span
from horma_rl.memory.compound_phrases import RULES
from horma_rl.memory.phrases import Context
from horma_rl.memory.vague_phrases import VAGUE

_AHEAD = re.compile(
    r"\b(?:will|won't|shall|going to|gonna|plan(?:s|ning)?|hop(?:e|ing)|can't wait|look(?:ing)? forward|"
    r"upcoming|coming up|soon|schedul\w+|due|tomorrow|next|"
    r"(?:i'?m|we'?re) (?:going|having|meeting))\b|'ll\b"
)
_REACH = 300
_SENTENCE_END = re.compile(r"[.!?\n]")
_HINT = re.compile(
    r"day|night|tomorrow|morning|afternoon|evening|week|month|year|decade|spring|summer|autumn|fall|winter|"
    r"jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun|\d{4}|\d(?:st|nd|rd|th)|"
    r"fortnight|\d0s|sixties|seventies|eighties|nineties|christmas|halloween|valentine|new year"
)


@dataclass(frozen=True, slots=True)
class Dated:
    """One resolved phrase: where it stands in the text, and the days it means."""

    phrase: str
    at: int
    span: Span

    def __str__(self) -> str:
        """`{yesterday = 2023-05-07}`, or with an interval and its granularity `{last week = A..B (week)}`."""
        return f"{{{self.phrase} = {interval(self.span)}}}"


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A phrase that places something in time, but not in a way that the turn's own time resolves."""

    phrase: str
    at: int

    def __str__(self) -> str:
        return f"{{{self.phrase} = unresolved}}"


def interval(span: Span) -> str:
    """`2023-05-07` for a day, else `2023-05-01..2023-05-07 (week)`."""
    if span.granularity == "day":
        return span.start.isoformat()
    return f"{span.start.isoformat()}..{span.end.isoformat()} ({span.granularity})"


def resolve(text: str, when: datetime) -> list[Dated]:
    """The dated phrases of `text`, in order, without overlaps: the longest of several that begin at one place."""
    lowered = _fold(text)
    if not _HINT.search(lowered):
        return []
    return _apart(_candidates(lowered, text, when.date()))


def read(text: str, when: datetime) -> list[Dated | Unresolved]:
    """As `resolve`, and among them the phrases that stay unresolved. Of two at one place the longer counts."""
    lowered = _fold(text)
    vague = [Unresolved(text[m.start() : m.end()], m.start()) for m in VAGUE.finditer(lowered)]
    return _apart([*resolve(text, when), *vague])


Found = TypeVar("Found", bound=Dated | Unresolved)


def _apart(found: Iterable[Found]) -> list[Found]:
    """The phrases in order, without overlaps: the longest of several that begin at one place."""
    kept: list[Found] = []
    for one in sorted(found, key=lambda one: (one.at, -len(one.phrase))):
        if not kept or one.at >= kept[-1].at + len(kept[-1].phrase):
            kept.append(one)
    return kept


def _fold(text: str) -> str:
    """Lower case, same length: offsets in it are offsets in `text`."""
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = "".join(char.lower() if len(char.lower()) == 1 else char for char in text)
    return lowered.replace("\u2019", "'")


def _candidates(lowered: str, text: str, today: date) -> Iterator[Dated]:
    for pattern, resolver in RULES:
        for match in pattern.finditer(lowered):
            context = Context(today, _looks_ahead(lowered, match))
            try:
                span = resolver(match, context)
            except (ValueError, OverflowError):
                continue  # 31 February, or a year that the calendar does not have
            if span is not None:
                yield Dated(text[match.start() : match.end()], match.start(), span)


def _looks_ahead(lowered: str, match: re.Match[str]) -> bool:
    """Whether the sentence around `match` (as much of it as lies within reach, so that time stays linear) does."""
    first, last = max(0, match.start() - _REACH), match.end() + _REACH
    begin = max((end.end() for end in _SENTENCE_END.finditer(lowered, first, match.start())), default=first)
    end = _SENTENCE_END.search(lowered, match.end(), last)
    return _AHEAD.search(lowered, begin, end.start() if end else last) is not None
