"""Puts a world into words: who says what in which turn, with small talk and decoys around the facts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random

from horma_rl.benchmarks.generator import smalltalk as talk
from horma_rl.benchmarks.generator.config import GeneratorConfig
from horma_rl.benchmarks.generator.world import TOPICS, Fact, Span, Values, World, phrase
from horma_rl.benchmarks.types import Conversation, RawTurn, Session

SHORT = 6
"""A reply of fewer words gets a second sentence."""


class Words(dict[str, str]):
    """The fields of a template: `{item}`, `{a_item}` with its article, `{item_tail}` its last word."""

    def __missing__(self, key: str) -> str:
        if key.startswith("a_"):
            value = self[key.removeprefix("a_")]
            return f"{'an' if value[0] in 'aeiou' else 'a'} {value}"
        if key.endswith("_tail"):
            return self[key.removesuffix("_tail")].split()[-1]
        raise KeyError(key)


def fill(template: str, values: Mapping[str, str]) -> str:
    """`template` with its slots filled. Raises KeyError for a slot that has no value."""
    text = template.format_map(Words(values))
    return text[0].upper() + text[1:] if not text.startswith("a photo") else text


class Renderer:
    """Writes one conversation, and gives every fact its turn, its date and its words."""

    def __init__(self, rng: Random, config: GeneratorConfig, world: World, values: Values) -> None:
        self._rng, self._config, self._world, self._values = rng, config, world, values
        self._talk = talk.SmallTalk(rng)

    def conversation(self, name: str) -> Conversation:
        """The whole conversation, session by session."""
        sessions = tuple(
            Session(place + 1, time, tuple(self._session(place))) for place, time in enumerate(self._world.times)
        )
        return Conversation(name, self._world.people, sessions)

    def _session(self, place: int) -> list[RawTurn]:
        speakers = self._speakers()
        facts = self._positions([fact for fact in self._world.facts if fact.session == place], speakers)
        free = [turn for turn in range(2, len(speakers) - 1) if turn not in facts and turn - 1 not in facts]
        decoys = set(self._rng.sample(free, min(self._config.decoys, len(free))))
        turns: list[RawTurn] = []
        for position, speaker in enumerate(speakers):
            other = speakers[position - 1] if position else speakers[1]
            fact = facts.get(position)
            told = facts.get(position - 1)
            caption = None
            if fact is not None:
                text, caption = self._tell(fact, place)
                fact.turn = f"D{place + 1}:{position + 1}"
            elif position in decoys:
                text = self._decoy()
            elif told is not None:
                text = self._reply(told)
            else:
                text, caption = self._chat(position, other, len(speakers))
            turns.append(RawTurn(f"D{place + 1}:{position + 1}", speaker, text, caption))
        return turns

    def _speakers(self) -> list[str]:
        """Who speaks when: in turn for two, anyone but the last speaker for more."""
        order = [self._rng.choice(self._world.people)]
        while len(order) < self._config.turns:
            order.append(self._rng.choice([name for name in self._world.people if name != order[-1]]))
        return order

    def _positions(self, facts: list[Fact], speakers: list[str]) -> dict[int, Fact]:
        """A turn of its speaker for each fact, apart from other facts where possible. Facts that find no turn are
        dropped from the world (with three or four speakers, one may hardly speak)."""
        placed: dict[int, Fact] = {}
        for fact in facts:
            free = [turn for turn in range(1, len(speakers)) if speakers[turn] == fact.person and turn not in placed]
            apart = [turn for turn in free if turn > 1 and turn - 1 not in placed and turn + 1 not in placed]
            if apart or free:
                placed[self._rng.choice(apart or free)] = fact
            else:
                self._world.facts.remove(fact)
        return placed

    def _tell(self, fact: Fact, place: int) -> tuple[str, str | None]:
        topic, rng = TOPICS[fact.topic], self._rng
        template = rng.choice(topic.change if fact.change else topic.say)
        values = dict(fact.values)
        if "{when}" in template or "{When}" in template:
            words, fact.span = self._when(fact, place)
            values |= {"when": words, "When": words[0].upper() + words[1:]}
        caption = None
        if topic.captions and (topic.shape == "photo" or rng.random() < self._config.captions):
            caption = fill(rng.choice(topic.captions), fact.values)
        return fill(template, values), caption

    def _when(self, fact: Fact, place: int) -> tuple[str, Span]:
        """Changes are told with a day, so that none can seem to come before the state it replaces."""
        told = self._world.times[place].date()
        return phrase(self._rng, told, ("day",)) if fact.change else phrase(self._rng, told)

    def _reply(self, fact: Fact) -> str:
        text = fill(self._rng.choice(TOPICS[fact.topic].replies), fact.values)
        return text if len(text.split()) >= SHORT else f"{text} {self._rng.choice(talk.TAILS)}"

    def _decoy(self) -> str:
        """Words like those of a topic of this memory, about nobody's fact."""
        topics = sorted({fact.topic for fact in self._world.facts if TOPICS[fact.topic].decoys})
        if not topics:
            return self._talk.line(talk.REMARKS)
        topic = TOPICS[self._rng.choice(topics)]
        template = self._rng.choice(topic.decoys)
        try:
            values = {slot: self._values.draw(topic.slots[slot]) for slot in _slots(template)}
        except LookupError:
            return self._talk.line(talk.REMARKS)
        return fill(template, values)

    def _chat(self, position: int, other: str, turns: int) -> tuple[str, str | None]:
        if position == 0:
            return self._talk.line(talk.OPENINGS, other), None
        if position == 1:
            return self._talk.line(talk.ANSWERS, other), None
        if position >= turns - 1:
            return self._talk.line(talk.CLOSINGS, other), None
        templates = self._rng.choice((talk.REMARKS, talk.REMARKS, talk.QUESTIONS, talk.ANSWERING))
        shared = self._rng.random() < self._config.snapshots
        return self._talk.line(templates, other), self._talk.line(talk.SNAPSHOTS) if shared else None


def _slots(template: str) -> list[str]:
    return sorted({name.removeprefix("a_") for name in re.findall(r"{(\w+)}", template)})
