"""What a command gives back, and the sink that collects it without keeping more than anybody can read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

BUDGET = 32 * 1024
"""Bytes of output that a command keeps by default. Far more than a cap lets through; GNU's tests ask for all."""
_COUNTED = 1_000
"""Lines that are still counted for the marker once the budget is spent; after that the command stops."""


class Target(NamedTuple):
    """What one word of `select` stands for: lines `first` to `last` of `path`, or the whole file when both are None."""

    path: str
    first: int | None
    last: int | None


class More(NamedTuple):
    """Output that was not kept: `lines` in `files` files, or at least that many when `open_ended`."""

    lines: int = 0
    files: int = 0
    open_ended: bool = False


NOTHING_MORE = More()


@dataclass(slots=True)
class Output:
    """One command's result.

    text      what a terminal would show, error messages included, before caps and neutralising; bytes that are not
              UTF-8 are decoded with surrogateescape
    status    the exit status, as GNU's: 0, 1 (grep found nothing, a name was not there), 2 (a usage error)
    searched, matched, opened, skipped   files, as in Coverage; visited: directories listed, searched or entered
    cwd       the new directory, after `cd`
    targets   what `select` selects; evidence: for each target, the text that was typed and the turn ids it stands for
    done      the command was `done`
    hint      a line for the reader about the result as a whole, such as how many files held no match
    narrow    how to get less, for the marker of the caps
    file_ends the number of lines printed up to the end of each file, when files are printed one after another
    more      output that was produced but not kept
    """

    text: str
    status: int = 0
    searched: tuple[str, ...] = ()
    matched: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    visited: tuple[str, ...] = ()
    cwd: str | None = None
    targets: tuple[Target, ...] = ()
    evidence: tuple[tuple[str, tuple[str, ...]], ...] = ()
    done: bool = False
    hint: str = ""
    narrow: str = "narrow the command"
    file_ends: tuple[int, ...] = ()
    more: More = NOTHING_MORE


class Sink:
    """Collects output bytes up to a budget, then counts a little further, then asks the command to stop."""

    __slots__ = (
        "_budget",
        "_counted",
        "_ends",
        "_files",
        "_lines",
        "_open_ended",
        "_parts",
        "_size",
        "full",
        "stopped",
    )

    def __init__(self, budget: int | None) -> None:
        self._budget = budget
        self._parts: list[bytes] = []
        self._size = 0
        self._lines = 0
        self._ends: list[int] = []
        self._counted = 0
        self._files = 0
        self._open_ended = False
        self.full = False
        """The budget is spent: only counts matter now."""
        self.stopped = False
        """Enough was counted as well: the command should end."""

    def put(self, data: bytes, lines: int) -> None:
        """Add `data`, which is `lines` lines."""
        if self.full:
            self.skip(lines)
            return
        self._parts.append(data)
        self._lines += lines
        self._size += len(data)
        self.full = self._budget is not None and self._size >= self._budget

    def skip(self, lines: int) -> None:
        """Count `lines` lines that are not kept."""
        self._counted += lines
        if self._counted >= _COUNTED:
            self.stopped = self._open_ended = True

    def end_file(self) -> None:
        """The lines since the last call belong to one file."""
        if self._counted:
            self._files += 1
        else:
            self._ends.append(self._lines)

    @property
    def text(self) -> str:
        """Everything kept, decoded."""
        return b"".join(self._parts).decode("utf-8", "surrogateescape")

    @property
    def file_ends(self) -> tuple[int, ...]:
        """See Output.file_ends."""
        return tuple(self._ends)

    @property
    def more(self) -> More:
        """What was counted only."""
        return More(self._counted, self._files, self._open_ended)
