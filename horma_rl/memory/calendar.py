"""Calendar arithmetic for relative dates: days, weekends, weeks, months, seasons and years as closed date intervals.

Conventions, used everywhere: a week runs from Monday to Sunday, a weekend is its Saturday and Sunday, and seasons are
those of the northern hemisphere by whole months (spring from March, summer from June, autumn from September, winter
from December to February). Every function raises ValueError or OverflowError for a date outside the years 1 to 9999.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal

Granularity = Literal["day", "weekend", "week", "month", "season", "year", "decade"]
SEASON_STARTS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}


@dataclass(frozen=True, slots=True)
class Span:
    """The days from `start` to `end`, both included, and how exactly they are meant."""

    start: date
    end: date
    granularity: Granularity

    def through(self, other: Span) -> Span:
        """From the earlier start to the later end, with this span's granularity."""
        return Span(min(self.start, other.start), max(self.end, other.end), self.granularity)

    def as_(self, granularity: Granularity) -> Span:
        """The same days, meant more loosely."""
        return Span(self.start, self.end, granularity)


def day(when: date, offset: int = 0) -> Span:
    """The day `offset` days after `when`."""
    moved = when + timedelta(days=offset)
    return Span(moved, moved, "day")


def week(when: date, offset: int = 0) -> Span:
    """The week `offset` weeks after the one that holds `when`."""
    monday = when - timedelta(days=when.weekday()) + timedelta(weeks=offset)
    return Span(monday, monday + timedelta(days=6), "week")


def weekend(when: date, offset: int = 0) -> Span:
    """The Saturday and Sunday of that week."""
    sunday = week(when, offset).end
    return Span(sunday - timedelta(days=1), sunday, "weekend")


def month(when: date, offset: int = 0) -> Span:
    """The month `offset` months after the one that holds `when`."""
    year_number, index = divmod(when.year * 12 + when.month - 1 + offset, 12)
    first = date(year_number, index + 1, 1)
    return Span(first, first.replace(day=monthrange(first.year, first.month)[1]), "month")


def year(when: date, offset: int = 0) -> Span:
    """The year `offset` years after the one that holds `when`."""
    return Span(date(when.year + offset, 1, 1), date(when.year + offset, 12, 31), "year")


def season(name: str, start_year: int) -> Span:
    """The season that begins in `start_year`: `season("winter", 2022)` ends in February 2023."""
    first = date(start_year, SEASON_STARTS[name], 1)
    return Span(first, month(first, 2).end, "season")


UNITS: dict[str, Callable[[date, int], Span]] = {
    "day": day,
    "weekend": weekend,
    "week": week,
    "month": month,
    "year": year,
    "decade": lambda when, offset: year(when, 10 * offset),
}
