"""Replies on disk: one SQLite file that several processes read and write at once.

A reply is found by the sha256 of everything that was asked (address, model, every parameter, messages, schema); the
key of the account is no part of it. A file that is damaged is set aside with a warning, and a new one begun: the cache
saves money, and no run depends on it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from horma_rl.errors import UserError
from horma_rl.llm.types import Usage

_log = logging.getLogger(__name__)
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}
_COLUMNS = "text, finish, prompt_tokens, completion_tokens"
_TABLE = "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, text, finish, prompt_tokens, completion_tokens)"

T = TypeVar("T")
Stored = tuple[str, str, Usage]
"""Text, why it ended, tokens."""


def request_key(request: Mapping[str, Any]) -> str:
    """The sha256 of `request` (JSON values), whatever the order of its keys."""
    text = json.dumps(request, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


class ReplyCache:
    """The replies in the file at `path`, which is made when it is not there.

    Raises UserError when no file can be there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self._told = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._working(lambda connection: None)
        except (OSError, sqlite3.Error) as error:
            raise UserError(f"llm: no cache can be at {path}: {error}") from None

    def get(self, key: str) -> Stored | None:
        """The reply stored under `key`, or None."""

        def read(connection: sqlite3.Connection) -> Any:
            return connection.execute(f"SELECT {_COLUMNS} FROM replies WHERE key = ?", (key,)).fetchone()

        row = self._guarded(read)
        if row is None:
            return None
        text, finish, *tokens = row
        if not isinstance(text, str) or not isinstance(finish, str) or not all(isinstance(n, int) for n in tokens):
            return None
        return text, finish, Usage(*tokens)

    def put(self, key: str, text: str, finish: str, usage: Usage) -> None:
        """Store a reply; the first that was stored under a key stays."""
        row = (key, text, finish, usage.prompt_tokens, usage.completion_tokens)

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(f"INSERT OR IGNORE INTO replies (key, {_COLUMNS}) VALUES (?, ?, ?, ?, ?)", row)

        self._guarded(write)

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _guarded(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """What `work` gives, or None when the file cannot be used at present (a full disk, for example)."""
        try:
            return self._working(work)
        except sqlite3.Error as error:
            if not self._told:
                _log.warning("%s cannot be used (%s): replies may not be kept", self.path, error)
                self._told = True
            return None

    def _working(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` gives; on a new file when this one is damaged."""
        try:
            return work(self._connection or self._open())
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGED:
                raise
            self._set_aside(error)
        return work(self._open())

    def _open(self) -> sqlite3.Connection:
        # Autocommit: every reply is on disk when `put` returns, and no process holds the file between two.
        connection = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(_TABLE)
            connection.execute(f"SELECT key, {_COLUMNS} FROM replies LIMIT 1").fetchone()
        except sqlite3.Error:
            connection.close()
            self._inode = _inode(self.path)
            raise
        self._connection = connection
        self._inode = _inode(self.path)
        return connection

    def _set_aside(self, error: Exception) -> None:
        """Rename the damaged file, unless another process has done it already."""
        self.close()
        with self.path.with_name(self.path.name + ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _inode(self.path) != self._inode:
                return
            aside = next(path for n in range(1, 10**6) if not (path := self._aside(n)).exists())
            _log.warning("%s is damaged (%s): it is kept as %s, and a new one begun", self.path, error, aside)
            os.replace(self.path, aside)
            for ending in ("-wal", "-shm"):
                self.path.with_name(self.path.name + ending).unlink(missing_ok=True)

    def _aside(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.damaged-{number}")


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0
