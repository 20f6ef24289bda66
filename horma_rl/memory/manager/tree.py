"""The notes of one workspace in memory, as the accepted operations have made them. Operations change it in `apply`
only, and only after `check.check` has let them through: the same operations always give the same tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from horma_rl.memory.archive import Record
from horma_rl.memory.calendar import Span
from horma_rl.memory.manager.operations import (
    Absence,
    Append,
    Create,
    Link,
    Mkdir,
    NoteLine,
    Operation,
    Supersede,
)
from horma_rl.memory.manager.paths import FOLDERS, folder_path, note_path
from horma_rl.memory.manager.statements import stated
from horma_rl.memory.notes import Line, Utterance, utterance
from horma_rl.memory.text import display_name, one_line, slug
from memory_shell.terms import STOP_WORDS, stem, tokenise


@dataclass(frozen=True, slots=True)
class Statement:
    """One line of a note, cited and dated; the days that it names, and whom it is about among the speakers."""

    line: Line
    spans: tuple[Span, ...]
    people: tuple[str, ...]


@dataclass(slots=True)
class Filed:
    """A note that the model wrote."""

    path: str
    title: str
    topics: tuple[str, ...] = ()
    statements: list[Statement] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    superseded_by: str | None = None

    def add(self, statements: Iterable[Statement]) -> None:
        """Add the statements that are not there yet."""
        known = {(one.line.text, one.line.sources) for one in self.statements}
        for one in statements:
            if (one.line.text, one.line.sources) not in known:
                known.add((one.line.text, one.line.sources))
                self.statements.append(one)


@dataclass(slots=True)
class Absent:
    """What was never said: the claim, the words looked for, and how far the search went."""

    path: str
    claim: str
    words: tuple[str, ...]
    sessions: int
    turns: int
    as_of: datetime
    contradicted_by: str | None = None


class Tree:
    """Everything filed so far, and the turns that it may cite: those seen so far.

    notes     path -> note, in the order of writing
    absences  path -> absence
    folders   top-level and other folders that notes may go to
    turns     id -> turn, in the order of the archive
    """

    def __init__(self) -> None:
        self.notes: dict[str, Filed] = {}
        self.absences: dict[str, Absent] = {}
        self.folders: set[str] = set(FOLDERS)
        self.turns: dict[str, Utterance] = {}
        self._words: dict[str, frozenset[str]] = {}

    def see(self, records: Iterable[Record]) -> None:
        """Take new turns in. An absence that one of them contradicts is marked; it stays."""
        for record in records:
            one = utterance(record)
            self.turns[one.id] = one
            self._words[one.id] = frozenset(stems(f"{one.speaker} {one.text} {one.shares}"))
            for absent in self.absences.values():
                if absent.contradicted_by is None and self._words[one.id].issuperset(absent.words):
                    absent.contradicted_by = one.id

    def words(self, turn_id: str) -> frozenset[str]:
        """The stems of a turn's words, its speaker's and its picture's among them."""
        return self._words[turn_id]

    def mention(self, words: Iterable[str]) -> str | None:
        """The first turn that holds all of these stems."""
        wanted = frozenset(words)
        return next((turn_id for turn_id, held in self._words.items() if wanted <= held), None)

    @property
    def sessions(self) -> Mapping[str, int]:
        """Paths of the session notes -> session number."""
        numbers = dict.fromkeys(one.record.session for one in self.turns.values())
        return {f"sessions/session_{number:02d}.md": number for number in numbers}

    @property
    def top_folders(self) -> frozenset[str]:
        """The folders at the top that notes may go to."""
        return frozenset(path.partition("/")[0] for path in self.folders)

    def path(self, raw: str) -> str:
        """The canonical path of a note. Raises PathError."""
        return note_path(raw, self.top_folders)

    def target(self, raw: str) -> str:
        """What a link may name: a note, or a session note. Raises PathError."""
        plain = raw.strip().removeprefix("/")
        return plain if plain in self.sessions else self.path(raw)

    def speakers(self) -> list[str]:
        """Everybody who spoke, in order."""
        return list(dict.fromkeys(one.speaker for one in self.turns.values()))


def stems(text: str) -> list[str]:
    """The stems of the words of `text`, function words left out."""
    return [stem(word) for word in tokenise(text) if word not in STOP_WORDS]


def absence_words(operation: Absence) -> tuple[str, ...]:
    """The stems to look for."""
    return tuple(dict.fromkeys(found for word in operation.words for found in stems(one_line(word))))


def absence_path(operation: Absence) -> str:
    """Where an absence is written: by the words that were looked for."""
    return f"absence/{slug(' '.join(operation.words))}.md"


def turn_ids(line: NoteLine) -> tuple[str, ...]:
    """The ids that a line names, once each, without the brackets and blanks that models put around them."""
    return tuple(dict.fromkeys(turn.strip(" []()") for turn in line.turns))


def statement(line: NoteLine, tree: Tree) -> Statement:
    """A proposed line as it is written: on one line, defused, with the day it was said and the days it names."""
    turns = [tree.turns[turn_id] for turn_id in turn_ids(line)]
    text, spans = stated(line.text, turns)
    told = set(tokenise(text))
    named = tuple(name for name in tree.speakers() if (parts := tokenise(name)) and set(parts) <= told)
    people = named or tuple(dict.fromkeys(one.speaker for one in turns))
    return Statement(Line(text, tuple(one.id for one in turns)), spans, people)


def apply(operation: Operation, tree: Tree) -> None:
    """Carry out an operation that has been checked."""
    match operation:
        case Create():
            _write(tree, tree.path(operation.path), operation.title, operation.topics, operation.lines)
        case Append():
            tree.notes[tree.path(operation.path)].add(statement(line, tree) for line in operation.lines)
        case Supersede():
            old, new = tree.notes[tree.path(operation.path)], tree.path(operation.new_path)
            _write(tree, new, operation.title or old.title, operation.topics or old.topics, operation.lines)
            old.superseded_by = new
        case Link():
            tree.notes[tree.path(operation.path)].links.append(tree.target(operation.to))
        case Mkdir():
            tree.folders.add(folder_path(operation.path))
        case Absence():
            _note_absence(operation, tree)


def _write(tree: Tree, path: str, title: str, topics: Sequence[str], lines: Iterable[NoteLine]) -> None:
    name = path.rpartition("/")[2].removesuffix(".md").replace("-", " ")
    shown = display_name(title) if title.strip() else name
    note = Filed(path, name if shown == "Unknown" else shown, tuple(map(display_name, topics)))
    note.add(statement(line, tree) for line in lines)
    tree.notes[path] = note


def _note_absence(operation: Absence, tree: Tree) -> None:
    path = absence_path(operation)
    tree.absences[path] = Absent(
        path=path,
        claim=one_line(operation.claim),
        words=absence_words(operation),
        sessions=len(tree.sessions),
        turns=len(tree.turns),
        as_of=max(one.record.time for one in tree.turns.values()),
    )
