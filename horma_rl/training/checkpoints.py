"""Checkpoints of a GRPO run: one counts only once a marker, written last, lists its files with sizes and SHA-256.

A folder without a marker was never finished (a kill while saving, or while removing). A folder whose files differ from
its marker is damaged: it is set aside under another name, never deleted, and the one before it is taken.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from horma_rl.errors import UserError

MARKER = "complete.json"
_WEIGHTS = (".safetensors", ".pt", ".bin", ".distcp")
READERS = 8
"""Files that are hashed at a time. Hashing gives the interpreter free, so a checkpoint in shards uses several cores."""


def mark_complete(checkpoint: Path) -> None:
    """Write the marker of a finished checkpoint, after all its files reached the disk."""
    paths = sorted(path for path in checkpoint.rglob("*") if path.is_file() and path.name != MARKER)
    with ThreadPoolExecutor(READERS) as pool:
        sums = list(pool.map(_stored, paths))
    files = {
        str(path.relative_to(checkpoint)): {"size": path.stat().st_size, "sha256": digest}
        for path, digest in zip(paths, sums, strict=True)
    }
    unfinished = checkpoint / f".{MARKER}.tmp"
    unfinished.write_text(json.dumps({"files": files}, indent=1), encoding="utf-8")
    _sync(unfinished)
    for folder in [path for path in checkpoint.rglob("*") if path.is_dir()] + [checkpoint]:
        _sync(folder)
    os.replace(unfinished, checkpoint / MARKER)
    _sync(checkpoint)
    _sync(checkpoint.parent)


def damage(checkpoint: Path) -> str | None:
    """What is wrong with a checkpoint, in words; None when all its files are those that the marker lists."""
    try:
        files = json.loads((checkpoint / MARKER).read_text(encoding="utf-8"))["files"]
        expected = {checkpoint / name: (int(entry["size"]), str(entry["sha256"])) for name, entry in files.items()}
    except FileNotFoundError:
        return f"it has no {MARKER}"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return f"its {MARKER} cannot be read"
    if not any(path.suffix in _WEIGHTS for path in expected):
        return f"its {MARKER} lists no weights"
    for path, (size, _) in expected.items():
        if not path.is_file():
            return f"{path.name} is missing"
        if path.stat().st_size != size:
            return f"{path.name} has {path.stat().st_size} bytes, not {size}"
    with ThreadPoolExecutor(READERS) as pool:
        for path, digest in zip(expected, pool.map(_readable_sha256, expected), strict=True):
            if digest != expected[path][1]:
                return f"{path.name} is not what was written"
    return None


def is_complete(checkpoint: Path) -> bool:
    """Whether every file that the marker lists is there and is what was written."""
    return damage(checkpoint) is None


def step_of(checkpoint: Path) -> int:
    """The optimiser steps that a checkpoint has behind it, as its name says."""
    return int(checkpoint.name.rpartition("-")[2])


def newest_checkpoint(
    folder: Path, say: Callable[[str], None] = lambda line: print(line, file=sys.stderr)
) -> Path | None:
    """The newest whole checkpoint of a run; None when none was ever finished.

    Newer folders that were never finished are removed. Newer ones that are damaged are renamed `checkpoint-N.corrupt`,
    with a warning.

    Raises:
        UserError: checkpoints were made, but all are damaged. Beginning anew would throw the run away in silence.
    """
    for checkpoint in reversed(_checkpoints(folder)):
        if not (checkpoint / MARKER).exists():
            if not checkpoint.is_symlink():
                shutil.rmtree(checkpoint)
            continue
        fault = damage(checkpoint)
        if fault is None:
            return checkpoint
        aside = _set_aside(checkpoint)
        say(f"warning: {checkpoint} is damaged ({fault}); it is now {aside.name}, and the one before it is taken")
    if any(folder.glob("checkpoint-*.corrupt*")):
        raise UserError(
            f"every checkpoint in {folder} is damaged (see checkpoint-*.corrupt there): put a sound copy of one back, "
            "or remove that folder to begin GRPO anew"
        )
    return None


def rotate(folder: Path, limit: int | None, best: str | None = None) -> None:
    """Remove all but the newest `limit` finished checkpoints, and never `best`. Called after the marker of the newest
    was written, so that a sound one is there at every moment. No limit, or 0, keeps all."""
    if not limit or limit < 1:
        return
    there = _checkpoints(folder)
    kept = [path for path in there if (path / MARKER).exists()][-limit:]
    for checkpoint in there:
        if checkpoint not in kept and (best is None or checkpoint.name != Path(best).name):
            (checkpoint / MARKER).unlink(missing_ok=True)  # first: what a kill leaves counts as never finished
            shutil.rmtree(checkpoint)


def _checkpoints(folder: Path) -> list[Path]:
    """The checkpoint folders of a run, oldest first; those set aside are none, nor is a file with such a name."""
    named = (path for path in folder.glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", path.name))
    found = [path for path in named if path.is_dir()]
    return sorted(found, key=step_of)


def _set_aside(checkpoint: Path) -> Path:
    names = [f"{checkpoint.name}.corrupt", *(f"{checkpoint.name}.corrupt-{n}" for n in range(2, 1000))]
    aside = next(checkpoint.with_name(name) for name in names if not checkpoint.with_name(name).exists())
    os.replace(checkpoint, aside)
    return aside


def _stored(path: Path) -> str:
    """The SHA-256 of a file that has reached the disk."""
    _sync(path)
    return _sha256(path)


def _readable_sha256(path: Path) -> str | None:
    """The SHA-256 of a file; None where the disk cannot read it."""
    try:
        return _sha256(path)
    except OSError:
        return None


def _sha256(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
