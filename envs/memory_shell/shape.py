"""What a pattern's tree says about word boundaries, and about the text it must begin with."""

from __future__ import annotations

from memory_shell.marks import is_word
from memory_shell.patterns import Alt, Assert, Cat, Class, Node, Repeat, Text

_WORD_CLASSES = frozenset(("w", "alpha", "alnum", "digit", "xdigit", "upper", "lower"))
_LONG_RANGE = 100
_EDGES = frozenset("bB<>")


def looks_at_words(node: Node) -> bool:
    """Whether the pattern looks at word boundaries."""
    match node:
        case Assert(kind):
            return kind in _EDGES
        case Cat(parts) | Alt(parts):
            return any(map(looks_at_words, parts))
        case Repeat(inner):
            return looks_at_words(inner)
    return False


def is_one_sided(node: Node) -> bool:
    """Whether a `\\<` or `\\>` in `node` may stand where `\\b` would also match at the other side of a word."""
    match node:
        case Assert(kind):
            return kind in "<>"
        case Repeat(inner):
            return is_one_sided(inner)
        case Alt(parts):
            return any(map(is_one_sided, parts))
        case Cat(parts):
            return any(is_one_sided(part) and not _has_word_beside(parts, place) for place, part in enumerate(parts))
    return False


def _has_word_beside(parts: tuple[Node, ...], place: int) -> bool:
    """Whether `parts[place]` is a `\\<` before, or a `\\>` after, what surely is a word character."""
    match parts[place]:
        case Assert("<"):
            return place + 1 < len(parts) and is_solid(parts[place + 1], 0)
        case Assert(">"):
            return place > 0 and is_solid(parts[place - 1], -1)
    return False


def is_solid(node: Node, side: int) -> bool:
    """Whether whatever `node` matches begins (`side` 0) or ends (-1) with a word character."""
    match node:
        case Text(text):
            return is_word(text[side])
        case Class(ranges, names, negated):
            if negated or not _WORD_CLASSES.issuperset(names) or any(high - low > _LONG_RANGE for low, high in ranges):
                return False
            return all(is_word(chr(code)) for low, high in ranges for code in range(low, high + 1))
        case Repeat(inner, low):
            return low > 0 and is_solid(inner, side)
        case Alt(parts):
            return all(is_solid(part, side) for part in parts)
        case Cat(parts) if parts:
            return is_solid(parts[side], side)
    return False


def leading_text(node: Node) -> str:
    """Text that every match begins with, word boundaries aside; empty when there is none to name."""
    match node:
        case Text(text):
            return text
        case Cat(parts):
            first = next((part for part in parts if not (isinstance(part, Assert) and part.kind in _EDGES)), None)
            return leading_text(first) if first is not None else ""
    return ""
