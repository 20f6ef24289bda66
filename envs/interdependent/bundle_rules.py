"""The rules of a bundle, as its instruction states them: written as text, read back from it, and applied.

Prices are in whole coins. What the instruction says is enough to tell whether a purchase leaves a way to the end: each
colour in stock can be had in every size at its lowest price, so sizes and colours do not get into each other's way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Bought:
    """What a purchase means for the rules."""

    colour: str
    size: str
    price: int


@dataclass(frozen=True, slots=True)
class Basket:
    """What later purchases depend on after `done` purchases: the last colour, the size of each group, coins spent.

    A colour or size that a player does not know (any more) is absent; in a basket of the environment none is.
    """

    done: int = 0
    colour: str = ""
    sizes: Mapping[str, str] = field(default_factory=dict)
    spent: int = 0


@dataclass(frozen=True)
class BundleRules:
    """`kinds`: what to buy, in order. `groups`: the size group of each. `prices`: of each, the lowest price of every
    colour in stock. `successors`: the colours that suit a colour just before."""

    budget: int
    kinds: tuple[str, ...]
    groups: tuple[str, ...]
    prices: tuple[Mapping[str, int], ...]
    successors: Mapping[str, tuple[str, ...]]

    def text(self) -> str:
        """The rules as an instruction has them."""
        after = [f"- after {colour}: {', '.join(suits)}" for colour, suits in self.successors.items()]
        lines = [
            f"{number}. {kind} (group {group}): "
            + ", ".join(f"{colour} from {price}" for colour, price in prices.items())
            for number, (kind, group, prices) in enumerate(zip(self.kinds, self.groups, self.prices, strict=True), 1)
        ]
        return "\n".join(
            (
                f"Buy a bundle of {len(self.kinds)} things, one of each kind, in the order of the list below.",
                "Purchases are final. The shop does not check them against these rules before you say finish.",
                f"Budget: {self.budget} coins for the whole bundle.",
                "Sizes: all things of one group must have the same size.",
                "Colours: each thing must suit the one bought just before it.",
                *after,
                "The list, with the colours in stock and what each costs at least, whatever the size:",
                *lines,
            )
        )

    def suits(self, colour: str, before: str) -> bool:
        """Whether `colour` may follow `before` (empty for the first purchase, or one that is not known)."""
        return not before or colour in self.successors.get(before, ())

    def rest(self, done: int, colour: str) -> float:
        """Coins that the purchases after the first `done` cost at least, the last of which has `colour`; infinite when
        there is no way to the end."""
        return self._rests[done].get(colour, math.inf)

    @cached_property
    def _rests(self) -> tuple[Mapping[str, float], ...]:
        """By purchases made and the colour of the last, what the others cost at least."""
        rests: list[Mapping[str, float]] = [dict.fromkeys(self.successors, 0.0)]
        for prices in reversed(self.prices):
            whole = {colour: price + rests[-1].get(colour, math.inf) for colour, price in prices.items()}
            ways = {before: [whole[to] for to in suits if to in whole] for before, suits in self.successors.items()}
            rests.append(
                {
                    "": min(whole.values(), default=math.inf),
                    **{before: min(way, default=math.inf) for before, way in ways.items()},
                }
            )
        return tuple(reversed(rests))

    def add(self, basket: Basket, item: Bought) -> Basket:
        """The basket with `item` as the next purchase; the first thing of a group sets its size."""
        group = self.groups[basket.done]
        sizes = {group: item.size, **basket.sizes}
        return Basket(basket.done + 1, item.colour, sizes, basket.spent + item.price)

    def fault(self, basket: Basket, item: Bought, ahead: bool = True) -> str:
        """What is wrong with `item` as the next purchase, in words; empty when nothing is.

        With `ahead`, it is also wrong when it leaves no way to the end; otherwise only when it breaks a rule by itself.
        """
        number, size = basket.done + 1, basket.sizes.get(self.groups[basket.done], item.size)
        what = f"purchase {number} ({self.kinds[basket.done]}) is wrong: "
        if not self.suits(item.colour, basket.colour):
            return f"{what}{item.colour} does not suit {basket.colour}, bought just before it"
        if item.size != size:
            return f"{what}it is {item.size}, and group {self.groups[basket.done]} is {size}"
        spent = basket.spent + item.price
        rest = self.rest(number, item.colour) if ahead else 0
        if rest == math.inf:
            return f"{what}what is in stock for the purchases after it leaves no way on from {item.colour}"
        if spent + rest > self.budget:
            return f"{what}{spent} coins are spent with it, and the others cost {int(rest)} or more: over {self.budget}"
        return ""


_BUDGET = re.compile(r"^Budget: (\d+) coins", re.MULTILINE)
_AFTER = re.compile(r"^- after (\w+): (.+)$", re.MULTILINE)
_LINE = re.compile(r"^\d+\. ([\w-]+) \(group (\w+)\): (.+)$", re.MULTILINE)
_PRICE = re.compile(r"(\w+) from (\d+)")


def read_rules(instruction: str) -> BundleRules | None:
    """The rules that an instruction states; None when it is not one of a bundle."""
    budget, lines = _BUDGET.search(instruction), _LINE.findall(instruction)
    if budget is None or not lines:
        return None
    return BundleRules(
        int(budget[1]),
        tuple(kind for kind, _, _ in lines),
        tuple(group for _, group, _ in lines),
        tuple({colour: int(price) for colour, price in _PRICE.findall(prices)} for _, _, prices in lines),
        {colour: tuple(suits.split(", ")) for colour, suits in _AFTER.findall(instruction)},
    )
