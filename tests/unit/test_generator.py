"""The generator: same input, same output; every answer follows from the turns it names and from no other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path

import pytest

from horma_rl.benchmarks.generator import KINDS, Generated, GeneratorConfig, Memory, generate, iterate
from horma_rl.benchmarks.generator.answers import AmbiguousError, Query, Ref, answer
from horma_rl.benchmarks.generator.topic import fields
from horma_rl.benchmarks.generator.vocabulary import NEAR_PAIRS, POOLS, SHARED, near_pairs, people, pool
from horma_rl.benchmarks.generator.world import TOPICS, Fact
from horma_rl.benchmarks.types import RawTurn
from memory_shell.types import Task

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", params=["train", "eval"])
def made(request: pytest.FixtureRequest) -> Generated:
    return generate(GeneratorConfig(seed=3, part=request.param, memories=40))


def said(turn: RawTurn) -> str:
    return f"{turn.text} {turn.caption or ''}".lower()


def asked(made: Generated, *kinds: str) -> list[tuple[Memory, Task, Query]]:
    found = [
        (memory, task, query)
        for memory in made.memories
        for task, query in zip(memory.tasks, memory.queries, strict=True)
        if task.category in kinds
    ]
    assert found, f"no question of {kinds}"
    return found


def fact_at(memory: Memory, turn: str) -> Fact:
    (fact,) = [fact for fact in memory.world.facts if fact.turn == turn]
    return fact


def test_sizes_are_as_asked(made: Generated) -> None:
    assert len(made.memories) == 40
    for memory in made.memories:
        assert [len(session.turns) for session in memory.conversation.sessions] == [14] * 8
        assert len(memory.tasks) == 14
        assert len({task.question for task in memory.tasks}) == 14
        ids = memory.conversation.turn_ids()
        assert ids == tuple(f"D{session}:{turn}" for session in range(1, 9) for turn in range(1, 15))


def test_all_kinds_in_their_shares(made: Generated) -> None:
    counts = Counter(task.category for task in made.tasks)
    assert set(counts) == set(KINDS)
    one = sum(len(task.evidence) == 1 for task in made.tasks)
    assert 0.65 < one / len(made.tasks) < 0.8
    assert all((task.evidence == ()) == (task.category == "absent") for task in made.tasks)


def test_turns_read_like_talk(made: Generated) -> None:
    for memory in made.memories:
        for session in memory.conversation.sessions:
            speakers = [turn.speaker for turn in session.turns]
            assert all(first != second for first, second in pairwise(speakers))
        for turn in memory.conversation.turns():
            assert 6 <= len(turn.text.split()) <= 22, turn.text
            assert "{" not in said(turn)
            assert "  " not in turn.text
            assert turn.text[0].isupper() or turn.text[0].isdigit()
            assert not re.search(r"\ba [aeiou]|\ban [^aeiou]", said(turn)), turn.text


def test_sessions_go_forward_in_time(made: Generated) -> None:
    for memory in made.memories:
        times = [session.time for session in memory.conversation.sessions]
        assert all((later - earlier).days >= 7 for earlier, later in pairwise(times))


def test_world_gives_every_answer_again(made: Generated) -> None:
    for memory in made.memories:
        for task, query in zip(memory.tasks, memory.queries, strict=True):
            outcome = answer(memory.world, query)
            assert (outcome.answer, outcome.evidence) == (task.answer, task.evidence)
            assert query.kind == task.category


def test_each_fact_is_told_in_full_by_its_person(made: Generated) -> None:
    for memory in made.memories:
        turns = {turn.id: turn for turn in memory.conversation.turns()}
        for fact in memory.world.facts:
            assert turns[fact.turn].speaker == fact.person
            assert all(value.lower() in said(turns[fact.turn]) for value in fact.values.values())


def test_no_other_turn_answers_a_question_about_one_fact(made: Generated) -> None:
    """The answer stands in the evidence, and no other turn has it together with what the question names."""
    for memory, task, query in asked(made, "single", "caption", "near-name"):
        if query.form != "slot":
            continue
        wanted = [str(task.answer), *(value for _, value in query.refs[0].given)]
        holders = [t.id for t in memory.conversation.turns() if all(word.lower() in said(t) for word in wanted)]
        assert set(task.evidence) <= set(holders), task
        if query.refs[0].given:
            assert holders == list(task.evidence), task


def test_lists_are_complete(made: Generated) -> None:
    for memory, task, query in asked(made, "several"):
        ref = query.refs[0]
        facts = [fact for fact in memory.world.facts if (fact.topic, fact.person) == (ref.topic, ref.person)]
        assert {fact.turn for fact in facts} == set(task.evidence)
        assert str(task.answer).split(", ") == [fact.values[query.want] for fact in facts]


def test_dates_resolve_the_phrase_that_was_said(made: Generated) -> None:
    checked = 0
    for memory, task, _ in asked(made, "time"):
        (turn_id,) = task.evidence
        session = next(s for s in memory.conversation.sessions if any(t.id == turn_id for t in s.turns))
        text = next(turn.text.lower() for turn in session.turns if turn.id == turn_id)
        span = fact_at(memory, turn_id).span
        assert span is not None
        days = (session.time.date() - span.first).days
        for words, back in (("yesterday", 1), ("two days ago", 2), ("three days ago", 3), ("this morning", 0)):
            if words in text:
                checked += 1
                assert days == back
        if "two weeks ago" in text:
            assert (span.grain, span.first.weekday()) == ("week", 0)
            assert 14 <= days <= 20
        if "last month" in text:
            assert span.last.day >= 28
            assert span.first.day == 1
    assert checked > 10


def test_order_and_comparison_follow_the_dates(made: Generated) -> None:
    for memory, task, query in asked(made, "order", "comparison"):
        first, second = (ref.matches(memory.world)[0] for ref in query.refs)
        assert set(task.evidence) == {first.turn, second.turn}
        if query.form in ("first", "earlier"):
            assert first.span is not None
            assert second.span is not None
            sooner, later = sorted((first, second), key=lambda fact: fact.span.first if fact.span else None)
            assert sooner.span is not None
            assert later.span is not None
            assert sooner.span.last < later.span.first
            yes = "Yes" if sooner is first else "No"
            assert task.answer == (
                yes if query.form == "earlier" else TOPICS[sooner.topic].past.format(**sooner.values)
            )
        elif query.form == "same":
            assert task.answer == ("Yes" if first.values[query.want] == second.values[query.want] else "No")
        else:
            longer = int(first.values["distance"].split()[0]) > int(second.values["distance"].split()[0])
            assert task.answer == ("Yes" if longer else "No")
    answers = Counter(task.answer for _, task, _ in asked(made, "comparison"))
    assert min(answers["Yes"], answers["No"]) >= 3


def test_changes_name_the_present_and_the_former(made: Generated) -> None:
    for memory, task, query in asked(made, "changed"):
        ref = query.refs[0]
        chain = [fact for fact in memory.world.facts if (fact.topic, fact.person) == (ref.topic, ref.person)]
        assert len(chain) >= 2
        if query.form == "now":
            assert task.evidence == (chain[-1].turn,)
        else:
            named = next(place for place, fact in enumerate(chain) if fact.turn == task.evidence[-1])
            assert task.evidence == (chain[named - 1].turn, chain[named].turn)
            assert task.answer == chain[named - 1].values[query.want]


def test_absent_things_are_not_mentioned(made: Generated) -> None:
    for memory, task, query in asked(made, "absent"):
        topic = TOPICS[query.refs[0].topic]
        text = "\n".join(map(said, memory.conversation.turns()))
        named = [value for slot, value in query.refs[0].given if topic.slots[slot] not in SHARED]
        assert all(value.lower() not in text for value in named), task
        if not named:
            assert all(fact.topic != topic.name for fact in memory.world.facts)


def test_traps_are_told_by_somebody_else(made: Generated) -> None:
    for memory, task, query in asked(made, "trap"):
        (turn_id,) = task.evidence
        turn = next(turn for turn in memory.conversation.turns() if turn.id == turn_id)
        assert query.refs[0].person in task.question
        assert turn.speaker != query.refs[0].person
        assert task.answer is None
        trap = task.meta["adversarial_answer"]
        assert query.form == "date" or trap.lower() in said(turn)


def test_captions_are_needed(made: Generated) -> None:
    for memory, task, query in asked(made, "caption"):
        turn = next(turn for turn in memory.conversation.turns() if (turn.id,) == task.evidence)
        named = [str(task.answer), *(value for _, value in query.refs[0].given)]
        assert turn.caption
        assert any(value.lower() in turn.caption and value.lower() not in turn.text.lower() for value in named)


def test_near_names_both_occur(made: Generated) -> None:
    pairs = {name: pair for pair in NEAR_PAIRS for name in pair}
    confusable = 0
    for memory, _, query in asked(made, "near-name"):
        fact = answer_fact(memory, query)
        text = " ".join(f"{turn.speaker}: {turn.text}" for turn in memory.conversation.turns())
        confusable += all(re.search(rf"\b{name}\b", text) is not None for name in pairs[fact.values["friend"]])
    assert confusable == len(asked(made, "near-name"))


def answer_fact(memory: Memory, query: Query) -> Fact:
    (fact,) = query.refs[0].matches(memory.world)
    return fact


def test_most_questions_share_a_word_with_their_evidence(made: Generated) -> None:
    shared = total = 0
    common = set(
        [
            "the",
            "and",
            "did",
            "does",
            "what",
            "when",
            "where",
            "which",
            "who",
            "how",
            "for",
            "from",
            "with",
            "has",
            "have",
            "was",
        ]
    )
    for memory in made.memories:
        turns = {turn.id: turn for turn in memory.conversation.turns()}
        names = {name.lower() for name in memory.world.people}
        for task in memory.tasks:
            words = set(re.findall(r"[a-z]{3,}", task.question.lower())) - common - names
            for turn in task.evidence:
                total += 1
                shared += bool(words & set(re.findall(r"[a-z]{3,}", said(turns[turn]))))
    assert 0.75 < shared / total < 0.99


def test_halves_share_nothing() -> None:
    assert not set(people("train")) & set(people("eval"))
    names = [{name for pair in near_pairs(part) for name in pair} for part in ("train", "eval")]
    assert not (names[0] | set(people("train"))) & (names[1] | set(people("eval")))
    for name in POOLS:
        if name not in SHARED:
            assert not set(pool(name, "train")) & set(pool(name, "eval"))
            assert pool(name, "eval")
    train, held_out = (generate(GeneratorConfig(seed=1, part=part, memories=20)) for part in ("train", "eval"))
    keys = [{fact.key for memory in half.memories for fact in memory.world.facts} for half in (train, held_out)]
    assert not keys[0] & keys[1]


def test_held_out_locomo_speakers_are_not_in_the_vocabulary(locomo_file: Path) -> None:
    from horma_rl.benchmarks.locomo import load_locomo

    held_out = {name for conversation in load_locomo(locomo_file).conversations[7:] for name in conversation.speakers}
    ours = {name for part in ("train", "eval") for name in people(part)} | {n for pair in NEAR_PAIRS for n in pair}
    assert not held_out & ours


def test_same_input_same_output_in_every_process() -> None:
    program = (
        "import hashlib; from horma_rl.benchmarks.generator import GeneratorConfig, generate;"
        "made = generate(GeneratorConfig(seed=5, memories=3, people=3));"
        "print(hashlib.sha256(repr((made.conversations, made.tasks)).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "31337")
    }
    assert len(digests) == 1


def test_seeds_differ_and_memories_do_not_depend_on_their_number() -> None:
    one, more = (generate(GeneratorConfig(seed=9, memories=count)) for count in (1, 3))
    assert one.memories[0].conversation == more.memories[0].conversation
    assert one.memories[0].tasks == more.memories[0].tasks
    texts = {memory.conversation.sessions for memory in more.memories}
    texts |= {memory.conversation.sessions for memory in generate(GeneratorConfig(seed=10, memories=1)).memories}
    assert len(texts) == 4


@pytest.mark.parametrize(
    "sizes",
    [
        {"sessions": 2, "turns": 6, "facts": 1, "questions": 1},
        {"sessions": 2, "turns": 6, "questions": 40, "decoys": 10},
        {"people": 4, "sessions": 5, "turns": 9},
        {"people": 3, "sessions": 20, "turns": 20, "facts": 6, "questions": 60, "lookalikes": 1.0},
        {"sessions": 60, "turns": 30, "facts": 10, "questions": 200},
        {"captions": 0.0, "snapshots": 0.0, "decoys": 0},
        {"mix": {"absent": 1.0}},
        {"mix": {"order": 1.0, "trap": 0.0}},
    ],
)
def test_any_size(sizes: dict[str, object]) -> None:
    config = GeneratorConfig.model_validate({"memories": 3, **sizes})
    for memory in iterate(config):
        known = set(memory.conversation.turn_ids())
        assert len(known) == config.sessions * config.turns
        assert len(memory.tasks) <= config.questions
        assert len(memory.conversation.speakers) == config.people
        for task, query in zip(memory.tasks, memory.queries, strict=True):
            assert set(task.evidence) <= known
            assert config.mix.get(task.category)
            assert answer(memory.world, query).evidence == task.evidence


def test_templates_are_complete() -> None:
    """Every statement tells every slot; every question names only slots, and not the one it asks for."""
    for topic in TOPICS.values():
        captions = topic.captions if topic.shape == "photo" else ("",)
        for template in (*topic.say, *topic.change):
            for caption in captions:
                assert fields(template) | fields(caption) - {"when", "When"} >= set(topic.slots), (topic.name, template)
        questions = (*topic.asks, *topic.listing, *topic.now, *topic.before, *topic.same, *topic.more)
        for ask in questions:
            assert ask.want in topic.slots, ask
            assert ask.given - {"other"} <= set(topic.slots), ask
            assert ask in topic.before or ask.want not in ask.given, ask
            assert "{who}" in ask.text
        if topic.shape != "event":
            continue
        assert all("when" in template.lower() for template in topic.say), topic.name


def test_ambiguous_questions_are_refused() -> None:
    memory = next(iterate(GeneratorConfig(memories=1)))
    world = memory.world
    twice = next(
        first
        for first, second in combinations(world.facts, 2)
        if (first.topic, first.person) == (second.topic, second.person)
    )
    slot = TOPICS[twice.topic].asks[0].want
    with pytest.raises(AmbiguousError, match="facts fit"):
        answer(world, Query("single", "slot", (Ref(twice.topic, twice.person),), slot))
    with pytest.raises(AmbiguousError, match="somebody has"):
        answer(world, Query("absent", "slot", (Ref(twice.topic, twice.person),), slot))
    with pytest.raises(AmbiguousError, match="the person has"):
        answer(world, Query("trap", "slot", (Ref(twice.topic, twice.person),), slot))
    with pytest.raises(AmbiguousError, match="0 facts"):
        answer(world, Query("single", "slot", (Ref(twice.topic, "nobody"),), slot))


def test_config_refuses_nonsense() -> None:
    for values, message in [
        ({"mix": {"tripp": 1}}, "unknown question kind 'tripp'"),
        ({"mix": {"trap": -1}}, "negative"),
        ({"mix": {"trap": 0}}, "every weight is zero"),
        ({"people": 1}, "greater than or equal to 2"),
        ({"seeed": 1}, "Extra inputs"),
    ]:
        with pytest.raises(ValueError, match=message):
            GeneratorConfig.model_validate(values)


def test_fast_enough() -> None:
    """The budget is 50 memories a second of processor time; half of that leaves room for a busy machine."""
    start = time.process_time()
    generate(GeneratorConfig(memories=50))
    assert 50 / (time.process_time() - start) > 25
