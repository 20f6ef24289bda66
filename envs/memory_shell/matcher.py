"""Compiled searches over an Index: which lines match, and which parts of a line."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from functools import cached_property, lru_cache
from itertools import groupby
from typing import NamedTuple

from memory_shell.emit import Dialect, Emitter
from memory_shell.engine import UNANCHORED, Engine
from memory_shell.index import Index
from memory_shell.marks import mark, unmark, word_after, word_before
from memory_shell.patterns import Alt, Assert, Cat, Node, Syntax, Text, parse_pattern
from memory_shell.shape import (
    Edged,
    WordText,
    branches,
    core,
    counted,
    edged,
    is_one_sided,
    is_solid,
    looks_at_words,
    may_be_empty,
    non_empty,
    required_texts,
    word_text,
)
from memory_shell.vocabulary import Fixed, Vocabulary

Line = tuple[int, int]
_MAX_MARKED = 32 * 1024
"""Longer lines are not marked: there word boundaries are those of ASCII."""
_MAX_MISSES = 200
"""Finds without the word boundaries they need, before another way is taken."""
_MAX_DOUBT = 2 * 1024
_MAX_DOUBTS = 40
"""A line longer than the first, or any line after as many as the second, is worth the large `_outright` engine."""
_FEW = 12
"""Counted copies that cannot make many states."""
_LEAP = 8
_LIGHT = 200
"""Patterns shorter than this, in characters, cannot fail to compile if they count no repetitions."""


class Spec(NamedTuple):
    """What to look for: patterns, of which a line must match one, and the flags that change their meaning."""

    patterns: tuple[str, ...]
    syntax: Syntax = "G"
    ignore_case: bool = False
    whole: str = ""
    """"x": the pattern must match the whole line; "w": words."""
    parts: bool = False
    """Only lines of which some part matches that is not empty."""


@lru_cache(maxsize=512)
def compile_spec(spec: Spec, exotic: bool) -> Matcher:
    """The matcher for `spec`; `exotic` as in Index. Raises PatternError."""
    return Matcher(spec, exotic)


class Matcher:
    """One compiled Spec. Raises PatternError."""

    def __init__(self, spec: Spec, exotic: bool) -> None:
        trees = [parse_pattern(pattern, spec.syntax) for pattern in spec.patterns]
        tree: Node = trees[0] if len(trees) == 1 else Alt(tuple(trees))
        if spec.whole == "x":
            tree = Cat((Assert("^"), tree, Assert("$")))
        self._shown = non_empty(tree) if may_be_empty(tree) else tree
        if spec.parts:
            tree = self._shown
        self._tree = tree
        self._core = tree if spec.whole else core(tree)
        self._ignore_case = spec.ignore_case
        self._exotic = exotic
        self._words = spec.whole == "w"
        # Whether the pattern looks at word boundaries, so that `native` may be wrong on a line that is not ASCII,
        # and whether `native` is at least right on every line that is.
        self._bounded = self._words or (any("\\" in part for part in spec.patterns) and looks_at_words(tree))
        self._exact = not (self._bounded and is_one_sided(tree))
        # Fixed text is found so fast that alternatives are better searched one by one, and boundaries checked after.
        self._parts = branches(self._core) if self._bounded or isinstance(self._core, Alt) else (self._core,)
        words = [word_text(part, whole=self._words) for part in self._parts]
        self._fixed = tuple(word for word in words if word is not None) if None not in words else ()
        self._edged = edged(self._core, whole=self._words) if self._bounded else None
        self._doubts = 0  # lines that `marked` had to look at
        self._folds = spec.ignore_case and exotic
        self._required = () if self._fixed or self._folds else required_texts(self._core)
        self._counted = counted(tree)
        light = self._fixed or (self._required and not self._counted and sum(map(len, spec.patterns)) < _LIGHT)
        if not light:
            self._native.find(b"", 0, 0)  # compiles now, so that a fault shows now

    def _fixed_text(self, word: WordText) -> Fixed | None:
        """`word` for a search of the vocabulary, which knows no case but that of ASCII."""
        if self._folds or (self._ignore_case and not word.text.isascii()):
            return None
        text = word.text.lower() if self._ignore_case else word.text
        return Fixed(text.encode("utf-8"), word.before, word.after, self._ignore_case)

    @cached_property
    def _quick(self) -> tuple[Engine, ...]:
        """One engine for each of `_parts`, boundaries left out, where that is faster than one for all."""
        if len(self._parts) < 2 and not self._bounded:
            return ()
        emitter = self._emitter("loose")
        return tuple(Engine(emitter.source(part)) for part in self._parts)

    def _emitter(self, dialect: Dialect) -> Emitter:
        return Emitter(dialect, ignore_case=self._ignore_case, exotic=self._exotic)

    def _source(self, dialect: Dialect, tree: Node) -> str:
        emitter = self._emitter(dialect)
        if self._words:
            return emitter.whole_words(tree, solid=is_solid(tree, 0) and is_solid(tree, -1))
        return emitter.source(tree)

    @cached_property
    def _native(self) -> Engine:
        return Engine(self._source("native", self._core))

    @cached_property
    def _loose(self) -> Engine:
        return Engine(self._source("loose", self._core))

    @cached_property
    def _relaxed(self) -> Engine:
        """Repetitions not counted: finds every line that matches, and others, with few states."""
        emitter = Emitter("loose", ignore_case=self._ignore_case, exotic=self._exotic, counted=False)
        return Engine(emitter.source(self._core))

    @cached_property
    def _outright(self) -> Engine | None:
        """Finds the lines that match by one search of any text; boundaries stand at the ends only. It is large."""
        return Engine(self._emitter("native").within_edges(self._edged)) if self._edged else None

    @cached_property
    def _marked(self) -> Engine:
        return Engine(self._source("marked", self._tree))

    @cached_property
    def _marked_parts(self) -> Engine:
        return Engine(self._source("marked", self._shown), longest=True)

    @cached_property
    def _native_parts(self) -> Engine:
        return Engine(self._source("native", self._shown), longest=True)

    @cached_property
    def _runs(self) -> Engine:
        return Engine(f"(?m:^)(?:[^\\n]*(?:{self._source('native', self._core)})[^\\n]*\\n)+", longest=True)

    def lines(self, index: Index, start: int, end: int) -> Iterator[Line]:
        """The lines of `index.text[start:end]` that match, in order: (start, end without newline)."""
        if index.vocabulary is not None and (found := self._by_words(index, index.vocabulary, start, end)) is not None:
            return found
        text = index.text
        if self._fixed and self._bounded:
            return union(
                [self._word_lines(*pair, text, start, end) for pair in zip(self._quick, self._fixed, strict=True)]
            )
        if self._counted > _FEW:
            return self._checked(index, _scan(self._relaxed, text, start, end), end)
        if self._quick:
            found = union([_scan(engine, text, start, end) for engine in self._quick])
            return self._checked(index, found, end) if self._bounded else found
        return self._all_lines(index, start, end)

    def _word_lines(self, engine: Engine, word: WordText, text: bytes, start: int, end: int) -> Iterator[Line]:
        """The lines with what `engine` finds where the word boundaries of `word` stand around it."""
        misses = 0
        while start < end:
            first, last = engine.match(UNANCHORED, text, start, end)[0]
            if first < 0:
                return
            if (word.before and word_before(text, first)) or (word.after and word_after(text, last)):
                start = first + 1
                if (misses := misses + 1) < _MAX_MISSES:
                    continue
                start = text.rfind(b"\n", 0, first) + 1
                outright = self._emitter("native").within_edges(Edged(Text(word.text), word.before, word.after))
                yield from _scan(Engine(outright), text, start, end)
                return
            stop = text.find(b"\n", last)
            yield text.rfind(b"\n", 0, first) + 1, stop
            start = stop + 1

    def _all_lines(self, index: Index, start: int, end: int) -> Iterator[Line]:
        """The lines that match, by searching all of the text."""
        if self._is_exact(index, start, end):
            return _scan(self._native, index.text, start, end)
        if self._outright is not None:
            return _scan(self._outright, index.text, start, end)
        return heapq.merge(self._ascii_lines(index.text, start, end), self._wide_lines(index, start, end))

    def _by_words(self, index: Index, vocabulary: Vocabulary, start: int, end: int) -> Iterator[Line] | None:
        """The lines that match, found by the words they must hold; None when that cannot be said."""
        if self._fixed:
            wanted = [self._fixed_text(word) for word in self._fixed]
            known = [fixed for fixed in wanted if fixed is not None]
            return vocabulary.lines_with_any(known, start, end) if len(known) == len(wanted) else None
        texts = [text.encode("utf-8") for text in self._required if text.isascii() or not self._ignore_case]
        lines = vocabulary.lines_with_all(texts, start, end) if texts else None
        return None if lines is None else (line for line in lines if self.test(index.text, *line))

    def _is_exact(self, index: Index, start: int, end: int) -> bool:
        return not self._bounded or (self._exact and index.is_ascii(start, end))

    def _checked(self, index: Index, candidates: Iterator[Line], end: int) -> Iterator[Line]:
        """The lines among `candidates` that match; other ways are taken when too many do not."""
        misses = 0
        for line in candidates:
            if self.test(index.text, *line):
                yield line
            elif (misses := misses + 1) >= _MAX_MISSES:
                yield from self._all_lines(index, line[1] + 1, end)
                return

    def _ascii_lines(self, text: bytes, start: int, end: int) -> Iterator[Line]:
        for line in _scan(self._native, text, start, end):
            if text[line[0] : line[1]].isascii() and (self._exact or self._confirmed(text, *line)):
                yield line

    def _wide_lines(self, index: Index, start: int, end: int) -> Iterator[Line]:
        for begin, _ in _scan(self._loose, index.wide, *index.wide_span(start, end)):
            line = index.wide_line(begin)
            if self._confirmed(index.text, *line):
                yield line

    def _confirmed(self, text: bytes, start: int, end: int) -> bool:
        """Whether the line matches, whatever it holds."""
        length = end - start
        self._doubts += 1
        if (length > _MAX_DOUBT or self._doubts > _MAX_DOUBTS) and self._outright is not None:
            return self._outright.find(text, start, end)[0] >= 0
        if length > _MAX_MARKED:
            return self._native.find(text, start, end)[0] >= 0
        marked = _mark(text[start:end])
        return self._marked.find(marked, 0, len(marked))[0] >= 0

    def test(self, text: bytes, start: int, end: int) -> bool:
        """Whether the line `text[start:end]` matches."""
        if self._bounded and not (self._exact and text[start:end].isascii()):
            return self._confirmed(text, start, end)
        return self._native.find(text, start, end)[0] >= 0

    def runs(self, index: Index, start: int, end: int) -> Iterator[Line]:
        """The lines that match, neighbours joined where that is cheap: (start, end with newline)."""
        if self._counted > _FEW or not self._is_exact(index, start, end):
            return ((begin, after + 1) for begin, after in self.lines(index, start, end))
        return _spans(self._runs, index.text, start, end)

    def count(self, index: Index, start: int, end: int) -> int:
        """How many lines of `index.text[start:end]` match; faster than `lines` where most do."""
        return sum(index.text.count(b"\n", begin, after) for begin, after in self.runs(index, start, end))

    def parts(self, text: bytes, start: int, end: int) -> Iterator[bytes]:
        """The parts of the line that match, leftmost and longest first, empty ones left out."""
        simple = not self._bounded or (self._exact and not self._words and text[start:end].isascii())
        if simple or end - start > _MAX_MARKED:
            yield from (text[first:last] for first, last in _spans(self._native_parts, text, start, end))
            return
        marked = _mark(text[start:end])
        for first, last in _spans(self._marked_parts, marked, 0, len(marked)):
            yield unmark(marked[first:last].decode("utf-8")).encode("utf-8")


class Cursor:
    """Walks the lines that match, and can leap ahead."""

    def __init__(self, matcher: Matcher, index: Index, start: int, end: int) -> None:
        self._matcher = matcher
        self._index = index
        self._end = end
        self._lines = matcher.lines(index, start, end)
        self._line = next(self._lines, None)

    def at(self, place: int) -> Line | None:
        """The first line that matches and starts at `place` or after it; `place` never goes back."""
        steps = 0
        while self._line is not None and self._line[0] < place:
            if steps == _LEAP and self._index.vocabulary is None:
                self._lines = self._matcher.lines(self._index, place, self._end)
            self._line = next(self._lines, None)
            steps += 1
        return self._line


def _scan(engine: Engine, text: bytes, start: int, end: int) -> Iterator[Line]:
    """The lines of `text[start:end]`, which ends in a newline, in which `engine` finds something."""
    match, previous, following = engine.match, text.rfind, text.find
    while start < end:
        first, last = match(UNANCHORED, text, start, end)[0]
        if first < 0 or first >= end:
            return
        stop = following(b"\n", last)
        yield previous(b"\n", 0, first) + 1, stop
        start = stop + 1


def union(scans: list[Iterator[Line]]) -> Iterator[Line]:
    """Every line of the scans once, in order."""
    if len(scans) == 1:
        return scans[0]
    return (line for line, _ in groupby(heapq.merge(*scans)))


def _spans(engine: Engine, text: bytes, start: int, end: int) -> Iterator[Line]:
    """What `engine` finds in `text[start:end]`, one after another."""
    while start < end:
        first, last = engine.find(text, start, end)
        if first < 0:
            return
        if last > first:
            yield first, last
        start = max(last, first + 1)


def _mark(line: bytes) -> bytes:
    return mark(line.decode("utf-8")).encode("utf-8")
