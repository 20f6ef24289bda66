"""A note in memory, and the text it becomes: YAML front matter, then lines that cite the turns they come from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from horma_rl.memory.archive import Record
from horma_rl.memory.dates import Dated, resolve
from horma_rl.memory.text import display_name, one_line

MAX_LINES = 2_000
"""Lines of one note; longer ones go on in another file, so that front matter stays within the 64 KiB readers accept."""
MAX_CITED = 56 * 1024
"""Characters of the turn ids that the lines of one note cite, for the same reason."""
_PICTURE = re.compile(r"an? (?:\S+ )?(?:photo|photograph|picture|image|screenshot)\b", re.IGNORECASE)
_PLAIN_ID = re.compile(r"[A-Za-z_][\w.-]*:\d+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Utterance:
    """One archived turn, made ready for notes: its words on one line, defused, with the dates they name resolved."""

    record: Record
    speaker: str
    text: str
    shares: str
    """` (shares a photo of ...)`, or nothing."""
    dated: tuple[Dated, ...]

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def day(self) -> str:
        """The turn's own date, ISO."""
        return self.record.time.date().isoformat()

    def told(self, dated: Iterable[Dated] | None = None, text: str | None = None) -> str:
        """The words (or `text` in their place), what is shared with them, and the resolved dates (all, or `dated`)."""
        dates = "".join(f" {one}" for one in (self.dated if dated is None else dated))
        return f"{self.text if text is None else text}{self.shares}{dates}".strip()


def utterance(record: Record) -> Utterance:
    """Clean one record's words and resolve their dates against the record's own time."""
    text = one_line(record.text)
    dated = tuple(resolve(text, record.time))
    return Utterance(record, display_name(record.speaker), text, _shares(record.caption), dated)


def _shares(caption: str | None) -> str:
    shown = one_line(caption or "")
    if not shown:
        return ""
    return f" (shares {shown})" if _PICTURE.match(shown) else f" (shares a photo of {shown})"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a note and the turns it comes from (at least one)."""

    text: str
    sources: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.text} [{', '.join(self.sources)}]"


@dataclass(frozen=True, slots=True)
class Note:
    """`path` is relative to the workspace; `timestamp` is the time of the latest turn among its sources; `tag` names
    the manager that wrote it, so that a later build knows which notes are its own to replace."""

    path: str
    title: str
    timestamp: datetime
    lines: tuple[Line, ...]
    tag: str
    extra: tuple[tuple[str, str], ...] = ()
    """Further fields of the front matter, by name; their values are text."""

    def render(self) -> bytes:
        """The file's content. Sources are listed once each, in the order of the lines."""
        sources = dict.fromkeys(source for line in self.lines for source in line.sources)
        head = (
            "---",
            f"title: {yaml_text(self.title)}",
            f"timestamp: {self.timestamp.isoformat(timespec='seconds')}",
            f"tags: [{self.tag}]",
            f"sources: [{', '.join(map(_yaml_id, sources))}]",
            *(f"{name}: {yaml_text(text)}" for name, text in self.extra),
            "---",
        )
        return "".join(f"{line}\n" for line in (*head, *self.lines)).encode()

    def parts(self) -> list[Note]:
        """This note, or, when it is longer than MAX_LINES or MAX_CITED, several: `NAME.md`, `NAME_2.md`, ... with all
        its lines.

        Timestamps of the parts are this note's own.
        """
        chunks = self._chunks()
        if len(chunks) <= 1:
            return [self]
        stem = self.path.removesuffix(".md")
        return [
            replace(
                self,
                path=self.path if number == 1 else f"{stem}_{number}.md",
                title=f"{self.title} ({number} of {len(chunks)})",
                lines=chunk,
            )
            for number, chunk in enumerate(chunks, start=1)
        ]

    def _chunks(self) -> list[tuple[Line, ...]]:
        chunks: list[list[Line]] = []
        cited = 0
        for line in self.lines:
            size = sum(len(source) + 4 for source in line.sources)
            if not chunks or len(chunks[-1]) == MAX_LINES or cited + size > MAX_CITED:
                chunks.append([])
                cited = 0
            chunks[-1].append(line)
            cited += size
        return [tuple(chunk) for chunk in chunks]


def yaml_text(text: str) -> str:
    """A double-quoted scalar. An asterisk is escaped: beside an ampersand a reader may take it for a YAML alias."""
    return json.dumps(text, ensure_ascii=False).replace("*", "\\u002a")


def _yaml_id(turn_id: str) -> str:
    """Ids that YAML would read as a number or a time of day are quoted."""
    return turn_id if _PLAIN_ID.fullmatch(turn_id) else json.dumps(turn_id)


def note(path: str, title: str, tag: str, lines: Iterable[tuple[str, Utterance]]) -> Note:
    """A note whose lines each come from one turn."""
    told = list(lines)
    latest = max(one.record.time for _, one in told)
    return Note(path, title, latest, tuple(Line(text, (one.id,)) for text, one in told), tag)
