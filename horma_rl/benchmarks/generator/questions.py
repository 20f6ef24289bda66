"""Asks about a world: draws questions of each kind, keeps those with exactly one answer, and words them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random

from horma_rl.benchmarks.generator.answers import AmbiguousError, Form, Outcome, Query, Ref, answer
from horma_rl.benchmarks.generator.config import KINDS, GeneratorConfig, Kind
from horma_rl.benchmarks.generator.render import fill
from horma_rl.benchmarks.generator.topic import Ask, Topic, fields
from horma_rl.benchmarks.generator.vocabulary import SHARED, pool
from horma_rl.benchmarks.generator.world import TOPICS, Fact, World

TRIES = 40
"""Candidates looked at before a kind is given up for this memory."""

FIRST = (
    "What did {who} do first: {base_a} or {base_b}?",
    "Which came first: {who} {past_a} or {who} {past_b}?",
    "Did {who} first {base_a} or {base_b}?",
)
EARLIER = ("Did {who} {base_a} before {other} {past_b}?", "Was it before {other} {past_b} that {who} {past_a}?")


@dataclass(frozen=True, slots=True)
class Question:
    """A worded question with what it means and what the world says to it."""

    text: str
    query: Query
    outcome: Outcome


class Questions:
    """Draws the questions about one world. `transcript` is all that was said and shown, in lower case."""

    def __init__(self, rng: Random, config: GeneratorConfig, world: World, transcript: str) -> None:
        self._rng, self._config, self._world, self._transcript = rng, config, world, transcript
        self._propose: Mapping[Kind, Callable[[], tuple[str, Query] | None]] = {
            "single": self._single, "several": self._several, "time": self._time, "order": self._order,
            "changed": self._changed, "comparison": self._comparison, "absent": self._absent, "trap": self._trap,
            "caption": self._caption, "near-name": self._near,
        }  # fmt: skip

    def draw(self) -> list[Question]:
        """Up to `questions` questions, no wording twice, in random order."""
        found: dict[str, Question] = {}
        left = self._config.questions
        for kind, count in [*self._shares(), *((kind, left) for kind in self._spare())]:
            wanted = min(count, self._config.questions - len(found))
            for question in self._of_kind(kind, wanted, found):
                found[question.text] = question
        questions = list(found.values())
        self._rng.shuffle(questions)
        return questions

    def _shares(self) -> list[tuple[Kind, int]]:
        """How many questions of each kind: whole shares first, what is left over drawn by the remainders."""
        weights = {kind: self._config.mix.get(kind, 0.0) for kind in KINDS}
        scale = self._config.questions / sum(weights.values())
        counts = {kind: int(weight * scale) for kind, weight in weights.items()}
        remainders = {kind: weight * scale - counts[kind] for kind, weight in weights.items()}
        for _ in range(self._config.questions - sum(counts.values())):
            kind = self._rng.choices(KINDS, [remainders[kind] + 1e-9 * (weights[kind] > 0) for kind in KINDS])[0]
            counts[kind] += 1
            remainders[kind] = 0.0
        return list(counts.items())

    def _spare(self) -> list[Kind]:
        """The kinds that make up for those the world had too few facts for: the plainest first."""
        return [kind for kind in ("single", "time", "trap") if self._config.mix.get(kind)]

    def _of_kind(self, kind: Kind, count: int, found: Mapping[str, Question]) -> Iterator[Question]:
        tries = TRIES
        while count > 0 and tries > 0:
            tries -= 1
            proposal = self._propose[kind]()
            if proposal is None or proposal[0] in found:
                continue
            try:
                outcome = answer(self._world, proposal[1])
            except AmbiguousError:
                continue
            count -= 1
            yield Question(*proposal, outcome)

    def _fact(self, accept: Callable[[Topic, Fact], bool]) -> tuple[Topic, Fact] | None:
        able = [fact for fact in self._world.facts if accept(TOPICS[fact.topic], fact)]
        if not able:
            return None
        fact = self._rng.choice(able)
        return TOPICS[fact.topic], fact

    def _ask(self, kind: Kind, form: Form, ask: Ask, fact: Fact, person: str | None = None) -> tuple[str, Query]:
        """`ask` about `fact`, put to `person` (its own by default)."""
        who = person or fact.person
        given = tuple((slot, fact.values[slot]) for slot in sorted(ask.given))
        text = fill(ask.text, {**fact.values, "who": who})
        return text, Query(kind, form, (Ref(fact.topic, who, given),), "" if form == "date" else ask.want)

    def _single(self) -> tuple[str, Query] | None:
        picked = self._fact(lambda topic, _: topic.shape != "photo" and not topic.near)
        if picked is None:
            return None
        topic, fact = picked
        alone = len(Ref(fact.topic, fact.person).matches(self._world)) == 1
        if topic.now and alone and self._rng.random() < 0.5:
            return self._ask("single", "now", self._rng.choice(topic.now), fact)
        return self._ask("single", "slot", self._rng.choice(topic.asks), fact)

    def _caption(self) -> tuple[str, Query] | None:
        picked = self._fact(lambda topic, _: topic.shape == "photo")
        return self._ask("caption", "slot", self._rng.choice(picked[0].asks), picked[1]) if picked else None

    def _near(self) -> tuple[str, Query] | None:
        picked = self._fact(lambda topic, _: topic.near)
        if picked is None:
            return None
        topic, fact = picked
        if self._rng.random() < 0.25:
            return self._ask("near-name", "date", Ask("date", self._rng.choice(topic.when)), fact)
        return self._ask("near-name", "slot", self._rng.choice(topic.asks), fact)

    def _time(self) -> tuple[str, Query] | None:
        picked = self._fact(lambda topic, fact: bool(topic.when) and fact.span is not None)
        return self._ask("time", "date", Ask("date", self._rng.choice(picked[0].when)), picked[1]) if picked else None

    def _several(self) -> tuple[str, Query] | None:
        picked = self._fact(lambda topic, _: bool(topic.listing))
        return self._ask("several", "list", self._rng.choice(picked[0].listing), picked[1]) if picked else None

    def _changed(self) -> tuple[str, Query] | None:
        picked = self._fact(lambda _, fact: fact.change)
        if picked is None:
            return None
        topic, fact = picked
        if self._rng.random() < 0.5:
            return self._ask("changed", "now", self._rng.choice(topic.now), fact)
        return self._ask("changed", "before", self._rng.choice(topic.before), fact)

    def _trap(self) -> tuple[str, Query] | None:
        """Somebody's fact, asked about somebody else."""
        picked = self._fact(lambda *_: True)
        if picked is None:
            return None
        topic, fact = picked
        other = self._rng.choice([name for name in self._world.people if name != fact.person])
        if topic.when and fact.span is not None and self._rng.random() < 0.3:
            return self._ask("trap", "date", Ask("date", self._rng.choice(topic.when)), fact, other)
        able = [ask for ask in topic.asks if ask.given]
        return self._ask("trap", "slot", self._rng.choice(able), fact, other)

    def _order(self) -> tuple[str, Query] | None:
        pair = self._dated_pair(lambda first, second: first.person == second.person)
        return self._two("order", "first", FIRST, *pair) if pair else None

    def _comparison(self) -> tuple[str, Query] | None:
        if self._rng.random() < 0.4:
            pair = self._dated_pair(lambda first, second: first.person != second.person)
            return self._two("comparison", "earlier", EARLIER, *pair) if pair else None
        picked = self._fact(lambda topic, _: bool(topic.same or topic.more))
        if picked is None:
            return None
        topic, fact = picked
        form: Form = "same" if topic.same else "more"
        ask = self._rng.choice(topic.same or topic.more)
        other = self._rng.choice([name for name in self._world.people if name != fact.person])
        refs = (Ref(fact.topic, fact.person), Ref(fact.topic, other))
        return fill(ask.text, {"who": fact.person, "other": other}), Query("comparison", form, refs, ask.want)

    def _dated_pair(self, accept: Callable[[Fact, Fact], bool]) -> tuple[Fact, Fact] | None:
        able = [fact for fact in self._world.facts if fact.span is not None and TOPICS[fact.topic].past]
        if len(able) < 2:
            return None
        first, second = self._rng.sample(able, 2)
        return (first, second) if accept(first, second) else None

    def _two(self, kind: Kind, form: Form, templates: tuple[str, ...], first: Fact, second: Fact) -> tuple[str, Query]:
        one, two = TOPICS[first.topic], TOPICS[second.topic]
        values = {
            "who": first.person, "other": second.person,
            "base_a": one.base.format_map(first.values), "base_b": two.base.format_map(second.values),
            "past_a": one.past.format_map(first.values), "past_b": two.past.format_map(second.values),
        }  # fmt: skip
        refs = tuple(
            Ref(fact.topic, fact.person, tuple((slot, fact.values[slot]) for slot in sorted(fields(topic.past))))
            for topic, fact in ((one, first), (two, second))
        )
        return fill(self._rng.choice(templates), values), Query(kind, form, refs)

    def _absent(self) -> tuple[str, Query] | None:
        """About something that nobody ever mentioned."""
        topic = self._rng.choice([topic for topic in TOPICS.values() if not topic.near])
        person = self._rng.choice(self._world.people)
        dated = bool(topic.when) and self._rng.random() < 0.3
        ask = Ask("date", self._rng.choice(topic.when)) if dated else self._rng.choice(topic.asks)
        values = {slot: self._rng.choice(pool(topic.slots[slot], self._config.part)) for slot in sorted(ask.given)}
        named = [value for slot, value in values.items() if topic.slots[slot] not in SHARED]
        if any(value.lower() in self._transcript for value in named):
            return None
        if not named and any(fact.topic == topic.name for fact in self._world.facts):
            return None
        fact = Fact(topic.name, person, values, session=0)
        return self._ask("absent", "date" if dated else "slot", ask, fact)
