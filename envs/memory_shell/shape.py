"""What a pattern's tree says about word boundaries, and about the text it must begin with."""

from __future__ import annotations

from typing import NamedTuple

from memory_shell.marks import is_word
from memory_shell.patterns import EMPTY, NOTHING, Alt, Assert, Cat, Class, Node, Repeat, Text

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


class Edged(NamedTuple):
    """A pattern, and whether no word may go on before it and after it."""

    inner: Node
    before: bool
    after: bool


class WordText(NamedTuple):
    """Fixed text, likewise."""

    text: str
    before: bool
    after: bool


def edged(node: Node, *, whole: bool) -> Edged | None:
    """`node` as a pattern with word boundaries at its ends only; None when there are others. `whole`: `-w` is set."""
    parts = node.parts if isinstance(node, Cat) else (node,)
    before = bool(parts) and isinstance(parts[0], Assert) and parts[0].kind in "b<"
    after = len(parts) > 1 and isinstance(parts[-1], Assert) and parts[-1].kind in "b>"
    rest = parts[before : len(parts) - after]
    inner = rest[0] if len(rest) == 1 else Cat(rest)
    if looks_at_words(inner) or (before and not is_solid(inner, 0)) or (after and not is_solid(inner, -1)):
        return None
    return Edged(inner, before or whole, after or whole)


def word_text(node: Node, *, whole: bool) -> WordText | None:
    """`node` as fixed text with word boundaries at its ends, if it is no more than that."""
    found = edged(node, whole=whole)
    return WordText(found.inner.text, found.before, found.after) if found and isinstance(found.inner, Text) else None


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


def counted(node: Node) -> int:
    """How many copies the counted repetitions of `node` make: what a matcher's states can multiply with."""
    match node:
        case Repeat(inner, low, high):
            return max(low, high or 0, 1) * (counted(inner) or 1) if max(low, high or 0) > 1 else counted(inner)
        case Cat(parts) | Alt(parts):
            return sum(map(counted, parts))
    return 0


def non_empty(node: Node) -> Node:
    """The pattern of what `node` matches that is not empty."""
    match node:
        case Assert():
            return NOTHING
        case Alt(parts):
            return Alt(tuple(map(non_empty, parts)))
        case Cat(parts):
            # One part is the first that is not empty; those before it match nothing at the same place.
            chosen: list[Node] = []
            for place, part in enumerate(parts):
                before = tuple(map(_empty, parts[:place]))
                if NOTHING in before:
                    break
                chosen.append(Cat((*before, non_empty(part), *parts[place + 1 :])))
            return Alt(tuple(chosen)) if chosen else NOTHING
        case Repeat(inner, low, high):
            first, rest = non_empty(inner), None if high is None else high - 1
            if high == 0:
                return NOTHING
            once = Cat((first, Repeat(inner, max(low - 1, 0), rest)))
            if low < 2 or (empty := _empty(inner)) == NOTHING:
                return once
            return Alt((once, Cat((empty, first, Repeat(inner, 0, rest)))))
    return node


def _empty(node: Node) -> Node:
    """The places where `node` matches nothing at all."""
    match node:
        case Assert():
            return node
        case Cat(parts):
            places = tuple(map(_empty, parts))
            return NOTHING if NOTHING in places else Cat(places)
        case Alt(parts):
            return Alt(tuple(map(_empty, parts)))
        case Repeat(inner, low):
            return _empty(inner) if low else EMPTY
    return NOTHING


def may_be_empty(node: Node) -> bool:
    """Whether `node` can match the empty string somewhere."""
    match node:
        case Assert():
            return True
        case Cat(parts):
            return all(map(may_be_empty, parts))
        case Alt(parts):
            return any(map(may_be_empty, parts))
        case Repeat(inner, low):
            return low == 0 or may_be_empty(inner)
    return False


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
