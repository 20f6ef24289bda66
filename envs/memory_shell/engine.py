"""The linear-time matcher: RE2 over UTF-8 bytes, called without the detours of its Python wrapper.

google-re2's own `compile` and `search` cost more than a search of a conversation does, so `Engine` uses the two calls
below them (`_re2.RE2` and its `Match`), and nothing else in this package touches RE2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import re2

from memory_shell.patterns import PatternError

_MAX_PROGRAM = 40_000
UNANCHORED = re2._re2.RE2.Anchor.UNANCHORED
_WHOLE = re2._re2.RE2.Anchor.ANCHOR_BOTH
_TOO_BIG = "Regular expression too big: its repetitions multiply to too many states"


def _options(*, longest: bool) -> Any:
    options = re2.Options()
    options.never_capture = True
    options.log_errors = False
    options.longest_match = longest
    return options


_FIRST = _options(longest=False)
_LONGEST = _options(longest=True)


class Engine:
    """One compiled expression. Raises PatternError when it does not compile."""

    __slots__ = ("match",)

    def __init__(self, source: str, *, longest: bool = False) -> None:
        try:
            regex = re2._re2.RE2(source.encode("utf-8"), _LONGEST if longest else _FIRST)
        except UnicodeEncodeError as error:
            raise PatternError("the pattern is not valid UTF-8") from error
        if not regex.ok():
            raise PatternError(_explained(regex.error()))
        if len(source) > 200 and regex.ProgramSize() > _MAX_PROGRAM:
            raise PatternError(_TOO_BIG)
        self.match: Callable[[object, bytes, int, int], list[tuple[int, int]]] = regex.Match
        """RE2's own call, for loops that cannot afford `find`: `match(UNANCHORED, text, start, end)[0]`."""

    def find(self, text: bytes, start: int, end: int) -> tuple[int, int]:
        """The leftmost match in `text[start:end]`, seen in its context; (-1, -1) when there is none."""
        return self.match(UNANCHORED, text, start, end)[0]

    def is_whole(self, text: bytes) -> bool:
        """Whether all of `text` matches."""
        return self.match(_WHOLE, text, 0, len(text))[0][0] >= 0


def _explained(error: bytes) -> str:
    text = error.decode("utf-8", "replace")
    if "too large" in text or "repetition" in text:
        return _TOO_BIG
    return f"Invalid regular expression: {text[:80]}"
