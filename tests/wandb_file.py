"""Reads what wandb writes offline: protobuf records in LevelDB's log format, after a header of seven bytes."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BLOCK = 32_768
WHOLE, LAST = 1, 4
"""Kinds of a piece: a whole record, and the last piece of one."""


@dataclass
class Offline:
    """One `.wandb` file: the run's id, its config and summary, its history's lines, and the files of its artifacts."""

    id: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    artifacts: dict[str, list[str]] = field(default_factory=dict)


def read_offline(path: Path) -> Offline:
    """What the file at `path` holds; a record that a kill cut short ends it."""
    from wandb.proto.wandb_internal_pb2 import Record

    found = Offline()
    for data in _records(path.read_bytes()[7:]):
        record = Record.FromString(data)
        if record.HasField("run"):
            found.id = record.run.run_id
            found.config |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
        if record.HasField("history"):
            found.history.append(_items(record.history.item))
        if record.HasField("summary"):
            found.summary |= _items(record.summary.update)
        if record.HasField("artifact"):
            entries = record.artifact.manifest.contents
            found.artifacts[record.artifact.type] = [entry.path for entry in entries]
    return found


def _items(items: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


def _records(data: bytes) -> Iterator[bytes]:
    place, record = 0, b""
    while place + 7 <= len(data):
        left = BLOCK - (place + 7) % BLOCK  # blocks count from the file's start
        if left < 7:
            place += left
            continue
        size, kind = struct.unpack_from("<HB", data, place + 4)
        record += data[place + 7 : place + 7 + size]
        place += 7 + size
        if place > len(data):
            return
        if kind in (WHOLE, LAST):
            yield record
            record = b""
