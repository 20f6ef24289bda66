"""Relative dates against the turn's own time: a table of cases, and properties that hold for any day."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horma_rl.memory.dates import resolve

WEDNESDAY = datetime(2023, 5, 10, 13, 56)

CASES = [
    ("I went yesterday", "{yesterday = 2023-05-09}"),
    ("Yesterday morning, then", "{Yesterday morning = 2023-05-09}"),
    ("the day before yesterday", "{the day before yesterday = 2023-05-08}"),
    ("today", "{today = 2023-05-10}"),
    ("See you tonight!", "{tonight = 2023-05-10}"),
    ("this morning", "{this morning = 2023-05-10}"),
    ("last night", "{last night = 2023-05-09}"),
    ("tomorrow", "{tomorrow = 2023-05-11}"),
    ("the day after tomorrow", "{the day after tomorrow = 2023-05-12}"),
    ("Last week I", "{Last week = 2023-05-01..2023-05-07 (week)}"),
    ("this week", "{this week = 2023-05-08..2023-05-14 (week)}"),
    ("next week", "{next week = 2023-05-15..2023-05-21 (week)}"),
    ("the week before last", "{the week before last = 2023-04-24..2023-04-30 (week)}"),
    ("We met the week before.", "{the week before = 2023-05-01..2023-05-07 (week)}"),
    ("the past week", "{past week = 2023-05-03..2023-05-10 (week)}"),
    ("last weekend", "{last weekend = 2023-05-06..2023-05-07 (weekend)}"),
    ("this past weekend", "{past weekend = 2023-05-06..2023-05-07 (weekend)}"),
    ("this weekend", "{this weekend = 2023-05-13..2023-05-14 (weekend)}"),
    ("two weekends ago", "{two weekends ago = 2023-04-29..2023-04-30 (weekend)}"),
    ("last month", "{last month = 2023-04-01..2023-04-30 (month)}"),
    ("next month", "{next month = 2023-06-01..2023-06-30 (month)}"),
    ("last year", "{last year = 2022-01-01..2022-12-31 (year)}"),
    ("last summer", "{last summer = 2022-06-01..2022-08-31 (season)}"),
    ("this summer", "{this summer = 2023-06-01..2023-08-31 (season)}"),
    ("next winter", "{next winter = 2023-12-01..2024-02-29 (season)}"),
    ("last winter", "{last winter = 2022-12-01..2023-02-28 (season)}"),
    ("the summer of 2021", "{the summer of 2021 = 2021-06-01..2021-08-31 (season)}"),
    ("last Friday", "{last Friday = 2023-05-05}"),
    ("last Wednesday", "{last Wednesday = 2023-05-03}"),
    ("next Friday", "{next Friday = 2023-05-12}"),
    ("next Wednesday", "{next Wednesday = 2023-05-17}"),
    ("this Friday", "{this Friday = 2023-05-12}"),
    ("this Monday I fell", "{this Monday = 2023-05-08}"),
    ("I'll go this Monday", "{this Monday = 2023-05-15}"),
    ("I fell on Monday", "{on Monday = 2023-05-08}"),
    ("We will leave on Monday", "{on Monday = 2023-05-15}"),
    ("Friday night was fun", "{Friday night = 2023-05-05}"),
    ("I finished it last Fri.", "{last Fri = 2023-05-05}"),
    ("last Tues", "{last Tues = 2023-05-09}"),
    ("we met on the 15th after all", "{on the 15th = 2023-04-15}"),
    ("I'll come on the 31st.", "{on the 31st = 2023-05-31}"),
    ("I came on the 31st.", "{on the 31st = 2023-03-31}"),
    ("two Fridays ago", "{two Fridays ago = 2023-04-28}"),
    ("3 days ago", "{3 days ago = 2023-05-07}"),
    ("a week ago", "{a week ago = 2023-05-01..2023-05-07 (week)}"),
    ("two weeks ago", "{two weeks ago = 2023-04-24..2023-04-30 (week)}"),
    ("4 months ago", "{4 months ago = 2023-01-01..2023-01-31 (month)}"),
    ("seven months ago", "{seven months ago = 2022-10-01..2022-10-31 (month)}"),
    ("ten years ago", "{ten years ago = 2013-01-01..2013-12-31 (year)}"),
    ("a decade ago", "{a decade ago = 2013-01-01..2013-12-31 (year)}"),
    ("a couple of days ago", "{a couple of days ago = 2023-05-07..2023-05-08 (week)}"),
    ("a few weeks ago", "{a few weeks ago = 2023-04-03..2023-04-23 (month)}"),
    ("a few years ago", "{a few years ago = 2018-01-01..2020-12-31 (year)}"),
    ("several months ago", "{several months ago = 2022-10-01..2023-02-28 (season)}"),
    ("the other day", "{the other day = 2023-05-03..2023-05-09 (week)}"),
    ("It is in two weeks", "{in two weeks = 2023-05-22..2023-05-28 (week)}"),
    ("in 3 days", "{in 3 days = 2023-05-13}"),
    ("a week from now", "{a week from now = 2023-05-15..2023-05-21 (week)}"),
    ("the last two weeks", "{last two weeks = 2023-04-26..2023-05-10 (week)}"),
    ("the next few months", "{next few months = 2023-05-10..2023-10-10 (month)}"),
    ("It was in June", "{in June = 2022-06-01..2022-06-30 (month)}"),
    ("I will go in June", "{in June = 2023-06-01..2023-06-30 (month)}"),
    ("last August", "{last August = 2022-08-01..2022-08-31 (month)}"),
    ("next March", "{next March = 2024-03-01..2024-03-31 (month)}"),
    ("back in March 2022", "{March 2022 = 2022-03-01..2022-03-31 (month)}"),
    ("in late April", "{in late April = 2023-04-01..2023-04-30 (month)}"),
    ("on 3 July", "{3 July = 2022-07-03}"),
    ("July 3rd", "{July 3rd = 2022-07-03}"),
    ("We fly on July 3rd, can't wait", "{July 3rd = 2023-07-03}"),
    ("the 3rd of July, 2021", "{the 3rd of July, 2021 = 2021-07-03}"),
    ("Sept. 9, 2021", "{Sept. 9, 2021 = 2021-09-09}"),
    ("Feb 29th", "{Feb 29th = 2020-02-29}"),
    ("2022-01-31", "{2022-01-31 = 2022-01-31}"),
    ("since 2016", "{since 2016 = 2016-01-01..2016-12-31 (year)}"),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_resolves(text: str, expected: str) -> None:
    assert [str(dated) for dated in resolve(text, WEDNESDAY)] == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "nothing here",
        "I may go, or march on",
        "on weekends and on Mondays",
        "every Friday night",
        "years ago",
        "the week before my exam",
        "31 February",
        "so much in a day",
        "the first time in years",
        "Cyberpunk 2077",
        "on the 15th floor",
        "the last sunset",
        "one day",
        "these days",
        "holidays",
        "2023-02-30",
        "",
    ],
)
def test_leaves_alone_what_names_no_date(text: str) -> None:
    assert resolve(text, WEDNESDAY) == []


def test_several_phrases_in_order_with_their_places() -> None:
    text = "Yesterday I ran; last week, the week before last and in May 2021 I did not."
    found = resolve(text, WEDNESDAY)
    assert [dated.phrase for dated in found] == ["Yesterday", "last week", "the week before last", "May 2021"]
    assert all(text[dated.at : dated.at + len(dated.phrase)] == dated.phrase for dated in found)


def test_a_dotted_capital_i_does_not_shift_the_phrase() -> None:
    assert [dated.phrase for dated in resolve("İİİ yesterday", WEDNESDAY)] == ["yesterday"]


def test_the_first_hours_and_the_last_day_of_a_year() -> None:
    assert str(resolve("last night", datetime(2024, 1, 1, 1, 0))[0]) == "{last night = 2023-12-31}"
    assert str(resolve("last month", datetime(2024, 1, 31))[0]) == "{last month = 2023-12-01..2023-12-31 (month)}"
    assert str(resolve("the past month", datetime(2024, 3, 31))[0]) == ("{past month = 2024-02-29..2024-03-31 (month)}")
    assert str(resolve("this winter", datetime(2024, 1, 31))[0]) == ("{this winter = 2023-12-01..2024-02-29 (season)}")


def test_dates_outside_the_calendar_are_left_alone() -> None:
    assert resolve("999 years ago", datetime(500, 1, 1)) == []
    assert resolve("tomorrow", datetime(9999, 12, 31)) == []


PHRASES = [text for text, _ in CASES]
DAYS = st.datetimes(datetime(1950, 1, 1), datetime(2050, 12, 31))


@given(st.sampled_from(PHRASES), DAYS)
def test_start_is_never_after_end_and_a_day_is_one_day(text: str, when: datetime) -> None:
    for dated in resolve(text, when):
        assert dated.span.start <= dated.span.end
        assert dated.span.granularity != "day" or dated.span.start == dated.span.end


@given(st.sampled_from([text for text in PHRASES if not any(c.isdigit() for c in text)]), DAYS)
def test_the_calendar_repeats_after_400_years(text: str, when: datetime) -> None:
    """400 Gregorian years are a whole number of weeks, so every answer must move by exactly as much."""
    cycle = timedelta(days=146_097)
    for now, later in zip(resolve(text, when), resolve(text, when + cycle), strict=True):
        assert (later.span.start - now.span.start, later.span.end - now.span.end) == (cycle, cycle)


WEEKLY = ["yesterday", "last week", "next weekend", "last Friday", "on Monday", "two weeks ago", "the other day"]


@given(st.sampled_from(WEEKLY), DAYS)
def test_a_week_later_means_a_week_later(text: str, when: datetime) -> None:
    week = timedelta(weeks=1)
    (now,), (later,) = resolve(text, when), resolve(text, when + week)
    assert later.span.start - now.span.start == week
    assert later.span.end - now.span.end == week


YEARLY = ["last month", "next year", "last summer", "this winter", "in June", "five months ago", "July 3rd", "last May"]


@given(st.sampled_from(YEARLY), DAYS.filter(lambda when: (when.month, when.day) != (2, 29)))
def test_a_year_later_means_a_year_later(text: str, when: datetime) -> None:
    (now,), (later,) = resolve(text, when), resolve(text, when.replace(year=when.year + 1))
    assert _next_year(now.span.start) == later.span.start
    assert (now.span.end.year + 1, now.span.end.month) == (later.span.end.year, later.span.end.month)


def _next_year(day: date) -> date:
    return day.replace(year=day.year + 1)


@given(DAYS)
def test_last_is_before_the_turn_and_next_is_after(when: datetime) -> None:
    for unit in ("week", "weekend", "month", "year", "summer", "winter", "Tuesday", "March"):
        (last,), (following,) = resolve(f"last {unit}", when), resolve(f"next {unit}", when)
        assert last.span.end < when.date() < following.span.start


@given(st.text(max_size=200), DAYS)
def test_any_text_is_answered(text: str, when: datetime) -> None:
    found = resolve(text, when)
    ends = [dated.at + len(dated.phrase) for dated in found]
    assert all(end <= dated.at for end, dated in zip(ends, found[1:], strict=False))


def test_time_is_linear_in_the_text() -> None:
    """A hostile turn of 20,000 dated words takes a second at most, where a quadratic scan would take minutes."""
    assert len(resolve("today " * 20_000, WEDNESDAY)) == 20_000
