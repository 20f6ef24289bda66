"""Checkpoints of a GRPO run: one counts only once a marker, written last, says that it is whole."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

MARKER = "complete.json"


def mark_complete(checkpoint: Path) -> None:
    """Write the marker that lists the files of a finished checkpoint with their sizes, after they reached the disk."""
    files = {}
    for path in sorted(p for p in checkpoint.rglob("*") if p.is_file() and p.name != MARKER):
        with path.open("rb") as handle:
            os.fsync(handle.fileno())
        files[str(path.relative_to(checkpoint))] = path.stat().st_size
    unfinished = checkpoint / f".{MARKER}.tmp"
    unfinished.write_text(json.dumps({"files": files}, indent=1), encoding="utf-8")
    os.replace(unfinished, checkpoint / MARKER)


def is_complete(checkpoint: Path) -> bool:
    """Whether every file that the marker lists is there with its size."""
    try:
        files = json.loads((checkpoint / MARKER).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError):
        return False
    return all((checkpoint / n).is_file() and (checkpoint / n).stat().st_size == size for n, size in files.items())


def step_of(checkpoint: Path) -> int:
    """The optimiser steps that a checkpoint has behind it, as its name says."""
    return int(checkpoint.name.rpartition("-")[2])


def newest_checkpoint(folder: Path) -> Path | None:
    """The newest whole checkpoint of a run. Newer ones that are not whole (a kill while saving) are removed."""
    for checkpoint in sorted(folder.glob("checkpoint-*"), key=step_of, reverse=True):
        if is_complete(checkpoint):
            return checkpoint
        shutil.rmtree(checkpoint)
    return None
