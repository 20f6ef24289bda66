"""The reward of a purchase, against values worked out by hand and attributes of real products."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_arena.products import Item
from memory_arena.scoring_shopping import PriceLimits, Reward, reward, stated_in_name, type_reward

# Six words in the target's name; its category has four segments.
TARGET = Item("B0TARGET01", "Avelo Red Vanilla Cake Frosting Tub", (8.0,), "Grocery › Pantry › Baking › Frosting")
OTHERS = "nothing in common"


@pytest.mark.parametrize(
    ("name", "category", "value"),
    [
        ("Velmora Blue Sugar Pie", OTHERS, 0.0),  # no word of six
        ("velmora RED pie", OTHERS, 0.5),  # 1/6 = 0.167: more than 0.1, not more than 0.2
        ("Red Cake", OTHERS, 1.0),  # 2/6
        ("red", "grocery › pantry", 1.0),  # half of the segments
        ("red", "Grocery › Home", 0.5),  # a quarter of them
        ("sugar pie", TARGET.category, 0.0),  # the same category does not help
    ],
)
def test_the_type_of_a_product(name: str, category: str, value: float) -> None:
    assert type_reward(TARGET, Item("B0OTHER001", name, category=category)) == value


def test_the_type_of_a_product_with_a_long_name() -> None:
    target = replace(TARGET, name=" ".join(f"w{number}" for number in range(20)))
    assert type_reward(target, Item("B0OTHER001", "w1")) == 0.1  # 1/20
    assert type_reward(target, Item("B0OTHER001", "w1 w2")) == 0.5  # 2/20 is not below 0.1
    assert type_reward(target, Item("B0OTHER001", "w1 w2 w3 w4 w5")) == 1.0


ATTRIBUTES = ("red", "vanilla", "cake frosting", "tub")


@pytest.mark.parametrize(
    ("bought", "limits", "expected"),
    [
        (None, PriceLimits(), Reward(0.0, 0, 0.0, None)),
        (None, PriceLimits(upper=10.0), Reward(0.0, 0, 0.0, 0.0)),
        (TARGET, PriceLimits(upper=1.0), Reward(1.0, 4, 1.0, 0.0)),  # the target, whatever the price
        (replace(TARGET, asin="b0target01"), PriceLimits(), Reward(1.0, 4, 1.0, None)),
        (Item("B0OTHER001", "Blue Vanilla Cake-Frosting", (9.0,)), PriceLimits(), Reward(2 / 4, 2, 1.0, None)),
        (Item("B0OTHER001", "Blue Vanilla Cake/Frosting", (9.0,)), PriceLimits(upper=9.0), Reward(3 / 5, 2, 1.0, 1.0)),
        (Item("B0OTHER001", "Blue Vanilla Cake Frosting", (9.0,)), PriceLimits(upper=8.99), Reward(2 / 5, 2, 1.0, 0.0)),
        (Item("B0OTHER001", "Blue Vanilla Cake Frosting", (9.0,)), PriceLimits(9.5, 12), Reward(2 / 5, 2, 1.0, 0.0)),
        (Item("B0OTHER001", "Blue Vanilla Cake Frosting"), PriceLimits(upper=100), Reward(2 / 5, 2, 1.0, 0.0)),
        (Item("B0OTHER001", "Bathtub, red"), PriceLimits(), Reward(2 / 4 * 0.5, 2, 0.5, None)),  # "tub" is in bathtub
        (Item("B0OTHER001", "Blue pie", (9.0,)), PriceLimits(upper=9.0), Reward(0.0, 0, 0.0, 1.0)),
        (Item("B0OTHER001", "Red Vanilla Cake Frosting in a tub"), PriceLimits(), Reward(1.0, 4, 1.0, None)),
    ],
)
def test_rewards(bought: Item | None, limits: PriceLimits, expected: Reward) -> None:
    got = reward(bought, TARGET, ATTRIBUTES, limits)
    assert (got.matched, got.r_type, got.r_price) == (expected.matched, expected.r_type, expected.r_price)
    assert got.value == pytest.approx(expected.value)


def test_without_attributes_only_the_target_counts() -> None:
    other = replace(TARGET, asin="B0OTHER001")
    assert reward(other, TARGET, ()).value == 0.0
    assert reward(TARGET, TARGET, ()).value == 1.0
    assert reward(other, TARGET, (), PriceLimits(upper=10.0)).value == 1.0


def test_a_matcher_may_be_given_and_is_asked_only_where_it_decides() -> None:
    asked: list[tuple[str, Sequence[str]]] = []

    def matcher(name: str, attributes: Sequence[str]) -> set[str]:
        asked.append((name, attributes))
        return {"vanilla", "something else"}

    other = Item("B0OTHER001", "Cake Frosting")
    assert reward(TARGET, TARGET, ATTRIBUTES, matcher=matcher).value == 1.0
    assert reward(None, TARGET, ATTRIBUTES, matcher=matcher).value == 0.0
    assert not asked
    assert reward(other, TARGET, ATTRIBUTES, matcher=matcher).value == pytest.approx(1 / 4)
    assert asked == [(other.name, ATTRIBUTES)]


@settings(max_examples=60)
@given(st.text(max_size=60), st.lists(st.text(max_size=12), max_size=5), st.text(max_size=30), st.none() | st.floats())
def test_rewards_are_in_range(name: str, attributes: list[str], category: str, upper: float | None) -> None:
    got = reward(Item("B0OTHER001", name, category=category), TARGET, attributes, PriceLimits(upper=upper))
    assert 0.0 <= got.value <= 1.0
    assert set(stated_in_name(name, attributes)) <= set(attributes)


def test_attributes_of_real_rows_stand_in_their_texts(horma_data: Path) -> None:
    path = horma_data / "webshop" / "webshop_items_ins_v2_1000.json"
    if not path.is_file():
        pytest.skip(f"no {path}")
    told = [row for row in json.loads(path.read_text()).values() if row.get("instruction")]
    assert len(told) == 415
    assert all(
        list(stated_in_name(row["instruction"], row["instruction_attributes"])) == row["instruction_attributes"]
        for row in told
    )
    others = [
        stated_in_name(row["instruction"], told[place - 7]["instruction_attributes"]) for place, row in enumerate(told)
    ]
    assert sum(map(len, others)) < 0.2 * sum(len(row["instruction_attributes"]) for row in told)
