"""The reward of a purchase, as MemoryArena's scorer computes it (arXiv:2602.16313; read from its code, not copied).

    reward = 1                                            bought the target
           = 0                                            bought nothing
           = (matched + r_price) / (n + c) x r_type       bought something else

`n` attributes are asked for, of which `matched` are found; c = 1 with a price constraint, and r_price = 1 when it
holds. Without attributes and constraint the fraction is 0. Options that were chosen do not count.

r_type says whether it is the same kind of thing. With `name`, the share of the target's name tokens that the bought
product's name has too, and `category`, the same share for the segments of the category path:

    r_type = 0     when name = 0
           = 0.1   when name < 0.1
           = 1     when category >= 0.5 or name > 0.2
           = 0.5   otherwise

This is WebShop's r_type (arXiv:2207.01206) with two changes that MemoryArena made: shares of all tokens instead of
nouns found by a parser, and no comparison of the queries that products were scraped with.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from memory_arena.products import Item

Matcher = Callable[[str, Sequence[str]], Collection[str]]
"""(name of the bought product, attributes): those attributes that it has."""

_TOKEN = re.compile(r"[a-z0-9]+")
_SEPARATOR = "›"


@dataclass(frozen=True, slots=True)
class PriceLimits:
    """What the price may be, in dollars, both ends included; None is no limit."""

    lower: float | None = None
    upper: float | None = None

    @property
    def binding(self) -> bool:
        """Whether there is a constraint at all."""
        return self.lower is not None or self.upper is not None

    def hold(self, price: float | None) -> bool:
        """Whether `price` is within; one that is not known is not."""
        if price is None:
            return False
        return (self.lower is None or price >= self.lower) and (self.upper is None or price <= self.upper)


NO_LIMITS = PriceLimits()


@dataclass(frozen=True, slots=True)
class Reward:
    """A reward in [0, 1] and what it was made of. `matched` counts attributes; r_price is None without a constraint."""

    value: float
    matched: int
    r_type: float
    r_price: float | None


def stated_in_name(name: str, attributes: Sequence[str]) -> list[str]:
    """The default matcher: attributes that stand in the product's name, letter for letter but for case, spaces,
    hyphens and slashes."""
    plain = _plain(name)
    return [attribute for attribute in attributes if _plain(attribute) and _plain(attribute) in plain]


def reward(
    bought: Item | None,
    target: Item,
    attributes: Sequence[str],
    limits: PriceLimits = NO_LIMITS,
    matcher: Matcher = stated_in_name,
) -> Reward:
    """The reward for `bought` (None: nothing) when `target` was asked for. `matcher` is asked only when it decides."""
    if bought is None:
        return Reward(0.0, 0, 0.0, 0.0 if limits.binding else None)
    r_price = float(limits.hold(bought.price)) if limits.binding else None
    if bought.asin.upper() == target.asin.upper():
        return Reward(1.0, len(attributes), 1.0, r_price)
    found = set(matcher(bought.name, attributes))
    matched = sum(attribute in found for attribute in attributes)
    r_type = type_reward(target, bought)
    asked = len(attributes) + limits.binding
    value = (matched + (r_price or 0.0)) / asked * r_type if asked else 0.0
    return Reward(value, matched, r_type, r_price)


def type_reward(target: Item, bought: Item) -> float:
    """r_type, one of 0, 0.1, 0.5 and 1."""
    name = _share(_tokens(target.name), _tokens(bought.name))
    if name == 0.0:
        return 0.0
    if name < 0.1:
        return 0.1
    category = _share(_segments(target.category), _segments(bought.category))
    return 1.0 if category >= 0.5 or name > 0.2 else 0.5


def _share(wanted: set[str], there: set[str]) -> float:
    return len(wanted & there) / len(wanted) if wanted else 0.0


def _plain(text: str) -> str:
    return " ".join(text.lower().replace("-", " ").replace("/", " ").split())


def _tokens(name: str) -> set[str]:
    return set(_TOKEN.findall(_plain(name)))


def _segments(category: str) -> set[str]:
    return {segment.strip().lower() for segment in category.split(_SEPARATOR)} - {""}
