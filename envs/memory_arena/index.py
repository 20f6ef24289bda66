"""A full-text index over documents or products that the user supplies: SQLite FTS5, ranked by BM25.

An index is one file. It is built aside and put in place when it is whole, and only ever read after that: any number of
episodes share it. What a query says is a bag of words. Every word is quoted, so nothing a model writes is FTS syntax.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from memory_arena.domain import path_option
from memory_arena.jsonstream import read_records

MAX_WORDS = 32
"""Words of a query that count; the rest is ignored."""
MAX_WORD = 64
"""Characters of a word that count."""
MAX_TEXT = 2_000_000
"""Characters of a document's text that are kept."""
MAX_TITLE = 2_000
MAX_ID = 200
REPORT_EVERY = 5_000
"""Documents between two reports of progress."""

_APPLICATION = 0x486F4D41
"""Marks a SQLite file as one of these indexes."""
_VERSION = 1
_HEAD = 72
"""Bytes of a SQLite file up to the end of that mark."""
_WORD = re.compile(r"[^\W_]+")
# The full-text table keeps no text of its own. Its rows are the documents in the order of their ids, so that equal
# ranks are told apart by a number, without a look at the documents: with common words that is half of the time.
_DOCUMENTS = """
CREATE TABLE documents (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, title TEXT NOT NULL, text TEXT NOT NULL,
                        fields TEXT NOT NULL);
"""
_WORDS = """
CREATE TABLE places (place INTEGER PRIMARY KEY, number INTEGER NOT NULL);
INSERT INTO places (number) SELECT number FROM documents ORDER BY id;
CREATE VIRTUAL TABLE words USING fts5 (title, text, content='', tokenize='porter unicode61');
INSERT INTO words (rowid, title, text) SELECT place, title, text FROM places JOIN documents USING (number)
    ORDER BY place;
INSERT INTO words (words) VALUES ('optimize');
"""
_SEARCH = """
SELECT id, title, text, fields FROM (
    SELECT rowid AS place, bm25(words) AS score FROM words WHERE words MATCH ? ORDER BY score, place LIMIT ?
) JOIN places USING (place) JOIN documents USING (number) ORDER BY score, place
"""

_HEADER = "SELECT user_version, page_count * page_size FROM pragma_user_version, pragma_page_count, pragma_page_size"
_LOOK = "SELECT 1 FROM words JOIN places ON place = words.rowid JOIN documents USING (number) LIMIT 1"
"""A first look, which takes no time: all tables are there."""

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Document:
    """A text under an id. `fields` is what else is known of it, as JSON values; it is kept and not searched."""

    id: str
    title: str
    text: str
    fields: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Built:
    """What an index holds, and how many documents were left out because an earlier one has their id."""

    documents: int
    duplicates: int


def build_index(documents: Iterable[Document], path: Path, progress: Progress = lambda done: None) -> Built:
    """Index `documents` into the file `path`, replacing one that is there. The first document of an id counts.

    Memory does not grow with their number. `progress` is called with the count so far every `REPORT_EVERY` documents
    and at the end. Raises ValueError when there are none, when an id is empty or longer than `MAX_ID`, when a file is
    there that is no index, when another process is building it, and when the file cannot be written; nothing is put in
    place then.
    """
    try:
        if path.exists() and not (path.is_file() and _is_index(path)):
            raise ValueError(f"{path}: is there, and is no index; give another name, or remove it first")
        place = Path(os.path.realpath(path))  # a link stays one: what it leads to may be on another disk
        place.parent.mkdir(parents=True, exist_ok=True)
        with _unfinished(place) as unfinished:
            # SQLite need not lock what is held here, and on NFS, where all locks are of one kind, it could not.
            uri = f"file:{quote(os.fsencode(unfinished))}?nolock=1"
            with closing(sqlite3.connect(uri, uri=True)) as connection:
                # The file counts only when it is whole and in place: no journal is needed on the way there.
                connection.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-65536")
                built = _fill(connection, documents, progress)
            if not built.documents:
                raise ValueError(f"{path}: there is nothing to index")
            with unfinished.open("rb") as file:
                os.fsync(file.fileno())
            unfinished.replace(place)
    except (OSError, sqlite3.Error) as error:
        raise ValueError(f"{path}: the index cannot be written ({error})") from None
    return built


@contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    """An empty file beside `path`, held for this process until it is put in place, and gone after an exception. It has
    one name, so that what a killed build leaves is taken by the next one. Raises ValueError when it is held."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    with open(unfinished, "ab", opener=_unfollowed) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = os.path.samestat(os.fstat(file.fileno()), unfinished.stat())
        except (BlockingIOError, FileNotFoundError):
            free = False
        if not free:  # held, or put in place since it was opened here
            raise ValueError(f"{path}: another process is building this index; wait for it to end")
        try:
            file.truncate(0)
            yield unfinished
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise


def _unfollowed(path: str, flags: int) -> int:
    """Open what is no link."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def _fill(connection: sqlite3.Connection, documents: Iterable[Document], progress: Progress) -> Built:
    connection.executescript(_DOCUMENTS)
    seen = 0

    def rows() -> Iterator[tuple[str, str, str, str]]:
        nonlocal seen
        for document in documents:
            yield _row(document)
            seen += 1
            if seen % REPORT_EVERY == 0:
                progress(seen)

    connection.executemany("INSERT OR IGNORE INTO documents (id, title, text, fields) VALUES (?, ?, ?, ?)", rows())
    progress(seen)
    connection.commit()
    connection.executescript(_WORDS)
    connection.execute(f"PRAGMA application_id={_APPLICATION}")
    connection.execute(f"PRAGMA user_version={_VERSION}")
    connection.commit()
    kept = connection.execute("SELECT count(*) FROM documents").fetchone()[0]
    return Built(documents=kept, duplicates=seen - kept)


def _is_index(path: Path) -> bool:
    """By the mark that SQLite keeps in the file's head. Raises OSError when it cannot be read."""
    with path.open("rb") as file:
        return file.read(_HEAD)[-4:] == _APPLICATION.to_bytes(4, "big")


def _row(document: Document) -> tuple[str, str, str, str]:
    if not document.id or len(document.id) > MAX_ID:
        raise ValueError(f"the id '{document.id[:40]}' is empty or longer than {MAX_ID} characters")
    fields = json.dumps(dict(document.fields), ensure_ascii=False, sort_keys=True)
    title, text = document.title[:MAX_TITLE], document.text[:MAX_TEXT]
    return _storable(document.id), _storable(title), _storable(text), _storable(fields)


def _storable(text: str) -> str:
    """Half a surrogate pair is legal in JSON and cannot be stored."""
    return text.encode("utf-8", "replace").decode()


class TextIndex:
    """An index, open for reading. Threads may share it.

    What is asked of it raises ValueError, which names the file, when the file turns out to be damaged.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path | None = None) -> None:
        self.name = str(path or "an index in memory")
        """What errors call it: its path."""
        self._connection = connection
        self._connection.execute("PRAGMA query_only=ON")
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path: Path) -> TextIndex:
        """The index in `path`. Raises ValueError when it is no file, cannot be read or is none that `build_index`
        wrote, and when it shows at once that it is damaged."""
        try:
            if not path.is_file():
                raise ValueError(f"{path}: no such index; `horma-rl data index` builds one")
            if not _is_index(path):
                raise ValueError(f"{path}: is no index; build one with `horma-rl data index`")
            # Immutable: no lock and no journal is looked for, so the file may lie on a read-only medium.
            uri = f"file:{quote(os.fsencode(path.resolve()))}?mode=ro&immutable=1"
            connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise ValueError(f"{path}: the index cannot be read ({error})") from None
        index = cls(connection, path)
        try:
            version, size = index._ask(_HEADER)[0]
            if version != _VERSION:
                raise ValueError(f"{path}: is an index of another version; build it again with `horma-rl data index`")
            if size != path.stat().st_size:  # SQLite does not miss the end of the last page
                raise index._damaged(f"it should have {size:,} bytes")
            index._ask(_LOOK)
        except ValueError:
            connection.close()
            raise
        return index

    @classmethod
    def of(cls, documents: Iterable[Document]) -> TextIndex:
        """An index in memory, for small collections."""
        connection = sqlite3.connect(":memory:", check_same_thread=False)
        _fill(connection, documents, lambda done: None)
        return cls(connection)

    def __len__(self) -> int:
        return int(self._ask("SELECT count(*) FROM documents")[0][0])

    def search(self, query: str, limit: int) -> list[Document]:
        """The best documents that hold a word of `query`, by BM25 and then by id; none when it holds no word."""
        words = query_words(query)
        if not words:
            return []
        match = " OR ".join(f'"{word}"' for word in words)
        return [self._document(row) for row in self._ask(_SEARCH, match, limit)]

    def get(self, document_id: str) -> Document | None:
        """The document with exactly this id."""
        if any("\ud800" <= character <= "\udfff" for character in document_id):
            return None
        statement = "SELECT id, title, text, fields FROM documents WHERE id = ?"
        rows = self._ask(statement, document_id)
        return self._document(rows[0]) if rows else None

    def close(self) -> None:
        """Close the file. May be called twice."""
        self._connection.close()

    def _ask(self, statement: str, *values: str | int) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                return self._connection.execute(statement, values).fetchall()
        except sqlite3.ProgrammingError:  # closed: no fault of the file
            raise
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter of a message that quotes the file
            told = str(error).partition(" with text ")[0]  # a document's, whole
            raise self._damaged(told) from None

    def _document(self, row: tuple[Any, ...]) -> Document:
        """The document of a row. SQLite hands out what it finds in a damaged row, of whatever type."""
        try:
            fields = json.loads(row[3])
        except (TypeError, ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict) or not all(isinstance(text, str) for text in row):
            raise self._damaged("a document cannot be read")
        return Document(row[0], row[1], row[2], fields)

    def _damaged(self, how: str) -> ValueError:
        return ValueError(f"{self.name}: the index is damaged ({how}); build it again with `horma-rl data index`")


def query_words(query: str) -> list[str]:
    """The distinct words of `query` that count, in order: letters and digits only."""
    words = (match[0][:MAX_WORD].lower() for match in _WORD.finditer(query))
    return list(islice(dict.fromkeys(islice(words, 10 * MAX_WORDS)), MAX_WORDS))


# Options of the domains that have an index ----------------------------------------------------------------------------


def open_index(given: Mapping[str, Any], kind: str, domain: str) -> TextIndex:
    """The index that the option `index` names. Raises ValueError that says how to build one."""
    missing = f"the option 'index' is missing: build one with `horma-rl data index {kind}`"
    return TextIndex.open(path_option(given, "index", domain, missing))


def steps_of(given: Mapping[str, Any], default: int, domain: str) -> int:
    """The option `steps`. Raises ValueError when it is no positive whole number."""
    steps = given.get("steps", default)
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ValueError(f"{domain}: the option 'steps' is {steps!r}; it is a whole number from 1 on")
    return steps


# Documents from files -------------------------------------------------------------------------------------------------

_ID_KEYS = ("id", "docid", "_id")
_TITLE_KEYS = ("title", "url")
_TEXT_KEYS = ("text", "contents", "body")


def read_documents(paths: Iterable[Path]) -> Iterator[Document]:
    """The documents of JSON Lines files and JSON arrays: objects with `id` (or `docid`), `text` (or `contents`,
    `body`) and perhaps `title` (or `url`); what else they hold of texts and numbers goes into `fields`.

    Raises ValueError, with file and place, for an object without id (a text or number) or text.
    """
    for path in paths:
        for number, record in read_records(path):
            yield _from_record(record, f"{path}: item {number}")


def _from_record(record: object, where: str) -> Document:
    if not isinstance(record, dict):
        raise ValueError(f"{where} is no object")
    rest = dict(record)
    document_id, text = _take(rest, _ID_KEYS), _take(rest, _TEXT_KEYS)
    if not isinstance(document_id, str | int) or isinstance(document_id, bool) or not isinstance(text, str):
        there = ", ".join(map(repr, list(record)[:8])) or "nothing"
        raise ValueError(f"{where} needs 'id' and 'text', both texts (an id may be a whole number); it has {there}")
    if not 0 < len(str(document_id)) <= MAX_ID:
        raise ValueError(f"{where}: the id is empty or longer than {MAX_ID} characters")
    title = _take(rest, _TITLE_KEYS)
    plain = {key: value for key, value in rest.items() if isinstance(value, str | int | float)}
    return Document(str(document_id), title if isinstance(title, str) else "", text, plain)


def _take(record: dict[str, Any], keys: Iterable[str]) -> Any:
    """Remove and give the first of `keys` that is there and not null."""
    for key in keys:
        if record.get(key) is not None:
            return record.pop(key)
    return None
