"""A game's goal, and how much of it holds: the progress of an episode.

The goal is the `:goal` of the game's PDDL problem: a conjunction under existential quantifiers. What no action changes
in it (types and abilities of things) says which things may be meant: each choice of them is an alternative. What
actions do change (`isclean`, `inreceptacle`, ...) are the conditions of an alternative.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import TypeAlias

Facts = frozenset[tuple[str, ...]]
"""What holds: predicate and arguments, in lower case."""
Tree: TypeAlias = "str | list[Tree]"

_TYPES = {"=", "objecttype", "receptacletype", "cancontain", "receptacleatlocation", "isreceptacleobject"}
_ABILITIES = {"cleanable", "heatable", "coolable", "toggleable", "pickupable", "openable", "sliceable", "moveable"}
FIXED = frozenset(_TYPES | _ABILITIES)
"""Predicates of ALFWorld's domain that no action changes."""
MOST_ALTERNATIVES = 20_000
"""Released games have at most a few hundred."""
_TOKEN = re.compile(r"[()]|[^\s()]+")
_COMMENT = re.compile(r";[^\n]*")
_CONNECTIVES = frozenset(["and", "or", "not", "exists", "forall", "imply", "when"])
_DEEPEST = 50


@dataclass(frozen=True, slots=True)
class Literal:
    """A predicate and its arguments (`?o` is a variable), or its negation."""

    predicate: str
    arguments: tuple[str, ...]
    positive: bool = True

    def bound(self, binding: Mapping[str, str]) -> Literal:
        """With the values of `binding` for its variables, as far as it has them."""
        arguments = tuple(binding.get(argument, argument) for argument in self.arguments)
        return Literal(self.predicate, arguments, self.positive)

    def holds(self, facts: Facts) -> bool:
        """Whether it is so, without variables."""
        if self.predicate == "=":
            return (self.arguments[0] == self.arguments[1]) == self.positive
        return ((self.predicate, *self.arguments) in facts) == self.positive

    def is_open(self) -> bool:
        """Whether it has a variable."""
        return any(argument.startswith("?") for argument in self.arguments)

    def is_fixed(self, facts: Facts) -> bool:
        """Whether no action changes it. A lamp, which nobody can pick up, stays where it is."""
        stays = self.predicate == "inreceptacle" and ("pickupable", self.arguments[0]) not in facts
        return stays or self.predicate in FIXED


@dataclass(slots=True)
class Formula:
    """Literals under existential quantifiers: variables (each with its type), and what must hold of them."""

    variables: list[tuple[str, str]] = field(default_factory=list)
    literals: list[Literal] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Goal:
    """The conditions of each alternative, and how many of them held at the start."""

    alternatives: tuple[tuple[Literal, ...], ...]
    at_start: tuple[int, ...]

    @classmethod
    def of(cls, problem: str, things: Mapping[str, Sequence[str]], start: Facts) -> Goal:
        """The goal of a PDDL problem with `things` (names by type), of which `start` holds at first. Raises ValueError
        for a goal of another form."""
        found = _alternatives(parse_goal(problem), 0, things, start, {})
        alternatives = tuple(islice(found, MOST_ALTERNATIVES + 1))
        if len(alternatives) > MOST_ALTERNATIVES:
            raise ValueError(f"the :goal of the PDDL problem has more than {MOST_ALTERNATIVES} alternatives")
        return cls(alternatives, tuple(_count(conditions, start) for conditions in alternatives))

    def progress(self, facts: Facts) -> float:
        """The largest share, over the alternatives, of the way from the start to the goal: 0 to 1.

        An alternative with n conditions, s of them at the start and h now, is (h - s) / (n - s) of the way.
        """
        shares = (
            (_count(conditions, facts) - before) / (len(conditions) - before)
            for conditions, before in zip(self.alternatives, self.at_start, strict=True)
            if before < len(conditions)
        )
        return max(0.0, max(shares, default=0.0))


def parse_goal(problem: str) -> Formula:
    """The `:goal` of a PDDL problem. Raises ValueError when there is none, or none of the form above."""
    text = _COMMENT.sub("", problem).casefold()
    start = text.find("(:goal")
    if start < 0:
        raise ValueError("the PDDL problem has no :goal")
    tokens = iter(_TOKEN.findall(text[start:]))
    next(tokens)
    tree = _read(tokens)
    if len(tree) != 2:
        raise ValueError("the :goal of the PDDL problem is not one formula")
    formula = Formula()
    _collect(tree[1], {}, formula, count())
    return formula


def _alternatives(
    formula: Formula, index: int, things: Mapping[str, Sequence[str]], start: Facts, binding: dict[str, str]
) -> Iterator[tuple[Literal, ...]]:
    bound = [literal.bound(binding) for literal in formula.literals]
    closed = [literal for literal in bound if not literal.is_open()]
    if not all(literal.holds(start) for literal in closed if literal.is_fixed(start)):
        return
    if index == len(formula.variables):
        yield tuple(literal for literal in closed if not literal.is_fixed(start))
        return
    name, type_name = formula.variables[index]
    for thing in things.get(type_name, ()):
        yield from _alternatives(formula, index + 1, things, start, {**binding, name: thing})


def _count(conditions: Sequence[Literal], facts: Facts) -> int:
    return sum(literal.holds(facts) for literal in conditions)


def _read(tokens: Iterator[str], depth: int = 0) -> list[Tree]:
    if depth > _DEEPEST:
        raise ValueError("the :goal of the PDDL problem is nested too deep")
    tree: list[Tree] = []
    for token in tokens:
        if token == ")":
            return tree
        tree.append(_read(tokens, depth + 1) if token == "(" else token)
    raise ValueError("the :goal of the PDDL problem is cut off")


def _collect(tree: Tree, scope: Mapping[str, str], formula: Formula, numbers: Iterator[int]) -> None:
    """Add what `tree` says to `formula`. `scope` has the variables' names there, which are unlike any other's."""
    match tree:
        case ["and", *parts]:
            for part in parts:
                _collect(part, scope, formula, numbers)
        case ["exists", list(names), body]:
            typed = _variables(names)
            inner = {name: f"{name}/{next(numbers)}" for name, _ in typed}
            formula.variables += [(inner[name], type_name) for name, type_name in typed]
            _collect(body, {**scope, **inner}, formula, numbers)
        case ["not", [str(predicate), *arguments]]:
            formula.literals.append(_literal(predicate, arguments, positive=False).bound(scope))
        case [str(predicate), *arguments]:
            formula.literals.append(_literal(predicate, arguments, positive=True).bound(scope))
        case _:
            raise ValueError(f"the :goal of the PDDL problem has a part that is not understood: {str(tree)[:80]}")


def _literal(predicate: str, arguments: Sequence[Tree], positive: bool) -> Literal:
    names = tuple(argument for argument in arguments if isinstance(argument, str))
    least = {"=": 2, "inreceptacle": 2}.get(predicate, 0)
    if predicate in _CONNECTIVES or len(names) != len(arguments) or len(names) < least:
        raise ValueError(f"the :goal of the PDDL problem has a part that is not understood: {predicate[:40]!r}")
    return Literal(predicate, names, positive)


def _variables(names: Sequence[Tree]) -> list[tuple[str, str]]:
    """`?a ?b - t ?c - u`: each variable with the type that follows."""
    found: list[tuple[str, str]] = []
    untyped: list[str] = []
    words = iter(names)
    for word in words:
        if word != "-":
            untyped.append(str(word))
            continue
        type_name = str(next(words, ""))
        found += [(name, type_name) for name in untyped]
        untyped = []
    if untyped:
        raise ValueError(f"the :goal of the PDDL problem has a variable without a type: {untyped[0][:40]}")
    return found
