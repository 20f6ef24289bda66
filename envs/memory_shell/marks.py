"""Text in which every gap between two characters says what it is: the start of a word, its end, its inside, or neither.

RE2 looks neither ahead nor behind, and its `\\b` knows ASCII only. In marked text a word boundary is a character like
any other, so a linear-time matcher can test it.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

START, END, IN, OUT, _FIRST, _LAST = (chr(code) for code in range(1, 7))
MARKS = "".join((START, END, IN, OUT, _FIRST, _LAST))
ASSERTED = {"^": _FIRST, "$": _LAST, "b": START + END, "B": IN + OUT, "<": START, ">": END}
"""Assertion -> the marks of the gaps where it holds."""
_ASCII_WORD = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")
_COPIES = 3  # so that several assertions at one place can each take a mark
_SHIFT = 0xFDD0  # control characters that would pass for marks move to non-characters
_UNSHIFT = {ord(mark): None for mark in MARKS} | {_SHIFT + ord(mark): ord(mark) for mark in MARKS}
_SHIFTED = {ord(mark): _SHIFT + ord(mark) for mark in MARKS}


def shift(text: str) -> str:
    """`text` with characters that would pass for marks moved out of the way."""
    return text.translate(_SHIFTED) if any(mark in text for mark in MARKS) else text


def unmark(text: str) -> str:
    """What marked text says."""
    return text.translate(_UNSHIFT)


@lru_cache(maxsize=4096)
def is_word(char: str) -> bool:
    """Whether `char` belongs to words: a letter, a decimal digit, a letter-like number, or `_`."""
    return char == "_" or unicodedata.category(char) in ("Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Nl")


def word_before(text: bytes, offset: int) -> bool:
    """Whether a word character ends at `offset`."""
    if offset == 0 or text[offset - 1] < 0x80:
        return offset > 0 and text[offset - 1] in _ASCII_WORD
    start = offset - 1
    while text[start] & 0xC0 == 0x80:
        start -= 1
    return is_word(text[start:offset].decode("utf-8"))


def word_after(text: bytes, offset: int) -> bool:
    """Whether a word character starts at `offset`."""
    if offset >= len(text) or text[offset] < 0x80:
        return offset < len(text) and text[offset] in _ASCII_WORD
    end = offset + 1
    while end < len(text) and text[end] & 0xC0 == 0x80:
        end += 1
    return is_word(text[offset:end].decode("utf-8"))


def mark(line: str) -> str:
    """`line` (without its newline) with marks in every gap."""
    out: list[str] = []
    before = False
    for char in shift(line):
        after = is_word(char)
        out.append(_INNER[before, after] if out else ((START if after else OUT) + _FIRST) * _COPIES)
        out.append(char)
        before = after
    ends = (END if before else OUT) + _LAST + ("" if out else _FIRST)
    out.append(ends * _COPIES)
    return "".join(out)


_INNER = {
    (False, False): OUT * _COPIES,
    (False, True): START * _COPIES,
    (True, False): END * _COPIES,
    (True, True): IN * _COPIES,
}
