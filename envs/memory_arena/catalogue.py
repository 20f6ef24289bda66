"""Generated catalogues for shopping and search, with rows in the published schema: the domains run with no data.

The same seed gives the same catalogue, rows and solutions. Of every row the best play is known (`shopping_actions`,
`search_actions`): the rest of a row can only be solved by who remembers what came before.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from interactive_env.calls import format_call
from memory_arena.bundles import BRANDS, KINDS, Kind, Slot
from memory_arena.domain import Grader, Part
from memory_arena.index import Document, TextIndex
from memory_arena.products import Item, document_item, item_document
from memory_arena.rows import Product, SearchRow, ShoppingRow
from memory_arena.search import Search
from memory_arena.shopping import BUY, NEXT, PAGE, RESULTS, Shopping

_ASIN = "ABCDEFGHJKLMNPQRSTUVWXYZ0123456789"


# Shopping -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Offer:
    """A generated product, and what it is: its place in the bundle, its value, its trait."""

    item: Item
    slot: Slot
    value: str
    trait: str


def make_shopping(count: int, seed: int, grader: Grader) -> Part:
    """The domain over 360 products, and `count` bundles, the five kinds in turn. The reward needs no grader."""
    offers = make_offers(seed)
    index = TextIndex.of(item_document(offer.item) for kind in KINDS for offer in offers[kind.name])
    rows = []
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        rng = random.Random(f"bundle/{seed}/{number}")
        rows.append(_bundle(rng, kind, offers[kind.name], f"{kind.name}_item_{number // len(KINDS)}"))
    return Part(Shopping(index), rows)


def make_offers(seed: int) -> dict[str, list[Offer]]:
    """By kind, every product in every value with every trait. Ratings are random, and differ within a value."""
    rng = random.Random(f"offers/{seed}")
    taken: set[str] = set()
    return {
        kind.name: [
            offer for slot in kind.slots for value in slot.values for offer in _offers(rng, kind, slot, value, taken)
        ]
        for kind in KINDS
    }


def _offers(rng: random.Random, kind: Kind, slot: Slot, value: str, taken: set[str]) -> list[Offer]:
    brands = rng.sample(BRANDS, len(kind.traits))
    ratings = rng.sample(range(30, 50), len(kind.traits))
    offers = []
    for brand, trait, rating in zip(brands, kind.traits, ratings, strict=True):
        item = Item(
            asin=_asin(rng, taken),
            name=f"{brand} {value} {slot.noun.title()}, {trait.title()}",
            prices=(rng.randint(400, 9900) / 100,),
            category=slot.category,
            description=f"A {trait} {slot.noun} by {brand}.",
            features=(f"{slot.property}: {value.lower()}", f"made by {brand}"),
            options={"size": kind.sizes},
            rating=rating / 10,
            query=slot.noun,
        )
        offers.append(Offer(item, slot, value, trait))
    return offers


def _asin(rng: random.Random, taken: set[str]) -> str:
    while True:
        asin = "B0" + "".join(rng.choices(_ASIN, k=8))
        if asin not in taken:
            taken.add(asin)
            return asin


def _bundle(rng: random.Random, kind: Kind, offers: Sequence[Offer], row_id: str) -> ShoppingRow:
    questions, targets, bought = [], [], list[str]()
    for step, slot in enumerate(kind.slots):
        avoided = rng.choice(kind.traits)
        rule, value = _rule(rng, kind, step, bought)
        fitting = [offer for offer in offers if offer.slot == slot and offer.value == value and offer.trait != avoided]
        best = max(fitting, key=lambda offer: offer.item.rating or 0.0)
        bought.append(value)
        targets.append(Product(best.item.asin, (value.lower(), slot.noun, best.trait)))
        questions.append(_question(step, slot, rule, avoided))
    return ShoppingRow(row_id, tuple(questions), tuple(targets), kind.name)


def _rule(rng: random.Random, kind: Kind, step: int, bought: Sequence[str]) -> tuple[str, str]:
    """How the value of this step is found, in words, and the value."""
    slot = kind.slots[step]
    if step == 0:
        value = rng.choice(slot.values)
        return f"Preference: the {slot.property} is {value}.", value
    earlier = kind.slots[slot.depends]
    values = rng.sample(slot.values, len(slot.values))
    pairs = dict(zip(earlier.values, values, strict=True))
    told = "; ".join(f"{before} -> {after}" for before, after in pairs.items())
    rule = f"Compatibility: the {earlier.property} of product {slot.depends + 1} decides the {slot.property}: {told}."
    return rule, pairs[bought[slot.depends]]


def _question(step: int, slot: Slot, rule: str, avoided: str) -> str:
    return (
        f"Product {step + 1}: ### Select {slot.noun.title()}\n"
        f"Goal: buy the {slot.noun} with the highest rating among those that fit.\n"
        f"- {rule}\n- Avoid: {avoided}.\n- Options: {', '.join(slot.values)}."
    )


def shopping_actions(domain: Shopping, row: ShoppingRow) -> list[str]:
    """The best play of a generated row: search each target by its name, go to it, and buy it."""
    return [action for answer in row.answers for action in buying(domain, answer.target_asin)]


def buying(domain: Shopping, asin: str) -> list[str]:
    """What buys this product, from the search page on. Raises ValueError when no search for its name shows it."""
    item = domain.item(asin)
    if item is None:
        raise ValueError(f"product {asin} is not in the index")
    found = [document_item(document).asin for document in domain.index.search(item.name, RESULTS)]
    pages = found.index(item.asin) // PAGE
    return [f"search[{item.name}]", *[f"click[{NEXT}]"] * pages, f"click[{item.asin}]", f"click[{BUY}]"]


# Search ---------------------------------------------------------------------------------------------------------------

_TOWNS, _PEOPLE, _VILLAGES = 60, 140, 80
_ONSETS = ("b", "br", "d", "dr", "f", "g", "gr", "h", "k", "l", "m", "n", "p", "r", "s", "st", "t", "th", "v", "w")
_VOWELS = ("a", "e", "i", "o", "u", "ae", "ou")
_CODAS = ("l", "n", "r", "th", "m", "rk", "nd", "sk")
_CRAFTS = ("glass", "rope", "bells", "paper", "salt", "barrels", "clocks", "lace", "knives", "bricks", "soap", "ink")


@dataclass(frozen=True, slots=True)
class Person:
    """`teacher` is the place of another person in the world's list."""

    name: str
    teacher: int
    village: int


@dataclass(frozen=True, slots=True)
class Town:
    """A town at the mouth of a river."""

    name: str
    river: str
    founder: int


@dataclass(frozen=True, slots=True)
class Village:
    """A village; its oldest tree has a name."""

    name: str
    craft: str
    tree: str


@dataclass(frozen=True, slots=True)
class World:
    """An invented country. No name in it is given twice."""

    towns: tuple[Town, ...]
    people: tuple[Person, ...]
    villages: tuple[Village, ...]


def make_search(count: int, seed: int, grader: Grader) -> Part:
    """The domain over 280 documents on an invented country, and `count` rows of 4 to 6 queries."""
    world = make_world(seed)
    index = TextIndex.of(world_documents(world))
    rows = [_quest(random.Random(f"quest/{seed}/{number}"), world, str(number)) for number in range(count)]
    return Part(Search(index, grader), rows)


def make_world(seed: int) -> World:
    """The country of a seed."""
    rng = random.Random(f"world/{seed}")
    taken: set[str] = set()
    villages = tuple(
        Village(_name(rng, taken), rng.choice(_CRAFTS), f"the {_name(rng, taken)} Oak") for _ in range(_VILLAGES)
    )
    # Everyone's teacher comes later in the list, and the last one's first: chains of teachers do not turn in circles.
    people = tuple(
        Person(
            f"{_name(rng, taken)} {_name(rng, taken)}",
            rng.randrange(place + 1, _PEOPLE) if place + 1 < _PEOPLE else 0,
            rng.randrange(_VILLAGES),
        )
        for place in range(_PEOPLE)
    )
    founders = rng.sample(range(_PEOPLE // 2), _TOWNS)
    towns = tuple(Town(_name(rng, taken), _name(rng, taken), founder) for founder in founders)
    return World(towns, people, villages)


def _name(rng: random.Random, taken: set[str]) -> str:
    while True:
        parts = [rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS) for _ in range(2)]
        name = "".join(parts).capitalize()
        if name not in taken:
            taken.add(name)
            return name


def world_documents(world: World) -> list[Document]:
    """A document for each town, person and village."""
    towns = [
        Document(
            f"town-{place:03d}",
            town.name,
            f"{town.name} is a town at the mouth of the river {town.river}. It was founded by "
            f"{world.people[town.founder].name}. Ships from {town.name} go up the {town.river} in spring.",
        )
        for place, town in enumerate(world.towns)
    ]
    people = [
        Document(
            f"person-{place:03d}",
            person.name,
            f"{person.name} was born in the village of {world.villages[person.village].name} and was taught by "
            f"{world.people[person.teacher].name}. Letters of {person.name} are kept to this day.",
        )
        for place, person in enumerate(world.people)
    ]
    villages = [
        Document(
            f"village-{place:03d}",
            village.name,
            f"{village.name} is a village that is known for {village.craft}. The oldest tree of {village.name} is "
            f"called {village.tree}.",
        )
        for place, village in enumerate(world.villages)
    ]
    return [*towns, *people, *villages]


@dataclass(frozen=True, slots=True)
class _Chain:
    """The way from a river to a tree: a town, its founder and 0 to 2 teachers after one another, the last one's
    village."""

    town: Town
    people: tuple[Person, ...]
    village: Village


def _chain(world: World, town: Town, teachers: int) -> _Chain:
    people = [world.people[town.founder]]
    for _ in range(teachers):
        people.append(world.people[people[-1].teacher])
    return _Chain(town, tuple(people), world.villages[people[-1].village])


def _quest(rng: random.Random, world: World, row_id: str) -> SearchRow:
    chain = _chain(world, rng.choice(world.towns), rng.randint(0, 2))
    town, river = chain.town.name, chain.town.river
    steps = [(f"Which town lies at the mouth of the river {river}?", town)]
    steps.append(("Who founded the town that query 1 asked for?", chain.people[0].name))
    steps += [
        (f"Who taught the person that query {place + 2} asked for?", person.name)
        for place, person in enumerate(chain.people[1:])
    ]
    steps.append((f"In which village was the person born that query {len(steps)} asked for?", chain.village.name))
    who = "the teacher of " * (len(chain.people) - 1) + "the founder"
    combined = f"Take {who} of the town at the mouth of the river {river}, and the village where that person was born."
    steps.append((f"{combined} What is the oldest tree of that village called?", chain.village.tree))
    questions, answers = zip(*steps, strict=True)
    return SearchRow(row_id, questions, answers)


def search_actions(domain: Search, row: SearchRow) -> list[str]:
    """The best play of a generated row: search for what is known, read the document, answer."""
    river = row.questions[0].removesuffix("?").rpartition(" ")[2]
    known = [f"river {river}", *row.answers[:-1]]
    actions: list[str] = []
    for words, answer in zip(known, row.answers, strict=True):
        document = next(found for found in domain.index.search(words, 5) if answer in found.text)
        actions += [format_call("search", {"query": words}), format_call("get_document", {"id": document.id})]
        actions.append(format_call("answer", {"text": answer}))
    return actions
