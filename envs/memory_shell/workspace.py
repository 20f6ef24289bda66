"""A memory workspace: read once from a folder, then immutable and shared by any number of episodes.

Nothing outside the folder is ever read. Symbolic links are not followed, and FIFOs, sockets and devices are not opened:
they are listed by name and refused by the verbs.
"""

from __future__ import annotations

import os
import stat
from bisect import insort
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from memory_shell.index import Index
from memory_shell.notes import Note, parse_note
from memory_shell.records import Records, archive_of, read_records
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


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class File:
    """One regular file: its path (posix, relative to the root) and its bytes as they were at load."""

    path: str
    data: bytes

    @cached_property
    def records(self) -> Records:
        """The records, where this is a raw log."""
        return read_records(self.path, self.data)

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
    size      bytes of all files together
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
        size: int,
    ) -> None:
        self.root = root
        self.name = root.name
        self.files = files
        self.dirs = dirs
        self.specials = specials
        self.size = size
        turns, self._logs = archive_of({path: file.records for path, file in files.items() if _is_log(path)})
        self.turns: Mapping[str, Turn] = turns
        self.notes: Mapping[str, Note] = _Notes(self.files, self.turns)

    @classmethod
    def load(cls, root: Path, limits: Limits = DEFAULT_LIMITS) -> Workspace:
        """Read the folder `root` whole. Raises WorkspaceError when it is no folder, unreadable or over a limit."""
        root = Path(root)
        if not root.is_dir():
            raise WorkspaceError(f"{root} is not a folder: give the folder that holds raw_logs/ and the notes")
        reader = _Reader(root.resolve(), limits)
        try:
            reader.walk(str(reader.root), "", 0)
        except OSError as error:
            raise WorkspaceError(f"cannot read {error.filename or root}: {error.strerror}") from error
        return cls(reader.root, reader.files, reader.dirs, reader.specials, reader.bytes)

    def after(self, changed: Collection[str], limits: Limits = DEFAULT_LIMITS) -> Workspace:
        """The folder after the files `changed` were written, for who alone writes it: all else is taken as it was.

        Where one of them is gone, no regular file, or in a new folder, all is read. Raises WorkspaceError as `load`.
        """
        reader = _Reader(self.root, limits)
        try:
            followed = reader.follow(self, changed)
        except WorkspaceError:  # what makes room again may come later, or be gone: the whole folder tells
            followed = False
        if not followed:
            return Workspace.load(self.root, limits)
        return Workspace(self.root, reader.files, reader.dirs, self.specials, reader.bytes)

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
    """One pass over the folder, or over what changed in it; every name is looked at without following links."""

    def __init__(self, root: Path, limits: Limits) -> None:
        self.root = root
        self.limits = limits
        self.files: dict[str, File] = {}
        self.dirs: dict[str, tuple[str, ...]] = {}
        self.specials: dict[str, str] = {}
        self.bytes = 0
        self._entries = 0

    def walk(self, folder: str, path: str, depth: int) -> None:
        if depth > self.limits.depth:
            raise WorkspaceError(
                f"{path}: folders more than {self.limits.depth} deep; a workspace is refused over that"
            )
        with os.scandir(folder) as entries:
            children = sorted(entries, key=lambda entry: os.fsencode(entry.name))
        self._count(len(children))
        self.dirs[path] = tuple(entry.name for entry in children)
        for entry in children:
            child = f"{path}/{entry.name}" if path else entry.name
            if entry.is_symlink():
                self.specials[child] = "link"
            elif entry.is_dir(follow_symlinks=False):
                self.walk(entry.path, child, depth + 1)
            elif entry.is_file(follow_symlinks=False):
                if found := self._read(entry.path, child):
                    self._put(found)
            else:
                self.specials[child] = _kind(entry.stat(follow_symlinks=False).st_mode)

    def follow(self, before: Workspace, changed: Collection[str]) -> bool:
        """What `before` holds, with the files `changed` as they are now. False, and nothing is known, where that does
        not tell all."""
        self.files, self.dirs, self.bytes = dict(before.files), dict(before.dirs), before.size
        self._entries = len(before.files) + len(before.dirs) + len(before.specials) - 1  # the root is nobody's entry
        if not all(self._is_there(folder) for folder in {path.rpartition("/")[0] for path in changed}):
            return False
        paths = list(self.files)
        for path in changed:
            folder, _, name = path.rpartition("/")
            if path in self.dirs or path in before.specials:
                return False
            try:
                found = self._read(f"{self.root}/{path}", path)
            except OSError:
                return False
            if found is None:
                return False
            if path not in self.files:
                self._count(1)
                insort(paths, path, key=_place)
                names = list(self.dirs[folder])
                insort(names, name, key=os.fsencode)
                self.dirs[folder] = tuple(names)
            self._put(found)
        self.files = {path: self.files[path] for path in paths}
        return True

    def _is_there(self, folder: str) -> bool:
        """Whether `folder` was one before, and neither it nor one above it is a link now."""
        if folder not in self.dirs:
            return False
        above = accumulate(folder.split("/"), "{}/{}".format)
        return not any(os.path.islink(f"{self.root}/{path}") for path in above)

    def _count(self, more: int) -> None:
        self._entries += more
        if self._entries > self.limits.files:
            raise WorkspaceError(f"{self.root}: more than {self.limits.files} files and folders; split the workspace")

    def _put(self, file: File) -> None:
        known = self.files.get(file.path)
        self.bytes += len(file.data) - (len(known.data) if known else 0)
        if self.bytes > self.limits.bytes:
            raise WorkspaceError(f"{self.root}: over {self.limits.bytes} bytes in all files; split the workspace")
        self.files[file.path] = file

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


def _place(path: str) -> list[bytes]:
    """What paths are ordered by in a recursive listing."""
    return [os.fsencode(part) for part in path.split("/")]


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "fifo"
    return "socket" if stat.S_ISSOCK(mode) else "device"


def _is_log(path: str) -> bool:
    return path.startswith(RAW_LOGS + "/") and path.endswith(".jsonl")
