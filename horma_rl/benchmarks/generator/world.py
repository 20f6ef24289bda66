"""The invented world: who lives in it, and the facts of their lives, each tied to the turn that tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from random import Random
from typing import Literal

from horma_rl.benchmarks.generator.events import EVENTS
from horma_rl.benchmarks.generator.lives import LASTING, NEAR, PHOTOS, STATES
from horma_rl.benchmarks.generator.topic import Topic
from horma_rl.benchmarks.generator.vocabulary import SHARED, Part, pool

TOPICS: Mapping[str, Topic] = {topic.name: topic for topic in (*EVENTS, *STATES, *LASTING, *PHOTOS, *NEAR)}

Grain = Literal["day", "week", "month"]


@dataclass(frozen=True, slots=True)
class Span:
    """When something happened: first and last possible day, and how exactly it is known."""

    first: date
    last: date
    grain: Grain

    def text(self) -> str:
        """As an answer: "7 May 2023", "the week of 1 May 2023", "April 2023"."""
        if self.grain == "day":
            return day_text(self.first)
        return f"the week of {day_text(self.first)}" if self.grain == "week" else f"{self.first:%B %Y}"

    def before(self, other: Span) -> bool:
        """Whether every day of this span is before every day of `other`."""
        return self.last < other.first


def day_text(day: date) -> str:
    """A day without a leading zero: "7 May 2023"."""
    return f"{day.day} {day:%B %Y}"


@dataclass(slots=True)
class Fact:
    """One fact as the world has it. `turn` is the id of the one turn that tells it, empty before it was told."""

    topic: str
    person: str
    values: dict[str, str]
    session: int
    change: bool = False
    """Whether it replaces an earlier value of the same state."""
    span: Span | None = None
    """None for what has no date."""
    turn: str = ""

    @property
    def key(self) -> str:
        """The value that names the fact; no other fact of the memory has it."""
        return self.values[TOPICS[self.topic].key]


@dataclass(slots=True)
class World:
    """One memory's truth. `times` are the sessions' starts, earliest first; facts are in the order they are told."""

    people: tuple[str, ...]
    times: list[datetime]
    facts: list[Fact] = field(default_factory=list)


class Values:
    """Draws slot values for one memory: no value of an unshared pool twice, and now and then a near-duplicate."""

    def __init__(self, rng: Random, part: Part, lookalikes: float) -> None:
        self._rng, self._part, self._lookalikes = rng, part, lookalikes
        self._used: dict[str, list[str]] = {}

    def draw(self, name: str) -> str:
        """A value of pool `name`. Raises LookupError when an unshared pool is used up."""
        values, used = pool(name, self._part), self._used.setdefault(name, [])
        if name in SHARED:
            return self._rng.choice(values)
        if used and self._rng.random() < self._lookalikes:
            tail = self._rng.choice(used).split()[-1]
            alike = [value for value in values if value.endswith(f" {tail}") and value not in used]
            if alike:
                return self._take(used, alike)
        for _ in range(8):
            value = self._rng.choice(values)
            if value not in used:
                used.append(value)
                return value
        return self._take(used, [value for value in values if value not in used])

    def _take(self, used: list[str], candidates: list[str]) -> str:
        if not candidates:
            raise LookupError
        used.append(self._rng.choice(candidates))
        return used[-1]


def phrase(rng: Random, told: date, grains: tuple[Grain, ...] = ("day", "week", "month")) -> tuple[str, Span]:
    """How a speaker on day `told` says when something happened, and when that was."""
    grain = rng.choices(("day", "week", "month"), (6, 2, 1))[0]
    if grain not in grains:
        grain = grains[0]
    if grain == "week":
        weeks, words = rng.choice(((1, "last week"), (2, "two weeks ago")))
        monday = told - timedelta(days=told.weekday() + 7 * weeks)
        return words, Span(monday, monday + timedelta(days=6), "week")
    if grain == "month":
        months, words = rng.choice(((1, "last month"), (2, "two months ago")))
        return words, _month(told, months)
    days = rng.choice((0, 1, 1, 2, 3, 4, 5, 6))
    day = told - timedelta(days=days)
    return _day_words(rng, day, days), Span(day, day, "day")


def _day_words(rng: Random, day: date, days: int) -> str:
    if days == 0:
        return rng.choice(("this morning", "today"))
    options = [f"last {day:%A}", f"on {day.day} {day:%B}"]
    named = {1: "yesterday", 2: "two days ago", 3: "three days ago"}
    if days in named:
        options += [named[days]] * 2
    return rng.choice(options)


def _month(told: date, back: int) -> Span:
    number = told.year * 12 + told.month - 1 - back
    first = date(number // 12, number % 12 + 1, 1)
    following = date((number + 1) // 12, (number + 1) % 12 + 1, 1)
    return Span(first, following - timedelta(days=1), "month")
