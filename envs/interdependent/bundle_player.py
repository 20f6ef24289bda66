"""A player of bundles: it reads the rules in the instruction, and the facts in summaries and observations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from interdependent.bundle_rules import Basket, Bought, BundleRules
from interdependent.player import Seen, Step


@dataclass(frozen=True, slots=True)
class _Purchase:
    """A purchase as a text tells of it."""

    number: int
    sentence: str
    bought: Bought
    spent: int


@dataclass(frozen=True, slots=True)
class _Offer:
    id: str
    colour: str
    price: int


_MADE = re.compile(r"Purchase (\d+) of \d+ is made: \S+ \((\w+), (\w+)\) for (\d+) coins\. Spent (\d+) of \d+ coins\.")
_STATUS = re.compile(r"^(\d+) of \d+ purchases are made\. Spent (\d+) of")
_OTHER_TURN = re.compile(r"^\S+ is a \S+, but purchase (\d+) is a ")
_ALL = "All purchases are made"
_OFFER = re.compile(r"^(\S+)  [^,\n]+, (\w+), (\d+) coins$", re.MULTILINE)
_SIZE = re.compile(r"^size: (\w+)$", re.MULTILINE)
_BEFORE = re.compile(r" Before it: ([^.]*)\.")
_FACT = re.compile(r"(\w+) (\w+)")
_NOTED_OFFER = re.compile(r"([\w-]+): (\w+) for (\d+)")
_NOTED_SIZE = re.compile(r"([\w-]+): size (\w+)")


class BundlePlayer:
    """See Player."""

    part = "purchase"

    def __init__(self, rules: BundleRules) -> None:
        self.rules = rules
        self.count = len(rules.kinds)

    def ended(self, observation: str) -> int | None:
        """See Player."""
        made = _purchases(observation)
        return made[-1].number if made else None

    def now(self, seen: Seen) -> int | None:
        """See Player."""
        done = self._done(seen)
        return None if done is None else done + 1

    def missing(self, seen: Seen) -> str | None:
        """See Player."""
        done = self._done(seen)
        if done is None or done >= self.count:
            return None
        basket = self._basket(seen, done)
        if done and not basket.colour:
            return self._question(done)
        group = self.rules.groups[done]
        members = [index for index in range(done) if self.rules.groups[index] == group]
        return self._question(members[0] + 1) if members and group not in basket.sizes else None

    def act(self, seen: Seen, err: bool) -> str:
        """See Player."""
        done = self._done(seen)
        if done is None:
            return "status"
        if done >= self.count:
            return "finish"
        offers = self._offers(seen, self.rules.kinds[done])
        if not offers:
            return f"search {self.rules.kinds[done]}"
        return self._choose(seen, self._basket(seen, done), offers, err)

    def summary(self, seen: Seen) -> str:
        """See Player."""
        last = _purchases(seen.observation)[-1]
        return f"{last.sentence} Before it: {_facts(self._basket(seen, last.number - 1))}."

    def digest(self, steps: Sequence[Step]) -> str:
        """See Player."""
        made = [purchase.sentence for _, observation in steps for purchase in _purchases(observation)]
        notes = [f"{o.id}: {o.colour} for {o.price}" for _, observation in steps for o in _listed(observation)]
        notes += [
            f"{action.removeprefix('view ')}: size {size[1]}"
            for action, observation in steps
            if action.startswith("view ") and (size := _SIZE.search(observation))
        ]
        told = [f"Seen: {'; '.join(notes)}."] if notes else []
        return " ".join((f"Did: {'; '.join(action for action, _ in steps)}.", *made, *told))

    def check(self, steps: Sequence[Step], summary: str) -> str:
        """See Player."""
        made = [purchase for _, observation in steps for purchase in _purchases(observation)]
        if list(_purchases(summary)) != made:
            return "the summary is not true to the steps: it tells of other purchases than they made"
        if not made:
            return ""
        first = made[0]
        basket = Basket(first.number - 1, *_before(summary), first.spent - first.bought.price)
        for purchase in made:
            if fault := self.rules.fault(basket, purchase.bought):
                return fault
            basket = self.rules.add(basket, purchase.bought)
        return ""

    @staticmethod
    def _offers(seen: Seen, kind: str) -> Sequence[_Offer]:
        """What is to be seen of the things of a kind."""
        listing = seen.latest(f"search {kind}")
        if listing is not None:
            return _listed(listing)
        noted = [found for summary in seen.summaries for found in _NOTED_OFFER.findall(summary)]
        return [_Offer(item, colour, int(price)) for item, colour, price in noted if item.startswith(f"{kind}-")]

    @staticmethod
    def _size(seen: Seen, item: str) -> str | None:
        """The size of a thing, if that is to be seen."""
        found = _SIZE.search(seen.latest(f"view {item}") or "")
        if found is not None:
            return found[1]
        return dict(noted for summary in seen.summaries for noted in _NOTED_SIZE.findall(summary)).get(item)

    def _choose(self, seen: Seen, basket: Basket, offers: Sequence[_Offer], err: bool) -> str:
        """Look at offers, the cheapest first, until one has the size that is wanted (any, when that is not known)."""
        wanted = basket.sizes.get(self.rules.groups[basket.done], "")
        order = self._order(basket, wanted, offers, err)
        for offer in order:
            size = self._size(seen, offer.id)
            if size is None:
                return f"view {offer.id}"
            if wanted in ("", size):
                return f"buy {offer.id}"
        return f"buy {order[0].id}"

    def _order(self, basket: Basket, wanted: str, offers: Sequence[_Offer], err: bool) -> Sequence[_Offer]:
        """The offers to take one of, by price. Where nothing is right any more, the player goes on all the same."""
        right = [offer for offer in offers if not self.rules.fault(basket, Bought(offer.colour, wanted, offer.price))]
        suited = [offer for offer in offers if self.rules.suits(offer.colour, basket.colour)]
        wrong = [offer for offer in suited if offer not in right] or [offer for offer in offers if offer not in right]
        choice = wrong if err else right
        return sorted(choice or suited or offers, key=lambda offer: (offer.price, offer.id))

    def _question(self, number: int) -> str:
        return f"Purchase {number} of {self.count} is made: {self.rules.kinds[number - 1]}, its colour and size"

    def _done(self, seen: Seen) -> int | None:
        """The purchases that are made, by the texts of the path; None when they do not tell."""
        found = [done for text in seen.path() if (done := _told(text, self.count)) is not None]
        return max(found, default=None)

    def _basket(self, seen: Seen, done: int) -> Basket:
        """What is to be seen of the basket after `done` purchases."""
        made = {purchase.number: purchase for text in (*seen.remembered, *seen.path()) for purchase in _purchases(text)}
        sizes: dict[str, str] = {}
        for summary in seen.summaries:
            if (told := _purchases(summary)) and told[-1].number <= done:
                sizes.update(_before(summary)[1])
        for number in sorted(made):
            if number <= done:
                sizes.setdefault(self.rules.groups[number - 1], made[number].bought.size)
        if done in made:
            return Basket(done, made[done].bought.colour, sizes, made[done].spent)
        spent = [int(found[2]) for text in seen.path() if (found := _STATUS.match(text)) and int(found[1]) == done]
        return Basket(done, "", sizes, spent[-1] if spent else 0)


@lru_cache(maxsize=4096)
def _purchases(text: str) -> tuple[_Purchase, ...]:
    return tuple(
        _Purchase(int(found[1]), found[0], Bought(found[2], found[3], int(found[4])), int(found[5]))
        for found in _MADE.finditer(text)
    )


def _told(text: str, count: int) -> int | None:
    """How many purchases are made, by one text."""
    if made := _purchases(text):
        return made[-1].number
    if status := _STATUS.match(text):
        return int(status[1])
    if other := _OTHER_TURN.match(text):
        return int(other[1]) - 1
    return count if text.startswith(_ALL) else None


@lru_cache(maxsize=512)
def _listed(listing: str) -> tuple[_Offer, ...]:
    return tuple(_Offer(item, colour, int(price)) for item, colour, price in _OFFER.findall(listing))


def _facts(basket: Basket) -> str:
    colour = [("colour", basket.colour)] if basket.colour else []
    return ", ".join(f"{what} {value}" for what, value in (*colour, *sorted(basket.sizes.items()))) or "nothing"


def _before(summary: str) -> tuple[str, dict[str, str]]:
    """The last colour and the sizes of groups before a purchase, by its summary; empty where it does not tell."""
    told = _BEFORE.search(summary)
    facts = dict(_FACT.findall(told[1])) if told else {}
    return facts.pop("colour", ""), facts
