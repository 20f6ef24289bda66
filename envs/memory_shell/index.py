"""All files of a workspace in one piece of text, so that a search over thousands of notes is one search."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from memory_shell.emit import EXOTIC_FOLDS
from memory_shell.vocabulary import MAX_BYTES, Vocabulary

_WIDE = re.compile(rb"[\x80-\xff]")


class Span(NamedTuple):
    """A run of files (`first` up to `last`, not included) and of directories, by number."""

    first: int
    last: int
    first_dir: int
    last_dir: int


class Index:
    """The files of a workspace, one after another.

    text     their bytes; every file that is not empty ends in a newline; a NUL is a newline here, as for GNU grep, and
             a byte that is not UTF-8 is a NUL, which no pattern matches; so text and files have the same offsets
    paths    file number -> path; names: the same as bytes; starts: file number -> offset in `text`, with the end after
             the last
    dirs     directory number -> path; spans: path -> the files and directories below it, and itself
    binary   the numbers of files that hold a NUL; broken: of files that hold bytes that are not UTF-8
    wide     the lines of `text` that hold anything but ASCII
    exotic   whether the text holds one of the letters that fold to an ASCII letter
    """

    def __init__(self, files: Mapping[str, bytes], dirs: Mapping[str, Sequence[str]]) -> None:
        paths: list[str] = []
        folders: list[str] = []
        self.spans: dict[str, Span] = {}
        self._walk("", files, dirs, paths, folders)
        self.paths = tuple(paths)
        self.names = tuple(path.encode("utf-8", "surrogateescape") for path in paths)
        self.dirs = tuple(folders)
        self.binary: set[int] = set()
        self.broken: set[int] = set()
        self.starts = [0]
        parts: list[bytes] = []
        for number, path in enumerate(paths):
            data = self._searchable(number, files[path])
            parts.append(data)
            self.starts.append(self.starts[-1] + len(data))
        self.text = b"".join(parts)
        self.numbers = {path: number for number, path in enumerate(paths)}
        self.exotic = not self.text.isascii() and any(char in self.text for char in EXOTIC_FOLDS)
        self.wide, self._wide_starts, self._wide_offsets = _wide_lines(self.text)

    def _walk(
        self,
        path: str,
        files: Mapping[str, bytes],
        dirs: Mapping[str, Sequence[str]],
        out: list[str],
        folders: list[str],
    ) -> None:
        first, first_dir = len(out), len(folders)
        folders.append(path)
        for name in dirs[path]:
            child = f"{path}/{name}" if path else name
            if child in files:
                out.append(child)
            elif child in dirs:
                self._walk(child, files, dirs, out, folders)
        self.spans[path] = Span(first, len(out), first_dir, len(folders))

    def _searchable(self, number: int, data: bytes) -> bytes:
        if b"\0" in data:
            self.binary.add(number)
            data = data.replace(b"\0", b"\n")
        if not data.isascii():
            data = self._repaired(number, data)
        return data if not data or data.endswith(b"\n") else data + b"\n"

    def _repaired(self, number: int, data: bytes) -> bytes:
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            self.broken.add(number)
            text = data.decode("utf-8", "surrogateescape")
            return _SURROGATE.sub("\0", text).encode("utf-8")
        return data

    def file_at(self, offset: int) -> int:
        """The number of the file that holds `offset`."""
        return bisect_right(self.starts, offset) - 1

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """The words of the text and where they stand; None when the text is too large for that."""
        return Vocabulary(self.text) if len(self.text) <= MAX_BYTES else None

    def is_ascii(self, start: int, end: int) -> bool:
        """Whether every line of `text[start:end]` is ASCII."""
        first, last = self.wide_span(start, end)
        return first == last

    def wide_span(self, start: int, end: int) -> tuple[int, int]:
        """The part of `wide` that holds the lines of `text[start:end]`."""
        first = bisect_left(self._wide_offsets, start)
        last = bisect_left(self._wide_offsets, end)
        return self._wide_starts[first], self._wide_starts[last]

    def wide_line(self, offset: int) -> tuple[int, int]:
        """The line of `text` (start, end without newline) that stands at `offset` in `wide`."""
        number = bisect_right(self._wide_starts, offset) - 1
        start = self._wide_offsets[number]
        return start, start + self._wide_starts[number + 1] - self._wide_starts[number] - 1


_SURROGATE = re.compile("[\udc80-\udcff]")


def _wide_lines(text: bytes) -> tuple[bytes, list[int], list[int]]:
    """The lines that are not ASCII, joined; where each starts there (with the end after the last), and in `text`."""
    parts: list[bytes] = []
    starts: list[int] = [0]
    offsets: list[int] = []
    position = len(text) if text.isascii() else 0
    while match := _WIDE.search(text, position):
        start = text.rfind(b"\n", position, match.start()) + 1 or position
        position = text.index(b"\n", match.end() - 1) + 1
        parts.append(text[start:position])
        starts.append(starts[-1] + position - start)
        offsets.append(start)
    return b"".join(parts), starts, offsets
