"""The files that a tree becomes: the model's notes, the session notes, and the same lines filed again by person, by
date and by topic, so that a question finds them whichever way it is put.

dates/     each line by the month that it names, or else by the month in which it was said
people/    each line by the speakers that it names, or else by who said it
topics/    the lines of a note by the topics that the model gave it
absence/   what was never said, with the scope that was searched; these notes cite no turn, so none can be selected
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime

from horma_rl.memory.calendar import Span
from horma_rl.memory.manager.tree import Absent, Filed, Statement, Tree
from horma_rl.memory.notes import Note, Utterance, yaml_text
from horma_rl.memory.outline import period, session_notes
from horma_rl.memory.text import FileNames, slug

TAG = "llm"


def render(tree: Tree, turns: Sequence[Utterance]) -> dict[str, bytes]:
    """Path -> content of every note, sorted by path; session notes for all `turns`, whether filed yet or not. The same
    tree and turns always give the same bytes."""
    notes = [*session_notes(turns), *_dates(tree), *_filed(tree)]
    files = {part.path: part.render() for note in notes for part in note.parts()}
    files |= {absent.path: _absence(absent) for absent in tree.absences.values()}
    return dict(sorted(files.items()))


def _current(tree: Tree) -> Iterator[tuple[Filed, Statement]]:
    """The lines that are filed again: those of notes that nothing superseded."""
    for note in tree.notes.values():
        if note.superseded_by is None:
            for one in note.statements:
                yield note, one


def _filed(tree: Tree) -> Iterator[Note]:
    """The model's notes, and those by person and topic. Where both have one path, the model's lines come first."""
    titles, gathered = _gathered(tree)
    for path, note in tree.notes.items():
        lines = _once([*note.statements, *gathered.pop(path, [])])
        extra = [("links", " ".join(note.links))] if note.links else []
        if note.superseded_by:
            extra += [("status", "superseded"), ("superseded_by", note.superseded_by)]
        yield _note(tree, path, note.title, lines, tuple(extra))
    for path, statements in gathered.items():
        yield _note(tree, path, titles[path], _once(statements))


def _gathered(tree: Tree) -> tuple[dict[str, str], dict[str, list[Statement]]]:
    names = FileNames()
    paths = {speaker: f"people/{names.of(speaker)}.md" for speaker in tree.speakers()}
    titles = {path: speaker for speaker, path in paths.items()}
    gathered: dict[str, list[Statement]] = defaultdict(list)
    for note, one in _current(tree):
        for person in one.people:
            gathered[paths[person]].append(one)
        for topic in note.topics:
            path = f"topics/{slug(topic)}.md"
            titles.setdefault(path, topic)
            gathered[path].append(one)
    return titles, gathered


def _dates(tree: Tree) -> Iterator[Note]:
    entries: dict[str, list[tuple[date, Statement]]] = defaultdict(list)
    for _, one in _current(tree):
        for span in one.spans or (_said(one, tree),):
            entries[period(span)].append((span.start, one))
    for name, dated in entries.items():
        dated.sort(key=lambda entry: entry[0])
        yield _note(tree, f"dates/{name}.md", f"Dated {name}", _once(one for _, one in dated))


def _said(one: Statement, tree: Tree) -> Span:
    day = tree.turns[one.line.sources[0]].record.time.date()
    return Span(day, day, "day")


def _once(statements: Iterable[Statement]) -> list[Statement]:
    return list({(one.line.text, one.line.sources): one for one in statements}.values())


def _note(
    tree: Tree, path: str, title: str, statements: Iterable[Statement], extra: tuple[tuple[str, str], ...] = ()
) -> Note:
    lines = tuple(one.line for one in statements)
    latest: datetime = max(tree.turns[source].record.time for line in lines for source in line.sources)
    return Note(path, title, latest, lines, TAG, extra)


def _absence(absent: Absent) -> bytes:
    """Turn ids stand outside brackets and outside `sources` here, so the shell reads no citation."""
    scope = f"sessions: {absent.sessions}, turns: {absent.turns}, all of them; searched for: {' '.join(absent.words)}"
    fields = [
        ("title", yaml_text(f"Never mentioned: {absent.claim[:80]}")),
        ("timestamp", absent.as_of.isoformat(timespec="seconds")),
        ("tags", f"[{TAG}]"),
        ("claim", yaml_text(absent.claim)),
        ("scope", yaml_text(scope)),
        ("as_of", absent.as_of.isoformat(timespec="seconds")),
    ]
    body = f"Not mentioned up to {absent.as_of.date().isoformat()}: {absent.claim}"
    if absent.contradicted_by:
        fields += [("status", "contradicted"), ("contradicted_by", yaml_text(absent.contradicted_by))]
        body = f"No longer holds since turn {absent.contradicted_by}. {body}"
    head = "".join(f"{name}: {value}\n" for name, value in fields)
    return f"---\n{head}---\n{body}\n".encode()
