"""What a pattern's tree says about word boundaries, and about the text it must begin with."""

from __future__ import annotations

from typing import NamedTuple

from memory_shell.marks import is_word
from memory_shell.patterns import Alt, Assert, Cat, Class, Node, Repeat, Text

_WORD_CLASSES = frozenset(("w", "alpha", "alnum", "digit", "xdigit", "upper", "lower"))
_LONG_RANGE = 100
_MIN_LEADING = 3
_MAX_BRANCHES = 6
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


def branches(node: Node) -> tuple[Node, ...]:
    """Patterns that together match where `node` does, each of which begins with a few fixed characters (word boundaries
    aside), so that each is found fast; empty when `node` is not of that kind."""
    found = tuple(_split(node))
    quick = 1 <= len(found) <= _MAX_BRANCHES and all(len(_leading_text(part)) >= _MIN_LEADING for part in found)
    return found if quick else ()


class WordText(NamedTuple):
    """Fixed text, and whether no word may go on before it and after it."""

    text: str
    before: bool
    after: bool


def word_text(node: Node, *, whole: bool) -> WordText | None:
    """`node` as fixed text with word boundaries at its ends, if it is no more than that. `whole`: `-w` is in force."""
    parts = list(node.parts) if isinstance(node, Cat) else [node]
    before = bool(parts) and isinstance(parts[0], Assert) and parts[0].kind in "b<"
    after = len(parts) > 1 and isinstance(parts[-1], Assert) and parts[-1].kind in "b>"
    inner = parts[before : len(parts) - after]
    if len(inner) != 1 or not isinstance(inner[0], Text):
        return None
    text = inner[0].text
    if (before and not is_word(text[0])) or (after and not is_word(text[-1])):
        return None
    return WordText(text, before or whole, after or whole)


def core(node: Node) -> Node:
    """`node` without what it begins and ends with that can match nothing: the same lines match."""
    if not isinstance(node, Cat):
        return Cat(()) if _is_nullable(node) else node
    first, last = 0, len(node.parts)
    while first < last and _is_nullable(node.parts[first]):
        first += 1
    while last > first and _is_nullable(node.parts[last - 1]):
        last -= 1
    return node.parts[first] if last - first == 1 else Cat(node.parts[first:last])


def _is_nullable(node: Node) -> bool:
    match node:
        case Repeat(inner, low):
            return low == 0 or _is_nullable(inner)
        case Cat(parts):
            return all(map(_is_nullable, parts))
        case Alt(parts):
            return any(map(_is_nullable, parts))
    return False


def required_texts(node: Node) -> tuple[str, ...]:
    """Texts that every match holds, as far as the top of the tree shows."""
    parts = node.parts if isinstance(node, Cat) else (node,)
    return tuple(part.text for part in parts if isinstance(part, Text))


def is_light(node: Node) -> bool:
    """Whether `node` counts no repetitions, so that it compiles if it is not very long."""
    match node:
        case Repeat(inner, low, high):
            return low < 2 and (high is None or high < 2) and is_light(inner)
        case Cat(parts) | Alt(parts):
            return all(map(is_light, parts))
    return True


def _split(node: Node) -> list[Node]:
    """`node` as alternatives: of itself, or of what it begins with."""
    match node:
        case Alt(parts):
            return [inner for part in parts for inner in _split(part)]
        case Cat(parts):
            place = next((index for index, part in enumerate(parts) if not _is_edge(part)), None)
            if place is not None and isinstance(parts[place], Alt):
                return [Cat((part, *parts[place + 1 :])) for part in _split(parts[place])]
    return [node]


def _leading_text(node: Node) -> str:
    match node:
        case Text(text):
            return text
        case Cat(parts):
            first = next((part for part in parts if not _is_edge(part)), None)
            return _leading_text(first) if first is not None else ""
    return ""


def _is_edge(node: Node) -> bool:
    return isinstance(node, Assert) and node.kind in _EDGES
