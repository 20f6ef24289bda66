"""Print what grep selects in one file after another, as GNU grep does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from memory_shell.index import Index
from memory_shell.matcher import Line, Matcher
from memory_shell.output import Sink
from memory_shell.paths import name_bytes

_MANY = 200
Wanted = Callable[[Sequence[str]], bool]
"""Whether a file passes the filters; the argument is every form of its name that a glob may match."""


class Style(NamedTuple):
    """The flags that say what is printed. `names`, `before`, `after` and `limit` are None when no flag sets them."""

    recursive: bool
    names: bool | None
    numbered: bool
    counting: bool
    listing: str
    only: bool
    inverted: bool
    quiet: bool
    silent: bool
    limit: int | None
    before: int | None
    after: int | None
    wanted: Wanted | None


class Printer:
    """Takes the selected lines of a file in order: `begin`, then `line` for each (or `lines` for some at once, where
    `begin` allows it), then `end`; `without` for a file that has none."""

    def __init__(self, index: Index, style: Style, matcher: Matcher, sink: Sink, read: Callable[[int], bytes]) -> None:
        self._index = index
        self._text = index.text
        self._style = style
        self._matcher = matcher
        self._sink = sink
        self._read = read
        self._separated = style.before is not None or style.after is not None
        self._before = style.before or 0
        self._after = style.after or 0
        self._plain = not (style.counting or self._separated or style.only or style.limit is not None)
        self._used = False
        self.names = False
        """Whether file names are printed."""
        self.found = False
        """Whether any line was selected in any file."""

    def begin(self, number: int, shown: bytes) -> bool:
        """The next lines belong to file `number`, which is printed as `shown`. True when `lines` may take them."""
        index = self._index
        self.found = True
        self._shown = shown
        self._start = index.starts[number]
        self._stop = index.starts[number + 1]
        self._selected = 0
        self._printed_to = self._start  # the end of the last line that was printed
        self._touched = False  # whether there is such a line (or GNU takes the start of the file for its end)
        self._pending = 0  # lines of context still to come
        self._counted = (self._start, 0)  # an offset in the file, and the newlines before it
        self._binary = number in index.binary
        self._raw = self._read(number) if number in index.broken else None
        self._garbled = False  # a line that would have been printed is not UTF-8
        return self._plain and not self._binary and self._raw is None

    def lines(self, lines: list[Line]) -> None:
        """Take selected lines that need nothing but printing."""
        text, head = self._text, self._shown + b":" if self.names else b""
        if self._style.numbered:
            parts = [self._head(start, b":") + text[start : end + 1] for start, end in lines]
        else:
            parts = [head + text[start : end + 1] for start, end in lines]
        self._sink.put(b"".join(parts), len(parts))

    def line(self, start: int, _end: int) -> bool:
        """Take one selected line; False when nothing more of this file matters, or when `only_counts` says so."""
        self._selected += 1
        if self._style.counting:
            return self._selected != self._style.limit and not self.only_counts
        if self._binary:
            self._used = True
            return False
        self._show(start)
        return not self._sink.stopped and self._selected != self._style.limit

    @property
    def only_counts(self) -> bool:
        """So many lines of this file were selected that the rest is better counted at once."""
        return self._style.counting and self._style.limit is None and self._selected >= _MANY

    def add(self, count: int) -> None:
        """`count` more lines of this file are selected."""
        self._selected += count

    def end(self, lines: list[Line]) -> None:
        """The file has no further lines than `lines`."""
        style, sink = self._style, self._sink
        if lines:
            self.lines(lines)
        if self._pending:
            self._context(self._stop)
        if style.counting:
            sink.put((self._shown + b":" if self.names else b"") + b"%d\n" % self._selected, 1)
        elif self._binary or self._garbled:
            sink.put(b"grep: " + self._shown + b": binary file matches\n", 1)
        sink.end_file()

    def unreadable(self, name: str, why: str) -> None:
        """A directory or a name that cannot be opened."""
        if not self._style.silent:
            self._sink.put(name_bytes(f"grep: {name}: {why}\n"), 1)

    def without(self, shown: bytes) -> None:
        """A file in which no line was selected."""
        if self._style.counting:
            self._sink.put((shown + b":" if self.names else b"") + b"0\n", 1)
            self._sink.end_file()
        elif self._style.listing == "L":
            self._sink.put(shown + b"\n", 1)
            self._sink.end_file()

    def _show(self, start: int) -> None:
        """Print a selected line with the context that is due."""
        if self._pending:
            self._context(start)
        first = start
        for _ in range(self._before):
            if first <= self._printed_to:
                break
            first = self._text.rfind(b"\n", self._start, first - 1) + 1 or self._start
        if self._separated and self._used and not (self._touched and first == self._printed_to):
            self._sink.put(b"--\n", 1)
        while first < start:
            first = self._put(first, b"-")
        self._used = True
        self._put(start, b":")
        self._pending = self._after

    def _context(self, stop: int) -> None:
        """Print the context that is pending, up to `stop`. It ends at a line that cannot be shown, as in GNU grep."""
        self._touched |= self._pending > 0
        while self._pending and (start := self._printed_to) < stop and not self._sink.stopped:
            self._put(start, b"-")
            self._pending = 0 if self._printed_to == start else self._pending - 1

    def _put(self, start: int, mark: bytes) -> int:
        """Print the line at `start`, unless its bytes are not UTF-8; give back where the next one starts."""
        end = self._text.index(b"\n", start)
        if self._style.only:
            if (mark == b":") != self._style.inverted:  # with -v, the lines of context are those that match
                self._parts(start, end, mark)
        elif self._raw is not None and not _is_utf8(self._raw[start - self._start : end - self._start]):
            self._garbled = True
            return end + 1
        else:
            self._sink.put(self._head(start, mark) + self._text[start : end + 1], 1)
        self._printed_to = end + 1
        self._touched = True
        return end + 1

    def _parts(self, start: int, end: int, mark: bytes) -> None:
        head = self._head(start, mark)
        for part in self._matcher.parts(self._text, start, end):
            self._sink.put(head + part + b"\n", 1)
            if self._sink.stopped:
                break

    def _head(self, start: int, mark: bytes) -> bytes:
        head = self._shown + mark if self.names else b""
        if not self._style.numbered:
            return head
        offset, newlines = self._counted
        newlines += self._text.count(b"\n", offset, start)
        self._counted = (start, newlines)
        return head + b"%d" % (newlines + 1) + mark


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
