"""Results on disk: append-only JSON Lines that survive a kill, and know which tasks are finished."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from horma_rl.errors import UserError
from horma_rl.evaluation.rows import EpisodeRow, row_from_json

ROWS = "rows.jsonl"
TRAJECTORIES = "trajectories.jsonl"
IDENTITY = "identity.json"


class ResultStore:
    """The folder of one evaluation.

    A row is written after its trajectory, so a task with a scored row is finished. A last line that a kill cut short is
    dropped, and its task runs again, as does one whose episode failed: its new row counts in place of the old one.
    `identity` (see `EvalConfig.identity`) guards against mixing results.

    Raises:
        UserError: the folder holds results of another evaluation, or lines that cannot be read.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        check_identity(folder, identity)
        for name in (ROWS, TRAJECTORIES):
            drop_unfinished_line(folder / name)
        self.rows: list[EpisodeRow] = [
            row_from_json(data, f"{folder / ROWS}, line {number}") for number, data in read_lines(folder / ROWS)
        ]
        self._finished = {(row.system, row.task, row.seed) for row in self.rows if row.reward is not None}

    def has(self, system: str, task: str, seed: int) -> bool:
        """Whether this episode is finished: played and scored."""
        return (system, task, seed) in self._finished

    def add(self, row: EpisodeRow, trajectory: Mapping[str, Any]) -> None:
        """Append one finished episode. Trajectories without turns are not kept: the row says all there is."""
        if trajectory["turns"]:
            append_line(self.folder / TRAJECTORIES, {"system": row.system, **trajectory})
        append_line(self.folder / ROWS, row.as_json())
        self.rows.append(row)
        if row.reward is not None:
            self._finished.add((row.system, row.task, row.seed))

    def rows_of(self, system: str) -> list[EpisodeRow]:
        """The rows of one system, in the order in which they were written."""
        return [row for row in self.rows if row.system == system]

    def trajectories_of(self, system: str) -> list[dict[str, Any]]:
        """The logged trajectories of one system, read from disk, in the order in which they were written."""
        return [data for _, data in read_lines(self.folder / TRAJECTORIES) if data["system"] == system]


def check_identity(folder: Path, identity: Mapping[str, Any]) -> None:
    """Systems may be added to an evaluation; what is there already must stay what it was.

    Raises:
        UserError: a value of `identity` is another than the folder's.
    """
    path = folder / IDENTITY
    known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    changed = [key for key, value in identity.items() if key in known and known[key] != value]
    if changed:
        raise UserError(f"{folder} holds results with another '{changed[0]}': set out=<another folder>, or delete it")
    path.write_text(json.dumps({**known, **identity}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def append_line(path: Path, data: Mapping[str, Any]) -> None:
    """Add one JSON object to the end of a JSON Lines file."""
    with path.open("a", encoding="utf-8", newline="\n") as file:
        file.write(json.dumps(data, ensure_ascii=True) + "\n")


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a JSON Lines file with their line numbers; none when there is no file. Raises UserError for a line
    that is no JSON."""
    if not path.is_file():
        return
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                yield number, json.loads(line)
            except json.JSONDecodeError:
                raise UserError(f"{path}, line {number}: not JSON; delete the file to start over") from None


def drop_unfinished_line(path: Path) -> None:
    """Cut off a last line that a kill or a full disk left without its end."""
    if not path.is_file():
        return
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole != len(data):
        with path.open("r+b") as file:
            file.truncate(whole)
