"""Tasks and conversations as JSON Lines: one object a line, each with the version of its schema in `v`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from horma_rl.aside import aside
from horma_rl.benchmarks.evidence import CLEAN_ID
from horma_rl.benchmarks.types import Conversation, Observation, RawTurn, Session
from horma_rl.errors import UserError
from memory_shell.types import Task

SCHEMA = 1
T = TypeVar("T")


def save_tasks(tasks: Iterable[Task], path: Path) -> int:
    """Write `tasks` to `path`, whole or not at all; gives their number."""
    return _write(path, (_task_row(task) for task in tasks))


def load_tasks(path: Path) -> list[Task]:
    """Read what `save_tasks` wrote. Raises UserError, which names the line, when something is wrong."""
    tasks = list(_read(path, _task))
    _unique(path, "task id", [task.id for task in tasks])
    return tasks


def save_conversations(conversations: Iterable[Conversation], path: Path) -> int:
    """Write `conversations` to `path`, whole or not at all; gives their number."""
    return _write(path, (_conversation_row(conversation) for conversation in conversations))


def load_conversations(path: Path) -> list[Conversation]:
    """Read what `save_conversations` wrote. Raises UserError, which names the line, when something is wrong."""
    conversations = list(_read(path, _conversation))
    _unique(path, "conversation name", [conversation.name for conversation in conversations])
    return conversations


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    count = 0
    with aside(path) as unfinished, unfinished.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            file.write(json.dumps({"v": SCHEMA, **row}, ensure_ascii=False) + "\n")
            count += 1
    return count


def _read(path: Path, parse: Callable[[dict[str, Any]], T]) -> Iterator[T]:
    """Parse each line that is not blank."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield parse(_row(line))
        except (_RowError, ValueError, RecursionError) as error:
            raise UserError(f"{path}, line {number}: {error}") from None


class _RowError(Exception):
    """What is wrong with one line."""


def _row(line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _RowError(f"not UTF-8 (byte {error.start + 1} of the line)") from None
    except json.JSONDecodeError as error:
        raise _RowError(f"not JSON (column {error.colno}: {error.msg})") from None
    if not isinstance(row, dict):
        raise _RowError(f"expected an object, found {type(row).__name__}")
    version = row.get("v")
    if version != SCHEMA:
        raise _RowError(f"schema version {version!r}; this program reads version {SCHEMA}")
    return row


def _get(row: Any, key: str, kind: type[T]) -> T:
    if not isinstance(row, dict) or key not in row:
        raise _RowError(f"'{key}' is missing")
    value = row[key]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _RowError(f"'{key}' must be {kind.__name__}, found {type(value).__name__}")
    return value


def _maybe(row: dict[str, Any], key: str) -> str | None:
    return None if row.get(key) is None else _get(row, key, str)


def _texts(row: Any, key: str) -> tuple[str, ...]:
    values = _get(row, key, list)
    if not all(isinstance(value, str) for value in values):
        raise _RowError(f"'{key}' must be a list of texts")
    return tuple(values)


def _unique(path: Path, what: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise UserError(f"{path}: {what} '{name}' occurs twice")
        seen.add(name)


def _task_row(task: Task) -> dict[str, Any]:
    return {
        "id": task.id,
        "workspace": task.workspace,
        "question": task.question,
        "evidence": list(task.evidence),
        "answer": task.answer,
        "category": task.category,
        "asked_at": task.asked_at,
        "meta": dict(task.meta),
    }


def _task(row: dict[str, Any]) -> Task:
    return Task(
        id=_get(row, "id", str),
        question=_get(row, "question", str),
        evidence=_texts(row, "evidence"),
        workspace=_get(row, "workspace", str),
        answer=_maybe(row, "answer"),
        category=_maybe(row, "category") or "",
        asked_at=_maybe(row, "asked_at"),
        meta=_get(row, "meta", dict) if "meta" in row else {},
    )


def _conversation_row(conversation: Conversation) -> dict[str, Any]:
    return {
        "name": conversation.name,
        "speakers": list(conversation.speakers),
        "sessions": [
            {
                "index": session.index,
                "time": session.time.isoformat(),
                "turns": [_turn_row(turn) for turn in session.turns],
            }
            for session in conversation.sessions
        ],
        "observations": [
            {"session": fact.session, "speaker": fact.speaker, "text": fact.text, "sources": list(fact.sources)}
            for fact in conversation.observations
        ],
    }


def _turn_row(turn: RawTurn) -> dict[str, str]:
    shown = {"caption": turn.caption, "image_url": turn.image_url, "image_query": turn.image_query}
    written = {key: value for key, value in shown.items() if value is not None}
    return {"id": turn.id, "speaker": turn.speaker, "text": turn.text, **written}


def _conversation(row: dict[str, Any]) -> Conversation:
    return Conversation(
        name=_get(row, "name", str),
        speakers=_texts(row, "speakers"),
        sessions=tuple(_session(session) for session in _get(row, "sessions", list)),
        observations=tuple(_observation(fact) for fact in row.get("observations", [])),
    )


def _session(row: Any) -> Session:
    time = datetime.fromisoformat(_get(row, "time", str))
    return Session(_get(row, "index", int), time, tuple(_turn(turn) for turn in _get(row, "turns", list)))


def _turn(row: Any) -> RawTurn:
    turn_id = _get(row, "id", str)
    if not CLEAN_ID.fullmatch(turn_id):
        raise _RowError(f"turn id {turn_id!r} is not like 'D3:12'")
    shown = {key: _maybe(row, key) for key in ("caption", "image_url", "image_query")}
    return RawTurn(turn_id, _get(row, "speaker", str), _get(row, "text", str), **shown)


def _observation(row: Any) -> Observation:
    return Observation(
        _get(row, "session", int), _get(row, "speaker", str), _get(row, "text", str), _texts(row, "sources")
    )
