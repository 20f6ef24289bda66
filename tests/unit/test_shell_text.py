"""Text that is harmless to a tokenizer, and output within its caps."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_shell.caps import clip
from memory_shell.output import More, Output
from memory_shell.text import neutralise
from memory_shell.types import Caps
from tests.hostile_workspace import TOKENS

_PIECES = st.sampled_from(
    [
        *TOKENS, "<", ">", "|", "/", "<|", "|>", "im_end", "tool_call", "think", "function=", "[", "]", "INST", " ",
        "\n", "\t", "a", "é", "\x00", "\x1b[0m", "\x7f", "\u202e", "\u200b", "\ufeff", "\udcff", "\U000e0041",
        "D1:2", "「", "😀",
    ]
)  # fmt: skip
_MIXED = st.lists(_PIECES, max_size=30).map("".join)
_QUICK = settings(max_examples=300, deadline=None, derandomize=True, database=None)


@pytest.mark.parametrize(
    "token", [*TOKENS, "<|IM_END|>", "<TOOL_CALL>", "<|a|", "|>", "<think >", "<parameter=x>y</parameter>"]
)
def test_no_special_token_is_left(token: str) -> None:
    shown = neutralise(f"before {token} after")
    assert token not in shown
    assert shown.startswith("before ")
    assert shown.endswith(" after")
    assert len(shown) == len(f"before {token} after")


@pytest.mark.parametrize(
    "text",
    [
        "A: I love pottery. [D1:3]", "a < b and b > c", "see [D1:2, D1:4]\n\tindented", "{\"id\": \"D1:1\"}",
        "if a<b: x|y", "naïve — ’ 漢字 😀 ж", "<b>bold</b>", "x <- y -> z", "a || b", "[1] [INSTANCE]", "",
        "5 < 6|7 > 2",
    ],
)  # fmt: skip
def test_ordinary_text_is_not_touched(text: str) -> None:
    assert neutralise(text) == text


@_QUICK
@given(_MIXED)
def test_neutralising_is_complete_and_happens_once(text: str) -> None:
    shown = neutralise(text)
    assert neutralise(shown) == shown
    assert not [token for token in TOKENS if token in shown]
    assert not [char for char in shown if (char < " " and char not in "\n\t") or "\x7f" <= char <= "\x9f"]
    shown.encode("utf-8")  # no lone surrogates
    assert shown.count("\n") == text.count("\n")


def test_control_characters_are_shown() -> None:
    assert neutralise("\x1b[31m\x00\x7f\u202e\udcff\r") == "␛[31m␀␡\ufffd\ufffd␍"


@_QUICK
@given(
    text=st.lists(_PIECES, max_size=200).map("".join),
    lines=st.integers(0, 12),
    size=st.integers(0, 600),
    line_bytes=st.integers(0, 80),
    more=st.sampled_from([More(), More(7, 2), More(3000, 0, True)]),
    hint=st.sampled_from(["", "nothing <|im_end|> found"]),
)
def test_output_stays_within_its_caps(text: str, lines: int, size: int, line_bytes: int, more: More, hint: str) -> None:
    caps = Caps(lines=lines, bytes=size, line_bytes=line_bytes)
    shown = clip(Output(text, more=more, hint=hint), caps)
    assert len(shown.encode("utf-8")) <= size
    assert shown.count("\n") <= lines + 2
    assert neutralise(shown) == shown


def test_the_marker_counts_lines_and_files() -> None:
    output = Output("".join(f"f{n // 2}:{n}\n" for n in range(10)), file_ends=(2, 4, 6, 8, 10), narrow="use -l")
    assert clip(output, Caps(lines=3)) == "f0:0\nf0:1\nf1:2\n[7 more lines (4 files) left out: use -l]\n"
    assert clip(output, Caps(lines=9)).endswith("f4:8\n[1 more line (1 file) left out: use -l]\n")
    assert clip(output, Caps(lines=10)) == output.text


def test_what_was_only_counted_is_in_the_marker() -> None:
    output = Output("a\nb\n", file_ends=(2,), more=More(1000, 12, True), narrow="use -m")
    assert clip(output, Caps()) == "a\nb\n[at least 1000 more lines (12 files) left out: use -m]\n"


def test_a_long_line_says_how_long_it_is() -> None:
    shown = clip(Output("x" * 5000 + "\nshort\n"), Caps(line_bytes=100))
    first, second, rest = shown.split("\n")
    assert first.startswith("xxx")
    assert first.endswith(" [... 5000 bytes in this line]")
    assert (len(first), second, rest) == (100, "short", "")


def test_a_hint_follows_the_output() -> None:
    assert clip(Output("", hint="no match in 3 files searched"), Caps()) == "[no match in 3 files searched]\n"
    assert clip(Output("a", hint="b"), Caps()) == "a\n[b]\n"
