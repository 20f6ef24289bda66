"""Write files so that a killed run leaves either the old file or the new one, and can be found out and cleaned up."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from horma_rl.errors import UserError

_PARTIAL = ".horma-partial"


def write(path: Path, data: bytes, durable: bool = False) -> bool:
    """Make `path` hold `data`; a file that already does is not touched. True if it was written.

    The bytes go to a temporary file in the same folder, which is then renamed. `durable` also waits for the disk, so
    that a power cut cannot lose or empty the file; notes do without, because a rerun writes them again.
    """
    try:
        if path.read_bytes() == data:
            return False
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
    # One name per folder is enough: `locked` lets one build at a time into a workspace.
    partial = path.parent / _PARTIAL
    with partial.open("wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    partial.replace(path)
    if durable:
        _sync_folder(path.parent)
    return True


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def clean(root: Path) -> None:
    """Remove what a killed `write` left in `root` and the folders below. Links are not followed."""
    for folder, _, names in os.walk(root):
        if _PARTIAL in names:
            Path(folder, _PARTIAL).unlink()


@contextlib.contextmanager
def locked(root: Path) -> Iterator[None]:
    """Hold `root` (made if missing) for one writer; the lock leaves no file and ends with the process.

    Raises UserError when another process holds it, or when `root` is a file.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UserError(f"{root} cannot be a folder: a file is in the way; choose another --out") from None
    handle = os.open(root, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{root} is being written by another process; wait for it to end") from None
        yield
    finally:
        os.close(handle)
