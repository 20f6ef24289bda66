"""A player of bundles: it reads the rules in the instruction, and the facts in summaries and observations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
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


_MADE = re.compile(
    r"Purchase (\d+) of \d+ is made: \S+ \([^()]*, (\w+), (\w+)\) for (\d+) coins\. Spent (\d+) of \d+ coins\."
)
_STATUS = re.compile(r"^(\d+) of \d+ purchases are made\. Spent (\d+) of")
_OTHER_TURN = re.compile(r"^\S+ is a \S+, but purchase (\d+) is a ")
_ALL = "All purchases are made"
_OFFER = re.compile(r"^(\S+)  [^,\n]+, (\w+), (\d+) coins$", re.MULTILINE)
_SIZE = re.compile(r"^size: (\w+)$", re.MULTILINE)
_BEFORE = re.compile(r" Before it: ([^.]*)\. Now: ([^.]*)\.")
_COLOUR = re.compile(r"last colour (\w+)")
_GROUP = re.compile(r"group (\w+) (\w+)")


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
        search = f"search {self.rules.kinds[done]}"
        listing = seen.latest(search)
        if listing is None:
            return search
        return self._choose(seen, self._basket(seen, done), _offers(listing), err)

    def summary(self, seen: Seen) -> str:
        """See Player."""
        last = _purchases(seen.observation)[-1]
        before = self._basket(seen, last.number - 1)
        after = self.rules.add(before, last.bought)
        return f"{last.sentence} Before it: {_facts(before)}. Now: {_facts(after)}."

    def digest(self, steps: Sequence[Step]) -> str:
        """See Player."""
        made = [purchase.sentence for _, observation in steps for purchase in _purchases(observation)]
        return " ".join((f"Did: {'; '.join(action for action, _ in steps)}.", *made))

    def check(self, steps: Sequence[Step], summary: str) -> str:
        """See Player."""
        made = [purchase for _, observation in steps for purchase in _purchases(observation)]
        if list(_purchases(summary)) != made:
            return "the summary is not true to the steps: it tells of other purchases than they made"
        if not made:
            return ""
        told = _BEFORE.search(summary)
        first = made[0]
        basket = Basket(first.number - 1, spent=first.spent - first.bought.price)
        if told:
            basket = Basket(basket.done, _colour(told[1]), dict(_GROUP.findall(told[1])), basket.spent)
        for purchase in made:
            if fault := self.rules.fault(basket, purchase.bought):
                return fault
            basket = self.rules.add(basket, purchase.bought)
        if told and told[2] != _facts(basket):
            return f"the summary is not true to the steps: after them it is {_facts(basket)}"
        return ""

    def _choose(self, seen: Seen, basket: Basket, offers: Sequence[_Offer], err: bool) -> str:
        """Look at offers, the cheapest first, until one has the size that is wanted (any, when that is not known)."""
        wanted = basket.sizes.get(self.rules.groups[basket.done], "")
        order = self._order(basket, wanted, offers, err)
        for offer in order:
            details = seen.latest(f"view {offer.id}")
            if details is None:
                return f"view {offer.id}"
            size = _SIZE.search(details)
            if size is not None and wanted in ("", size[1]):
                return f"buy {offer.id}"
        return f"buy {order[0].id}" if order else "finish"

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
        for number in sorted(made):
            if number <= done:
                sizes.setdefault(self.rules.groups[number - 1], made[number].bought.size)
        if done in made:
            told = _summed_up(seen.summaries, done)
            return Basket(done, made[done].bought.colour, {**sizes, **told}, made[done].spent)
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


def _summed_up(summaries: Iterable[str], done: int) -> Mapping[str, str]:
    """The sizes of the groups after `done` purchases, by the summary of the last of them."""
    for text in summaries:
        if (told := _BEFORE.search(text)) and _purchases(text)[-1:] and _purchases(text)[-1].number == done:
            return dict(_GROUP.findall(told[2]))
    return {}


@lru_cache(maxsize=512)
def _offers(listing: str) -> tuple[_Offer, ...]:
    return tuple(_Offer(item, colour, int(price)) for item, colour, price in _OFFER.findall(listing))


def _facts(basket: Basket) -> str:
    colour = [f"last colour {basket.colour}"] if basket.colour else []
    return ", ".join(colour + [f"group {group} {size}" for group, size in sorted(basket.sizes.items())]) or "nothing"


def _colour(facts: str) -> str:
    found = _COLOUR.search(facts)
    return found[1] if found else ""
