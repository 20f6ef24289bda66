"""Walk the files a grep names, and hand the selected lines to the printer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from memory_shell.matcher import Cursor, Line, Matcher, union
from memory_shell.output import Output, Sink
from memory_shell.paths import name_bytes, reason, resolve
from memory_shell.verbs.grep_print import Printer, Style
from memory_shell.workspace import Workspace

_BATCH = 64
_IGNORED = 8  # lines of a file that matter no more: after so many of them the search starts again behind the file


class Query(NamedTuple):
    """What selects a line: `matcher` matches it, or all of one of the `groups` do, if there are any. `inverted` selects
    the other lines. `shown` is what `-o` prints. `every`: lines that count as matches although they print nothing."""

    matcher: Matcher
    groups: tuple[tuple[Matcher, ...], ...]
    shown: Matcher
    every: Matcher | None
    inverted: bool


class _Shown(NamedTuple):
    """How a run of files is printed: the first `cut` bytes of each path replaced by `prefix`."""

    prefix: bytes
    cut: int


class Scan:
    """One run of grep."""

    def __init__(self, workspace: Workspace, cwd: str, query: Query, style: Style, sink: Sink) -> None:
        self._workspace = workspace
        self._index = workspace.index
        self._cwd = cwd
        self._query = query
        self._style = style
        self._sink = sink
        self._printer = Printer(self._index, style, query.shown, sink, self._read)
        self._searched: list[str] = []
        self._matched: list[str] = []
        self._skipped: list[str] = []
        self._visited: dict[str, None] = {}
        self._failed = False
        self._folder_refused = False

    def run(self, names: list[str]) -> Output:
        """Search what `names` name; the current directory when there are none."""
        style = self._style
        several = len(names) > 1
        for name in names or [""]:
            if self._sink.stopped or (style.quiet and self._printer.found):
                break
            entry = resolve(self._workspace, self._cwd, name or ".")
            if entry.kind == "file":
                self._printer.names = several if style.names is None else style.names
                self._file(name, entry.path)
            elif entry.kind == "dir" and style.recursive:
                self._printer.names = True if style.names is None else style.names
                self._folder(name, entry.path)
            else:
                self._failed = True
                self._printer.unreadable(name, reason(self._workspace, entry))
                if entry.kind == "dir":
                    self._folder_refused = True
                    self._printer.names = several if style.names is None else style.names
                    self._printer.without(name_bytes(name))
        return self._output()

    def _output(self) -> Output:
        found = self._printer.found
        status = 2 if self._failed and not (self._style.quiet and found) else 0 if found else 1
        sink = self._sink
        narrow = "narrow the path or the pattern" if self._style.listing else "use -l, -m or a narrower path"
        return Output(
            sink.text,
            status,
            searched=tuple(self._searched),
            matched=tuple(self._matched),
            skipped=tuple(self._skipped),
            visited=tuple(self._visited),
            hint=self._hint(),
            narrow=narrow,
            file_ends=sink.file_ends,
            more=sink.more,
        )

    def _hint(self) -> str:
        """What an empty result means: how much was searched."""
        style = self._style
        if style.quiet:
            return "match" if self._printer.found else "no match"
        if self._folder_refused and not self._printer.found:
            return "use -r to search a directory, or no path to search all below the current one"
        if self._printer.found or self._failed:
            return ""
        count = len(self._searched)
        return (
            f"no match in {count} {'file' if count == 1 else 'files'} searched: try -i, a shorter word, or another path"
        )

    def _read(self, number: int) -> bytes:
        return self._workspace.files[self._index.paths[number]].data

    def _file(self, name: str, path: str) -> None:
        if self._style.wanted is not None and not self._style.wanted(_endings(name)):
            return
        number = self._index.numbers[path]
        self._visited[path.rpartition("/")[0]] = None
        self._files(number, number + 1, _Shown(name_bytes(name), len(self._index.names[number])))

    def _folder(self, name: str, path: str) -> None:
        span = self._index.spans[path]
        self._visited.update(dict.fromkeys(self._index.dirs[span.first_dir : span.last_dir]))
        shown = name.rstrip("/") + "/" if name else ""
        view = _Shown(name_bytes(shown), len(name_bytes(path)) + 1 if path else 0)
        wanted = self._style.wanted
        if wanted is None:
            self._files(span.first, span.last, view)
            return
        paths = self._index.paths
        first = span.first
        for number in range(span.first, span.last + 1):
            if number < span.last and wanted((paths[number].rpartition("/")[2],)):
                continue
            if first < number:
                self._files(first, number, view)
            first = number + 1
            if self._sink.stopped:
                break

    def _files(self, first: int, last: int, shown: _Shown) -> None:
        """Search files `first` up to `last`, which stand side by side in the index."""
        style, paths = self._style, self._index.paths
        starts, every = self._index.starts, self._query.every
        reached = (self._list if style.listing or style.quiet else self._print)(first, last, shown)
        if every is not None and not self._printer.found:
            self._printer.found = next(every.lines(self._index, starts[first], starts[reached]), None) is not None
        self._searched += paths[first:reached]
        if self._index.binary and not style.listing:
            self._skipped += [paths[number] for number in self._index.binary if first <= number < reached]

    def _list(self, first: int, last: int, shown: _Shown) -> int:
        """For `-l`, `-L` and `-q`: only whether a file has a selected line. Gives back how far it came."""
        sink, listing = self._sink, self._style.listing
        following = first
        for number in self._with_lines(first, last):
            self._printer.found = True
            self._matched.append(self._index.paths[number])
            if listing == "l":
                sink.put(self._name(number, shown) + b"\n", 1)
                sink.end_file()
            elif listing == "L":
                self._without(following, number, shown)
            following = number + 1
            if sink.stopped or not listing:
                return following
        if listing == "L":
            self._without(following, last, shown)
        return last

    def _with_lines(self, first: int, last: int) -> Iterator[int]:
        """The numbers of the files that have a selected line."""
        starts, file_at = self._index.starts, self._index.file_at
        position, stop = starts[first], starts[last]
        while position < stop:
            further = 0
            for start, _ in self._selected(position, stop):
                if start >= position:
                    number = file_at(start)
                    position = starts[number + 1]
                    further = 0
                    yield number
                elif (further := further + 1) > _IGNORED:
                    break
            else:
                return

    def _print(self, first: int, last: int, shown: _Shown) -> int:
        """Hand the selected lines to the printer. Gives back how far it came."""
        index, printer, sink, counting = self._index, self._printer, self._sink, self._style.counting
        starts = index.starts
        position, stop = starts[first], starts[last]
        following = first  # the first file not dealt with
        batch: list[Line] = []
        while position < stop:
            lines = self._selected(position, stop)
            position = stop
            open_until = -1  # the end of the file whose lines are being taken
            for line in lines:
                if line[0] >= open_until:
                    if open_until >= 0:
                        printer.end(batch)
                        batch.clear()
                        open_until = -1
                        if sink.stopped:
                            break
                    number = index.file_at(line[0])
                    if counting:
                        self._without(following, number, shown)
                    following = number + 1
                    open_until = starts[following]
                    self._matched.append(index.paths[number])
                    batching = printer.begin(number, self._name(number, shown))
                if batching and len(batch) < _BATCH:
                    batch.append(line)
                    continue
                if batching:
                    printer.lines(batch)
                    batch = [line]
                    goes_on = not sink.stopped
                else:
                    goes_on = printer.line(*line)
                if not goes_on:
                    if printer.only_counts:
                        printer.add(self._count(line[1] + 1, open_until))
                    position = open_until
                    break
            if open_until >= 0:
                printer.end(batch)
                batch.clear()
            if sink.stopped:
                return following
        if counting:
            self._without(following, last, shown)
        return last

    def _name(self, number: int, shown: _Shown) -> bytes:
        return shown.prefix + self._index.names[number][shown.cut :]

    def _without(self, first: int, last: int, shown: _Shown) -> None:
        for number in range(first, last):
            if self._sink.stopped:
                break
            self._printer.without(self._name(number, shown))

    def _selected(self, start: int, end: int) -> Iterator[Line]:
        matcher, groups, _, _, inverted = self._query
        if groups:
            lines = self._joined(start, end)
            return self._others(((begin, after + 1) for begin, after in lines), start, end) if inverted else lines
        if inverted:
            return self._others(matcher.runs(self._index, start, end), start, end)
        return matcher.lines(self._index, start, end)

    def _count(self, start: int, end: int) -> int:
        """How many lines of `text[start:end]` are selected."""
        if self._query.groups:
            matched = sum(1 for _ in self._joined(start, end))
        else:
            matched = self._query.matcher.count(self._index, start, end)
        return self._index.text.count(b"\n", start, end) - matched if self._query.inverted else matched

    def _joined(self, start: int, end: int) -> Iterator[Line]:
        """Lines that match every pattern of one of the groups."""
        return union([self._all_of(group, start, end) for group in self._query.groups])

    def _all_of(self, group: tuple[Matcher, ...], start: int, end: int) -> Iterator[Line]:
        """Lines that match every pattern of `group`: each leaps to where the others have come."""
        cursors = [Cursor(matcher, self._index, start, end) for matcher in group]
        line: Line | None = None
        while True:
            for cursor in cursors:
                line = cursor.at(start)
                if line is None:
                    return
                start = line[0]
            found = [cursor.at(start) for cursor in cursors]
            if line is not None and found.count(line) == len(found):
                yield line
                start = line[1] + 1

    def _others(self, runs: Iterator[Line], start: int, end: int) -> Iterator[Line]:
        """The lines of `text[start:end]` that lie in none of `runs` (start, end with newline)."""
        find = self._index.text.find
        for begin, after in runs:
            while start < begin:
                stop = find(b"\n", start)
                yield start, stop
                start = stop + 1
            start = after
        while start < end:
            stop = find(b"\n", start)
            yield start, stop
            start = stop + 1


def _endings(name: str) -> list[str]:
    """`name` and what stands after each slash in it: a glob may match any of these for a file named on the line."""
    return [name] + [name[place + 1 :] for place, char in enumerate(name) if char == "/"]
