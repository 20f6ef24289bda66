"""Globs among the words of a command."""

from __future__ import annotations

from collections.abc import Sequence

from memory_shell.commands import CommandError, Word
from memory_shell.globs import expand
from memory_shell.workspace import Workspace

_MAX_NAMES = 100_000


def expand_words(workspace: Workspace, cwd: str, words: Sequence[Word]) -> list[Word]:
    """`words` with globs expanded; one that matches nothing stays as typed, as in a POSIX shell."""
    out: list[Word] = []
    for word in words:
        names = expand(workspace, cwd, word.glob) if word.glob else []
        out += [Word(name) for name in names] if names else [word]
        if len(out) > _MAX_NAMES:
            raise CommandError(f"more than {_MAX_NAMES} names: use a narrower glob")
    return out
