"""Write a pattern tree as RE2 source, in three dialects.

`native` runs on text as it is. RE2's word boundaries know ASCII letters only, and it has none for the start or the end
of a word, so where a pattern looks at word boundaries `native` is exact on lines of ASCII at best. `loose` leaves the
boundaries out: whatever matches, matches loosely too. `marked` is exact everywhere: it runs on text in which every gap
between two characters says whether it starts a word, ends one, lies inside one or outside all (see `marks`).
"""

from __future__ import annotations

from typing import Literal

from memory_shell.marks import ASSERTED, END, MARKS, OUT, START, shift
from memory_shell.patterns import Alt, Any, Assert, Cat, Class, Node, Repeat, Text
from memory_shell.shape import Edged

_WORD = r"0-9A-Z_a-z\p{L}\p{Nd}\p{Nl}"
_SPACE_WIDE = r"\x{1680}\x{2000}-\x{2006}\x{2008}-\x{200a}\x{205f}"
_PUNCT_WIDE = (
    r"\p{Pd}\p{Ps}\p{Pe}\p{Pi}\p{Pf}\p{Po}\p{S}\p{M}\p{No}\p{Cf}\p{Co}"
    r"\x{203f}\x{2040}\x{2054}\x{a0}\x{2007}\x{202f}"
)
_CLASSES = {
    "w": _WORD,
    "alpha": r"A-Za-z\p{L}\p{Nl}\x{0660}-\x{0669}",
    "alnum": r"0-9A-Za-z\p{L}\p{Nd}\p{Nl}",
    "digit": "0-9",
    "xdigit": "0-9A-Fa-f",
    "upper": r"\p{Lu}\p{Lt}",
    "lower": r"\p{Ll}",
    "space": r"\t\v\f\r \x{2028}\x{2029}" + _SPACE_WIDE,
    "blank": r"\t \x{3000}" + _SPACE_WIDE,
    "punct": r"!-/:-@\[-`{-~" + _PUNCT_WIDE,
    "cntrl": r"\x{01}-\x{09}\x{0b}-\x{1f}\x{7f}-\x{9f}\x{2028}\x{2029}",
    "graph": r"!-~\p{L}\p{N}" + _PUNCT_WIDE,
    "print": r" -~\p{L}\p{N}\p{Zs}" + _PUNCT_WIDE,
}
# Lower-case letters whose capital is the capital of another letter: GNU matches them when case is ignored.
_LONESOME = (
    "\u00b5\u0131\u017f\u01c5\u01c8\u01cb\u01f2\u0345\u03c2\u03d0\u03d1\u03d5\u03d6\u03f0\u03f1\u03f5\u1e9b\u1fbe"
)
_NOTHING = "[^\\x00-\\x{10ffff}]"
EXOTIC_FOLDS = tuple(char.encode() for char in ("\u0131", "\u017f"))
"""The two of them that fold to ASCII letters; patterns of ASCII need not know them on text without them."""
Dialect = Literal["native", "loose", "marked"]


def counterparts(char: str, *, exotic: bool) -> str:
    """The characters that equal `char` when case is ignored, as GNU grep sees it; `char` comes first."""
    upper = char.upper()
    upper = upper if len(upper) == 1 else char
    lower = upper.lower()
    lower = lower if len(lower) == 1 else char
    found = dict.fromkeys((char, upper, lower))
    if exotic or not char.isascii():
        found.update(dict.fromkeys(other for other in _LONESOME if other.upper() == upper))
    return "".join(found)


class Emitter:
    """Writes trees as RE2 source. `counted`: whether repetitions are counted, or made endless to be found fast."""

    def __init__(self, dialect: Dialect, *, ignore_case: bool, exotic: bool, counted: bool = True) -> None:
        self._counted = counted
        self._ignore_case = ignore_case
        self._exotic = exotic
        self._dialect = dialect
        self._marked = dialect == "marked"
        # A line's end, and a NUL, which stands for a byte that is not UTF-8: no pattern matches either.
        self._never = "\\n\\x00" + (MARKS if self._marked else "")

    def source(self, node: Node) -> str:
        """RE2 source of `node`; safe to put beside other source."""
        match node:
            case Text(text):
                source = self._text(text)
            case Any():
                source = self._one(f"[^{self._never}]")
            case Class():
                source = self._class(node)
            case Assert(kind):
                source = self._assert(kind)
            case Cat(parts):
                source = "".join(map(self.source, parts))
            case Alt(parts):
                source = f"(?:{'|'.join(map(self.source, parts))})"
            case Repeat():
                source = self._repeat(node)
        return source

    def _one(self, source: str) -> str:
        return f"(?:[{MARKS}]*{source})" if self._marked else source

    def _text(self, text: str) -> str:
        if self._marked:
            return "".join(self._one(self._char(char)) for char in shift(text))
        if text.isascii() and not (self._ignore_case and self._exotic):
            return "".join(map((_FOLDED if self._ignore_case else _EXACT).__getitem__, text))
        return "".join(map(self._char, text))

    def _char(self, char: str) -> str:
        same = counterparts(char, exotic=self._exotic) if self._ignore_case else char
        return _literal(same) if len(same) == 1 else f"[{''.join(_escape(ord(other)) for other in same)}]"

    def _class(self, node: Class) -> str:
        ranges = [pair for span in node.ranges for pair in _shifted(*span)] if self._marked else node.ranges
        items = "".join(_escape(low) + (f"-{_escape(high)}" if high > low else "") for low, high in ranges)
        items += "".join(_CLASSES[_loosened(name) if self._ignore_case else name] for name in node.names)
        if self._marked and "cntrl" in node.names:
            items = items.replace("\\x{01}-\\x{09}", "\\x{07}-\\x{09}\\x{fdd1}-\\x{fdd6}")
        if node.negated:
            body = f"[^{items}{self._never}]"
        elif not items:
            return _NOTHING
        else:
            body = f"[{items}]"
        if self._ignore_case and node.ranges:
            body = f"(?i:{body})"
        return self._one(body)

    def _assert(self, kind: str) -> str:
        if self._marked:
            return _gap_with(ASSERTED[kind])
        if self._dialect == "loose" and kind not in "^$":
            return ""
        return {"^": "(?m:^)", "$": "(?m:$)", "B": "\\B"}.get(kind, "\\b")

    def _repeat(self, node: Repeat) -> str:
        if not self._counted and max(node.low, node.high or 0) > 1:
            suffix = "+" if node.low else "*"
        elif node.high is None:
            suffix = {0: "*", 1: "+"}.get(node.low, f"{{{node.low},}}")
        else:
            suffix = "?" if (node.low, node.high) == (0, 1) else f"{{{node.low},{node.high}}}"
        return f"(?:{self.source(node.node)}){suffix}"

    def whole_words(self, node: Node, *, solid: bool) -> str:
        """`node` where no word character stands before it or after it (`-w`). `solid`: it begins and ends in one.

        In the native dialect what stands before and after becomes part of the match, unless `node` is solid.
        """
        source = self.source(node)
        if self._marked:
            return f"{_gap_with(START + OUT)}(?:{source}){_gap_with(END + OUT)}"
        if self._dialect == "loose":
            return source
        if solid:
            return f"\\b(?:{source})\\b"
        return f"(?:(?m:^)|[^0-9A-Z_a-z\\n])(?:{source})(?:[^0-9A-Z_a-z\\n]|(?m:$))"

    def within_edges(self, edged: Edged) -> str:
        """Source that finds the lines in which `edged` stands, exact on every text: its neighbours are matched too."""
        before = f"(?:(?m:^)|[^{_WORD}\\n])" if edged.before else ""
        after = f"(?:[^{_WORD}\\n]|(?m:$))" if edged.after else ""
        return f"{before}(?:{self.source(edged.inner)}){after}"


def _gap_with(wanted: str) -> str:
    """Source that matches in a gap that carries one of the marks `wanted`, and takes that mark."""
    return f"[{''.join(mark for mark in MARKS if mark not in wanted)}]*[{wanted}]"


def _shifted(low: int, high: int) -> list[tuple[int, int]]:
    """The range without the marks, and with what stands for them in marked text."""
    first, last = ord(MARKS[0]), ord(MARKS[-1])
    if low > last or high < first:
        return [(low, high)]
    moved = [(ord(shift(chr(max(low, first)))), ord(shift(chr(min(high, last)))))]
    return moved + ([(last + 1, high)] if high > last else []) + ([(low, first - 1)] if low < first else [])


def _loosened(name: str) -> str:
    return "alpha" if name in ("upper", "lower") else name


def _literal(char: str) -> str:
    if char.isascii() and (char.isalnum() or char in " _-:,;@!\"#%&'/<=>~`"):
        return char
    return _escape(ord(char))


def _escape(code: int) -> str:
    return chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\x{{{code:x}}}"


_EXACT = {char: _literal(char) for char in map(chr, range(128))}
_FOLDED = {char: f"[{char.lower()}{char.upper()}]" if char.isalpha() else same for char, same in _EXACT.items()}
"""ASCII characters as they are, and with case ignored where the text holds no other letter that equals one of them."""
