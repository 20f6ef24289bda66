"""Reading LongMemEval (Wu et al., 2025): the official files (oracle, S, M), and a file of questions with evidence only.

Official rows have `haystack_sessions`, `haystack_dates` and `haystack_session_ids`; rows of the evidence file have
`evidence_sessions`, whose turns are all annotated. The files are arrays or JSON Lines, and are read a row at a time:
M has some 2.5 GB.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO, TypeVar

from horma_rl.benchmarks.longmemeval.types import TYPES, Item, Sitting, Utterance
from horma_rl.errors import UserError, nearest

DATE_FORMAT = "%Y/%m/%d %H:%M"
_WEEKDAY = re.compile(r"\s*\([A-Za-z]{3}\)\s*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_CHUNK = 1 << 20
_BLANK = " \t\r\n"
T = TypeVar("T")


def load_items(path: Path) -> list[Item]:
    """Every question of `path`, in file order.

    Raises:
        UserError: the file cannot be read, or a row is not as the schema has it; the message says where.
    """
    items: dict[str, Item] = {}
    for number, row in enumerate(read_rows(path)):
        item = _item(row, f"{path}: row {number}")
        if item.id in items:
            raise UserError(f"{path}: row {number}: a second question with the id '{item.id}'")
        items[item.id] = item
    if not items:
        raise UserError(f"{path}: no questions; is this a LongMemEval file?")
    return list(items.values())


def load_sittings(path: Path) -> list[tuple[str, Sitting]]:
    """Every session of a file with haystacks, with the id of the row it comes from. Questions and answers are not
    looked at: the file may have been changed there. Raises UserError as `load_items` does."""
    found: list[tuple[str, Sitting]] = []
    for number, row in enumerate(read_rows(path)):
        at = f"{path}: row {number}"
        owner = _get(row, "question_id", str, at)
        found += [(owner, sitting) for sitting in _haystack(row, at)]
    return found


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSON array, or of JSON Lines. Raises UserError when the file is neither."""
    try:
        with path.open(encoding="utf-8") as file:
            for row in _values(file, str(path)):
                if not isinstance(row, dict):
                    raise UserError(f"{path}: expected objects, found {type(row).__name__}")
                yield row
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


def _values(file: TextIO, where: str) -> Iterator[Any]:
    """Top-level values, or the elements of one top-level array, decoded as the text comes in."""
    decoder = json.JSONDecoder()
    buffer = file.read(_CHUNK).lstrip(_BLANK)
    array = buffer.startswith("[")
    buffer = buffer[1:] if array else buffer
    while True:
        buffer = buffer.lstrip(_BLANK + ("," if array else ""))
        if array and buffer.startswith("]"):
            return
        try:
            value, end = decoder.raw_decode(buffer)
        except json.JSONDecodeError as error:
            more = file.read(max(_CHUNK, len(buffer)))  # as much again, so that long rows are not decoded too often
            if more:
                buffer += more
                continue
            if not array and not buffer:
                return
            raise UserError(f"{where}: not JSON ({error.msg} near {buffer[:40]!r}); is the file whole?") from None
        except RecursionError:
            raise UserError(f"{where}: JSON nested too deeply") from None
        yield value
        buffer = buffer[end:]


def _item(row: dict[str, Any], at: str) -> Item:
    name = _get(row, "question_id", str, at)
    if not _NAME.fullmatch(name):
        raise UserError(f"{at}: question_id {name!r} cannot be a folder name")
    at = f"{at} ({name})"
    kind = _get(row, "question_type", str, at)
    if kind not in TYPES:
        raise UserError(f"{at}: unknown question_type '{kind}'{nearest(kind, TYPES)}: there are {', '.join(TYPES)}")
    answer = row.get("answer")
    if not isinstance(answer, str | int | float) or isinstance(answer, bool):
        raise UserError(f"{at}: 'answer' must be a text or a number")
    complete = "haystack_sessions" in row
    sittings = _haystack(row, at) if complete else _evidence(row, at)
    # The oracle file has the official schema, but its haystack is the evidence sessions alone.
    answering = tuple(map(str, row.get("answer_session_ids") or ()))
    if complete and sittings and {sitting.id for sitting in sittings} <= set(answering):
        complete = False
    return Item(
        id=name,
        type=kind,
        question=_get(row, "question", str, at).strip(),
        answer=str(answer),
        asked_at=_date(_get(row, "question_date", str, at), at),
        sittings=sittings,
        answer_session_ids=answering,
        complete=complete,
        integer_answer=isinstance(answer, int),
    )


def _haystack(row: dict[str, Any], at: str) -> tuple[Sitting, ...]:
    """The sessions of an official row, by date: the oracle file does not keep them in order."""
    sessions = _get(row, "haystack_sessions", list, at)
    dates = _get(row, "haystack_dates", list, at)
    ids = _get(row, "haystack_session_ids", list, at)
    if not len(sessions) == len(dates) == len(ids):
        raise UserError(f"{at}: {len(sessions)} haystack_sessions, {len(dates)} dates and {len(ids)} ids")
    found = [
        Sitting(_date(str(date), at), _turns(session, f"{at}, session {name}"), str(name))
        for session, date, name in zip(sessions, dates, ids, strict=True)
    ]
    return tuple(sorted(found, key=lambda sitting: sitting.time))


def _evidence(row: dict[str, Any], at: str) -> tuple[Sitting, ...]:
    found = []
    for place, session in enumerate(_get(row, "evidence_sessions", list, at)):
        here = f"{at}, evidence_sessions[{place}]"
        turns = _turns(_get(session, "turns", list, here), here)
        annotated = tuple(Utterance(turn.role, turn.text, True) for turn in turns)
        found.append(Sitting(_date(_get(session, "date", str, here), here), annotated))
    return tuple(sorted(found, key=lambda sitting: sitting.time))


def _turns(rows: Any, at: str) -> tuple[Utterance, ...]:
    if not isinstance(rows, list):
        raise UserError(f"{at}: expected a list of turns")
    return tuple(
        Utterance(
            _get(turn, "role", str, f"{at}[{place}]"),
            _get(turn, "content", str, f"{at}[{place}]"),
            turn.get("has_answer") is True,
        )
        for place, turn in enumerate(rows)
    )


def _date(written: str, at: str) -> datetime:
    try:
        return datetime.strptime(_WEEKDAY.sub(" ", written).strip(), DATE_FORMAT)
    except ValueError:
        raise UserError(f"{at}: date {written!r} is not like '2023/05/30 (Tue) 23:40'") from None


def _get(row: Any, key: str, kind: type[T], at: str) -> T:
    """`row[key]`, which must be there and of `kind`."""
    if not isinstance(row, dict):
        raise UserError(f"{at}: expected an object, found {type(row).__name__}")
    if key not in row:
        raise UserError(f"{at}: '{key}' is missing")
    value = row[key]
    if not isinstance(value, kind):
        raise UserError(f"{at}: '{key}' must be {kind.__name__}, found {type(value).__name__}")
    return value
