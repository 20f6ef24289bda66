"""More phrases that name dates: compounds of the plain ones ("the Friday before last", "on Tuesday next week", "the end
of the month"), halves ("a year and a half ago"), decades and holidays with a fixed date.

They join the list of `phrases.RULES`; where two phrases begin at one place the longer is taken, so a compound wins over
the plain phrase in it.
"""

from __future__ import annotations

import re
from datetime import date, timedelta

from horma_rl.memory import calendar
from horma_rl.memory.calendar import Span
from horma_rl.memory.phrases import (
    AMOUNT,
    DAY_NAME,
    DAY_PART,
    DAYS,
    MONTH,
    MONTHS,
    RULES,
    SEASON,
    YEAR,
    Context,
    amount,
    calendar_day,
    direction,
    named_season,
    rule,
    weekday,
)

__all__ = ["RULES"]

_LAST_NEXT = r"(?P<which>last|this|next)"
_HOLIDAYS = {
    "christmas eve": (12, 24),
    "christmas": (12, 25),
    "christmas day": (12, 25),
    "boxing day": (12, 26),
    "new year's eve": (12, 31),
    "new year's day": (1, 1),
    "valentine's day": (2, 14),
    "halloween": (10, 31),
}
_ORDINALS = ("first", "second", "third", "fourth")
_DECADES = {"sixties": 1960, "seventies": 1970, "eighties": 1980, "nineties": 1990}


@rule(r"the night before last")
def _night_before_last(match: re.Match[str], context: Context) -> Span:
    return calendar.day(context.today, -2)


@rule(r"(?:(?P<ago>a fortnight ago)|in a fortnight)")
def _fortnight(match: re.Match[str], context: Context) -> Span:
    return calendar.week(context.today, -2 if match["ago"] else 2)


@rule(rf"{AMOUNT} (?P<unit>day|week|month|year)s? back(?=\s*(?:[.,;!?]|$))")
def _back(match: re.Match[str], context: Context) -> Span | None:
    low, high = amount(match["n"])
    return calendar.UNITS[match["unit"]](context.today, -low) if low == high else None


@rule(r"(?:half an? (?P<half>year|month)|(?P<n>an?|one|two|three|four|five) (?P<unit>year|month|week) and a half) ago")
def _half_after(match: re.Match[str], context: Context) -> Span:
    """ "Half a year ago", "a year and a half ago"."""
    whole = amount(match["n"])[0] if match["n"] else 0
    return _halves(match["half"] or match["unit"], whole, context.today)


@rule(r"(?P<n>one|two|three|four|five|\d{1,2}) and a half (?P<unit>year|month|week)s ago")
def _half_before(match: re.Match[str], context: Context) -> Span:
    return _halves(match["unit"], amount(match["n"])[0], context.today)


def _halves(unit: str, whole: int, today: date) -> Span:
    """`whole` and a half units ago, give or take a smaller unit: a season for years, a month, a week."""
    if unit == "year":
        months = 12 * whole + 6
        return calendar.month(today, -months - 1).through(calendar.month(today, -months + 1)).as_("season")
    if unit == "month":
        first = calendar.month(today, -whole - 1)
        return calendar.day(first.end, -14).through(calendar.day(first.end, 14)).as_("month")
    middle = calendar.day(today, -7 * whole - 4)
    return calendar.day(middle.start, -2).through(calendar.day(middle.start, 2)).as_("week")


@rule(rf"{AMOUNT} weeks? ago (?:last |on )?{DAY_NAME}{DAY_PART}?")
def _day_of_week_ago(match: re.Match[str], context: Context) -> Span | None:
    low, high = amount(match["n"])
    return _day_of_week(match["day"], context.today, -low) if low == high else None


def _day_of_week(name: str, today: date, weeks: int) -> Span:
    return calendar.day(calendar.week(today, weeks).start, DAYS.index(name))


@rule(r"(?P<n>an?|one|two|three|four) (?P<unit>week|year)s? ago (?:to the day|today)")
def _ago_today(match: re.Match[str], context: Context) -> Span:
    count = amount(match["n"])[0]
    if match["unit"] == "week":
        return calendar.day(context.today, -7 * count)
    return calendar.day(context.today.replace(year=context.today.year - count))


@rule(rf"a week (?:from|on) {DAY_NAME}")
def _week_from_day(match: re.Match[str], context: Context) -> Span:
    return calendar.day(weekday(match["day"], context.today, 1).start, 7)


@rule(r"the (?P<unit>weekend|week|month|year) after next")
def _after_next(match: re.Match[str], context: Context) -> Span:
    return calendar.UNITS[match["unit"]](context.today, 2)


@rule(rf"(?:the )?{DAY_NAME}{DAY_PART}? (?P<side>before last|after next)")
def _weekday_beyond(match: re.Match[str], context: Context) -> Span:
    """The second such day before the turn, or after it."""
    sign = -1 if match["side"] == "before last" else 1
    return calendar.day(weekday(match["day"], context.today, sign).start, 7 * sign)


@rule(rf"(?:the )?{SEASON} (?P<side>before last|after next)")
def _season_beyond(match: re.Match[str], context: Context) -> Span:
    sign = -1 if match["side"] == "before last" else 1
    near = named_season(match["season"], context.today, sign)
    return calendar.season(match["season"], near.start.year + sign)


@rule(rf"(?:on |the )?{DAY_NAME}{DAY_PART}?(?: of|,)? {_LAST_NEXT} week")
def _weekday_of_week(match: re.Match[str], context: Context) -> Span:
    return _day_of_week(match["day"], context.today, direction(match["which"]))


@rule(rf"{_LAST_NEXT} week,? on {DAY_NAME}{DAY_PART}?")
def _week_weekday(match: re.Match[str], context: Context) -> Span:
    return _day_of_week(match["day"], context.today, direction(match["which"]))


@rule(rf"(?:on )?the (?P<date>\d{{1,2}})(?:st|nd|rd|th)? of {_LAST_NEXT} month")
def _day_of_month(match: re.Match[str], context: Context) -> Span:
    month = calendar.month(context.today, direction(match["which"]))
    return calendar.day(month.start.replace(day=int(match["date"])))


@rule(rf"(?:in )?{MONTH},?(?: of)? {_LAST_NEXT} year")
def _month_of_named_year(match: re.Match[str], context: Context) -> Span:
    return calendar.month(date(_named_year(match, context), MONTHS.index(match["month"]) + 1, 1))


@rule(rf"{_LAST_NEXT} year,? in {MONTH}")
def _named_year_month(match: re.Match[str], context: Context) -> Span:
    return calendar.month(date(_named_year(match, context), MONTHS.index(match["month"]) + 1, 1))


@rule(rf"(?:in )?(?:the )?{SEASON}(?: of)? {_LAST_NEXT} year")
def _season_of_named_year(match: re.Match[str], context: Context) -> Span:
    return calendar.season(match["season"], _named_year(match, context))


def _named_year(match: re.Match[str], context: Context) -> int:
    return context.today.year + direction(match["which"])


@rule(r"this time (?P<which>last|next) year")
def _this_time(match: re.Match[str], context: Context) -> Span:
    return calendar.month(context.today, 12 * direction(match["which"]))


@rule(r"(?P<side>earlier|later) this (?P<unit>week|month|year)")
def _part_of_this(match: re.Match[str], context: Context) -> Span | None:
    """The unit up to the day before the turn, or from the day after it on; on its first or last day the whole unit,
    which the plain phrase gives."""
    whole = calendar.UNITS[match["unit"]](context.today, 0)
    day = timedelta(days=1)
    first, last = (whole.start, context.today - day) if match["side"] == "earlier" else (context.today + day, whole.end)
    return Span(first, last, whole.granularity) if first <= last else None


@rule(r"(?:the )?(?:beginning|start|middle|end) of (?:the|this) (?P<unit>week|month|year)")
def _end_of_this(match: re.Match[str], context: Context) -> Span:
    return calendar.UNITS[match["unit"]](context.today, 0)


@rule(r"over the weekend")
def _over_the_weekend(match: re.Match[str], context: Context) -> Span:
    """The one that began last; in a sentence that looks ahead, the one of the turn's week."""
    this = calendar.weekend(context.today, 0)
    return this if context.ahead or this.start < context.today else calendar.weekend(context.today, -1)


@rule(
    rf"the (?P<nth>{'|'.join(_ORDINALS)}|last) (?P<unit>weekend|week) (?:of|in) (?:{_LAST_NEXT} month|"
    rf"{MONTH}(?:,? (?:of )?{YEAR})?)"
)
def _nth_of_month(match: re.Match[str], context: Context) -> Span:
    month = _the_month(match, context)
    last = match["nth"] == "last"
    days_before = 0 if last else 7 * _ORDINALS.index(match["nth"])
    if match["unit"] == "week":
        first = calendar.day(month.end, -6) if last else calendar.day(month.start, days_before)
        return Span(first.start, first.start + timedelta(days=6), "week")
    after = month.end + timedelta(days=1) if last else month.start - timedelta(days=1)
    saturday = weekday("saturday", after, -1 if last else 1).start + timedelta(days=days_before)
    return Span(saturday, saturday + timedelta(days=1), "weekend")


def _the_month(match: re.Match[str], context: Context) -> Span:
    if match["which"]:
        return calendar.month(context.today, direction(match["which"]))
    first = date(int(match["year"] or context.today.year), MONTHS.index(match["month"]) + 1, 1)
    if match["year"] is None and context.ahead and calendar.month(first).end < context.today:
        return calendar.month(first, 12)
    if match["year"] is None and not context.ahead and first > context.today:
        return calendar.month(first, -12)
    return calendar.month(first)


@rule(
    r"(?:in |during |since |back in )?the (?:early |mid[- ]|late )?"
    r"(?:(?P<full>(?:19[1-9]|20\d)0)s|'?(?P<short>[3-9]0|00)s)"
)
def _decade(match: re.Match[str], context: Context) -> Span:
    first = int(match["full"]) if match["full"] else int(match["short"]) + (2000 if match["short"] == "00" else 1900)
    return _ten_years(first)


@rule(rf"(?:in |during |since |back in )?the (?:early |mid[- ]|late )?(?P<name>{'|'.join(_DECADES)})")
def _decade_word(match: re.Match[str], context: Context) -> Span:
    return _ten_years(_DECADES[match["name"]])


def _ten_years(first: int) -> Span:
    return Span(date(first, 1, 1), date(first + 9, 12, 31), "decade")


@rule(
    r"(?P<which>last|this past|this|next|this coming|on|since) "
    rf"(?P<name>{'|'.join(sorted(_HOLIDAYS, reverse=True))})"
)
def _holiday(match: re.Match[str], context: Context) -> Span:
    month, number = _HOLIDAYS[match["name"]]
    if match["which"] == "this":
        return calendar.day(date(context.today.year, month, number))
    ahead = match["which"] in ("next", "this coming") or (match["which"] == "on" and context.ahead)
    strictly = timedelta(days=0 if match["which"] == "on" else 1)
    return calendar_day(month, number, context.today + (strictly if ahead else -strictly), ahead)
