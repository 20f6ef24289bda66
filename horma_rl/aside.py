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

    It has one name, so that what a killed process left is found by the next one, and does not stay. It is always made
    anew: what stands there may be readable by others than this process's files are, or be a link to somewhere else.
    """
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    while True:
        try:
            handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            _clear(unfinished)
            continue
        with os.fdopen(handle, "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not _is_at(file.fileno(), unfinished):
                continue  # it was taken for a killed process's before it was locked
            try:
                yield unfinished
                os.replace(unfinished, path)
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise
            return


def _clear(unfinished: Path) -> None:
    """Wait until nobody holds the file, and remove it if it is there still: then who held it was killed."""
    with contextlib.suppress(FileNotFoundError):
        handle = os.open(unfinished, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _is_at(handle, unfinished):
                unfinished.unlink()


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False
