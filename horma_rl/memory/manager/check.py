"""Whether a proposed operation may be carried out: the reason why not, in words that the model can act on, or None."""

from __future__ import annotations

from collections.abc import Sequence

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
from horma_rl.memory.manager.paths import PathError, folder_path
from horma_rl.memory.manager.statements import plain
from horma_rl.memory.manager.tree import Tree, absence_path, absence_words, statement, stems, turn_ids
from horma_rl.memory.text import one_line

MAX_NOTES = 20_000
MAX_NOTE_LINES = 400
MAX_FOLDERS = 64


def check(operation: Operation, tree: Tree) -> str | None:
    """What is wrong with `operation`, or None. `tree` is not changed."""
    try:
        match operation:
            case Create():
                return _creates(operation.path, operation.lines, tree)
            case Append():
                return _appends(operation, tree)
            case Supersede():
                return _current(operation.path, tree) or _creates(operation.new_path, operation.lines, tree)
            case Link():
                return _links(operation, tree)
            case Mkdir():
                return _makes(operation, tree)
            case Absence():
                return _absent(operation, tree)
    except PathError as fault:
        return str(fault)


def _creates(raw: str, lines: Sequence[NoteLine], tree: Tree) -> str | None:
    path = tree.path(raw)
    if path in tree.notes:
        return f"{path} exists: append to it, or supersede it under another name"
    if len(tree.notes) >= MAX_NOTES:
        return f"there are {MAX_NOTES:,} notes already: append to one of them"
    return _cited(lines, tree)


def _appends(operation: Append, tree: Tree) -> str | None:
    fault = _current(operation.path, tree) or _cited(operation.lines, tree)
    if fault:
        return fault
    note = tree.notes[tree.path(operation.path)]
    if len(note.statements) + len(operation.lines) > MAX_NOTE_LINES:
        return f"{note.path} is full ({MAX_NOTE_LINES} lines): create another note"
    known = {(one.line.text, one.line.sources) for one in note.statements}
    proposed = (statement(line, tree).line for line in operation.lines)
    if all((line.text, line.sources) in known for line in proposed):
        return f"{note.path} says that already"
    return None


def _current(raw: str, tree: Tree) -> str | None:
    """Why the note at `raw` cannot be changed."""
    path = tree.path(raw)
    note = tree.notes.get(path)
    if note is None:
        return f"there is no note {path}: create it"
    return f"{path} is superseded: use {note.superseded_by}" if note.superseded_by else None


def _cited(lines: Sequence[NoteLine], tree: Tree) -> str | None:
    """Why these lines cannot stand in a note: a turn that is not archived, no words, or words that have nothing to do
    with the turns they cite."""
    for number, line in enumerate(lines, start=1):
        for turn_id in turn_ids(line):
            if turn_id not in tree.turns:
                return f"line {number}: {turn_id[:40]!a} is no archived turn: cite ids as shown, like {_last(tree)}"
        words = set(stems(plain(line.text)))
        if not words:
            return f"line {number} says nothing"
        if not any(words & tree.words(turn_id) for turn_id in turn_ids(line)):
            return f"line {number} shares no word with the turns that it cites"
    return None


def _last(tree: Tree) -> str:
    return next(reversed(tree.turns), "D1:1")


def _links(operation: Link, tree: Tree) -> str | None:
    path, target = tree.path(operation.path), tree.target(operation.to)
    if path not in tree.notes:
        return f"there is no note {path}"
    if target not in tree.notes and target not in tree.sessions:
        return f"there is no note {target} to link to"
    if target == path:
        return "a note does not link to itself"
    return f"{path} links to {target} already" if target in tree.notes[path].links else None


def _makes(operation: Mkdir, tree: Tree) -> str | None:
    path = folder_path(operation.path)
    if path in tree.folders:
        return f"{path}/ exists"
    if "/" in path and path.partition("/")[0] not in tree.top_folders:
        return f"make {path.partition('/')[0]}/ first"
    return f"there are {MAX_FOLDERS} folders already" if len(tree.folders) >= MAX_FOLDERS else None


def _absent(operation: Absence, tree: Tree) -> str | None:
    words = absence_words(operation)
    if not words or not stems(one_line(operation.claim)):
        return "name the words that were looked for, like ['iPad']"
    if holder := tree.mention(words):
        return f"not absent: {holder} mentions it"
    return "that absence is noted already" if absence_path(operation) in tree.absences else None
