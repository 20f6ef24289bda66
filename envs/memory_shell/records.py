"""The raw logs of a workspace: a record a line, a turn a record, an id a turn."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from memory_shell.types import Turn


@dataclass(frozen=True, slots=True)
class Records:
    """What one raw log holds, in the order of its lines: id -> turn, line -> id, and line -> what is wrong there."""

    turns: Mapping[str, Turn]
    lines: Mapping[int, str]
    problems: Mapping[int, str]


def read_records(path: str, data: bytes) -> Records:
    """The records of the raw log at `path`, parsed. An id belongs to the first line that has it."""
    turns: dict[str, Turn] = {}
    problems: dict[int, str] = {}
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        turn = _read_turn(line, path, number)
        if isinstance(turn, str):
            problems[number] = turn
        elif turn.id in turns:
            problems[number] = _used_before(turn, turns[turn.id])
        else:
            turns[turn.id] = turn
    return Records(turns, {turn.line: turn.id for turn in turns.values()}, problems)


def archive_of(logs: Mapping[str, Records]) -> tuple[dict[str, Turn], dict[str, Records]]:
    """The turns of all raw logs, and the records by path. An id belongs to the log that has it first."""
    archive = dict(logs)
    turns = _merged(archive)
    if len(turns) < sum(len(records.turns) for records in archive.values()):
        known: dict[str, Turn] = {}
        for path, records in archive.items():
            archive[path] = _without(records, known)
            known.update(archive[path].turns)
        turns = known
    return turns, archive


def _merged(archive: Mapping[str, Records]) -> dict[str, Turn]:
    turns: dict[str, Turn] = {}
    for records in archive.values():
        turns.update(records.turns)
    return turns


def _without(records: Records, known: Mapping[str, Turn]) -> Records:
    """`records` without those whose id is known already, which are problems."""
    again = {turn.line: _used_before(turn, known[ident]) for ident, turn in records.turns.items() if ident in known}
    return Records(
        {ident: turn for ident, turn in records.turns.items() if ident not in known},
        {number: ident for number, ident in records.lines.items() if ident not in known},
        dict(sorted({**records.problems, **again}.items())),
    )


def _used_before(turn: Turn, other: Turn) -> str:
    return f"{turn.path}:{turn.line}: id {turn.id} was used before, at {other.path}:{other.line}"


def _read_turn(line: bytes, path: str, number: int) -> Turn | str:
    """The turn on one line of a raw log, or what is wrong with it."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"{path}:{number}: not a JSON record: {error}"
    if not isinstance(record, dict) or not record.get("id"):
        return f"{path}:{number}: a record needs an 'id'"
    time, caption = record.get("time"), record.get("caption")
    return Turn(
        id=str(record["id"]),
        time=None if time is None else str(time),
        speaker=str(record.get("speaker") or record.get("role") or ""),
        text=str(record.get("text") or ""),
        path=path,
        line=number,
        caption=None if caption is None else str(caption),
    )
