"""Files that appear whole or not at all, whoever else writes them too."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def aside(path: Path) -> Iterator[Path]:
    """An empty file beside `path`, whose folder is made, to be written; it takes the place of `path` at the end, and is
    gone after an exception. Whoever writes the same `path` meanwhile waits. `path` is no device and no pipe: these
    would be replaced. A link stays one: what it leads to is replaced.

    It has one name, so that what a killed process left is taken by the next one, and does not stay.
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    while True:
        with unfinished.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not _is_at(file.fileno(), unfinished):
                continue  # it was put in place by the one who held it
            try:
                file.truncate(0)
                yield unfinished
                os.replace(unfinished, path)
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise
            return


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
