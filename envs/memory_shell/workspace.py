"""A memory workspace: read once from a folder, then immutable and shared by any number of episodes.

Nothing outside the folder is ever read. Symbolic links are not followed, and FIFOs, sockets and devices are not opened:
they are listed by name and refused by the verbs.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from memory_shell.index import Index
from memory_shell.notes import Note, parse_note
from memory_shell.types import Turn

RAW_LOGS = "raw_logs"


class WorkspaceError(ValueError):
    """A folder that cannot be a workspace. The message is one line: what is wrong, where, and what to do."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a workspace may hold. A folder over any limit is refused at load."""

    files: int = 60_000
    """Files and folders together."""
    bytes: int = 64 * 1024 * 1024
    """Bytes in all files together."""
    file_bytes: int = 8 * 1024 * 1024
    """Bytes in one file."""
    depth: int = 16
    """Folders below one another."""


@dataclass(frozen=True, slots=True)
class Records:
    """What one raw log holds, in the order of its lines: id -> turn, line -> id, and line -> what is wrong there."""

    turns: Mapping[str, Turn]
    lines: Mapping[int, str]
    problems: Mapping[int, str]


@dataclass(frozen=True)
class File:
    """One regular file: its path (posix, relative to the root) and its bytes as they were at load."""

    path: str
    data: bytes

    @cached_property
    def records(self) -> Records:
        """The records, where this is a raw log."""
        return _read_records(self)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """Offset just after each line, its newline included; a last line without newline counts."""
        ends: list[int] = []
        position = self.data.find(b"\n")
        while position >= 0:
            ends.append(position + 1)
            position = self.data.find(b"\n", position + 1)
        if self.data and not self.data.endswith(b"\n"):
            ends.append(len(self.data))
        return tuple(ends)

    def lines(self, first: int, last: int) -> bytes:
        """Lines `first` to `last` (1-based, both included), as far as they exist."""
        ends = self.ends
        last = min(last, len(ends))
        if first < 1 or first > last:
            return b""
        return self.data[ends[first - 2] if first > 1 else 0 : ends[last - 1]]


class _Notes(Mapping[str, Note]):
    """Path -> note, parsed when first asked for: a walk that opens three notes pays for three."""

    def __init__(self, files: Mapping[str, File], known: Mapping[str, Turn]) -> None:
        self._files = files
        self._known = known
        self._parsed: dict[str, Note] = {}

    @cached_property
    def _paths(self) -> tuple[str, ...]:
        return tuple(filter(is_note, self._files))

    def __getitem__(self, path: str) -> Note:
        note = self._parsed.get(path)
        if note is None:
            if path not in self:
                raise KeyError(path)
            note = self._parsed[path] = parse_note(path, self._files[path].data, self._known)
        return note

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and path in self._files and is_note(path)


def is_note(path: str) -> bool:
    """Whether `path` is a note: Markdown, and not among the raw logs."""
    return path.endswith(".md") and not path.startswith(RAW_LOGS + "/")


class Workspace:
    """A loaded memory. Its parts never change; use `Workspace.load`.

    name      the folder's name
    files     path -> File, in the order of a recursive listing: each folder's children by name, byte by byte
    dirs      path -> the names in it, sorted ("" is the root)
    specials  path -> "link", "fifo", ...: what is there but is never opened
    turns     id -> Turn, in archive order
    notes     path -> Note, parsed when first asked for
    index     the text of all files, for searches; put together when first asked for
    """

    def __init__(
        self,
        root: Path,
        files: Mapping[str, File],
        dirs: Mapping[str, tuple[str, ...]],
        specials: Mapping[str, str],
    ) -> None:
        self.root = root
        self.name = root.name
        self.files = files
        self.dirs = dirs
        self.specials = specials
        turns, self._logs = _archive(file for path, file in self.files.items() if _is_log(path))
        self.turns: Mapping[str, Turn] = turns
        self.notes: Mapping[str, Note] = _Notes(self.files, self.turns)

    @classmethod
    def load(
        cls,
        root: Path,
        limits: Limits = Limits(),
        before: Workspace | None = None,
        changed: Collection[str] = (),
    ) -> Workspace:
        """Read the folder `root` whole. Raises WorkspaceError when it is no folder, unreadable or over a limit.

        For who writes the folder and loads it again and again: `before` is what was loaded last, and `changed` the
        paths written since; files that were there and are not among them are not read and parsed again.
        """
        root = Path(root)
        if not root.is_dir():
            raise WorkspaceError(f"{root} is not a folder: give the folder that holds raw_logs/ and the notes")
        reader = _Reader(root.resolve(), limits, before.files if before else {}, changed)
        try:
            reader.walk(str(reader.root), "", 0)
        except OSError as error:
            raise WorkspaceError(f"cannot read {error.filename or root}: {error.strerror}") from error
        return cls(reader.root, reader.files, reader.dirs, reader.specials)

    @cached_property
    def index(self) -> Index:
        """See above."""
        return Index({path: file.data for path, file in self.files.items()}, self.dirs)

    @cached_property
    def listings(self) -> Mapping[str, tuple[bytes, int]]:
        """Directory -> what `ls` prints for it (names that are not hidden, a line each), and how many lines that is."""
        shown = {path: [name for name in names if name[0] != "."] for path, names in self.dirs.items()}
        return {
            path: (os.fsencode("".join(f"{name}\n" for name in names)), len(names)) for path, names in shown.items()
        }

    def evidence(self, path: str, first: int | None = None, last: int | None = None) -> tuple[str, ...]:
        """The turn ids that lines `first` to `last` of `path` stand for (1-based, both included).

        Raw log: the turns on those lines. Note: what those lines cite inline. Without a range: every turn of the raw
        log, or the note's `sources` (its inline citations when it names no sources). Empty for any other file.
        """
        if path not in self.files:
            return ()
        if log := self._logs.get(path):
            return tuple(ident for number, ident in log.lines.items() if _within(number, first, last))
        note = self.notes.get(path)
        if note is None:
            return ()
        if first is None and note.sources:
            return note.sources
        cited = note.cited
        if first is not None and last is not None and last - first < len(cited):
            numbers: Iterable[int] = range(first, last + 1)
        else:
            numbers = (number for number in cited if _within(number, first, last))
        return tuple(dict.fromkeys(ident for number in numbers for ident in cited.get(number, ())))

    def problems(self) -> list[str]:
        """What is wrong with the content, one line each; empty when the workspace is valid. Parses every note."""
        found = [problem for log in self._logs.values() for problem in log.problems.values()]
        if not self.turns:
            found.append(f"no turns: {RAW_LOGS}/ holds no readable record")
        for note in self.notes.values():
            found += note.problems
            if note.superseded_by and not self._exists_beside(note.path, note.superseded_by):
                found.append(f"{note.path}: superseded_by names {note.superseded_by}, which is not there")
        found += [f"{path}: is a {kind}, which is never opened" for path, kind in self.specials.items()]
        return found

    def _exists_beside(self, path: str, target: str) -> bool:
        target = target.split("#", maxsplit=1)[0].lstrip("/")
        folder = path.rpartition("/")[0]
        return target in self.files or f"{folder}/{target}" in self.files


def _within(number: int, first: int | None, last: int | None) -> bool:
    return (first is None or number >= first) and (last is None or number <= last)


class _Reader:
    """One pass over the folder; every name is looked at without following links."""

    def __init__(self, root: Path, limits: Limits, known: Mapping[str, File], changed: Collection[str]) -> None:
        self.root = root
        self.limits = limits
        self._known = known
        self._changed = changed
        self.files: dict[str, File] = {}
        self.dirs: dict[str, tuple[str, ...]] = {}
        self.specials: dict[str, str] = {}
        self._entries = 0
        self._bytes = 0

    def walk(self, folder: str, path: str, depth: int) -> None:
        if depth > self.limits.depth:
            raise WorkspaceError(
                f"{path}: folders more than {self.limits.depth} deep; a workspace is refused over that"
            )
        with os.scandir(folder) as entries:
            children = sorted(entries, key=lambda entry: os.fsencode(entry.name))
        self._entries += len(children)
        if self._entries > self.limits.files:
            raise WorkspaceError(f"{self.root}: more than {self.limits.files} files and folders; split the workspace")
        self.dirs[path] = tuple(entry.name for entry in children)
        for entry in children:
            child = f"{path}/{entry.name}" if path else entry.name
            if entry.is_symlink():
                self.specials[child] = "link"
            elif entry.is_dir(follow_symlinks=False):
                self.walk(entry.path, child, depth + 1)
            elif entry.is_file(follow_symlinks=False):
                self._add(entry.path, child)
            else:
                self.specials[child] = _kind(entry.stat(follow_symlinks=False).st_mode)

    def _add(self, file: str, path: str) -> None:
        found = self._known.get(path)
        if found is None or path in self._changed:
            found = self._read(file, path)
        if found is None:
            return
        self.files[path] = found
        self._bytes += len(found.data)
        if self._bytes > self.limits.bytes:
            raise WorkspaceError(f"{self.root}: over {self.limits.bytes} bytes in all files; split the workspace")

    def _read(self, file: str, path: str) -> File | None:
        """None for what is no regular file. Raises WorkspaceError when it is too long."""
        # O_NOFOLLOW, O_NONBLOCK: a file swapped for a link or a FIFO after the listing is not followed nor waited for.
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as stream:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                self.specials[path] = _kind(status.st_mode)
                return None
            data = stream.read(self.limits.file_bytes + 1)
        if len(data) > self.limits.file_bytes:
            raise WorkspaceError(f"{file}: over {self.limits.file_bytes} bytes, the limit for one file; split the file")
        return File(path, data)


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "fifo"
    return "socket" if stat.S_ISSOCK(mode) else "device"


def _is_log(path: str) -> bool:
    return path.startswith(RAW_LOGS + "/") and path.endswith(".jsonl")


def _archive(logs: Iterable[File]) -> tuple[dict[str, Turn], dict[str, Records]]:
    """The turns of all raw logs, and the records by path. An id belongs to the log that has it first."""
    archive = {file.path: file.records for file in logs}
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


def _read_records(file: File) -> Records:
    turns: dict[str, Turn] = {}
    problems: dict[int, str] = {}
    for number, line in enumerate(file.data.split(b"\n"), start=1):
        if not line.strip():
            continue
        turn = _read_turn(line, file.path, number)
        if isinstance(turn, str):
            problems[number] = turn
        elif turn.id in turns:
            problems[number] = _used_before(turn, turns[turn.id])
        else:
            turns[turn.id] = turn
    return Records(turns, {turn.line: turn.id for turn in turns.values()}, problems)


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
