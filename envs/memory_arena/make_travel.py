"""A small world for travel, and groups that travel in it, made from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memory_arena.rows import BasePerson, Day, Plan, TravelRow
from memory_arena.travel_score import PASS, similarity
from memory_arena.travel_tables import (
    ACCOMMODATIONS,
    ATTRACTIONS,
    DISTANCES,
    FLIGHTS,
    RESTAURANTS,
    Flights,
    Line,
    Tables,
    tables_from_rows,
)

CITIES = {"Aldermoor": "North Fen", "Quillhaven": "North Fen", "Bexport": "Sunder", "Thrapstow": "Sunder"}
PEOPLE = ("Jennifer", "Tomas", "Priya", "Oskar", "Lin", "Amara", "Yusuf", "Greta", "Malik", "Noor")
DATES = ("2022-03-16", "2022-03-17", "2022-03-18")
DAYS = ("first", "second", "third")
_FIRST = ("Amber", "Blue", "Copper", "Drowsy", "Emerald", "Frosted", "Gilded", "Hollow", "Ivory", "Jolly", "Knotty",
          "Lunar", "Mossy", "Noble", "Orchid", "Purple", "Quiet", "Rusty", "Silver", "Twisted")  # fmt: skip
_SECOND = {
    RESTAURANTS: ("Kettle", "Dumpling", "Griddle", "Noodle Bar", "Trattoria", "Smokehouse", "Bakery", "Chowder Shack"),
    ACCOMMODATIONS: ("Loft", "Cottage", "Guest Room", "Penthouse", "Barn", "Houseboat", "Studio", "Cabin"),
    ATTRACTIONS: ("Museum", "Botanic Park", "Lighthouse", "Aquarium", "Gallery", "Cathedral", "Zoo", "Fort"),
}
_CUISINES = ("Thai", "Mexican", "Georgian", "Seafood", "French", "Ethiopian", "Korean", "Greek")
_MEALS = ("breakfast", "lunch", "dinner")


@dataclass(frozen=True, slots=True)
class World:
    """Rows of the tables, in the order of `travel_tables.COLUMNS`."""

    rows: dict[str, list[Line]]

    def tables(self) -> Tables:
        """The tables, for the tools."""
        states: dict[str, list[str]] = {}
        for city, state in CITIES.items():
            states.setdefault(state, []).append(city)
        return tables_from_rows(self.rows, states, Flights(self.rows[FLIGHTS]))

    def of(self, table: str, city: str) -> list[Line]:
        """A city's rows."""
        return [row for row in self.rows[table] if row[-1] == city]


def make_tables(rng: random.Random) -> World:
    """Eight restaurants, places to stay and attractions in each city; ratings and prices do not repeat in a city."""
    rows: dict[str, list[Line]] = {name: [] for name in (RESTAURANTS, ACCOMMODATIONS, ATTRACTIONS, DISTANCES, FLIGHTS)}
    for place, city in enumerate(CITIES):
        ratings = rng.sample(range(21, 50), 8)
        prices = rng.sample(range(60, 400), 8)
        for index, name in enumerate(_names(rng, RESTAURANTS)):
            rows[RESTAURANTS].append((name, str(rng.randint(9, 60)), _CUISINES[index], f"{ratings[index] / 10}", city))
        for index, name in enumerate(_names(rng, ACCOMMODATIONS)):
            rows[ACCOMMODATIONS].append(
                (name, str(prices[index]), "Entire home/apt", "No smoking", "1", "4", str(rng.randint(1, 5)), city)
            )
        for index, name in enumerate(_names(rng, ATTRACTIONS)):
            address = f"{index + 1} Main Street, {city}"
            rows[ATTRACTIONS].append((name, f"{40 + place}.{index}", f"-{80 + place}.{index}", address, "-", "-", city))
    _roads_and_flights(rng, rows)
    return World(rows)


def make_group(rng: random.Random, world: World, number: str) -> TravelRow:
    """Three days for a base person and three to five who join.

    The first asks for two things of their own; each later one asks for one, and shares a slot of somebody's who came
    after the base person and wanted it otherwise than they did.
    """
    home, city = rng.sample(list(CITIES), 2)
    base_name, *joiners = rng.sample(PEOPLE, rng.randint(4, 6))
    base = _base_plan(rng, world, home, city)
    free = [(day, slot) for day in range(3) for slot in (*_MEALS, "accommodation") if base[day].slot(slot) != "-"]
    plans: dict[str, Plan] = {}
    own: dict[str, list[tuple[int, str]]] = {}
    questions: list[str] = []
    for index, name in enumerate(joiners):
        slots = rng.sample(free, 3)
        plan, wishes, changed = base, [], []
        if index:
            other = rng.choice(joiners[:index])
            day, slot = rng.choice(own[other])
            plan = _set(plan, day, slot, plans[other][day].slot(slot))
            wishes.append(f"For {slot} on the {DAYS[day]} day, I'd like to join {other}.")
            slots = [candidate for candidate in slots if candidate != (day, slot)]
        for day, slot in slots[: 1 if index else 2]:
            text, value = _wish(rng, world, city, day, slot, base[day].slot(slot))
            plan = _set(plan, day, slot, value)
            wishes.append(text)
            changed.append((day, slot))
        plans[name], own[name] = plan, changed
        questions.append(f"I am {name}.\n I'm joining {base_name} for this trip. {' '.join(wishes)}")
    query = (
        f"I am {base_name}. Please plan a trip from {home} to {city} over 3 days, from {DATES[0]} to {DATES[2]}, "
        "for one person."
    )
    return TravelRow(number, tuple(questions), tuple(plans.values()), BasePerson(base_name, query, base))


def _base_plan(rng: random.Random, world: World, home: str, city: str) -> Plan:
    meals = [f"{row[0]}, {city}" for row in rng.sample(world.of(RESTAURANTS, city), 7)]
    sights = [f"{row[0]}, {city};" for row in rng.sample(world.of(ATTRACTIONS, city), 3)]
    bed = f"{rng.choice(world.of(ACCOMMODATIONS, city))[0]}, {city}"
    there, back = _flight(world, home, city, DATES[0]), _flight(world, city, home, DATES[2])
    return (
        Day(1, f"from {home} to {city}", there, "-", sights[0], meals[0], meals[1], bed),
        Day(2, city, "-", meals[2], sights[1], meals[3], meals[4], bed),
        Day(3, f"from {city} to {home}", back, meals[5], sights[2], meals[6], "-", "-"),
    )


def _flight(world: World, origin: str, destination: str, date: str) -> str:
    row = next(row for row in world.rows[FLIGHTS] if row[5:8] == (date, origin, destination))
    return f"Flight Number: {row[0]}, from {origin} to {destination}, Departure Time: {row[2]}, Arrival Time: {row[3]}"


def _wish(rng: random.Random, world: World, city: str, day: int, slot: str, now: str) -> tuple[str, str]:
    """Something that the tables answer in one way, and not with what the base person has."""
    if slot == "accommodation":
        rows, kinds = world.of(ACCOMMODATIONS, city), _BEDS
    else:
        rows, kinds = world.of(RESTAURANTS, city), _MEAL_WISHES
    fits = [(text, f"{pick(rows)[0]}, {city}") for text, pick in kinds]
    fits += [(f"{row[2]} food", f"{row[0]}, {city}") for row in rows if slot != "accommodation"]
    text, value = rng.choice([(text, value) for text, value in fits if similarity(now, value) < PASS])
    return f"For {slot} on the {DAYS[day]} day, I want {text} in {city}.", value


_Pick = Callable[[Sequence[Line]], Line]
_BEDS: tuple[tuple[str, _Pick], ...] = (
    ("the cheapest place to stay", lambda rows: min(rows, key=lambda row: float(row[1]))),
    ("the most expensive place to stay", lambda rows: max(rows, key=lambda row: float(row[1]))),
)
_MEAL_WISHES: tuple[tuple[str, _Pick], ...] = (
    ("the restaurant with the highest rating", lambda rows: max(rows, key=lambda row: float(row[3]))),
    ("the restaurant with the lowest rating", lambda rows: min(rows, key=lambda row: float(row[3]))),
)


def _set(plan: Plan, day: int, slot: str, value: str) -> Plan:
    changed = Day(**{**plan[day].as_json(), slot: value})
    return (*plan[:day], changed, *plan[day + 1 :])


def _names(rng: random.Random, table: str) -> list[str]:
    """Eight names, none of which would pass for another."""
    names: list[str] = []
    while len(names) < 8:
        name = f"{rng.choice(_FIRST)} {_SECOND[table][len(names)]}"
        if all(similarity(f"{other}, {city}", f"{name}, {city}") < PASS for other in names for city in CITIES):
            names.append(name)
    return names


def _roads_and_flights(rng: random.Random, rows: dict[str, list[Line]]) -> None:
    """A road between every two cities, and two flights a day each way."""
    for origin in CITIES:
        for destination in CITIES:
            if origin == destination:
                continue
            kilometres = rng.randint(120, 1_800)
            hours = kilometres // 90
            rows[DISTANCES].append(
                (origin, destination, f"{hours} hours {rng.randint(1, 59)} mins", f"{kilometres:,} km")
            )
            for date in DATES:
                for hour in rng.sample(range(6, 20), 2):
                    number = f"F{len(rows[FLIGHTS]) + 1_000_000:07d}"
                    times = (f"{hour:02d}:40", f"{hour + 2:02d}:05", "2 hours 25 minutes")
                    miles = str(round(kilometres / 1.6))
                    flight = (number, str(rng.randint(80, 500)), *times, date, origin, destination, miles)
                    rows[FLIGHTS].append(flight)
