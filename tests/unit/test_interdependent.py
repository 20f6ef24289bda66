"""The generated task family: its contract, its known solution, and what a wrong choice costs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interactive_env.types import EnvTask
from interdependent import InterdependentSuite, bundle, bundle_rules, optimal, schedule, schedule_rules
from interdependent.suite import Kind
from tests.env_contract import CHECKS, Check, Sample

KINDS: tuple[Kind, ...] = ("bundle", "schedule")
INVALID = {
    "bundle": ("fly", "", "search", "search moon", "view nothing-01", "buy", "buy nothing-01", "finish now"),
    "schedule": ("fly", "", "calendar", "calendar Nobody", "book x d1-09 Elm", "book x y", "finish now"),
}


def sample(kind: Kind, size: int = 6, **options: object) -> Sample:
    suite = InterdependentSuite(kind, size, **options)  # type: ignore[arg-type]
    task = suite.tasks("test")[0]
    return Sample(lambda: suite.make(task), task, optimal(task), INVALID[kind])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Check, kind: Kind) -> None:
    check(sample(kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract_by_replay(check: Check, kind: Kind) -> None:
    check(sample(kind, rewind="replay"))


@settings(max_examples=60)
@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 999_999), size=st.integers(1, 20))
def test_the_optimal_policy_wins(kind: Kind, seed: int, size: int) -> None:
    suite = InterdependentSuite(kind, size, tasks=1, seed=seed)
    for task in (suite.tasks(split)[0] for split in ("train", "test")):
        env = suite.make(task)
        env.reset(task)
        outcomes = [env.step(action) for action in optimal(task)]
        assert env.success
        assert [outcome.subtask for outcome in outcomes] == [True] * size + [False]


@settings(max_examples=60)
@given(actions=st.lists(st.text() | st.sampled_from(sum(INVALID.values(), ())), max_size=20))
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_is_written_raises(kind: Kind, actions: list[str]) -> None:
    suite = InterdependentSuite(kind, 2, max_steps=50)
    task = suite.tasks("train")[0]
    env = suite.make(task)
    env.reset(task)
    for action in actions:
        outcome = env.step(action)
        assert outcome.observation
        if outcome.terminated:
            return


@pytest.mark.parametrize("size", [6, 200])
@pytest.mark.parametrize("seed", range(5))
def test_instructions_say_the_rules_whole(seed: int, size: int) -> None:
    bought, booked = bundle.generate(seed, size), schedule.generate(seed, size)
    assert bundle_rules.read_rules(bought.instruction) == bought.rules
    assert schedule_rules.read_rules(booked.instruction) == booked.rules
    assert bundle_rules.read_rules(booked.instruction) is None
    assert schedule_rules.read_rules(bought.instruction) is None


# What is sound, against every way to play ----------------------------------------------------------------------------


def whole_bundles(game: bundle.Bundle) -> Iterator[tuple[bundle.Item, ...]]:
    """All bundles that hold the rules, found without the game's own code for rules."""
    for items in itertools.product(*(game.catalogue[kind] for kind in game.rules.kinds)):
        bought = [item.bought for item in items]
        sizes = {(group, item.size) for group, item in zip(game.rules.groups, bought, strict=True)}
        if (
            sum(item.price for item in bought) <= game.rules.budget
            and len(sizes) == len({group for group, _ in sizes})
            and all(two.colour in game.rules.successors[one.colour] for one, two in itertools.pairwise(bought))
        ):
            yield items


@pytest.mark.parametrize("seed", range(12))
def test_bundles_are_sound_as_long_as_they_can_be_completed(seed: int) -> None:
    game = bundle.generate(seed, 3)
    starts = {items[:length] for items in whole_bundles(game) for length in range(4)}
    assert starts
    for items in itertools.product(*(game.catalogue[kind] for kind in game.rules.kinds)):
        assert game.sound(items) == max(length for length in range(4) if items[:length] in starts)


def whole_schedules(game: schedule.Schedule) -> Iterator[tuple[schedule_rules.Booking, ...]]:
    """All schedules that hold the rules, found without the game's own code for rules."""
    ways = []
    for meeting in game.rules.meetings:
        common = set.intersection(*(set(game.free[person]) for person in meeting.people))
        ways.append([schedule_rules.Booking(s, r) for r, by in meeting.latest.items() for s in common if s <= by])
    where = game.rules.buildings
    for bookings in itertools.product(*ways):
        steps = itertools.pairwise(bookings)
        if all(two.slot - one.slot >= (1 if where[one.room] == where[two.room] else 2) for one, two in steps):
            yield bookings


@pytest.mark.parametrize("seed", range(12))
def test_schedules_are_sound_as_long_as_they_can_be_completed(seed: int) -> None:
    game = schedule.generate(seed, 3)
    starts = {bookings[:length] for bookings in whole_schedules(game) for length in range(4)}
    assert starts
    slots = range(game.rules.days * len(schedule_rules.HOURS))
    every = [schedule_rules.Booking(slot, room) for slot in slots for room in game.rules.buildings]
    for start in (start for start in starts if len(start) < 3):
        for booking in every:
            tried = (*start, booking)
            assert game.sound(tried) == (len(tried) if tried in starts else len(start))


# Wrong choices -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_each_purchase_has_a_wrong_choice_that_suits_and_shows_only_later(seed: int) -> None:
    game = bundle.generate(seed, 6)
    basket = bundle_rules.Basket()
    for kind, right in zip(game.rules.kinds, game.solution, strict=True):
        traps = [
            item
            for item in game.catalogue[kind]
            if item.bought.colour != right
            and game.rules.suits(item.bought.colour, basket.colour)
            and game.rules.fault(basket, item.bought)
        ]
        assert traps
        cheapest = min((i for i in game.catalogue[kind] if i.bought.colour == right), key=lambda i: i.bought.price)
        basket = game.rules.add(basket, bundle_rules.Bought(right, "small", cheapest.bought.price))


def test_a_wrong_purchase_is_taken_and_the_task_is_lost_at_the_end() -> None:
    suite = InterdependentSuite("bundle")
    task = suite.tasks("train")[0]
    env = suite.make(task)
    env.reset(task)
    right = optimal(task)
    game = bundle.generate(task.data["seed"], task.data["size"])
    kind = game.rules.kinds[2]
    wrong = next(item for item in game.catalogue[kind] if item.bought.colour not in game.solution[2])
    for action in right[:2]:
        env.step(action)
    before = env.snapshot()
    taken = env.step(f"buy {wrong.id}")
    assert taken.valid
    assert taken.subtask
    assert "wrong" not in taken.observation
    assert env.progress == pytest.approx(2 / 6)
    for action in right[3:-1]:
        assert env.step(action).valid
    ended = env.step("finish")
    assert ended.terminated
    assert "purchase 3" in ended.observation or "purchase 4" in ended.observation
    assert not env.success
    assert env.progress == pytest.approx(2 / 6)
    env.restore(before)
    for action in right[2:]:
        env.step(action)
    assert env.success


@pytest.mark.parametrize("kind", KINDS)
def test_finishing_early_loses(kind: Kind) -> None:
    suite = InterdependentSuite(kind)
    task = suite.tasks("train")[0]
    env = suite.make(task)
    env.reset(task)
    env.step(optimal(task)[0])
    assert env.step("finish").terminated
    assert not env.success
    assert env.progress == pytest.approx(1 / 6)


def test_what_is_out_of_turn_is_refused() -> None:
    for kind in KINDS:
        suite = InterdependentSuite(kind)
        task = suite.tasks("train")[0]
        env = suite.make(task)
        env.reset(task)
        first, second, *_ = optimal(task)
        assert not env.step(second).valid
        assert env.step(first).valid
        assert not env.step(first).valid


# The suite -----------------------------------------------------------------------------------------------------------


def test_splits_have_no_task_in_common() -> None:
    suite = InterdependentSuite("schedule", 3, tasks=50, seed=7)
    ids = [{task.id for task in suite.tasks(split)} for split in ("train", "valid", "test")]
    assert [len(split) for split in ids] == [50] * 3
    assert len(set.union(*ids)) == 150
    assert suite.tasks("test") == InterdependentSuite("schedule", 3, tasks=50, seed=7).tasks("test")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kind": "auction"}, "bundle, schedule"),
        ({"size": 0}, "from 1 to 256"),
        ({"size": 257}, "from 1 to 256"),
        ({"tasks": 0}, "0 tasks"),
        ({"seed": -1}, "seed -1"),
        ({"rewind": "undo"}, "restore, replay, none"),
        ({"max_steps": 0}, "max_steps"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        InterdependentSuite(**options)  # type: ignore[arg-type]


def test_unknown_splits_and_tasks_are_refused() -> None:
    suite = InterdependentSuite()
    with pytest.raises(ValueError, match="train, valid, test"):
        suite.tasks("dev")
    with pytest.raises(ValueError, match="none of this family"):
        suite.make(EnvTask("elsewhere"))
