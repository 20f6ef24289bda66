"""What a question means, and what the world says to it: the answer, and exactly the turns that hold it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from horma_rl.benchmarks.generator.config import Kind
from horma_rl.benchmarks.generator.world import TOPICS, Fact, World

Form = Literal["slot", "date", "list", "now", "before", "first", "earlier", "same", "more"]


@dataclass(frozen=True, slots=True)
class Ref:
    """Facts of `person` on `topic` whose slots have the values `given`."""

    topic: str
    person: str
    given: tuple[tuple[str, str], ...] = ()

    def matches(self, world: World, anyone: bool = False) -> list[Fact]:
        """The world's facts that fit, in the order they are told; `anyone` leaves the person open."""
        return [
            fact
            for fact in world.facts
            if fact.topic == self.topic
            and (anyone or fact.person == self.person)
            and all(fact.values[slot] == value for slot, value in self.given)
        ]


@dataclass(frozen=True, slots=True)
class Query:
    """A question without its wording. `want` is the slot asked for, where one is."""

    kind: Kind
    form: Form
    refs: tuple[Ref, ...]
    want: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`answer` is None when the memory does not say. `trap` is what a reader who mixes up the speakers answers."""

    answer: str | None
    evidence: tuple[str, ...]
    trap: str | None = None


class AmbiguousError(ValueError):
    """The world gives no single answer to the question."""


def answer(world: World, query: Query) -> Outcome:
    """Answer `query` from the facts alone. Raises AmbiguousError when there is not exactly one answer."""
    if query.kind == "absent":
        return _absent(world, query)
    if query.kind == "trap":
        return _trap(world, query)
    if query.form == "list":
        facts = query.refs[0].matches(world)
        if len(facts) < 2:
            raise AmbiguousError("a list needs two facts")
        return Outcome(", ".join(fact.values[query.want] for fact in facts), _turns(*facts))
    if query.form in ("now", "before"):
        return _state(world, query)
    facts = [_only(ref.matches(world)) for ref in query.refs]
    if query.form in ("slot", "date"):
        return Outcome(_value(facts[0], query), _turns(facts[0]))
    return _two(facts[0], facts[1], query)


def _only(facts: list[Fact]) -> Fact:
    if len(facts) != 1:
        raise AmbiguousError(f"{len(facts)} facts fit")
    return facts[0]


def _turns(*facts: Fact) -> tuple[str, ...]:
    """Turn ids in the order of the conversation."""
    ids = {fact.turn for fact in facts}
    return tuple(sorted(ids, key=lambda turn: tuple(map(int, turn[1:].split(":")))))


def _value(fact: Fact, query: Query) -> str:
    if query.form == "slot":
        return fact.values[query.want]
    if fact.span is None:
        raise AmbiguousError("no date was told")
    return fact.span.text()


def _absent(world: World, query: Query) -> Outcome:
    if any(ref.matches(world, anyone=True) for ref in query.refs):
        raise AmbiguousError("somebody has such a fact")
    return Outcome(None, ())


def _trap(world: World, query: Query) -> Outcome:
    (ref,) = query.refs
    if ref.matches(world):
        raise AmbiguousError("the person has such a fact")
    fact = _only(ref.matches(world, anyone=True))
    return Outcome(None, _turns(fact), _value(fact, query))


def _state(world: World, query: Query) -> Outcome:
    """`now`: the last value told. `before`: the value that the named one replaced; both turns are needed for it."""
    (ref,) = query.refs
    chain = Ref(ref.topic, ref.person).matches(world)
    if query.form == "now":
        if not chain:
            raise AmbiguousError("no such state")
        return Outcome(chain[-1].values[query.want], _turns(chain[-1]))
    place = chain.index(_only(ref.matches(world)))
    if place == 0:
        raise AmbiguousError("nothing was before it")
    return Outcome(chain[place - 1].values[query.want], _turns(chain[place - 1], chain[place]))


def _two(first: Fact, second: Fact, query: Query) -> Outcome:
    turns = _turns(first, second)
    if query.form == "same":
        return Outcome(_yes(first.values[query.want] == second.values[query.want]), turns)
    if query.form == "more":
        return Outcome(_yes(_number(first, query.want) > _number(second, query.want)), turns)
    if first.span is None or second.span is None:
        raise AmbiguousError("no date was told")
    if not first.span.before(second.span) and not second.span.before(first.span):
        raise AmbiguousError("the dates overlap")
    if query.form == "earlier":
        return Outcome(_yes(first.span.before(second.span)), turns)
    sooner = first if first.span.before(second.span) else second
    return Outcome(TOPICS[sooner.topic].past.format_map(sooner.values), turns)


def _yes(truth: bool) -> str:
    return "Yes" if truth else "No"


def _number(fact: Fact, slot: str) -> int:
    return int(fact.values[slot].split()[0])
