"""Print what grep selects in one file after another, as GNU grep does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memory_shell.index import Index
from memory_shell.matcher import Matcher
from memory_shell.output import Sink

Wanted = Callable[[Sequence[str]], bool]
"""Whether a file passes the filters; the argument is every form of its name that a glob may match."""


@dataclass(frozen=True, slots=True)
class Style:
    """The flags that say what is printed. `names`, `before`, `after` and `limit` are None when no flag sets them."""

    recursive: bool
    names: bool | None
    numbered: bool
    count: bool
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
    """Takes the selected lines of a file in order. `begin`, then `line` for each, then `end`; `without` for a file that
    has none."""

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
        self._printing = not (style.count or style.listing or style.quiet)
        self._plain = self._printing and not (self._separated or style.only or style.numbered)
        self._used = False
        self.names = False
        """Whether file names are printed."""
        self.found = False
        """Whether any line was selected in any file."""

    def begin(self, number: int, shown: bytes) -> None:
        """The next lines belong to file `number`, which is printed as `shown`."""
        self._shown = shown
        self._prefix = shown + b":" if self.names else b""
        self._start = self._index.starts[number]
        self._stop = self._index.starts[number + 1]
        self._selected = 0
        self._printed_to = self._start  # the end of the last line that was printed
        self._pending = 0  # lines of context still to come
        self._counted = (self._start, 0)  # an offset in the file, and the newlines before it
        self._binary = number in self._index.binary
        self._raw = self._read(number) if number in self._index.broken else None
        self._muted = self._binary  # nothing more of this file is printed
        self._garbled = False  # a line that would have been printed is not UTF-8

    def line(self, start: int, end: int) -> bool:
        """Take one selected line; False when nothing more of this file matters."""
        self._selected += 1
        self.found = True
        if self._plain and not self._muted and self._raw is None:
            self._sink.put(self._prefix + self._text[start : end + 1], 1)
            if self._sink.stopped:
                return False
        elif self._printing:
            if not self._muted:
                self._show(start, end)
            if self._muted or self._sink.stopped:
                return False
        elif not self._style.count:
            return False
        return self._selected != self._style.limit

    def end(self) -> None:
        """The file has no further lines."""
        style, sink = self._style, self._sink
        if self._pending and not self._muted:
            self._context(self._printed_to, self._stop, self._pending)
        if style.count:
            sink.put(self._prefix + b"%d\n" % self._selected, 1)
        elif style.listing == "l":
            sink.put(self._shown + b"\n", 1)
        if self._printing and (self._binary or self._garbled) and not style.silent:
            sink.put(b"grep: " + self._shown + b": binary file matches\n", 1)
        if self._printing or style.count or style.listing == "l":
            sink.end_file()

    def without(self, shown: bytes) -> None:
        """A file in which no line was selected."""
        if self._style.count:
            self._sink.put((shown + b":" if self.names else b"") + b"0\n", 1)
            self._sink.end_file()
        elif self._style.listing == "L":
            self._sink.put(shown + b"\n", 1)
            self._sink.end_file()

    @property
    def lists_the_rest(self) -> bool:
        """Whether a file without a selected line is printed too."""
        return self._style.count or self._style.listing == "L"

    def _show(self, start: int, end: int) -> None:
        """Print a selected line with the context that is due."""
        if self._pending:
            self._context(self._printed_to, start, self._pending)
        first = start
        for _ in range(self._before):
            if first <= self._printed_to:
                break
            first = self._text.rfind(b"\n", self._start, first - 1) + 1 or self._start
        if self._separated and self._used and not (first == self._printed_to and first > self._start) and not self._muted:
            self._sink.put(b"--\n", 1)
        if first < start:
            self._context(first, start, self._before)
        self._used = True
        if self._muted:
            return
        if self._style.only:
            self._parts(start, end)
        else:
            self._put(start, end, b":")
        self._pending = self._after
        self._printed_to = end + 1

    def _context(self, start: int, stop: int, count: int) -> None:
        """Print up to `count` lines of context from `start` on."""
        while count and start < stop and not self._muted:
            end = self._text.index(b"\n", start)
            if not self._style.only:
                self._put(start, end, b"-")
            start = end + 1
            count -= 1
        self._pending = count
        self._printed_to = start

    def _parts(self, start: int, end: int) -> None:
        if self._style.inverted:
            return
        head = self._head(start, b":")
        parts = self._matcher.parts(self._text, start, end)
        if parts:
            self._sink.put(b"".join(head + part + b"\n" for part in parts), len(parts))

    def _put(self, start: int, end: int, mark: bytes) -> None:
        line = self._text[start : end + 1]
        if self._raw is not None:
            raw = self._raw[start - self._start : end - self._start]
            if not _is_utf8(raw):
                self._muted = self._garbled = True
                return
        self._sink.put(self._head(start, mark) + line, 1)

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
