"""Which words of a conversation name things: capitalised names and nouns, found without a language model.

- A **name** is a run of capitalised words (or one word in capitals) inside a sentence, in two turns or more, that is
  written with capitals at least as often as without. Speakers, months, weekdays and function words are not names.
- A **noun** is a word of four letters or more that twice or more follows an article or possessive and is itself
  followed by punctuation or a function word ("my **kiln** is"), more often than by another content word ("my **new**
  kiln"). A plural counts with its singular.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from horma_rl.memory.notes import Utterance
from horma_rl.memory.text import sentences, word_set
from memory_shell.terms import STOP_WORDS, tokenise

_CAPITAL = r"(?:[^\W\d_a-z][\w'\u2019&-]*)"
_NAME = re.compile(rf"(?<=[a-z,;] ){_CAPITAL}(?: {_CAPITAL})*")
_DETERMINED = re.compile(
    r"\b(?:an?|the|my|our|her|his|their|your|this|that|some) ([a-z]{4,})\b(?: ([a-z']+))?", re.IGNORECASE
)
_NOT_NAMES = word_set(
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august "
    "september october november december i i'm i've i'll i'd hey hi wow yeah yep yes ok okay thanks thank oh lol bye "
    "congrats good great awesome cool nice btw omg mom dad"
)
_GENERIC = word_set(
    "thing things time times way ways kind sort stuff people person life world moment moments place places part parts "
    "side rest whole same best most first last next past future reason idea chance end start while point fact case "
    "hour hours minute minutes day days night nights week weeks weekend month months year years morning afternoon "
    "evening today couple number even like made make makes making actually happened happen wanted want thinking think "
    "took take taking come came coming really photo picture pics image guy guys thanks love great good nice well"
)


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing that several turns mention, by the name it is mostly called."""

    name: str
    turns: tuple[Utterance, ...]


class Vocabulary:
    """The words of a whole conversation."""

    def __init__(self, utterances: Sequence[Utterance], speakers: Iterable[str]) -> None:
        self._utterances = utterances
        self._speakers = {word for speaker in speakers for word in tokenise(speaker)}
        self._tokens = [tokenise(f"{one.text}{one.shares}") for one in utterances]
        self._known = {word for tokens in self._tokens for word in tokens}
        self._singular = {word: self._find_singular(word) for word in self._known}
        self._turns_with: dict[str, list[int]] = defaultdict(list)
        for index, tokens in enumerate(self._tokens):
            for word in dict.fromkeys(self._singular[token] for token in tokens):
                self._turns_with[word].append(index)
        self.nouns = self._find_nouns()

    def _find_singular(self, word: str) -> str:
        if not word.endswith("s") or word.endswith("ss") or len(word) < 4:
            return word
        candidates = [f"{word[:-3]}y"] if word.endswith("ies") else [word[:-1], word[:-2]]
        return next((known for known in candidates if known in self._known and known not in STOP_WORDS), word)

    def _find_nouns(self) -> frozenset[str]:
        alone: Counter[str] = Counter()
        before_another: Counter[str] = Counter()
        for one in self._utterances:
            for match in _DETERMINED.finditer(one.text):
                word = self._singular.get(match[1].lower())
                if word is None or word in STOP_WORDS or word in _GENERIC or word in self._speakers:
                    continue
                follower = (match[2] or "").lower()
                (before_another if follower and follower not in STOP_WORDS else alone)[word] += 1
        return frozenset(word for word, count in alone.items() if count >= 2 and count > before_another[word])

    def frequency(self, word: str) -> int:
        """How many turns hold `word`, singular or plural."""
        return len(self._turns_with.get(self._singular.get(word, word), ()))

    def content(self, text: str) -> list[str]:
        """The telling words of `text` in order, in the singular, once each: no function words, no speakers' names."""
        words = (self._singular.get(word, word) for word in tokenise(text))
        kept = (w for w in words if len(w) >= 4 and w.isalpha() and w not in STOP_WORDS and w not in _GENERIC)
        return [word for word in dict.fromkeys(kept) if word not in self._speakers and word not in _NOT_NAMES]

    def entities(self, limit: int) -> list[Entity]:
        """At most `limit` things, the most mentioned first: names take up to half, nouns the rest.

        A noun must be in at least three turns and in at most 3% of them (or eight): beyond that it tells nothing.
        """
        names = self._names()[: limit // 2]
        taken = {word for entity in names for word in tokenise(entity.name)}
        most = max(8, len(self._utterances) * 3 // 100)
        nouns = [
            Entity(word, tuple(self._utterances[index] for index in self._turns_with[word]))
            for word in sorted(self.nouns - taken)
            if 3 <= len(self._turns_with[word]) <= most
        ]
        return [*names, *sorted(nouns, key=lambda entity: -len(entity.turns))[: limit - len(names)]]

    def _names(self) -> list[Entity]:
        spellings: dict[str, Counter[str]] = defaultdict(Counter)
        for one in self._utterances:
            for name in self._names_in(one):
                spellings[" ".join(tokenise(name))][name] += 1
        found: list[Entity] = []
        for key, written in sorted(spellings.items()):
            turns = self._turns_naming(key.split())
            capital = sum(written.values())
            if len(turns) >= 2 and capital >= 2 and 2 * capital >= len(turns):
                found.append(Entity(written.most_common(1)[0][0], tuple(turns)))
        return sorted(found, key=lambda entity: -len(entity.turns))

    def _names_in(self, one: Utterance) -> Iterator[str]:
        for sentence in sentences(one.text):
            for match in _NAME.finditer(sentence):
                words = [word for word in match[0].split() if tokenise(word)]
                plain = {word for part in words for word in tokenise(part)}
                if plain and not plain & self._speakers and not plain & _NOT_NAMES and not plain <= STOP_WORDS:
                    yield re.sub(r"['\u2019]s$", "", " ".join(words)).strip("'\u2019-&")

    def _turns_naming(self, words: list[str]) -> list[Utterance]:
        """The turns in which `words` stand one after the other."""
        rarest = min((self._turns_with.get(self._singular.get(word, word), []) for word in words), key=len)
        return [self._utterances[index] for index in rarest if _holds(self._tokens[index], words)]


def _holds(tokens: list[str], words: list[str]) -> bool:
    if len(words) == 1:
        return words[0] in tokens
    if len(words) == 2:
        return (words[0], words[1]) in pairwise(tokens)
    return any(tokens[at : at + len(words)] == words for at in range(len(tokens) - len(words) + 1))
