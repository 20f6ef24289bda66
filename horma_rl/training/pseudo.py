"""Memories of random words: what teaches a tiny model to copy and to match, before it reads a sentence.

A line of such a memory says nothing; a question about it is a few of its words in a question's frame, some inflected
differently, some replaced by words of no line. Words follow a Zipf law, so that the frequent ones stand in many lines
and the model learns which words are worth a search; a share of them is drawn evenly from the whole vocabulary, so that
every token learns to be copied. Lines of one session share a topic, as in a real conversation. Everything after the
words (workspace, overview, greps, selection) is the real thing.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np

from horma_rl.benchmarks.types import Conversation, RawTurn, Session
from memory_shell.terms import STOP_WORDS, stem, tokenise
from memory_shell.types import Task
from memory_shell.workspace import Workspace

FRAMES = (
    "What did {s} {q}?", "When did {s} {q}?", "Where does {s} {q}?", "How did {s} {q}?", "Who did {s} {q} with?",
    "What is {s}'s {q}?", "Which {q} does {s} like?", "Why did {s} {q}?", "What {q} does {s} have?",
    "What kind of {q} did {s} see?", "How many {q} has {s}?", "Did {s} ever {q}?", "Is {s} going to {q}?",
    "What does {s} think about {q}?", "How long has {s} been {q}?", "What was {s}'s {q} after {q2}?",
)  # fmt: skip


@dataclass
class WordSource:
    """Draws words: Zipf-distributed ones from `words` (most frequent first), or evenly with probability `even`."""

    words: Sequence[str]
    even: float
    rng: np.random.Generator
    _content: list[str] = field(init=False)
    _function: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self._content = [w for w in self.words if w not in STOP_WORDS and len(w) > 2]
        self._function = [w for w in self.words[:150] if w in STOP_WORDS]
        weights = 1.0 / (np.arange(len(self._content)) + 60.0)
        self._weights = np.cumsum(weights / weights.sum())
        self._inflections: dict[str, list[str]] = defaultdict(list)
        for word in self._content:
            self._inflections[stem(word)].append(word)

    def content(self, n: int) -> list[str]:
        """`n` content words."""
        zipf = np.searchsorted(self._weights, self.rng.random(n))
        flat = self.rng.integers(0, len(self._content), n)
        chosen = np.where(self.rng.random(n) < self.even, flat, zipf)
        return [self._content[min(int(i), len(self._content) - 1)] for i in chosen]

    def inflected(self, word: str) -> str:
        """A word with the stem of `word`."""
        family = self._inflections.get(stem(word), [word])
        return family[int(self.rng.integers(len(family)))]

    def sentence(self, content: Sequence[str]) -> str:
        """`content` in order, with function words between."""
        out: list[str] = []
        for word in content:
            out += [self._function[int(i)] for i in self.rng.integers(0, len(self._function), self.rng.integers(0, 3))]
            out.append(word)
        return " ".join(out)


def pseudo_memory(
    name: str, source: WordSource, sessions: int = 16, turns: int = 25, questions: int = 150
) -> tuple[Conversation, list[Task]]:
    """A conversation of random words and questions about single turns of it. Session and turn numbers are random, so
    that every turn-id token is seen; ids stay within D1:1 to D35:50."""
    rng = source.rng
    people = source.content(2)
    day = datetime(2023, 1, 1, 12)
    made: list[Session] = []
    spoken: list[tuple[str, str, list[str]]] = []
    for index in sorted(rng.choice(np.arange(1, 36), sessions, replace=False).tolist()):
        topic = source.content(25)
        lines: list[RawTurn] = []
        for number in sorted(rng.choice(np.arange(1, 51), turns, replace=False).tolist()):
            n = int(rng.integers(2, 15))
            shared = rng.random(n) < 0.4
            fresh = source.content(n)
            content = [topic[int(rng.integers(25))] if s else w for s, w in zip(shared, fresh, strict=True)]
            content = [source.inflected(w) for w in content]
            turn = RawTurn(f"D{index}:{number}", people[int(rng.integers(2))].title(), source.sentence(content) + ".")
            lines.append(turn)
            spoken.append((turn.id, turn.speaker, content))
        made.append(Session(index, day + timedelta(days=9 * index), tuple(lines)))
    conversation = Conversation(name, tuple(p.title() for p in people), tuple(made))
    return conversation, [_question(name, i, source, people, spoken) for i in range(questions)]


def _question(
    name: str, number: int, source: WordSource, people: list[str], spoken: list[tuple[str, str, list[str]]]
) -> Task:
    rng = source.rng
    turn_id, speaker, content = spoken[int(rng.integers(len(spoken)))]
    kept = rng.permutation(len(content))[: int(rng.integers(1, 5))]
    words = [source.inflected(content[int(i)]) for i in kept] + source.content(int(rng.integers(0, 3)))
    words = [words[int(i)] for i in rng.permutation(len(words))]
    frame = FRAMES[int(rng.integers(len(FRAMES)))]
    asked = speaker if rng.random() < 0.85 else people[int(rng.integers(2))].title()
    cut = len(words) - 1 if "{q2}" in frame and len(words) > 1 else len(words)
    text = frame.format(s=asked, q=source.sentence(words[:cut]), q2=" ".join(words[cut:]) or "that")
    return Task(f"{name}/q-{number}", text, (turn_id,), name)


def turn_tasks(workspace: Workspace, rng: random.Random, count: int) -> list[Task]:
    """Questions made of the words of single turns of a real memory, in a question's frame: more practice in finding
    a turn than a benchmark has questions. Turns with fewer than three content words are passed over."""
    turns = [(turn, _content_words(turn.text)) for turn in workspace.turns.values()]
    rich = [(turn, words) for turn, words in turns if len(words) > 2]
    tasks = []
    for number in range(count):
        turn, words = rng.choice(rich)
        kept = rng.sample(words, min(len(words), rng.randint(1, 4)))
        stray = [rng.choice(rng.choice(rich)[1]) for _ in range(rng.randint(0, 2))]
        asked = turn.speaker if rng.random() < 0.85 else rng.choice(rich)[0].speaker
        text = _ask(rng, asked, rng.sample(kept + stray, len(kept) + len(stray)))
        tasks.append(Task(f"{workspace.name}/turn-{number}", text, (turn.id,), workspace.name))
    return tasks


def _content_words(text: str) -> list[str]:
    return list(dict.fromkeys(word for word in tokenise(text) if word not in STOP_WORDS and len(word) > 2))


def _ask(rng: random.Random, speaker: str, words: list[str]) -> str:
    frame = rng.choice(FRAMES)
    cut = len(words) - 1 if "{q2}" in frame and len(words) > 1 else len(words)
    return frame.format(s=speaker, q=" ".join(words[:cut]), q2=" ".join(words[cut:]) or "that")
