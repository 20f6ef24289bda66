"""Memories of random words, and questions made of the words of a turn."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from horma_rl.benchmarks.types import Conversation
from horma_rl.training.corpus import Demonstrator, compact_workspace, pseudo_examples
from horma_rl.training.pseudo import FRAMES, WordSource, pseudo_memory, turn_tasks
from memory_shell.terms import STOP_WORDS, stem, tokenise
from memory_shell.types import Caps, Task
from tests.training_parts import codec, memory, tokenizer, words, world


def source(even: float = 0.4, seed: int = 0) -> WordSource:
    return WordSource(words(), even, np.random.default_rng(seed))


@pytest.fixture(scope="module")
def made() -> tuple[Conversation, list[Task]]:
    return pseudo_memory("pseudo", source())


def test_its_ids_are_unique_and_within_the_tokenizer(made: tuple[Conversation, list[Task]]) -> None:
    ids = made[0].turn_ids()
    assert len(set(ids)) == len(ids) == 16 * 25
    known = tokenizer().get_vocab()
    assert all(turn_id in known for turn_id in ids)
    assert list(made[0].sessions) == sorted(made[0].sessions, key=lambda session: (session.index, session.time))


def test_over_many_memories_every_turn_id_is_seen() -> None:
    drawn = source()
    seen = {i for n in range(9) for i in pseudo_memory(f"p{n}", drawn, sessions=35, turns=25)[0].turn_ids()}
    assert len(seen) > 0.99 * 35 * 50


def test_a_question_shares_stems_with_its_one_turn(made: tuple[Conversation, list[Task]]) -> None:
    conversation, tasks = made
    said = {turn.id: {stem(word) for word in tokenise(turn.text)} for turn in conversation.turns()}
    assert len(tasks) == 150
    for task in tasks:
        (turn_id,) = task.evidence
        assert {stem(word) for word in tokenise(task.question)} & said[turn_id]
        assert any(name in task.question for name in conversation.speakers)
    assert len({task.evidence for task in tasks}) > 75


def test_every_frame_is_asked_and_filled() -> None:
    drawn = source()
    questions = [task.question for n in range(3) for task in pseudo_memory(f"p{n}", drawn)[1]]
    assert not any("{" in question for question in questions)
    assert len({question.split()[0] for question in questions}) == len({frame.split()[0] for frame in FRAMES})


def test_words_follow_their_frequency_and_a_share_is_even() -> None:
    content = [w for w in words() if w not in STOP_WORDS and len(w) > 2]
    zipf, even = Counter(source(even=0.0).content(40_000)), Counter(source(even=1.0).content(40_000))
    assert set(zipf) | set(even) <= set(content)
    first, last = content[:20], content[-20:]
    assert sum(zipf[w] for w in first) > 3 * sum(zipf[w] for w in last) > 0
    assert 0.8 < sum(even[w] for w in first) / sum(even[w] for w in last) < 1.25
    assert set(even) == set(content)


def test_an_inflection_keeps_the_stem_and_varies() -> None:
    drawn = source()
    families = Counter(stem(w) for w in words() if w not in STOP_WORDS and len(w) > 2)
    family, size = families.most_common(1)[0]
    word = next(w for w in words() if stem(w) == family)
    forms = {drawn.inflected(word) for _ in range(60)}
    assert len(forms) == size > 1
    assert {stem(form) for form in forms} == {family}
    assert drawn.inflected("unheardof") == "unheardof"


def test_the_same_seed_makes_the_same_memory_and_another_seed_another() -> None:
    assert pseudo_memory("p", source(seed=3)) == pseudo_memory("p", source(seed=3))
    assert pseudo_memory("p", source(seed=3)) != pseudo_memory("p", source(seed=4))


def test_most_questions_can_be_shown(made: tuple[Conversation, list[Task]], tmp_path: Path) -> None:
    """The expert's searches find the turn for most of them; else the training data would be another than described."""
    workspace = compact_workspace(made[0], tmp_path / "pseudo")
    assert workspace.problems() == []
    demonstrator = Demonstrator(codec(), Caps(turns=6, lines=8), "terms", random.Random(0), 2000)
    count = sum(1 for _ in demonstrator.examples(workspace, made[1]))
    assert count > 0.6 * len(made[1])
    stream = pseudo_examples(demonstrator, source())
    assert len({tuple(next(stream).ids) for _ in range(30)}) == 30


def test_questions_of_turns_ask_for_the_turns_own_words(tmp_path: Path) -> None:
    workspaces = memory(tmp_path)
    workspace = workspaces.get(world().conversations[0].name)
    tasks = turn_tasks(workspace, random.Random(0), 200)
    assert tasks == turn_tasks(workspace, random.Random(0), 200)
    assert len({task.evidence for task in tasks}) > 12
    for task in tasks:
        (turn_id,) = task.evidence
        text = tokenise(workspace.turns[turn_id].text)
        assert set(tokenise(task.question)) & set(text) - STOP_WORDS
        assert task.workspace == workspace.name
        assert "{" not in task.question
