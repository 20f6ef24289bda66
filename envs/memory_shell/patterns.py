"""Read GNU regular expressions (basic, extended, fixed strings) into a tree, with GNU's own errors.

The grammar is that of GNU grep 3.8: POSIX basic and extended expressions with the escapes `\\+ \\? \\| \\b \\B \\< \\>
\\w \\W \\s \\S`. Back-references are refused, because no linear-time matcher has them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NoReturn

Syntax = Literal["G", "E", "F"]
MAX_REPEAT = 1000
_MAX_DEPTH = 60
_MAX_INTERVALS = 4
POSIX_CLASSES = (
    "alpha", "digit", "alnum", "upper", "lower", "space", "blank", "punct", "print", "graph", "cntrl", "xdigit",
)  # fmt: skip
_PLAIN = re.compile(r"[0-9A-Za-z_ ,:;@!\"#%&'/<=>~\x80-\U0010ffff-]+")  # means itself in every syntax
_SURROGATE = re.compile("[\ud800-\udfff]")
_OPERATORS = frozenset("*+?{\\")


class PatternError(ValueError):
    """A pattern that cannot be compiled. The message names the fault, in GNU's words where GNU has them."""


@dataclass(frozen=True, slots=True)
class Text:
    """Characters that stand for themselves; at least one."""

    text: str


@dataclass(frozen=True, slots=True)
class Any:
    """`.`: any character of a line."""


@dataclass(frozen=True, slots=True)
class Class:
    """A bracket expression: code point ranges and names of POSIX classes ("w" is `\\w`)."""

    ranges: tuple[tuple[int, int], ...]
    names: tuple[str, ...] = ()
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Assert:
    """A place: `^`, `$`, `b`, `B`, `<` or `>`."""

    kind: str


@dataclass(frozen=True, slots=True)
class Cat:
    """One after another."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alt:
    """One or another."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`node`, `low` to `high` times (None: without end)."""

    node: Node
    low: int
    high: int | None


Node = Text | Any | Class | Assert | Cat | Alt | Repeat
EMPTY = Cat(())
"""Matches the empty string."""
NOTHING = Class(())
"""Matches nothing at all."""


def parse_pattern(text: str, syntax: Syntax) -> Node:
    """The tree of `text`; each line of it is a pattern of its own, as in grep. Raises PatternError."""
    if not text.isascii() and _SURROGATE.search(text):
        raise PatternError("the pattern is not valid UTF-8")
    if "\0" in text:
        raise PatternError("the pattern holds a NUL character")
    parts = tuple(_parse_line(line, syntax) for line in text.split("\n"))
    return parts[0] if len(parts) == 1 else Alt(parts)


def _parse_line(text: str, syntax: Syntax) -> Node:
    if syntax == "F" or _PLAIN.fullmatch(text):
        return Text(text) if text else EMPTY
    if len(text) > 2 and text[0] == "[" and text[1] == ":" and text.endswith(":]"):
        raise PatternError("character class syntax is [[:space:]], not [:space:]")
    parser = _Parser(text, extended=syntax == "E")
    node = parser.alternatives(0)
    if not parser.at_end():  # only an unmatched \) of a basic expression stops early
        raise PatternError("Unmatched ) or \\)")
    return node


class _Parser:
    """A cursor over one pattern."""

    def __init__(self, text: str, *, extended: bool) -> None:
        self.text = text
        self.index = 0
        self.extended = extended
        self.depth = 0

    def at_end(self) -> bool:
        return self.index >= len(self.text)

    def alternatives(self, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            raise PatternError(f"groups nest more than {_MAX_DEPTH} deep")
        branches = [self._branch(depth)]
        while self._take("|" if self.extended else "\\|"):
            branches.append(self._branch(depth))
        return branches[0] if len(branches) == 1 else Alt(tuple(branches))

    def _branch(self, depth: int) -> Node:
        parts: list[Node] = []
        bar, close = ("|", ")") if self.extended else ("\\|", "\\)")
        start = True  # nothing but places so far: there is nothing that an operator could repeat
        while self.index < len(self.text):
            if self.text[self.index] in "|)\\" and (
                self._looking_at(bar) or (self._looking_at(close) and (depth or not self.extended))
            ):
                break
            if start and self._skip_operators():
                if self.at_end() or self._looking_at(bar):
                    break
                parts.append(self._atom(not parts, depth) if not self._take(close) else Text(close))
            else:
                parts.append(self._atom(not parts, depth))
            start = start and isinstance(parts[-1], Assert)
            if self.extended or not start:
                parts[-1] = self._repeats(parts[-1])
        return parts[0] if len(parts) == 1 else Cat(tuple(parts))

    def _skip_operators(self) -> bool:
        """Skip repetition operators that have nothing to repeat, which an extended expression ignores."""
        begin = self.index
        while self.extended and self.index < len(self.text):
            if self.text[self.index] in "*+?":
                self.index += 1
            elif self.text[self.index] != "{" or self._interval() is None:
                break
        return self.index > begin

    def _atom(self, first: bool, depth: int) -> Node:
        char = self.text[self.index]
        if plain := _PLAIN.match(self.text, self.index):
            end = plain.end()
            if end - self.index > 1 and self.text[end : end + 1] in _OPERATORS:
                end -= 1  # an operator belongs to the last character alone
            self.index, begin = end, self.index
            return Text(self.text[begin:end])
        self.index += 1
        if char == "\\":
            return self._escape(depth)
        if char == "[":
            return _Bracket(self).parse()
        if char == ".":
            return Any()
        if char == "(" and self.extended:
            return self._group(depth, ")")
        if char == "^" and (self.extended or first):
            return Assert("^")
        if char == "$" and (self.extended or self._at_branch_end()):
            return Assert("$")
        return Text(char)

    def _at_branch_end(self) -> bool:
        return self.at_end() or self._looking_at("\\|") or self._looking_at("\\)")

    def _group(self, depth: int, close: str) -> Node:
        node = self.alternatives(depth + 1)
        if not self._take(close):
            raise PatternError("Unmatched ( or \\(")
        return Cat((node,)) if isinstance(node, Assert) else node  # unlike a bare place, a group can be repeated

    def _escape(self, depth: int) -> Node:
        if self.at_end():
            raise PatternError("Trailing backslash")
        char = self.text[self.index]
        self.index += 1
        if char in "123456789":
            raise PatternError(f"back-references such as \\{char} are not supported: write the text out")
        if char in "bB<>":
            return Assert(char)
        if char in "`'":
            return Assert("^" if char == "`" else "$")
        if char in "wWsS":
            return Class((), ("w" if char in "wW" else "space",), char in "WS")
        if char == "(" and not self.extended:
            return self._group(depth, "\\)")
        return Text(char)

    def _repeats(self, atom: Node) -> Node:
        """`atom` with the operators that follow it."""
        intervals = 0
        while self.index < len(self.text) and self.text[self.index] in _OPERATORS:
            if self._take("*"):
                atom = _again(atom, 0, None)
            elif self._take("+" if self.extended else "\\+"):
                atom = _again(atom, 1, None)
            elif self._take("?" if self.extended else "\\?"):
                atom = _again(atom, 0, 1)
            elif (bounds := self._interval()) is not None:
                atom = _again(atom, *bounds)
                if (intervals := intervals + 1) > _MAX_INTERVALS:
                    raise PatternError("Regular expression too big: intervals of intervals of intervals")
            else:
                break
        return atom

    def _interval(self) -> tuple[int, int | None] | None:
        """The bounds of `{M}`, `{M,}`, `{,N}` or `{M,N}` at the cursor; None when there is none to read."""
        opened = "{" if self.extended else "\\{"
        if not self._looking_at(opened):
            return None
        begin = self.index
        self.index += len(opened)
        low = self._number()
        comma = self._take(",")
        high = self._number() if comma else low
        closed = self._take("}" if self.extended else "\\}")
        if not closed:
            if not self.extended:
                self._bad_interval()
            self.index = begin  # an extended `{` that opens no interval is an ordinary character
            return None
        if (low is None and not comma) or (high is not None and high < (low or 0)):
            raise PatternError("Invalid content of \\{\\}")
        if max(low or 0, high or 0) > MAX_REPEAT:
            raise PatternError(f"Regular expression too big: a repetition is limited to {MAX_REPEAT}")
        return low or 0, high

    def _bad_interval(self) -> NoReturn:
        if self.at_end():
            raise PatternError("Unmatched \\{")
        raise PatternError("Invalid content of \\{\\}")

    def _number(self) -> int | None:
        begin = self.index
        while self.index < len(self.text) and self.text[self.index] in "0123456789":
            self.index += 1
        digits = self.text[begin : self.index]
        return min(int(digits[:9]) if len(digits) <= 9 else 10**9, 10**9) if digits else None

    def _looking_at(self, token: str) -> bool:
        return self.text.startswith(token, self.index)

    def _take(self, token: str) -> bool:
        if not self._looking_at(token):
            return False
        self.index += len(token)
        return True


def _again(node: Node, low: int, high: int | None) -> Node:
    """`node` repeated; `*`, `+` and `?` on one another make one of them."""
    simple = (0, 1, None)
    if isinstance(node, Repeat) and low in simple and high in simple and node.low in simple and node.high in simple:
        return Repeat(node.node, low * node.low, None if high is None or node.high is None else high * node.high)
    return Repeat(node, low, high)


class _Bracket:
    """Reads a bracket expression; the cursor stands just after its `[`."""

    def __init__(self, parser: _Parser) -> None:
        self.parser = parser
        self.text = parser.text
        self.ranges: list[tuple[int, int]] = []
        self.names: list[str] = []

    def parse(self) -> Class:
        parser = self.parser
        negated = parser._take("^")
        first = True
        while True:
            if parser.at_end():
                raise PatternError("Unmatched [, [^, [:, [., or [=")
            if not first and parser._take("]"):
                return Class(tuple(self.ranges), tuple(self.names), negated)
            first = False
            self._item()

    def _item(self) -> None:
        low = self._element()
        parser = self.parser
        after = self.text[parser.index : parser.index + 2]
        if not (after.startswith("-") and after not in ("-", "-]")):
            if low is not None:
                self.ranges.append((ord(low), ord(low)))
            return
        parser.index += 1
        high = self._element()
        if low is None or high is None or ord(low) > ord(high):
            raise PatternError("Invalid range end")
        self.ranges.append((ord(low), ord(high)))

    def _element(self) -> str | None:
        """One character, or None after a class such as `[:alpha:]`, which goes to `names`."""
        parser = self.parser
        char = self.text[parser.index]
        kind = self.text[parser.index + 1 : parser.index + 2]
        if char != "[" or kind not in (":", ".", "=") or not kind:
            parser.index += 1
            return char
        close = self.text.find(kind + "]", parser.index + 2)
        if close < 0:
            raise PatternError("Unmatched [, [^, [:, [., or [=")
        name = self.text[parser.index + 2 : close]
        parser.index = close + 2
        if kind == ":":
            if name not in POSIX_CLASSES:
                raise PatternError("Invalid character class name")
            self.names.append(name)
            return None
        if len(name) != 1:
            raise PatternError("Invalid collation character")
        return name
