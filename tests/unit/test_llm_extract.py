"""JSON in what a model wrote: found, repaired, validated, or refused with a reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from horma_rl.llm.extract import InvalidError, extract


class Point(BaseModel):
    model_config = ConfigDict(extra="forbid")
    x: int
    name: str = ""


class Points(BaseModel):
    points: list[Point]


@pytest.mark.parametrize(
    "text",
    [
        '{"x": 3}',
        'Sure! Here it is:\n```json\n{"x": 3}\n```\nAnything else?',
        '<think>{"x": 9} is wrong</think>\n{"x": 3}',
        "{'x': 3}",
        '{"x": 3,}',
        '{"x": 3',
        'first {"y": 1}, or rather {"x": 3}',
        "\u201cx\u201d is in {\u201cx\u201d: 3}",
        "```\n{'x': 3, 'name': ''}\n```",
    ],
)
def test_a_value_is_found(text: str) -> None:
    assert extract(text, Point) == Point(x=3)


def test_python_words_are_taken_outside_strings_only() -> None:
    assert extract("{'x': True, 'name': 'None, True'}", Point).name == "None, True"


def test_a_quote_inside_a_single_quoted_string_is_kept() -> None:
    assert extract("""{'x': 1, 'name': 'the "old" one'}""", Point).name == 'the "old" one'


def test_line_ends_inside_strings_are_taken() -> None:
    assert extract('{"x": 1, "name": "two\nlines"}', Point).name == "two\nlines"


def test_a_bare_list_is_taken_for_the_only_field() -> None:
    assert extract('[{"x": 1}, {"x": 2}]', Points) == Points(points=[Point(x=1), Point(x=2)])


def test_a_cut_answer_is_not_completed() -> None:
    text = '{"points": [{"x": 1}, {"x": 2}'
    assert len(extract(text, Points).points) == 2
    with pytest.raises(InvalidError, match="cut off"):
        extract(text, Points, cut=True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("I cannot do that.", "no JSON"),
        ('{"x": "many"}', "^x: "),
        ('{"x": 1, "z": 2}', "^z: "),
        ('{"x": NaN}', "no JSON"),
        ("[" * 100_000, "no JSON|valid"),
        ('{"x": ' * 100_000, "no JSON"),
    ],
)
def test_a_refusal_says_why(text: str, reason: str) -> None:
    with pytest.raises(InvalidError, match=reason):
        extract(text, Point)


def test_the_callers_check_has_the_last_word() -> None:
    with pytest.raises(InvalidError, match="too small"):
        extract('{"x": 1}', Point, lambda point: "too small" if point.x < 2 else None)
    found = extract('{"x": 1} {"x": 2}', Point, lambda point: "too small" if point.x < 2 else None)
    assert found.x == 2


def test_lone_surrogates_do_not_get_through() -> None:
    assert extract('{"x": 1, "name": "a\\ud800b"}', Point).name == "a?b"
    assert extract('{"x": 1, "name": "\\ud83d\\ude00"}', Point).name == "\U0001f600"


@given(st.text(alphabet="{}[]\"'\\,: xTrueNone1\n`", max_size=200))
def test_whatever_is_written_ends_in_a_value_or_a_reason(text: str) -> None:
    try:
        found = extract(text, Point)
    except InvalidError:
        return
    assert isinstance(found.x, int)
