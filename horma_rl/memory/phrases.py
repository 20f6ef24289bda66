"""The phrases that name dates: one pattern and one resolver each. `dates.py` says how the open cases are decided."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

from horma_rl.memory import calendar
from horma_rl.memory.calendar import Granularity, Span

_NUMBER_WORDS = (
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen"),
)
_NUMBERS = {word: number for number, word in enumerate(_NUMBER_WORDS, start=1)} | {
    "a": 1,
    "an": 1,
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
}
_VAGUE = {"couple": (2, 3), "few": (3, 5), "several": (3, 7)}
_COARSER: dict[Granularity, Granularity] = {
    "day": "week",
    "weekend": "month",
    "week": "month",
    "month": "season",
    "year": "year",
}
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)

AMOUNT = (
    rf"(?P<n>\d{{1,3}}|(?:a )?couple(?: of)?|(?:a )?few|several|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"
)
_UNIT = r"(?P<unit>day|weekend|week|month|year|decade)"
DAY_NAME = rf"(?P<day>{'|'.join(DAYS)})"
_DAY_SHORT = r"(?P<day>mon|tues?|wed|thu(?:rs?)?|fri|sat|sun)"
DAY_PART = r"(?: (?:morning|afternoon|evening|night))"
MONTH = rf"(?P<month>{'|'.join(MONTHS)})"
_MONTH_SHORT = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
SEASON = r"(?P<season>spring|summer|autumn|fall|winter)"
YEAR = r"(?P<year>(?:19|20)\d\d)\b"
_NAME_OF_TIME = f"{'|'.join((*DAYS, *MONTHS))}|spring|summer|autumn|fall|winter|week|month|year"
DATE_DAY = r"(?P<date>\d{1,2})(?:st|nd|rd|th)?\b"
_BACK, _ON = r"(?:last|previous|past|this past|this last)", r"(?:next|coming|upcoming|this coming|this upcoming)"
_WHICH = rf"(?P<which>{_BACK}|{_ON}|this)"


@dataclass(frozen=True, slots=True)
class Context:
    """What a phrase is read against: the turn's day, and its sentence."""

    today: date
    ahead: bool
    """The sentence speaks of the future."""


Resolver = Callable[[re.Match[str], Context], Span | None]
RULES: list[tuple[re.Pattern[str], Resolver]] = []
"""Patterns over lower-case text with straight apostrophes. A resolver returns None, or raises ValueError or
OverflowError, where the phrase names no date after all."""


def rule(pattern: str) -> Callable[[Resolver], Resolver]:
    def register(resolver: Resolver) -> Resolver:
        RULES.append((re.compile(rf"\b{pattern}\b"), resolver))
        return resolver

    return register


def amount(words: str) -> tuple[int, int]:
    """The least and the most that `words` may mean."""
    for name, bounds in _VAGUE.items():
        if name in words:
            return bounds
    number = int(words) if words.isdigit() else _NUMBERS[words]
    return number, number


def direction(which: str) -> int:
    """-1 for "last" and its like, 0 for "this", +1 for "next"."""
    if which == "this":
        return 0
    return -1 if which.endswith(("last", "past", "previous")) else 1


@rule(r"(?:today|tonight|this (?:morning|afternoon|evening))")
def _today(match: re.Match[str], context: Context) -> Span:
    return calendar.day(context.today)


@rule(rf"(?P<far>the day before )?yesterday{DAY_PART}?")
def _yesterday(match: re.Match[str], context: Context) -> Span:
    return calendar.day(context.today, -2 if match["far"] else -1)


@rule(r"last (?:night|evening)")
def _last_night(match: re.Match[str], context: Context) -> Span:
    return calendar.day(context.today, -1)


@rule(rf"(?P<far>the day after )?tomorrow{DAY_PART}?")
def _tomorrow(match: re.Match[str], context: Context) -> Span:
    return calendar.day(context.today, 2 if match["far"] else 1)


@rule(r"the other (?:day|night)")
def _other_day(match: re.Match[str], context: Context) -> Span:
    return calendar.day(context.today, -7).through(calendar.day(context.today, -1)).as_("week")


@rule(rf"{AMOUNT} {_UNIT}s? ago")
def _ago(match: re.Match[str], context: Context) -> Span:
    return _shifted(match, context.today, -1)


@rule(rf"(?<!time )(?:in {AMOUNT} {_UNIT}s?(?! or ))")
def _in_amount(match: re.Match[str], context: Context) -> Span | None:
    if match["n"] in ("a", "an", "one") and not context.ahead:
        return None  # "so much in a day"
    return _shifted(match, context.today, 1)


@rule(rf"{AMOUNT} {_UNIT}s? from (?:now|today)")
def _from_now(match: re.Match[str], context: Context) -> Span:
    return _shifted(match, context.today, 1)


def _shifted(match: re.Match[str], today: date, sign: int) -> Span:
    low, high = amount(match["n"])
    shift = calendar.UNITS[match["unit"]]
    near = shift(today, sign * low)
    if low == high:
        return near
    return near.through(shift(today, sign * high)).as_(_COARSER[near.granularity])


@rule(rf"{AMOUNT} {DAY_NAME}s ago")
def _weekdays_ago(match: re.Match[str], context: Context) -> Span:
    low, high = amount(match["n"])
    latest = weekday(match["day"], context.today, -1)
    near = calendar.day(latest.start, -7 * (low - 1))
    return near if low == high else near.through(calendar.day(latest.start, -7 * (high - 1))).as_("month")


@rule(rf"(?P<which>last|past|next) {AMOUNT} {_UNIT}s")
def _running(match: re.Match[str], context: Context) -> Span:
    """ "The last two weeks", "the next few months": up to the turn, or from it on."""
    sign = direction(match["which"])
    reach = _ending(match["unit"], context.today, sign * amount(match["n"])[1])
    return calendar.day(context.today).through(reach).as_(reach.granularity)


def _ending(unit: str, today: date, offset: int) -> Span:
    """The day `offset` units from `today`, with the unit's granularity; a day too many is cut at the month's end."""
    if unit in ("day", "week", "weekend"):
        return calendar.day(today, offset * (1 if unit == "day" else 7)).as_("week")
    months = calendar.month(today, offset * {"month": 1, "year": 12, "decade": 120}[unit])
    exact = months.start.replace(day=min(today.day, months.end.day))
    return Span(exact, exact, "month" if unit == "month" else "year")


@rule(r"past (?P<unit>week|month|year)")
def _past_unit(match: re.Match[str], context: Context) -> Span:
    reach = _ending(match["unit"], context.today, -1)
    return reach.through(calendar.day(context.today))


@rule(r"(?P<which>last|previous|this|next|coming|upcoming) (?P<unit>weekend|week|month|year)")
def _named_unit(match: re.Match[str], context: Context) -> Span:
    return calendar.UNITS[match["unit"]](context.today, direction(match["which"]))


@rule(r"past weekend")
def _past_weekend(match: re.Match[str], context: Context) -> Span:
    return calendar.weekend(context.today, -1)


@rule(rf"the (?P<unit>weekend|week|month|year) before last(?! (?:{_NAME_OF_TIME}))")
def _before_last(match: re.Match[str], context: Context) -> Span:
    return calendar.UNITS[match["unit"]](context.today, -2)


@rule(r"the (?P<unit>day|weekend|week|month|year) before(?=\s*(?:[.,;!?]|$))")
def _before(match: re.Match[str], context: Context) -> Span:
    """Only where nothing follows that it could be before of: "the week before." but not "the week before my exam"."""
    return calendar.UNITS[match["unit"]](context.today, -1)


@rule(rf"{_WHICH} {DAY_NAME}{DAY_PART}?")
def _named_weekday(match: re.Match[str], context: Context) -> Span:
    sign = direction(match["which"])
    if sign:
        return weekday(match["day"], context.today, sign)
    if context.ahead:
        return weekday(match["day"], context.today - timedelta(days=1), 1)
    return calendar.day(calendar.week(context.today).start, DAYS.index(match["day"]))


@rule(rf"(?P<which>{_BACK}|{_ON}) {_DAY_SHORT}{DAY_PART}?")
def _short_weekday(match: re.Match[str], context: Context) -> Span:
    return weekday(match["day"], context.today, direction(match["which"]))


@rule(rf"(?<!every )(?<!each )(?:on {DAY_NAME}{DAY_PART}?|(?P<bare>{'|'.join(DAYS)}){DAY_PART})")
def _plain_weekday(match: re.Match[str], context: Context) -> Span:
    return weekday(match["day"] or match["bare"], context.today, 1 if context.ahead else -1)


def weekday(name: str, today: date, direction: int) -> Span:
    """The nearest day of that name (or its beginning) strictly before (-1) or after (+1) `today`."""
    number = next(number for number, day in enumerate(DAYS) if day.startswith(name[:3]))
    away = (number - today.weekday()) * direction % 7 or 7
    return calendar.day(today, direction * away)


@rule(rf"{_WHICH} {SEASON}")
def _which_season(match: re.Match[str], context: Context) -> Span:
    return named_season(match["season"], context.today, direction(match["which"]))


def named_season(name: str, today: date, direction: int) -> Span:
    """The latest season of that name that is over (-1), this year's (0), or the first that has not begun (+1)."""
    years = range(today.year - 2, today.year + 2)
    if direction < 0:
        return [span for y in years if (span := calendar.season(name, y)).end < today][-1]
    if direction > 0:
        return next(span for y in years if (span := calendar.season(name, y)).start > today)
    began_last_year = name == "winter" and today.month <= 2
    return calendar.season(name, today.year - began_last_year)


@rule(rf"(?:the )?{SEASON},? (?:of |in )?{YEAR}")
def _season_of_year(match: re.Match[str], context: Context) -> Span:
    return calendar.season(match["season"], int(match["year"]))


@rule(rf"{_WHICH} {MONTH}")
def _named_month(match: re.Match[str], context: Context) -> Span:
    sign, this = direction(match["which"]), calendar.month(context.today)
    named = date(context.today.year, MONTHS.index(match["month"]) + 1, 1)
    if sign < 0 and named >= this.start:
        return calendar.month(named, -12)
    if sign > 0 and named <= this.start:
        return calendar.month(named, 12)
    return calendar.month(named)


@rule(
    r"(?:in|since|during|until|till|throughout|early|mid|late|(?:start|beginning|middle|end) of)"
    rf"(?: early| mid| late|-)?[ -]?{MONTH}(?!,? (?:of )?(?:\d))"
)
def _month_alone(match: re.Match[str], context: Context) -> Span:
    named = calendar.month(date(context.today.year, MONTHS.index(match["month"]) + 1, 1))
    if context.ahead and named.end < context.today:
        return calendar.month(named.start, 12)
    if not context.ahead and named.start > context.today:
        return calendar.month(named.start, -12)
    return named


@rule(rf"{_MONTH_SHORT},? (?:of )?{YEAR}")
def _month_of_year(match: re.Match[str], context: Context) -> Span:
    return calendar.month(date(int(match["year"]), _month_number(match["month"]), 1))


@rule(rf"(?:the )?{DATE_DAY} (?:of )?{_MONTH_SHORT}(?:,? {YEAR})?")
def _day_month(match: re.Match[str], context: Context) -> Span:
    return _calendar_day(match, context)


@rule(rf"{_MONTH_SHORT} (?:the )?{DATE_DAY}(?:,? {YEAR})?")
def _month_day(match: re.Match[str], context: Context) -> Span:
    return _calendar_day(match, context)


def _calendar_day(match: re.Match[str], context: Context) -> Span:
    month, number = _month_number(match["month"]), int(match["date"])
    if match["year"]:
        return calendar.day(date(int(match["year"]), month, number))
    return calendar_day(month, number, context.today, context.ahead)


def calendar_day(month: int, number: int, today: date, ahead: bool) -> Span:
    """The latest such day up to `today`, or, `ahead`, the first one from it on. Raises ValueError if there is none."""
    # 29 February is looked for in the years around, so eight years cover the gap at a century.
    years = range(today.year, today.year + 9) if ahead else range(today.year, today.year - 9, -1)
    for year in years:
        try:
            named = date(year, month, number)
        except ValueError:
            continue
        if (named >= today) if ahead else (named <= today):
            return calendar.day(named)
    raise ValueError(f"{number}.{month}.")


@rule(r"on the (?P<date>\d{1,2})(?:st|nd|rd|th)(?=[.,;!?]|$| (?:after|and|at|because|for|so|to|with)\b)")
def _day_alone(match: re.Match[str], context: Context) -> Span:
    """ "On the 15th": not "on the 15th floor"."""
    step, number = 1 if context.ahead else -1, int(match["date"])
    for offset in range(0, 3 * step, step):  # of two months that follow one another, one has 31 days
        month = calendar.month(context.today, offset)
        if number <= month.end.day:
            named = month.start.replace(day=number)
            if (named >= context.today) if context.ahead else (named <= context.today):
                return calendar.day(named)
    raise ValueError(match[0])


def _month_number(name: str) -> int:
    return next(number for number, month in enumerate(MONTHS, start=1) if month.startswith(name[:3]))


@rule(r"(?P<iso>(?:19|20)\d\d-\d\d-\d\d)")
def _iso_day(match: re.Match[str], context: Context) -> Span:
    return calendar.day(date.fromisoformat(match["iso"]))


@rule(rf"(?:in|since|during|until|till|by|back in|around) {YEAR}(?![-/])")
def _year_alone(match: re.Match[str], context: Context) -> Span:
    return calendar.year(date(int(match["year"]), 1, 1))
