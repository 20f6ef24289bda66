"""Bundled shopping: the pages, the reward against values worked out by hand, and generated bundles played through."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_arena.bundles import KINDS
from memory_arena.catalogue import buying, make_offers, make_shopping, shopping_actions
from memory_arena.domain import Part, Reply, same_text
from memory_arena.env import MemoryArenaEnv
from memory_arena.index import TextIndex, build_index
from memory_arena.products import Item, item_document
from memory_arena.rows import SHOPPING, Product, SearchRow, ShoppingRow, parse_row, row_json
from memory_arena.scoring_shopping import reward
from memory_arena.shopping import BACK, BUY, NEXT, PREVIOUS, Shopping, ShoppingPlay, build, parse_action
from memory_arena.suite import MemoryArena, generated_suite
from tests.env_contract import CHECKS, Check, Sample


@pytest.fixture(scope="module")
def suite() -> MemoryArena:
    return generated_suite((SHOPPING,), count=10, seed=3)


@pytest.fixture(scope="module")
def part() -> Part:
    return make_shopping(10, 3, same_text)


def shop(items: Sequence[Item]) -> Shopping:
    return Shopping(TextIndex.of(map(item_document, items)))


def play_of(items: Sequence[Item], asin: str) -> ShoppingPlay:
    play = shop(items).play(ShoppingRow("1", ("Buy it.",), (Product(asin, ()),), "x"))
    play.begin(0)
    return play


def done(play: ShoppingPlay, *actions: str) -> Reply:
    """The reply to the last action; all are valid."""
    reply = Reply("")
    for action in actions:
        reply = play.act(action)
        assert reply.valid, (action, reply.observation)
    return reply


MANY = [Item(f"B0{number:08d}", f"Mug number {number}", (number + 1.0,)) for number in range(27)]
JACKET = Item(
    "B0JACKET01",
    "Wool Jacket",
    (40.0, 55.0),
    "Clothing › Jackets",
    "Warm.",
    ("lined",),
    {"size": ("s", "m"), "color": ("red",)},
    4.26,
)


# Pages and actions


@pytest.mark.parametrize(
    ("action", "parsed"),
    [
        ("search[red frosting]", ("search", "red frosting")),
        ("  Click[ < Prev ] ", ("click", "< Prev")),
        ("click[a [b] c]", ("click", "a [b] c")),
        ("search[a\n b]", ("search", "a b")),
        ("search[]", ("search", "")),
        ("search red", None),
        ("search[red", None),
        ("Action: click[Buy Now]", None),
        ("click[Buy Now] then rest", None),
        ("buy[it]", None),
        ("", None),
    ],
)
def test_actions_are_parsed(action: str, parsed: tuple[str, str] | None) -> None:
    assert parse_action(action) == parsed


def test_results_are_leafed_through() -> None:
    play = play_of(MANY, MANY[0].asin)
    page = done(play, "search[mug]").observation
    assert page.startswith("Results 1 to 10 of 27 for 'mug':\n[B000000000] Mug number 0 | $1.00\n")
    assert f"click[{NEXT}]" in page
    assert f"click[{PREVIOUS}]" not in page
    last = done(play, "click[Next >]", "click[next >]").observation
    assert last.startswith("Results 21 to 27 of 27")
    assert f"click[{NEXT}]" not in last
    assert not play.act("click[Next >]").valid
    assert not play.act("click[B000000000]").valid  # on another page
    assert done(play, "click[< Prev]", "click[< Prev]").observation == page
    item = done(play, "click[b000000003]").observation
    assert item.startswith("[B000000003] Mug number 3\nPrice: $4.00\nRating: none\n")
    assert done(play, "click[< Prev]").observation == page
    assert done(play, "click[Back to Search]").observation == "Search page.\nYou may: search[words]"


def test_a_product_has_options_that_are_chosen() -> None:
    play = play_of([JACKET], JACKET.asin)
    page = done(play, "search[jacket]", "click[B0JACKET01]").observation
    for line in (
        "Price: $40.00 to $55.00",
        "Rating: 4.3 of 5",
        "Category: Clothing › Jackets",
        "- lined",
        "Option size: s | m",
    ):
        assert line in page.splitlines()
    assert "Option size: s | m (chosen)" in done(play, "click[S]", "click[M]").observation
    bought = done(play, "click[red]", "click[Buy Now]")
    assert bought == Reply("Bought B0JACKET01: Wool Jacket, $40.00 to $55.00, size: m, color: red.", ended=True)
    assert play.score().passed


def test_chosen_options_are_gone_with_the_page() -> None:
    play = play_of([JACKET], JACKET.asin)
    first = done(play, "search[jacket]", "click[B0JACKET01]").observation
    assert done(play, "click[m]", "click[< Prev]", "click[B0JACKET01]").observation == first


@pytest.mark.parametrize(
    ("before", "action", "told"),
    [
        ((), "click[Buy Now]", "no 'Buy Now' to click"),
        ((), "click[B0JACKET01]", "no 'B0JACKET01' to click"),
        ((), "buy it", "That is no action."),
        ((), "search[ ]", "nothing between the brackets of search[]"),
        (("search[jacket]",), "search[coat]", "no search box on this page: click[Back to Search]"),
        (("search[jacket]",), "click[Buy Now]", "no 'Buy Now' to click"),
        (("search[jacket]", "click[B0JACKET01]"), "click[xl]", "no 'xl' to click"),
        (("search[jacket]", "click[B0JACKET01]"), "click[Next >]", "no 'next >' to click"),
    ],
)
def test_what_cannot_be_done_is_told_and_changes_nothing(before: Sequence[str], action: str, told: str) -> None:
    play = play_of([JACKET], JACKET.asin)
    done(play, *before)
    reply = play.act(action)
    assert not reply.valid
    assert told in reply.observation
    assert "You may: " in reply.observation
    untouched = play_of([JACKET], JACKET.asin)
    done(untouched, *before)
    probe = "click[Buy Now]" if len(before) == 2 else "click[B0JACKET01]" if before else "search[jacket]"
    assert play.act(probe) == untouched.act(probe)


def test_a_search_without_results() -> None:
    play = play_of([JACKET], JACKET.asin)
    page = done(play, "search[zebra]").observation
    assert page == f"No results for 'zebra'.\nYou may: click[{BACK}]"
    assert done(play, f"click[{BACK}]", "search[*]").observation.startswith("No results for '*'.")


WORDS = st.sampled_from(
    [
        "search[mug]",
        "search[",
        "click[Next >]",
        "click[< Prev]",
        f"click[{BACK}]",
        "click[B000000003]",
        "click[B000000013]",
        "click[]",
    ]
)


@settings(max_examples=60)
@given(st.lists(WORDS | st.text(max_size=40) | st.text(max_size=20).map("click[{}]".format), max_size=25))
def test_no_text_breaks_a_play(actions: list[str]) -> None:
    play = play_of(MANY, MANY[0].asin)
    for action in actions:
        reply = play.act(action)
        assert reply.observation
        assert not reply.ended
        assert len(reply.observation) < 2_000
    assert not play.score().answered


def test_a_matcher_is_asked_once_for_a_product_however_often_it_is_bought() -> None:
    asked: list[tuple[str, Sequence[str]]] = []

    def matcher(name: str, attributes: Sequence[str]) -> list[str]:
        asked.append((name, attributes))
        return ["warm"]

    domain = Shopping(TextIndex.of(map(item_document, (JACKET, replace(JACKET, asin="B0OTHER001")))), matcher)
    row = ShoppingRow("1", ("Buy it.",), (Product(JACKET.asin, ("warm", "blue")),), "x")
    for _ in range(3):
        play = domain.play(row)
        play.begin(0)
        done(play, "search[jacket]", "click[B0OTHER001]", "click[Buy Now]")
        assert play.score().figures == {"reward": 0.5, "matched": 1.0, "r_type": 1.0}
    assert asked == [("Wool Jacket", ("warm", "blue"))]


# Generated bundles


def test_generated_bundles_are_the_same_for_a_seed_and_in_the_schema(part: Part) -> None:
    again = make_shopping(10, 3, same_text)
    assert again.rows == part.rows
    assert make_shopping(1, 4, same_text).rows != part.rows[:1]
    assert [row.id for row in part.rows[:6]] == [
        *(f"{kind}_item_0" for kind in ("baking", "beauty", "electronics", "grocery", "home")),
        "baking_item_1",
    ]
    for row in part.rows:
        assert len(row.questions) == 6
        raw = json.loads(json.dumps(row_json(row)))
        assert set(raw) == {"id", "questions", "answers", "category"}
        assert set(raw["answers"][0]) == {"target_asin", "attributes"}
        assert parse_row(raw, SHOPPING) == row


def test_only_the_target_has_a_full_reward_and_later_ones_depend_on_earlier_ones(part: Part) -> None:
    offers = {offer.item.asin: offer for kind in make_offers(3).values() for offer in kind}
    assert len(offers) == 360
    for row in part.rows[:5]:
        assert isinstance(row, ShoppingRow)
        slots = next(kind.slots for kind in KINDS if kind.name == row.category)
        values = [offers[answer.target_asin].value for answer in row.answers]
        for step, (answer, question) in enumerate(zip(row.answers, row.questions, strict=True)):
            target = offers[answer.target_asin]
            full = [o for o in offers.values() if reward(o.item, target.item, answer.attributes).value == 1.0]
            assert full == [target]
            if step:
                assert slots[step].depends < step
                assert f"product {slots[step].depends + 1} decides" in question
                assert f"{values[slots[step].depends]} -> {values[step]}" in question
            fitting = [o for o in offers.values() if (o.slot, o.value) == (target.slot, target.value)]
            best = max(o.item.rating or 0.0 for o in fitting if f"Avoid: {o.trait}." not in question)
            assert target.item.rating == best


def test_every_bundle_is_won_by_its_best_play(suite: MemoryArena, part: Part) -> None:
    assert isinstance(part.domain, Shopping)
    for task in suite.tasks(SHOPPING):
        env = suite.make(task)
        env.reset(task)
        actions = shopping_actions(part.domain, env.row) if isinstance(env.row, ShoppingRow) else []
        outcomes = [env.step(action) for action in actions]
        assert all(outcome.valid for outcome in outcomes)
        assert [outcome.subtask for outcome in outcomes].count(True) == 6
        assert outcomes[-1].terminated
        assert (env.success, env.progress) == (True, 1.0)


def test_another_trait_in_one_purchase_costs_the_row_and_a_third_of_that_reward(suite: MemoryArena, part: Part) -> None:
    """The attributes are value, noun and trait: one of three is missing, and the type is the same."""
    offers = [offer for kind in make_offers(3).values() for offer in kind]
    task = suite.tasks(SHOPPING)[0]
    row = task.data["row"]
    target = next(offer for offer in offers if offer.item.asin == row.answers[2].target_asin)
    sibling = next(o for o in offers if (o.slot, o.value) == (target.slot, target.value) and o.trait != target.trait)
    env = suite.make(task)
    env.reset(task)
    assert isinstance(part.domain, Shopping)
    for step, answer in enumerate(row.answers):
        for action in buying(part.domain, sibling.item.asin if step == 2 else answer.target_asin):
            env.step(action)
    assert (env.success, env.progress) == (False, 5 / 6)
    assert [score.figures["reward"] for score in env.scores] == pytest.approx([1, 1, 2 / 3, 1, 1, 1])


def test_a_product_of_another_kind_gets_nothing_and_no_purchase_is_no_answer(suite: MemoryArena, part: Part) -> None:
    task = suite.tasks(SHOPPING)[0]  # baking
    electronics = suite.tasks(SHOPPING)[2].data["row"].answers[0].target_asin
    env = suite.make(task)
    env.reset(task)
    assert isinstance(part.domain, Shopping)
    for action in buying(part.domain, electronics):
        env.step(action)
    for _ in range(25):
        outcome = env.step("wait")
    assert outcome.subtask
    assert [(score.answered, score.figures["reward"]) for score in env.scores] == [(True, 0.0), (False, 0.0)]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Check, suite: MemoryArena, part: Part) -> None:
    task = suite.tasks(SHOPPING)[1]
    assert isinstance(part.domain, Shopping)
    actions = shopping_actions(part.domain, task.data["row"])
    check(Sample(lambda: suite.make(task), task, actions, ("buy it", "", "click[nothing]", "search[]")))


# Options and rows


def test_the_domain_is_built_from_an_index_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "p.db"
    build_index(map(item_document, MANY), path)
    domain = build({"index": str(path), "steps": 3}, same_text)
    assert domain.step_cap == 3
    row = ShoppingRow("1", ("Buy it.",), (Product("b000000004", ()),), "x")
    assert domain.play(row).begin(0) == "Buy it.\n\nSearch page.\nYou may: search[words]"
    with pytest.raises(ValueError, match="row 1: product B0NONE is not in the index"):
        domain.play(replace(row, answers=(Product("B0NONE", ()),)))
    with pytest.raises(ValueError, match="expected a ShoppingRow"):
        domain.play(SearchRow("2", ("q",), ("a",)))
    with pytest.raises(ValueError, match="horma-rl data index products"):
        build({}, same_text)
    with pytest.raises(ValueError, match="steps"):
        build({"index": str(path), "steps": 0}, same_text)
    with pytest.raises(ValueError, match="no such option"):
        build({"indx": str(path)}, same_text)


def test_a_row_may_limit_the_price() -> None:
    raw = {
        "id": 1,
        "category": "x",
        "questions": ["Buy a mug under 3 dollars."],
        "answers": [{"target_asin": MANY[0].asin, "attributes": ["mug"], "price_constraints": {"price_upper": 3}}],
    }
    row = parse_row(raw, SHOPPING)
    assert parse_row(row_json(row), SHOPPING) == row
    rewards = []
    for number in (1, 5):
        play = shop(MANY).play(row)
        play.begin(0)
        done(play, f"search[{MANY[number].name}]", f"click[{MANY[number].asin}]", f"click[{BUY}]")
        rewards.append(play.score().figures["reward"])
    assert rewards == [1.0, 0.5]
    with pytest.raises(ValueError, match=r"price_constraints\.price_upper: expected a number"):
        parse_row({**raw, "answers": [{**raw["answers"][0], "price_constraints": {"price_upper": "3"}}]}, SHOPPING)  # type: ignore[index]


def test_environments_of_a_suite_are_of_this_domain(suite: MemoryArena) -> None:
    env = suite.make(suite.tasks("all")[0])
    assert isinstance(env, MemoryArenaEnv)
    assert env.capabilities.max_steps == 150
    assert not env.capabilities.tools
