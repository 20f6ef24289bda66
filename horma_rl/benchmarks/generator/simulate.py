"""Invents a world: draws its people, dates and facts, and spreads the facts over the sessions."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

from horma_rl.benchmarks.generator.config import GeneratorConfig
from horma_rl.benchmarks.generator.events import EVENTS
from horma_rl.benchmarks.generator.lives import LASTING, NEAR, PHOTOS, STATES
from horma_rl.benchmarks.generator.topic import Topic
from horma_rl.benchmarks.generator.vocabulary import near_pairs, people
from horma_rl.benchmarks.generator.world import Fact, Values, World

MIN_GAP_DAYS, MAX_GAP_DAYS = 8, 32
SPEAKER_IN_PAIR = 0.3
"""How often a friend's name resembles the speaker's own, and not only another friend's."""


class Simulation:
    """One world in the making. `slots` are the places for facts that each (session, person) still has."""

    def __init__(self, rng: Random, config: GeneratorConfig) -> None:
        self._rng, self._config = rng, config
        self.values = Values(rng, config.part, config.lookalikes)
        pairs = rng.sample(near_pairs(config.part), 2)
        names = rng.sample(people(config.part), config.people)
        self._friends = list(pairs[0])
        if rng.random() < SPEAKER_IN_PAIR:
            names[0] = pairs[1][0]
            self._friends.append(pairs[1][1])
        rng.shuffle(names)
        self.world = World(tuple(names), _times(rng, config.sessions))
        each = max(1, min(config.facts, config.turns // 3) // config.people)
        self._room = {(session, name): each for session in range(config.sessions) for name in names}

    def run(self) -> World:
        """Fill the world with facts, in the order they will be told."""
        self._near_names()
        for person in self.world.people:
            self._states(person)
        self._comparable()
        for person in self.world.people:
            self._add(self._rng.choice(PHOTOS), person)
            self._add(self._rng.choice(LASTING), person)
        self._lists()
        self._singles()
        self.world.facts.sort(key=lambda fact: fact.session)
        return self.world

    def _near_names(self) -> None:
        """One topic told twice, about people whose names are easily confused."""
        topic = self._rng.choice(NEAR)
        for friend in self._friends:
            self._add(topic, self._rng.choice(self.world.people), fixed={"friend": friend})

    def _states(self, person: str) -> None:
        """Two parts of a life that change once or twice, and one that stays."""
        topics = self._rng.sample(STATES, 3)
        for topic, length in zip(topics, (self._rng.choice((2, 2, 2, 3)), 2, 1), strict=True):
            free = sorted(session for (session, name), room in self._room.items() if name == person and room)
            if len(free) < length:
                return
            for step, session in enumerate(sorted(self._rng.sample(free, length))):
                self._add(topic, person, session, change=step > 0)

    def _comparable(self) -> None:
        """Topics of which two people have exactly one fact each; half of the time they agree in a coarse value."""
        able = [topic for topic in EVENTS if topic.same or topic.more]
        for topic in self._rng.sample(able, 2):
            first, second = self._rng.sample(self.world.people, 2)
            told = self._add(topic, first)
            fixed = {}
            if told and topic.same and self._rng.random() < 0.5:
                slot = self._rng.choice(topic.same).want
                fixed = {slot: told.values[slot]}
            self._add(topic, second, fixed=fixed)

    def _lists(self) -> None:
        """For each person one topic with two or three facts, for questions that need all of them."""
        taken = {fact.topic for fact in self.world.facts}
        able = [topic for topic in EVENTS if topic.listing and topic.name not in taken]
        for person, topic in zip(self.world.people, self._rng.sample(able, len(self.world.people)), strict=True):
            for _ in range(self._rng.choice((2, 2, 3))):
                self._add(topic, person)

    def _singles(self) -> None:
        """One fact of a topic that a person has none of, until the sessions are full."""
        for person in self.world.people:
            taken = {fact.topic for fact in self.world.facts if fact.person == person}
            able = [topic for topic in (*EVENTS, *LASTING, *PHOTOS) if topic.name not in taken]
            for topic in self._rng.sample(able, len(able)):
                if self._add(topic, person) is None and not self._free(person):
                    break

    def _free(self, person: str) -> list[int]:
        return [session for (session, name), room in self._room.items() if name == person and room]

    def _add(
        self,
        topic: Topic,
        person: str,
        session: int | None = None,
        change: bool = False,
        fixed: dict[str, str] | None = None,
    ) -> Fact | None:
        """Add a fact where there is room; None when there is none, or when a pool has no value left."""
        free = self._free(person)
        if not free:
            return None
        values = dict(fixed or {})
        try:
            for slot, name in topic.slots.items():
                if slot not in values:
                    values[slot] = self.values.draw(name)
        except LookupError:
            return None
        place = self._rng.choice(free) if session is None else session
        self._room[place, person] -= 1
        fact = Fact(topic.name, person, values, place, change)
        self.world.facts.append(fact)
        return fact


def _times(rng: Random, sessions: int) -> list[datetime]:
    """When the sessions start: days or weeks apart, at any waking hour."""
    day = datetime(2021, 1, 1) + timedelta(days=rng.randrange(1200))
    times = []
    for _ in range(sessions):
        times.append(day.replace(hour=rng.randrange(8, 22), minute=rng.randrange(60)))
        day += timedelta(days=rng.randint(MIN_GAP_DAYS, MAX_GAP_DAYS))
    return times
