"""Compiled searches over an Index: which lines match, and which parts of a line."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import re2

from memory_shell.emit import Dialect, Emitter
from memory_shell.index import Index
from memory_shell.marks import is_word, mark, unmark
from memory_shell.patterns import Alt, Assert, Cat, Char, Class, Node, PatternError, Repeat, Syntax, parse_pattern

_MAX_MARKED = 32 * 1024
_MAX_PROGRAM = 40_000
Line = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Spec:
    """What to look for: patterns, of which a line must match one, and the flags that change their meaning."""

    patterns: tuple[str, ...]
    syntax: Syntax = "G"
    ignore_case: bool = False
    whole: str = ""
    """"x": the pattern must match the whole line; "w": words."""


@lru_cache(maxsize=256)
def compile_spec(spec: Spec, exotic: bool) -> Matcher:
    """The matcher for `spec`; `exotic` as in Index. Raises PatternError."""
    return Matcher(spec, exotic)


class Matcher:
    """One compiled Spec."""

    def __init__(self, spec: Spec, exotic: bool) -> None:
        trees = tuple(parse_pattern(pattern, spec.syntax) for pattern in spec.patterns)
        tree: Node = trees[0] if len(trees) == 1 else Alt(trees)
        if spec.whole == "x":
            tree = Cat((Assert("^"), tree, Assert("$")))
        self._tree = tree
        self._spec = spec
        self._exotic = exotic
        self._words = spec.whole == "w"
        self.bounded = self._words or _looks_at_words(tree)
        """Whether the pattern looks at word boundaries, so that `native` may be wrong on a line that is not ASCII."""
        self._exact = not _half_bounds(tree)
        """Whether `native` is right on every line of ASCII."""
        source = self._source("native")
        self._find = compile_source(f"(?:{source})[^\\n]*\\n")
        self._test = compile_source(source)
        self._lazy: dict[str, Any] = {}

    def _source(self, dialect: Dialect) -> str:
        emitter = Emitter(dialect, ignore_case=self._spec.ignore_case, exotic=self._exotic)
        if self._words:
            return emitter.whole_words(self._tree, solid=_solid(self._tree, 0) and _solid(self._tree, -1))
        return emitter.source(self._tree)

    def _compiled(self, name: str) -> Any:
        """Rarely needed forms, compiled when first asked for."""
        found = self._lazy.get(name)
        if found is None:
            if name == "runs":
                found = compile_source(f"(?m:^)(?:[^\\n]*(?:{self._source('native')})[^\\n]*\\n)+", longest=True)
            elif name == "loose":
                found = compile_source(f"(?:{self._source('loose')})[^\\n]*\\n")
            elif name == "spans":
                found = compile_source(self._source("native"), longest=True)
            else:
                found = compile_source(self._source("marked"), longest=True)
            self._lazy[name] = found
        return found

    def lines(self, index: Index, start: int, end: int) -> Iterator[Line]:
        """The lines of `index.text[start:end]` that match, in order: (start, end without newline)."""
        if not self.bounded or (self._exact and index.is_ascii(start, end)):
            return self._native_lines(index.text, start, end)
        if not index.wide:
            return self._checked_lines(index.text, start, end)
        return self._merged_lines(index, start, end)

    def _native_lines(self, text: bytes, start: int, end: int) -> Iterator[Line]:
        rfind = text.rfind
        for match in self._find.finditer(text, start, end):
            begin, after = match.span()
            yield rfind(b"\n", 0, begin) + 1, after - 1

    def _checked_lines(self, text: bytes, start: int, end: int) -> Iterator[Line]:
        for line in self._native_lines(text, start, end):
            if self._confirmed(text, *line):
                yield line

    def _merged_lines(self, index: Index, start: int, end: int) -> Iterator[Line]:
        """Lines of ASCII from `text`, the others from `wide`, where each is confirmed."""
        return heapq.merge(self._ascii_lines(index.text, start, end), self._wide_lines(index, start, end))

    def _ascii_lines(self, text: bytes, start: int, end: int) -> Iterator[Line]:
        for line in self._native_lines(text, start, end):
            if text[line[0] : line[1]].isascii() and (self._exact or self._confirmed(text, *line)):
                yield line

    def _wide_lines(self, index: Index, start: int, end: int) -> Iterator[Line]:
        first, last = index.wide_span(start, end)
        for match in self._compiled("loose").finditer(index.wide, first, last):
            line = index.wide_line(match.span()[0])
            if self._confirmed(index.text, *line):
                yield line

    def _confirmed(self, text: bytes, start: int, end: int) -> bool:
        """Whether the line matches, by the marked form; very long lines are taken at their native word."""
        if end - start > _MAX_MARKED:
            return self._test.search(text, start, end) is not None
        return self._compiled("marked").search(_marked(text[start:end])) is not None

    def test(self, text: bytes, start: int, end: int) -> bool:
        """Whether the line `text[start:end]` matches."""
        if self.bounded and not (self._exact and text[start:end].isascii()):
            return self._confirmed(text, start, end)
        return self._test.search(text, start, end) is not None

    def runs(self, index: Index, start: int, end: int) -> Iterator[Line]:
        """The lines that match, neighbours joined where that is cheap: (start, end with newline)."""
        if self.bounded and not (self._exact and index.is_ascii(start, end)):
            return ((begin, after + 1) for begin, after in self.lines(index, start, end))
        return (match.span() for match in self._compiled("runs").finditer(index.text, start, end))

    def parts(self, text: bytes, start: int, end: int) -> list[bytes]:
        """The parts of the line that match, leftmost and longest first, empty ones left out."""
        line = text[start:end]
        if self.bounded and len(line) <= _MAX_MARKED and (self._words or not self._exact or not line.isascii()):
            marked = self._compiled("marked").finditer(_marked(line))
            found = (unmark(match.group().decode("utf-8", "surrogateescape")) for match in marked)
            return [part.encode("utf-8", "surrogateescape") for part in found if part]
        return [part for match in self._compiled("spans").finditer(text, start, end) if (part := match.group())]


def _marked(line: bytes) -> bytes:
    return mark(line.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def compile_source(source: str, *, longest: bool = False) -> Any:
    """RE2 of `source` over UTF-8 bytes. Raises PatternError."""
    options = re2.Options()
    options.never_capture = True
    options.log_errors = False
    options.longest_match = longest
    try:
        compiled = re2.compile(source.encode("utf-8"), options)
    except UnicodeEncodeError as error:
        raise PatternError("the pattern is not valid UTF-8") from error
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        if "too large" in text or "repetition" in text:
            raise PatternError("Regular expression too big: its repetitions multiply to too many states") from error
        raise PatternError(f"Invalid regular expression: {text[:80]}") from error
    if compiled.programsize > _MAX_PROGRAM:
        raise PatternError("Regular expression too big: its repetitions multiply to too many states")
    return compiled


def _looks_at_words(node: Node) -> bool:
    if isinstance(node, Assert):
        return node.kind in "bB<>"
    if isinstance(node, (Cat, Alt)):
        return any(_looks_at_words(part) for part in node.parts)
    return isinstance(node, Repeat) and _looks_at_words(node.node)


def _half_bounds(node: Node) -> bool:
    """Whether a `\\<` or `\\>` in `node` may stand where `\\b` would also match at the other side of a word."""
    if isinstance(node, Assert):
        return node.kind in "<>"
    if isinstance(node, Repeat):
        return _half_bounds(node.node)
    if isinstance(node, Alt):
        return any(_half_bounds(part) for part in node.parts)
    if not isinstance(node, Cat):
        return False
    for place, part in enumerate(node.parts):
        if isinstance(part, Assert) and part.kind in "<>":
            beside = place + 1 if part.kind == "<" else place - 1
            side = 0 if part.kind == "<" else -1
            if not (0 <= beside < len(node.parts) and _solid(node.parts[beside], side)):
                return True
        elif _half_bounds(part):
            return True
    return False


def _solid(node: Node, side: int) -> bool:
    """Whether whatever `node` matches begins (`side` 0) or ends (-1) with a word character."""
    if isinstance(node, Char):
        return is_word(node.char)
    if isinstance(node, Class):
        chars = (chr(code) for low, high in node.ranges for code in range(low, min(high, low + 100) + 1))
        short = all(high - low < 100 for low, high in node.ranges)
        return not node.negated and short and set(node.names) <= _WORDS and all(map(is_word, chars))
    if isinstance(node, Repeat):
        return node.low > 0 and _solid(node.node, side)
    if isinstance(node, Alt):
        return all(_solid(part, side) for part in node.parts)
    return isinstance(node, Cat) and bool(node.parts) and _solid(node.parts[side], side)


_WORDS = frozenset(("w", "alpha", "alnum", "digit", "xdigit", "upper", "lower"))
