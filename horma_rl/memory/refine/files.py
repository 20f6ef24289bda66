"""Files of a refinement: JSON written whole or not at all, and JSON Lines that survive a kill."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from horma_rl.aside import aside
from horma_rl.errors import UserError
from horma_rl.evaluation.store import drop_unfinished_line


def write_text(path: Path, text: str) -> None:
    """Make `path` hold `text`, whole or not at all."""
    with aside(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Make `path` hold `data`, whole or not at all."""
    write_text(path, json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path) -> dict[str, Any] | None:
    """What `write_json` wrote; None when there is no such file. Raises UserError for what is no JSON object."""
    if not path.is_file():
        return None
    try:
        data = json.loads(path.read_bytes())
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise UserError(f"{path} cannot be read: delete {path.parent} to run it again")
    return data


class Lines:
    """An append-only file of JSON objects, each with its own `task`; a task that has a line is finished."""

    def __init__(self, path: Path) -> None:
        """Read `path`; a last line that a kill cut short is dropped. Raises UserError for a line that is no object."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        drop_unfinished_line(path)
        self.rows: dict[str, dict[str, Any]] = {}
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        for number, line in enumerate(text.split("\n"), 1):
            if line:
                row = _row(line, f"{path}, line {number}")
                self.rows[row["task"]] = row

    def add(self, row: Mapping[str, Any]) -> None:
        """Append one row."""
        with self.path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(json.dumps(row, ensure_ascii=True) + "\n")
        self.rows[row["task"]] = dict(row)


def _row(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    if not isinstance(row, dict) or not isinstance(row.get("task"), str):
        raise UserError(f"{where}: not a row as written; delete the file to run it again")
    return row
