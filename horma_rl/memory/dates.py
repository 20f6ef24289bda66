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

Words that name no date ("recently", "years ago", "on weekends") are left alone, and so is a date that does not exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta

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
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)

_AMOUNT = (
    rf"(?P<n>\d{{1,3}}|(?:a )?couple(?: of)?|(?:a )?few|several|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"
)
_UNIT = r"(?P<unit>day|weekend|week|month|year|decade)"
_DAY_NAME = rf"(?P<day>{'|'.join(_DAYS)})"
_DAY_PART = r"(?: (?:morning|afternoon|evening|night))"
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})"
_MONTH_SHORT = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_SEASON = r"(?P<season>spring|summer|autumn|fall|winter)"
_YEAR = r"(?P<year>(?:19|20)\d\d)\b"
_DATE_DAY = r"(?P<date>\d{1,2})(?:st|nd|rd|th)?\b"
_BACK, _ON = r"(?:last|previous|past|this past|this last)", r"(?:next|coming|upcoming|this coming|this upcoming)"
_WHICH = rf"(?P<which>{_BACK}|{_ON}|this)"

_AHEAD = re.compile(
    r"\b(?:will|won't|shall|going to|gonna|plan(?:s|ning)?|hop(?:e|ing)|can't wait|look(?:ing)? forward|"
    r"upcoming|coming up|soon|schedul\w+|due|tomorrow|next|"
    r"(?:i'?m|we'?re) (?:going|having|meeting))\b|'ll\b"
)
_REACH = 300
_SENTENCE_END = re.compile(r"[.!?\n]")
_HINT = re.compile(
    r"day|night|tomorrow|morning|afternoon|evening|week|month|year|decade|spring|summer|autumn|fall|winter|"
    r"jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|\d{4}"
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


def interval(span: Span) -> str:
    """`2023-05-07` for a day, else `2023-05-01..2023-05-07 (week)`."""
    if span.granularity == "day":
        return span.start.isoformat()
    return f"{span.start.isoformat()}..{span.end.isoformat()} ({span.granularity})"


@dataclass(frozen=True, slots=True)
class _Context:
    today: date
    ahead: bool
    """The sentence speaks of the future."""


_Resolver = Callable[[re.Match[str], _Context], Span | None]
_RULES: list[tuple[re.Pattern[str], _Resolver]] = []


def resolve(text: str, when: datetime) -> list[Dated]:
    """The dated phrases of `text`, in order, without overlaps: the longest of several that begin at one place."""
    lowered = _fold(text)
    if not _HINT.search(lowered):
        return []
    found = sorted(_candidates(lowered, text, when.date()), key=lambda one: (one.at, -len(one.phrase)))
    kept: list[Dated] = []
    for one in found:
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
    for pattern, resolver in _RULES:
        for match in pattern.finditer(lowered):
            context = _Context(today, _looks_ahead(lowered, match))
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


def _rule(pattern: str) -> Callable[[_Resolver], _Resolver]:
    def register(resolver: _Resolver) -> _Resolver:
        _RULES.append((re.compile(rf"\b{pattern}\b"), resolver))
        return resolver

    return register


def _amount(words: str) -> tuple[int, int]:
    """The least and the most that `words` may mean."""
    for name, bounds in _VAGUE.items():
        if name in words:
            return bounds
    number = int(words) if words.isdigit() else _NUMBERS[words]
    return number, number


def _direction(which: str) -> int:
    """-1 for "last" and its like, 0 for "this", +1 for "next"."""
    if which == "this":
        return 0
    return -1 if which.endswith(("last", "past", "previous")) else 1


@_rule(r"(?:today|tonight|this (?:morning|afternoon|evening))")
def _today(match: re.Match[str], context: _Context) -> Span:
    return calendar.day(context.today)


@_rule(rf"(?P<far>the day before )?yesterday{_DAY_PART}?")
def _yesterday(match: re.Match[str], context: _Context) -> Span:
    return calendar.day(context.today, -2 if match["far"] else -1)


@_rule(r"last (?:night|evening)")
def _last_night(match: re.Match[str], context: _Context) -> Span:
    return calendar.day(context.today, -1)


@_rule(rf"(?P<far>the day after )?tomorrow{_DAY_PART}?")
def _tomorrow(match: re.Match[str], context: _Context) -> Span:
    return calendar.day(context.today, 2 if match["far"] else 1)


@_rule(r"the other (?:day|night)")
def _other_day(match: re.Match[str], context: _Context) -> Span:
    return calendar.day(context.today, -7).through(calendar.day(context.today, -1)).as_("week")


@_rule(rf"{_AMOUNT} {_UNIT}s? ago")
def _ago(match: re.Match[str], context: _Context) -> Span:
    return _shifted(match, context.today, -1)


@_rule(rf"(?<!time )(?:in {_AMOUNT} {_UNIT}s?(?! or ))")
def _in_amount(match: re.Match[str], context: _Context) -> Span | None:
    if match["n"] in ("a", "an", "one") and not context.ahead:
        return None  # "so much in a day"
    return _shifted(match, context.today, 1)


@_rule(rf"{_AMOUNT} {_UNIT}s? from (?:now|today)")
def _from_now(match: re.Match[str], context: _Context) -> Span:
    return _shifted(match, context.today, 1)


def _shifted(match: re.Match[str], today: date, sign: int) -> Span:
    low, high = _amount(match["n"])
    shift = calendar.UNITS[match["unit"]]
    near = shift(today, sign * low)
    if low == high:
        return near
    return near.through(shift(today, sign * high)).as_(_COARSER[near.granularity])


@_rule(rf"{_AMOUNT} {_DAY_NAME}s ago")
def _weekdays_ago(match: re.Match[str], context: _Context) -> Span:
    low, high = _amount(match["n"])
    latest = _weekday(match["day"], context.today, -1)
    near = calendar.day(latest.start, -7 * (low - 1))
    return near if low == high else near.through(calendar.day(latest.start, -7 * (high - 1))).as_("month")


@_rule(rf"(?P<which>last|past|next) {_AMOUNT} {_UNIT}s")
def _running(match: re.Match[str], context: _Context) -> Span:
    """ "The last two weeks", "the next few months": up to the turn, or from it on."""
    sign = _direction(match["which"])
    reach = _ending(match["unit"], context.today, sign * _amount(match["n"])[1])
    return calendar.day(context.today).through(reach).as_(reach.granularity)


def _ending(unit: str, today: date, offset: int) -> Span:
    """The day `offset` units from `today`, with the unit's granularity; a day too many is cut at the month's end."""
    if unit in ("day", "week", "weekend"):
        return calendar.day(today, offset * (1 if unit == "day" else 7)).as_("week")
    months = calendar.month(today, offset * {"month": 1, "year": 12, "decade": 120}[unit])
    exact = months.start.replace(day=min(today.day, months.end.day))
    return Span(exact, exact, "month" if unit == "month" else "year")


@_rule(r"past (?P<unit>week|month|year)")
def _past_unit(match: re.Match[str], context: _Context) -> Span:
    reach = _ending(match["unit"], context.today, -1)
    return reach.through(calendar.day(context.today))


@_rule(r"(?P<which>last|previous|this|next|coming|upcoming) (?P<unit>weekend|week|month|year)")
def _named_unit(match: re.Match[str], context: _Context) -> Span:
    return calendar.UNITS[match["unit"]](context.today, _direction(match["which"]))


@_rule(r"past weekend")
def _past_weekend(match: re.Match[str], context: _Context) -> Span:
    return calendar.weekend(context.today, -1)


@_rule(r"the (?P<unit>weekend|week|month|year) before last")
def _before_last(match: re.Match[str], context: _Context) -> Span:
    return calendar.UNITS[match["unit"]](context.today, -2)


@_rule(r"the (?P<unit>day|weekend|week|month|year) before(?=\s*(?:[.,;!?]|$))")
def _before(match: re.Match[str], context: _Context) -> Span:
    """Only where nothing follows that it could be before of: "the week before." but not "the week before my exam"."""
    return calendar.UNITS[match["unit"]](context.today, -1)


@_rule(rf"{_WHICH} {_DAY_NAME}{_DAY_PART}?")
def _named_weekday(match: re.Match[str], context: _Context) -> Span:
    direction = _direction(match["which"])
    if direction:
        return _weekday(match["day"], context.today, direction)
    if context.ahead:
        return _weekday(match["day"], context.today - timedelta(days=1), 1)
    return calendar.day(calendar.week(context.today).start, _DAYS.index(match["day"]))


@_rule(rf"(?<!every )(?<!each )(?:on {_DAY_NAME}{_DAY_PART}?|(?P<bare>{'|'.join(_DAYS)}){_DAY_PART})")
def _plain_weekday(match: re.Match[str], context: _Context) -> Span:
    return _weekday(match["day"] or match["bare"], context.today, 1 if context.ahead else -1)


def _weekday(name: str, today: date, direction: int) -> Span:
    """The nearest day of that name strictly before (-1) or after (+1) `today`."""
    away = (_DAYS.index(name) - today.weekday()) * direction % 7 or 7
    return calendar.day(today, direction * away)


@_rule(rf"{_WHICH} {_SEASON}")
def _named_season(match: re.Match[str], context: _Context) -> Span:
    today, name, direction = context.today, match["season"], _direction(match["which"])
    years = range(today.year - 2, today.year + 2)
    if direction < 0:
        return [span for y in years if (span := calendar.season(name, y)).end < today][-1]
    if direction > 0:
        return next(span for y in years if (span := calendar.season(name, y)).start > today)
    began_last_year = name == "winter" and today.month <= 2
    return calendar.season(name, today.year - began_last_year)


@_rule(rf"(?:the )?{_SEASON},? (?:of |in )?{_YEAR}")
def _season_of_year(match: re.Match[str], context: _Context) -> Span:
    return calendar.season(match["season"], int(match["year"]))


@_rule(rf"{_WHICH} {_MONTH}")
def _named_month(match: re.Match[str], context: _Context) -> Span:
    direction, this = _direction(match["which"]), calendar.month(context.today)
    named = date(context.today.year, _MONTHS.index(match["month"]) + 1, 1)
    if direction < 0 and named >= this.start:
        return calendar.month(named, -12)
    if direction > 0 and named <= this.start:
        return calendar.month(named, 12)
    return calendar.month(named)


@_rule(
    r"(?:in|since|during|until|till|throughout|early|mid|late|(?:start|beginning|middle|end) of)"
    rf"(?: early| mid| late|-)?[ -]?{_MONTH}(?!,? (?:of )?(?:\d))"
)
def _month_alone(match: re.Match[str], context: _Context) -> Span:
    named = calendar.month(date(context.today.year, _MONTHS.index(match["month"]) + 1, 1))
    if context.ahead and named.end < context.today:
        return calendar.month(named.start, 12)
    if not context.ahead and named.start > context.today:
        return calendar.month(named.start, -12)
    return named


@_rule(rf"{_MONTH_SHORT},? (?:of )?{_YEAR}")
def _month_of_year(match: re.Match[str], context: _Context) -> Span:
    return calendar.month(date(int(match["year"]), _month_number(match["month"]), 1))


@_rule(rf"(?:the )?{_DATE_DAY} (?:of )?{_MONTH_SHORT}(?:,? {_YEAR})?")
def _day_month(match: re.Match[str], context: _Context) -> Span:
    return _calendar_day(match, context)


@_rule(rf"{_MONTH_SHORT} (?:the )?{_DATE_DAY}(?:,? {_YEAR})?")
def _month_day(match: re.Match[str], context: _Context) -> Span:
    return _calendar_day(match, context)


def _calendar_day(match: re.Match[str], context: _Context) -> Span:
    month, number, today = _month_number(match["month"]), int(match["date"]), context.today
    if match["year"]:
        return calendar.day(date(int(match["year"]), month, number))
    # 29 February is looked for in the years around, so eight years cover the gap at a century.
    years = range(today.year, today.year + 9) if context.ahead else range(today.year, today.year - 9, -1)
    for year in years:
        try:
            named = date(year, month, number)
        except ValueError:
            continue
        if (named >= today) if context.ahead else (named <= today):
            return calendar.day(named)
    raise ValueError(match[0])


def _month_number(name: str) -> int:
    return next(number for number, month in enumerate(_MONTHS, start=1) if month.startswith(name[:3]))


@_rule(r"(?P<iso>(?:19|20)\d\d-\d\d-\d\d)")
def _iso_day(match: re.Match[str], context: _Context) -> Span:
    return calendar.day(date.fromisoformat(match["iso"]))


@_rule(rf"(?:in|since|during|until|till|by|back in|around) {_YEAR}(?![-/])")
def _year_alone(match: re.Match[str], context: _Context) -> Span:
    return calendar.year(date(int(match["year"]), 1, 1))
