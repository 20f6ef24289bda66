"""How word lists are written in this package: plain text, one string for a whole list."""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    """Single words, separated by white space."""
    return tuple(text.split())


def bars(text: str) -> tuple[str, ...]:
    """Phrases, separated by `|`; line breaks do not count."""
    return tuple(text.replace("\n", "").split("|"))
