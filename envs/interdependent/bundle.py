"""The `bundle` kind: purchases in order from a generated catalogue, each of which constrains the next."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property

from interdependent import words
from interdependent.bundle_rules import Basket, Bought, BundleRules
from interdependent.world import Made, Reply

ACTIONS = """One command a step:
search KIND - the things of a kind that are in stock, with colour and price
view ITEM - all details of one thing
buy ITEM - buy it; it must be of the kind whose turn it is
status - which purchase is next, and the coins spent
finish - end the task; the bundle is checked"""


@dataclass(frozen=True, slots=True)
class Item:
    """A thing in the catalogue."""

    id: str
    kind: str
    title: str
    made_of: str
    bought: Bought
    """What buying it means for the rules."""

    @property
    def line(self) -> str:
        """The entry in search results."""
        return f"{self.id}  {self.title}, {self.bought.colour}, {self.bought.price} coins"

    @property
    def details(self) -> str:
        """What `view` shows."""
        return (
            f"{self.id}: {self.title}\n"
            f"kind: {self.kind}\ncolour: {self.bought.colour}\nsize: {self.bought.size}\n"
            f"price: {self.bought.price} coins\nmade of: {self.made_of}\n"
            "Packed by hand and sent on the day that it is ordered. Wipe it with a dry cloth, and keep it out of "
            "sun, which makes colours fade. Things that have been bought are not taken back or exchanged."
        )


@dataclass(frozen=True)
class Bundle:
    """A generated bundle task: rules, a catalogue by kind, and the colours of its solution."""

    rules: BundleRules
    catalogue: dict[str, tuple[Item, ...]]
    solution: tuple[str, ...]
    actions: str = ACTIONS

    @property
    def count(self) -> int:
        """Purchases."""
        return len(self.rules.kinds)

    @property
    def instruction(self) -> str:
        """The rules in words."""
        return self.rules.text()

    @cached_property
    def _items(self) -> dict[str, Item]:
        return {item.id: item for items in self.catalogue.values() for item in items}

    def reply(self, said: list[str], made: Made) -> Reply:
        """See Game."""
        match said:
            case ["search", kind]:
                return self._search(kind)
            case ["view", item]:
                return self._item(item) or Reply(self._items[item].details)
            case ["buy", item]:
                return self._item(item) or self._buy(self._items[item], made)
            case ["status"]:
                return Reply(f"{len(made)} of {self.count} purchases are made. {self._next(made)}")
            case ["finish"]:
                return Reply(self._report(made), finished=True)
        return Reply(f"That is no command.\n{ACTIONS}", valid=False)

    def sound(self, made: Made) -> int:
        """See Game."""
        basket = Basket()
        for index, item in enumerate(made):
            if self.rules.fault(basket, item.bought):
                return index
            basket = self.rules.add(basket, item.bought)
        return len(made)

    def optimal(self) -> tuple[str, ...]:
        """Buy the cheapest thing of the solution's colour, in the size of its group (the first size, to begin with)."""
        return (
            *(f"buy {self._cheapest(*wanted)}" for wanted in zip(self.rules.kinds, self.solution, strict=True)),
            "finish",
        )

    def _cheapest(self, kind: str, colour: str) -> str:
        fitting = [
            item for item in self.catalogue[kind] if (item.bought.colour, item.bought.size) == (colour, words.SIZES[0])
        ]
        return min(fitting, key=lambda item: item.bought.price).id

    def _search(self, kind: str) -> Reply:
        if kind not in self.catalogue:
            return Reply(f"Nothing of the kind {kind!r} is sold here. Kinds are written as in your list.", valid=False)
        lines = [item.line for item in self.catalogue[kind]]
        return Reply("\n".join((f"{len(lines)} things of the kind {kind}:", *lines)))

    def _item(self, item: str) -> Reply | None:
        if item in self._items:
            return None
        return Reply(f"There is no {item!r}. Search for a kind to see what there is.", valid=False)

    def _buy(self, item: Item, made: Made) -> Reply:
        if len(made) == self.count:
            return Reply("All purchases are made: say finish.", valid=False)
        if item.kind != (kind := self.rules.kinds[len(made)]):
            return Reply(f"{item.id} is a {item.kind}, but purchase {len(made) + 1} is a {kind}.", valid=False)
        now = (*made, item)
        return Reply(
            f"Purchase {len(now)} of {self.count} is made: {item.id} ({item.bought.colour}, "
            f"{item.bought.size}) for {item.bought.price} coins. {self._next(now)}",
            choice=item,
        )

    def _next(self, made: Made) -> str:
        spent = f"Spent {self._spent(made)} of {self.rules.budget} coins."
        if len(made) == self.count:
            return f"{spent} Nothing is left to buy: say finish."
        return f"{spent} Next is purchase {len(made) + 1}: a {self.rules.kinds[len(made)]}."

    def _spent(self, made: Made) -> int:
        return sum(item.bought.price for item in made)

    def _report(self, made: Made) -> str:
        if len(made) < self.count:
            return f"The bundle is not whole: {len(made)} of {self.count} purchases are made."
        basket, faults = Basket(), []
        for item in made:
            faults.append(self.rules.fault(basket, item.bought, ahead=False))
            basket = self.rules.add(basket, item.bought)
        found = [fault for fault in faults if fault]
        return (
            "\n".join(("The bundle breaks the rules:", *found))
            if found
            else "The bundle holds all the rules. Well done."
        )


# Generating --------------------------------------------------------------------------------------------------------

_STOCK = 4
_SUCCESSORS = 3
_SLACK = 3
"""Coins of the budget that the cheapest solution leaves, at most."""


def generate(seed: int, size: int) -> Bundle:
    """The bundle of `size` purchases for `seed`.

    A walk through the colours is the solution. Stock and prices are then made from the last purchase to the first, so
    that every colour off the walk costs more by the end than the budget allows, or has no way to the end at all, while
    at each purchase at least one such colour suits the one before it: the wrong choice that looks right.
    """
    rng = random.Random(seed)
    successors = {
        colour: tuple(sorted(rng.sample([other for other in words.COLOURS if other != colour], _SUCCESSORS)))
        for colour in words.COLOURS
    }
    kinds = words.things(rng, size)
    groups = [rng.choice("AB") for _ in kinds]
    walk = [rng.choice(words.COLOURS)]
    while len(walk) < size:
        walk.append(rng.choice(successors[walk[-1]]))
    slack = rng.randint(0, _SLACK)
    prices = _prices(rng, walk, successors, slack)
    budget = sum(stock[colour] for stock, colour in zip(prices, walk, strict=True)) + slack
    rules = BundleRules(budget, tuple(kinds), tuple(groups), tuple(prices), successors)
    catalogue = {kind: _items(rng, kind, stock) for kind, stock in zip(kinds, prices, strict=True)}
    return Bundle(rules, catalogue, tuple(walk))


def _prices(
    rng: random.Random, walk: list[str], successors: dict[str, tuple[str, ...]], slack: int
) -> list[dict[str, int]]:
    """The colours in stock at each purchase, and their lowest prices."""
    ends: dict[str, float] = dict.fromkeys(words.COLOURS, 0.0)
    """What the purchases after this one cost at least, by the colour of this one."""
    made: list[dict[str, int]] = []
    for index in reversed(range(len(walk))):
        right = walk[index]
        suits = successors[walk[index - 1]] if index else words.COLOURS
        trap = max((colour for colour in suits if colour != right), key=lambda colour: ends[colour])
        others = [
            colour for colour in words.COLOURS if colour not in (right, trap) and (not index or colour not in suits)
        ]
        price = rng.randint(10, 20)
        stock = {right: price}
        for colour in (trap, *rng.sample(others, _STOCK - 2)):
            least = price + ends[right] + slack + 1 - ends[colour]
            stock[colour] = max(rng.randint(6, 18), int(max(least, 0)))
        made.append({colour: stock[colour] for colour in sorted(stock)})
        whole = {colour: cost + ends[colour] for colour, cost in stock.items()}
        ends = {
            colour: min((whole[after] for after in follow if after in whole), default=float("inf"))
            for colour, follow in successors.items()
        }
    return made[::-1]


def _items(rng: random.Random, kind: str, stock: dict[str, int]) -> tuple[Item, ...]:
    """Of each colour one thing of each size at the lowest price, and a dearer one, in a random order."""
    wares = [(colour, size, price) for colour, price in stock.items() for size in words.SIZES]
    wares += [(colour, rng.choice(words.SIZES), price + rng.randint(_SLACK + 2, 12)) for colour, price in stock.items()]
    rng.shuffle(wares)
    return tuple(
        Item(
            f"{kind}-{number:02}",
            kind,
            f"{rng.choice(words.MAKERS)} {kind}",
            rng.choice(words.MATERIALS),
            Bought(*ware),
        )
        for number, ware in enumerate(wares, 1)
    )
