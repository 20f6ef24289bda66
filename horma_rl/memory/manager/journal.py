"""The journal of a workspace: every operation with its verdict, batch by batch, as JSON lines.

It lies beside the workspaces (`OUT/.manager/NAME/journal.jsonl`), out of the retriever's sight. Batches are appended
whole, their commit line last, and flushed to disk; what follows the last commit was cut off by a kill and is dropped
when the journal is opened. A workspace is rebuilt from its archive and the accepted operations alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from horma_rl.errors import UserError

FOLDER = ".manager"
FORMAT = 1
_FIELDS = {
    "operation": ("round", "kind", "operation", "reason"),
    "commit": ("session", "turns", "outcome", "prompt", "model"),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One operation as it was proposed, and what became of it. `reason` is None for an accepted one. An answer without
    a valid value is of kind `answer`."""

    round: int
    kind: str
    operation: Any
    reason: str | None


@dataclass(frozen=True, slots=True)
class Batch:
    """What was asked about some turns of one session, and how it ended.

    turns     the ids, in order
    verdicts  every operation in the order in which it was read
    outcome   `filed`, or why there is no valid answer (the turns stand in archive and session note all the same)
    """

    session: int
    turns: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    outcome: str = "filed"
    prompt: int = 0
    model: str = ""


class Journal:
    """The committed batches of one workspace, and the way to add to them. One process at a time: the workspace's lock
    guards it."""

    def __init__(self, path: Path) -> None:
        """Read `path`, and cut off what was not committed. Raises UserError when it is no journal."""
        self.path = path
        self.batches: list[Batch] = []
        data = path.read_bytes() if path.is_file() else b""
        committed = _committed(data)
        verdicts: list[Verdict] = []
        for number, line in enumerate(data[:committed].splitlines(), start=1):
            row = self._row(line, number)
            if row["row"] == "operation":
                verdicts.append(Verdict(row["round"], row["kind"], row["operation"], row["reason"]))
                continue
            told = (row["outcome"], row["prompt"], row["model"])
            self.batches.append(Batch(row["session"], tuple(row["turns"]), tuple(verdicts), *told))
            verdicts = []
        if committed < len(data):
            os.truncate(path, committed)

    def _row(self, line: bytes, number: int) -> Mapping[str, Any]:
        try:
            row: dict[str, Any] = json.loads(line)
            if all(name in row for name in _FIELDS[row["row"]]):
                return row
        except (ValueError, TypeError, KeyError, RecursionError):
            pass
        raise UserError(f"{self.path}:{number}: no line of a manager's journal; build into another folder")

    def done(self) -> frozenset[str]:
        """The turns that some batch covers."""
        return frozenset(turn for batch in self.batches for turn in batch.turns)

    def append(self, batch: Batch) -> None:
        """Add a batch, whole, and wait for the disk."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        data = "".join(f"{json.dumps(row, ensure_ascii=True)}\n" for row in _rows(batch)).encode()
        with self.path.open("ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self.batches.append(batch)


def _rows(batch: Batch) -> Iterator[dict[str, Any]]:
    for one in batch.verdicts:
        yield {
            "row": "operation",
            "round": one.round,
            "kind": one.kind,
            "operation": one.operation,
            "reason": one.reason,
        }
    yield {
        "row": "commit",
        "format": FORMAT,
        "session": batch.session,
        "turns": batch.turns,
        "outcome": batch.outcome,
        "prompt": batch.prompt,
        "model": batch.model,
    }


def _committed(data: bytes) -> int:
    """The offset after the last whole commit line."""
    end = data.rfind(b"\n") + 1
    start = data.rfind(b'{"row": "commit"', 0, end)
    return data.find(b"\n", start) + 1 if start >= 0 else 0


def journal_path(out: Path) -> Path:
    """Where the journal of the workspace at `out` lies."""
    return out.parent / FOLDER / out.name / "journal.jsonl"
