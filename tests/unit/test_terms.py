"""Tokens, prefix stems, stop words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_shell.terms import MIN_STEM, STOP_WORDS, stem, tokenise

FAMILIES = [
    ("paint", "paint paints painted painting paintings painter painters"),
    ("hik", "hike hikes hiked hiking"),
    ("potter", "pottery"),
    ("stor", "story stories"),
    ("stop", "stop stops stopped stopping"),
    ("travel", "travel travels travelled travelling traveled"),
    ("stud", "study studies studied studying"),
    ("call", "call calls called calling"),
    ("class", "class classes"),
    ("box", "box boxes"),
    ("potato", "potato potatoes"),
    ("movi", "movie movies"),
    ("shoe", "shoe shoes"),
    ("melani", "melanie"),
    ("quick", "quick quickly"),
]
UNCHANGED = ("cat", "his", "using", "need", "seed", "tree", "thing", "evening", "tennis", "series", "king", "summer")


@pytest.mark.parametrize(("expected", "words"), FAMILIES)
def test_inflections_share_a_stem(expected: str, words: str) -> None:
    assert {stem(word) for word in words.split()} == {expected}


@pytest.mark.parametrize("word", UNCHANGED)
def test_words_that_are_no_inflection_stay_whole(word: str) -> None:
    assert stem(word) == word


@given(st.text(alphabet="abdeghilnorstyvz'", max_size=12))
def test_a_stem_is_a_prefix_and_not_too_short(word: str) -> None:
    assert word.startswith(stem(word))
    assert len(stem(word)) >= min(MIN_STEM, len(word))


@given(st.sampled_from([word for _, words in FAMILIES for word in words.split()]))
def test_grep_with_the_stem_finds_the_word(word: str) -> None:
    assert re.search(rf"\b{stem(word)}", f"some {word.upper()}, here", re.IGNORECASE)


def test_tokenise_drops_possessives_and_punctuation() -> None:
    assert tokenise("What did Melanie\u2019s kids' dog do at 5pm? O'Brien's café!") == (
        ["what", "did", "melanie", "kids", "dog", "do", "at", "5pm", "o'brien", "café"]
    )


def test_contractions_stay_whole_and_are_stop_words() -> None:
    words = tokenise("It's where they're; didn't she?")
    assert words == ["it's", "where", "they're", "didn't", "she"]
    assert set(words) <= STOP_WORDS


@given(st.text(max_size=200))
def test_tokenise_takes_any_text(text: str) -> None:
    for word in tokenise(text):
        assert word
        assert word.startswith(stem(word))


def test_content_words_are_no_stop_words() -> None:
    assert not STOP_WORDS & {"pottery", "camping", "yesterday", "week", "first", "new", "melanie", "book", "time"}
