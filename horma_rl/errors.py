"""The one error that ends a command with a clear line instead of a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """The user's input is at fault. The message says what is wrong, where, and what to do."""


def nearest(word: str, known: Iterable[str]) -> str:
    """`" (did you mean 'x'?)"` for the closest of `known`, or an empty string."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""
