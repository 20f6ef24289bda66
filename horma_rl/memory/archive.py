"""The raw log of a workspace: `raw_logs/traj_NNNN.jsonl`, one file per session, one JSON object per turn.

It is written before any note and never rewritten: a later build may add sessions, and turns to a session, but a turn
that is already archived must come back exactly as it was. Text is kept as the source has it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from horma_rl.benchmarks.types import Conversation, RawTurn, Session
from horma_rl.errors import UserError
from horma_rl.memory import files

FOLDER = "raw_logs"
_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}:\d{1,9}", re.ASCII)
_FILE = re.compile(r"traj_(\d{4,})\.jsonl")
# Legal inside a JSON string, but some readers end a line there.
_LINE_ENDS = re.compile("[\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Record:
    """One archived turn. `time` is naive local time; `session` is the number in the file's name."""

    id: str
    time: datetime
    speaker: str
    text: str
    session: int
    caption: str | None = None

    def line(self) -> str:
        """The JSON object, without a newline. Lone surrogates come out as JSON escapes, so that it is valid UTF-8."""
        fields: dict[str, str] = {
            "id": self.id,
            "time": self.time.isoformat(timespec="seconds"),
            "speaker": self.speaker,
            "text": self.text,
        }
        if self.caption is not None:
            fields["caption"] = self.caption
        dumped = json.dumps(fields, ensure_ascii=False)
        escaped = _LINE_ENDS.sub(lambda match: f"\\u{ord(match[0]):04x}", dumped)
        return escaped.encode("utf-8", "backslashreplace").decode("utf-8")


@dataclass(frozen=True, slots=True)
class Archive:
    """All records of a workspace by session, as they will stand on disk, and how many of them are new."""

    sessions: Mapping[int, tuple[Record, ...]]
    added: int

    def records(self) -> Iterator[Record]:
        """Every record: sessions by number, turns as archived."""
        for number in sorted(self.sessions):
            yield from self.sessions[number]

    def write(self, workspace: Path) -> None:
        """Bring `workspace/raw_logs` up to date, one session after the other, each atomically and durably."""
        for number in sorted(self.sessions):
            lines = "".join(f"{record.line()}\n" for record in self.sessions[number])
            files.write(_path(workspace, number), lines.encode(), durable=True)


def merge(workspace: Path, conversation: Conversation) -> Archive:
    """What is archived in `workspace` and what `conversation` adds to it. Nothing is written.

    Turns that are archived but not in `conversation` stay. Raises UserError for a turn that differs from its archived
    record or stands in two sessions, for an id that cannot be cited, and for an archive that cannot be read.
    """
    _check(conversation)
    archived = _read(workspace)
    known = {record.id: record for records in archived.values() for record in records}
    sessions = {number: list(records) for number, records in archived.items()}
    added = 0
    for session in conversation.sessions:
        records = sessions.setdefault(session.index, [])
        for turn in session.turns:
            record = _record(turn, session)
            if turn.id not in known:
                records.append(record)
                added += 1
            elif (fault := _difference(known[turn.id], record)) is not None:
                raise UserError(
                    f"{workspace}: turn {turn.id} is archived already with another {fault}; the archive is never "
                    "rewritten: give the turn a new id, or build into another folder"
                )
    return Archive({number: tuple(records) for number, records in sessions.items() if records}, added)


def _check(conversation: Conversation) -> None:
    ids = Counter(turn.id for turn in conversation.turns())
    for turn_id, count in ids.items():
        if not _ID.fullmatch(turn_id):
            raise UserError(f"{conversation.name}: turn id {turn_id!r} cannot be cited: use ids like 'D3:12'")
        if count > 1:
            raise UserError(f"{conversation.name}: turn id {turn_id} stands for {count} turns: ids must be unique")
    for session in conversation.sessions:
        if session.index < 0:
            raise UserError(f"{conversation.name}: session number {session.index}: numbers start at 0 or 1")


def _record(turn: RawTurn, session: Session) -> Record:
    time = session.time.replace(microsecond=0, tzinfo=None)
    return Record(turn.id, time, turn.speaker, turn.text, session.index, turn.caption)


def _difference(old: Record, new: Record) -> str | None:
    """The first field in which the records differ."""
    fields = ("session", "time", "speaker", "text", "caption")
    return next((name for name in fields if getattr(old, name) != getattr(new, name)), None)


def _path(workspace: Path, session: int) -> Path:
    return workspace / FOLDER / f"traj_{session:04d}.jsonl"


def _read(workspace: Path) -> dict[int, list[Record]]:
    """The records on disk by session."""
    found: dict[int, list[Record]] = {}
    for path in sorted((workspace / FOLDER).glob("traj_*.jsonl")):
        if match := _FILE.fullmatch(path.name):
            lines = path.read_bytes().split(b"\n")
            found[int(match[1])] = [
                _parse(line, int(match[1]), f"{path}:{number}") for number, line in enumerate(lines, start=1) if line
            ]
    return found


def _parse(line: bytes, session: int, where: str) -> Record:
    try:
        row: Any = json.loads(line)
        caption = row.get("caption")
        fields = (row["id"], row["speaker"], row["text"], "" if caption is None else caption)
        if not all(isinstance(field, str) for field in fields):
            raise TypeError
        return Record(row["id"], datetime.fromisoformat(row["time"]), row["speaker"], row["text"], session, caption)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UserError(f"{where}: not a turn as archived; restore the file, or build into another folder") from None
