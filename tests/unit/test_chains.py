"""Object identity chains: every question has one answer in the conversation, and nothing else changes."""

from __future__ import annotations

import re

import pytest

from horma_rl.benchmarks.generator.chains import PLACES, THINGS, ChainConfig, chains
from horma_rl.benchmarks.registry import load_benchmark
from horma_rl.benchmarks.types import Conversation
from horma_rl.errors import UserError

CONFIG = ChainConfig(memories=12, sessions=4, questions=50)


def _moves(conversation: Conversation) -> list[tuple[str, str, str]]:
    """(turn, thing, place) read off the text, in order."""
    thing = re.compile(rf"\b({'|'.join(THINGS['train'])}) (\d)\b")
    place = re.compile("|".join(PLACES["train"]))
    found = []
    for turn in conversation.turns():
        named, where = thing.search(turn.text), place.search(turn.text)
        if named and where:
            found.append((turn.id, named[0], where[0]))
    return found


def test_answers_and_evidence_follow_from_what_was_said() -> None:
    kinds = set()
    for conversation, tasks in chains(CONFIG):
        moves = _moves(conversation)
        last = {thing: (turn, place) for turn, thing, place in moves}
        assert tasks
        for task in tasks:
            kinds.add(task.category)
            if task.category == "identity-now":
                thing = task.question.removeprefix("Where is ").removesuffix(" now?")
                assert (task.evidence, task.answer) == ((last[thing][0],), last[thing][1])
            elif task.category == "identity-which":
                holders = [thing for thing, (_, place) in last.items() if place in task.question]
                assert [task.answer] == holders
            else:
                thing = task.question.removeprefix("Where was ").partition(" before ")[0]
                chain = [(turn, place) for turn, name, place in moves if name == thing]
                assert task.evidence == (chain[-2][0], chain[-1][0])
                assert task.answer == chain[-2][1]
    assert kinds == {"identity-now", "identity-before", "identity-which"}


def test_the_same_seed_gives_the_same_memories_and_another_does_not() -> None:
    assert list(chains(CONFIG)) == list(chains(CONFIG))
    other = next(chains(CONFIG.model_copy(update={"seed": 1})))
    assert other != next(chains(CONFIG))


def test_the_halves_share_no_word_that_matters() -> None:
    benchmark = load_benchmark("chains", train=2, eval=2)
    assert len(benchmark.conversations) == 4
    train, held_out = ({task.answer for task in half} for half in (benchmark.train, benchmark.eval))
    assert not train & held_out
    assert not set(THINGS["train"]) & set(THINGS["eval"])
    assert load_benchmark("chains", train=0, eval=1).train == ()
    with pytest.raises(UserError, match="copies"):
        load_benchmark("chains", generator={"copies": 1})
