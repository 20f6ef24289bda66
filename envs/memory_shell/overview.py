"""What the first observation says about a memory, beyond the question.

- `none`: nothing.
- `tree`: the top-level folders with their numbers of files, the number of turns, the first and last day.
- `terms`: how many note lines hold each of the question's words, rarest first: the document frequencies a person would
  get from one `grep -c` per word. A policy that is given this is named so in reports, by `MemoryShell.overview`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, Literal
from weakref import WeakKeyDictionary

from memory_shell.terms import STOP_WORDS, stem, tokenise

if TYPE_CHECKING:
    from memory_shell.workspace import Workspace

Overview = Literal["none", "tree", "terms"]
MAX_TERMS = 8
_SESSIONS = "sessions/"
_WORD = re.compile(r"\w+")


def overview(workspace: Workspace, question: str, kind: Overview) -> str:
    """The overview of `workspace` for `question`: one line, empty for `none`. Unknown kinds raise ValueError."""
    if kind == "none":
        return ""
    if kind == "tree":
        return tree_line(workspace)
    if kind == "terms":
        return terms_line(workspace, question)
    raise ValueError(f"unknown overview '{kind}': use none, tree or terms")


def tree_line(workspace: Workspace) -> str:
    """`Memory: people/ 4 files, raw_logs/ 19 files; 419 turns, 2023-05-08 to 2023-10-22`."""
    counts: dict[str, int] = {}
    for path in workspace.files:
        top, slash, _ = path.partition("/")
        counts[top + slash] = counts.get(top + slash, 0) + 1
    if not counts:
        return "Memory: empty, it holds no files yet"
    parts = [f"{name} {_plural(count, 'file')}" if name.endswith("/") else name for name, count in counts.items()]
    days = sorted(turn.time[:10] for turn in workspace.turns.values() if turn.time)
    span = f", {days[0]} to {days[-1]}" if days else ""
    return f"Memory: {', '.join(parts)}; {_plural(len(workspace.turns), 'turn')}{span}"


def terms_line(workspace: Workspace, question: str) -> str:
    """`Terms: potter 3, bowl 9, melani 190`: at most `MAX_TERMS` stems, rarest first, ties in the question's order."""
    index = _index(workspace)
    stems = dict.fromkeys(stem(word) for word in tokenise(question) if word not in STOP_WORDS)
    found = [(index.count(term), term) for term in stems]
    found = sorted((pair for pair in found if pair[0]), key=lambda pair: pair[0])[:MAX_TERMS]
    if not found:
        return "Terms: none of the question's words occur"
    return "Terms: " + ", ".join(f"{term} {count}" for count, term in found)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class TermIndex:
    """Cited note lines by word, for counting the lines in which some word starts with a prefix."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._counts: dict[str, int] = {}
        self._by_word: dict[str, list[int]] = {}
        for number, line in enumerate(lines):
            for word in set(_WORD.findall(line)):
                self._by_word.setdefault(word, []).append(number)
        self._words = sorted(self._by_word)

    def count(self, prefix: str) -> int:
        """Lines with a word that starts with `prefix` (lower-case), as `grep -ic '\\bPREFIX'` counts them."""
        known = self._counts.get(prefix)
        if known is None:
            known = self._counts[prefix] = self._count(prefix)
        return known

    def _count(self, prefix: str) -> int:
        if _WORD.fullmatch(prefix) is None:  # an inner apostrophe: no single indexed word holds it
            pattern = re.compile(rf"\b{re.escape(prefix)}")
            return sum(pattern.search(line) is not None for line in self._lines)
        hits: set[int] = set()
        for place in range(bisect_left(self._words, prefix), len(self._words)):
            if not self._words[place].startswith(prefix):
                break
            hits.update(self._by_word[self._words[place]])
        return len(hits)


_INDEXES: WeakKeyDictionary[Workspace, TermIndex] = WeakKeyDictionary()


def _index(workspace: Workspace) -> TermIndex:
    index = _INDEXES.get(workspace)
    if index is None:
        index = _INDEXES[workspace] = TermIndex(_cited_lines(workspace))
    return index


def _cited_lines(workspace: Workspace) -> list[str]:
    """The lower-case text of every cited line of the session notes; of all notes when there are no session notes."""
    chosen = [path for path in workspace.notes if path.startswith(_SESSIONS)] or list(workspace.notes)
    lines: list[str] = []
    for path in chosen:
        text = workspace.files[path].data.decode("utf-8", "replace").lower().split("\n")
        lines += [text[number - 1] for number in workspace.notes[path].cited if number <= len(text)]
    return lines
