"""Ranking over structured notes: the lines that a manager wrote, not the raw turns.

It is the control of the HORMA article's section 8 (an ordinary retriever pointed at the structured notes) with BM25 in
place of embeddings, and shows what the notes contribute without a navigator.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from horma_rl.baselines.base import Retrieved
from horma_rl.baselines.bm25 import okapi, stems
from memory_shell.types import Task
from memory_shell.workspace import Workspace

TRANSCRIPT = "sessions/"
"""Notes below this folder repeat the conversation turn by turn, so they are no manager's doing."""
DATES = "dates/"
"""Notes below this folder repeat lines of other notes by their day."""


@dataclass(frozen=True, slots=True)
class NoteLine:
    """One cited line of a note: where it stands (`number` is 1-based), what it says, the turns it cites."""

    path: str
    number: int
    text: str
    sources: tuple[str, ...]


def note_lines(workspace: Workspace) -> Iterator[NoteLine]:
    """The cited lines of all notes outside `sessions/`, in the workspace's order."""
    for path, note in workspace.notes.items():
        if path.startswith(TRANSCRIPT):
            continue
        for number, sources in note.cited.items():
            text = workspace.files[path].lines(number, number).decode("utf-8", "replace").strip()
            yield NoteLine(path, number, text, sources)


def distinct_lines(workspace: Workspace) -> list[NoteLine]:
    """`note_lines`, each text with its citations once: where it is filed several times, not under `dates/` but at the
    first place among the others."""
    found: dict[tuple[str, tuple[str, ...]], NoteLine] = {}
    for line in sorted(note_lines(workspace), key=lambda line: line.path.startswith(DATES)):
        found.setdefault((line.text, line.sources), line)
    return list(found.values())


@dataclass
class _Index:
    lines: tuple[NoteLine, ...]
    scorer: Any


@dataclass(eq=False)
class NotesBm25:
    """The turns that the `k` best lines of the notes cite; none when no word of the question occurs in the notes."""

    k: int = 8
    _indexes: WeakKeyDictionary[Workspace, _Index] = field(default_factory=WeakKeyDictionary, repr=False)

    @property
    def name(self) -> str:
        """`notes-bm25-8`."""
        return f"notes-bm25-{self.k}"

    @property
    def given(self) -> str:
        """What it indexes and how."""
        return f"all cited lines of the notes, once each, sessions/ aside, with the note's title; top {self.k}; stems"

    def retrieve(self, task: Task, workspace: Workspace, rng: random.Random) -> Retrieved:
        """The citations of the best lines, best first."""
        index = self._index(workspace)
        if index.scorer is None:
            return Retrieved(())
        words = [word for word in stems(task.question) if word in index.scorer.idf]
        if not words:
            return Retrieved(())
        order = np.argsort(-np.asarray(index.scorer.get_scores(words)), kind="stable")[: self.k]
        return Retrieved(tuple(dict.fromkeys(ident for i in order for ident in index.lines[i].sources)))

    def _index(self, workspace: Workspace) -> _Index:
        known = self._indexes.get(workspace)
        if known is None:
            lines = tuple(distinct_lines(workspace))
            documents = [stems(f"{workspace.notes[line.path].title} {line.text}") for line in lines]
            known = self._indexes[workspace] = _Index(lines, okapi(documents) if any(documents) else None)
        return known
