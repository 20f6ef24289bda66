"""Which lines hold which words: a search for fixed text becomes a search of the vocabulary.

Only built for texts of a conversation's size, where it takes milliseconds and makes a search several times faster than
scanning; a large text is scanned, which needs no memory of its own.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from memory_shell.marks import word_after, word_before

MAX_BYTES = 4 * 1024 * 1024
_TOKEN = re.compile(rb"[0-9A-Z_a-z\x80-\xff]+")
_MIN_KEY = 2
_REMEMBERED = 2048


class Fixed(NamedTuple):
    """Fixed text to look for. `before`, `after`: no word may go on there. `lowered`: `text` is in lower case and case
    is ignored."""

    text: bytes
    before: bool
    after: bool
    lowered: bool


class Vocabulary:
    """The words of `text` (every run of letters, digits, `_` and bytes beyond ASCII), case ignored."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._lower = text.lower()
        self._line_starts = array("I", [0])
        lines: dict[bytes, list[int]] = {}
        for number, line in enumerate(self._lower.split(b"\n")):
            self._line_starts.append(self._line_starts[-1] + len(line) + 1)
            for word in set(_TOKEN.findall(line)):
                lines.setdefault(word, []).append(number)
        words = sorted(lines)
        self._lines = [lines[word] for word in words]
        self._words = b"\n" + b"\n".join(words) + b"\n"
        self._known: dict[tuple[bytes, bool, bool], list[int]] = {}
        self._starts = array("I", [1])
        for word in words:
            self._starts.append(self._starts[-1] + len(word) + 1)

    def lines_with_any(self, wanted: Sequence[Fixed], start: int, end: int) -> Iterator[tuple[int, int]] | None:
        """The lines of `text[start:end]` that hold one of `wanted`: (start, end without newline), in order.

        None when one of them holds no word to look for.
        """
        found: list[list[int]] = []
        for fixed in wanted:
            key = _key(fixed.text)
            if len(key) < _MIN_KEY:
                return None
            if key == fixed.text and fixed.lowered:
                found.append(self._within(self._holding(key, fixed.before, fixed.after), start, end))
                continue
            text, starts = self._lower if fixed.lowered else self._text, self._line_starts
            numbers = self._within(self._holding(key.lower(), False, False), start, end)
            if fixed.before or fixed.after:
                found.append([number for number in numbers if holds(text, fixed, starts[number], starts[number + 1])])
            else:
                find, sought = text.find, fixed.text
                found.append([number for number in numbers if find(sought, starts[number], starts[number + 1]) >= 0])
        return self._bounds(found[0] if len(found) == 1 else sorted(set().union(*found)))

    def lines_with_all(self, texts: Sequence[bytes], start: int, end: int) -> Iterator[tuple[int, int]] | None:
        """The lines of `text[start:end]` that may hold all of `texts`, and all that do; None when it cannot say."""
        keys = [key for key in map(_key, texts) if len(key) >= _MIN_KEY]
        if not keys:
            return None
        found = [self._within(self._holding(key.lower(), False, False), start, end) for key in keys]
        return self._bounds(found[0] if len(found) == 1 else sorted(set(found[0]).intersection(*found[1:])))

    def _holding(self, key: bytes, before: bool, after: bool) -> list[int]:
        """The numbers of the lines with a word that holds `key`, sorted. The caller must not change them."""
        known = self._known.get((key, before, after))
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[key, before, after] = self._look_up(key, before, after)
        return known

    def _look_up(self, key: bytes, before: bool, after: bool) -> list[int]:
        words, starts = self._words, self._starts
        found: list[list[int]] = []
        position = words.find(key)
        while position >= 0:
            if (before and word_before(words, position)) or (after and word_after(words, position + len(key))):
                position = words.find(key, position + 1)
                continue
            number = bisect_right(starts, position) - 1
            found.append(self._lines[number])
            position = words.find(key, starts[number + 1])
        if len(found) == 1:
            return found[0]
        return sorted(set().union(*found))

    def _within(self, numbers: list[int], start: int, end: int) -> list[int]:
        """Those of the lines `numbers` that lie in `text[start:end]`."""
        starts = self._line_starts
        low = bisect_left(numbers, bisect_left(starts, start))
        high = bisect_left(numbers, bisect_left(starts, end), low)
        return numbers[low:high]

    def _bounds(self, numbers: list[int]) -> Iterator[tuple[int, int]]:
        starts = self._line_starts
        return ((starts[number], starts[number + 1] - 1) for number in numbers)


def _key(text: bytes) -> bytes:
    """The longest word in `text`."""
    return text if text.isalnum() else max(_TOKEN.findall(text), key=len, default=b"")


def holds(text: bytes, fixed: Fixed, start: int, end: int) -> bool:
    """Whether `text[start:end]` holds `fixed`."""
    size = len(fixed.text)
    position = text.find(fixed.text, start, end)
    while position >= 0:
        if not (fixed.before and word_before(text, position)) and not (
            fixed.after and word_after(text, position + size)
        ):
            return True
        position = text.find(fixed.text, position + 1, end)
    return False
