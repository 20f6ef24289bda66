"""`cat [-n] PATH[:M[-N]]...`: print files, or lines of them."""

from __future__ import annotations

from memory_shell.commands import Word
from memory_shell.options import Flags, parse_options
from memory_shell.output import Output, Sink
from memory_shell.paths import reason, resolve
from memory_shell.quoting import quoted_before_colon
from memory_shell.verbs.expand import expand_words
from memory_shell.verbs.ranges import split_range
from memory_shell.workspace import File, Workspace

_FLAGS = Flags("cat", "nu", "", {"number": "n"}, "cat takes -n and PATH[:M[-N]]")


def cat(workspace: Workspace, cwd: str, words: list[Word], budget: int | None) -> Output:
    """Print the files one after another, as GNU cat does; with `-n`, numbered on across files.

    A line range prints those lines of the file, with `-n` numbered as in the file.
    """
    flags, operands = parse_options(_FLAGS, words)
    operands = expand_words(workspace, cwd, operands)
    if not operands:
        return Output("cat: name a file: cat [-n] PATH[:M[-N]]...\n", status=1)
    numbered = any(flag == "n" for flag, _ in flags)
    sink = Sink(budget)
    opened: dict[str, None] = {}
    printer = _Printer(sink, numbered)
    status = 0
    for word in operands:
        if sink.stopped:
            break
        target = split_range(workspace, cwd, word.text)
        entry = resolve(workspace, cwd, target.name)
        if entry.kind != "file":
            status = 1
            printer.message(f"cat: {quoted_before_colon(word.text)}: {reason(workspace, entry)}\n")
            continue
        file = workspace.files[entry.path]
        if target.first is not None and target.first > len(file.ends):
            status = 1
            printer.message(f"cat: {word.text}: the file has {len(file.ends)} lines\n")
            continue
        opened[entry.path] = None
        printer.file(file, target.first, target.last)
    return Output(
        sink.text,
        status,
        opened=tuple(opened),
        visited=tuple(dict.fromkeys(path.rpartition("/")[0] for path in opened)),
        narrow="use cat PATH:M-N",
        file_ends=sink.file_ends if len(operands) > 1 else (),
        more=sink.more,
    )


class _Printer:
    """Prints file after file; remembers the line number and whether the last line is still open."""

    def __init__(self, sink: Sink, numbered: bool) -> None:
        self._sink = sink
        self._numbered = numbered
        self._number = 1
        self._open = False

    def message(self, text: str) -> None:
        self._sink.put(text.encode("utf-8", "surrogateescape"), 1)

    def file(self, file: File, first: int | None, last: int | None) -> None:
        if first is None:
            data, count = file.data, len(file.ends)
        else:
            last = first if last is None else min(last, len(file.ends))
            data, count = file.lines(first, last), last - first + 1
            if self._open:
                self._sink.put(b"\n", 0)
                self._open = False
        if self._sink.full:
            self._sink.skip(count)
        elif self._numbered:
            self._sink.put(self._number_lines(data, first), count)
        else:
            self._sink.put(data, count)
            self._open = not data.endswith(b"\n") if data else self._open
        self._sink.end_file()

    def _number_lines(self, data: bytes, first: int | None) -> bytes:
        number = self._number if first is None else first
        parts: list[bytes] = []
        for line in _lines(data):
            if self._open:  # the rest of a line that the file before left open
                parts.append(line)
            else:
                parts.append(b"%6d\t" % number + line)
                number += 1
            self._open = not line.endswith(b"\n")
        if first is None:
            self._number = number
        return b"".join(parts)


def _lines(data: bytes) -> list[bytes]:
    """`data` cut after each newline; unlike bytes.splitlines, a carriage return ends no line."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines
