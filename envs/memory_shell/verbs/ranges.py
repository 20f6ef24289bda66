"""`PATH[:M[-N]]`: a file, or lines of it."""

from __future__ import annotations

import re
from typing import NamedTuple

from memory_shell.paths import resolve
from memory_shell.workspace import Workspace

_RANGE = re.compile(r"(.+):([0-9]{1,9})(?:-([0-9]{1,9}))?", re.DOTALL)


class Lines(NamedTuple):
    """A name as typed, and the range after it (1-based, both included; `last` is None for a single line)."""

    name: str
    first: int | None = None
    last: int | None = None


def split_range(workspace: Workspace, cwd: str, text: str) -> Lines:
    """Split the range off `text`. A file whose name is all of `text` wins; a range that is none stays in the name."""
    match = _RANGE.fullmatch(text)
    if match is None or resolve(workspace, cwd, text).kind != "missing":
        return Lines(text)
    first = int(match[2])
    last = int(match[3]) if match[3] else None
    if first < 1 or (last is not None and last < first):
        return Lines(text)
    return Lines(match[1], first, last)
