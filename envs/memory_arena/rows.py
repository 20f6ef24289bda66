"""Rows of MemoryArena, typed by domain, and their JSON Lines form.

The published schema: `id`, `questions` and `answers` of one length, and what each domain adds. One line is one row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHOPPING = "bundled_shopping"
TRAVEL = "group_travel_planner"
SEARCH = "progressive_search"
MATH = "formal_reasoning_math"
PHYSICS = "formal_reasoning_phys"
DOMAINS = (SHOPPING, TRAVEL, SEARCH, MATH, PHYSICS)

SLOTS = ("breakfast", "lunch", "dinner", "accommodation", "transportation", "attraction")
"""What is scored of a day, in the order that reports use."""
EMPTY = "-"
"""A slot in which nothing is planned."""
MAX_ROW_BYTES = 8 << 20
MAX_PRICE = 10**9


@dataclass(frozen=True, slots=True)
class Product:
    """What a shopping subtask should end with: the product, and what gives part of the reward for another one, its
    attributes and the limits of its price (`price_constraints`, which the published rows leave out)."""

    target_asin: str
    attributes: tuple[str, ...]
    price_lower: float | None = None
    price_upper: float | None = None


@dataclass(frozen=True, slots=True)
class Day:
    """One day of a plan; `-` is an empty slot. Several attractions are one text, with `;` after each. A slot that is
    null in the file is an empty text, which no plan matches (so does the benchmark's own scorer)."""

    days: int
    current_city: str
    transportation: str
    breakfast: str
    attraction: str
    lunch: str
    dinner: str
    accommodation: str

    def slot(self, name: str) -> str:
        """The text of a slot of `SLOTS`."""
        return str(getattr(self, name))

    def as_json(self) -> dict[str, Any]:
        """The object that the schema has for a day, and that a policy hands in."""
        return {name: getattr(self, name) for name in _DAY_FIELDS}


_DAY_FIELDS = tuple(Day.__slots__)  # in the order of the schema
Plan = tuple[Day, ...]


@dataclass(frozen=True, slots=True)
class BasePerson:
    """Whom the others join: the plan is known from the start."""

    name: str
    query: str
    daily_plans: Plan


@dataclass(frozen=True, slots=True)
class ShoppingRow:
    """A bundle of products, bought one after the other."""

    id: str
    questions: tuple[str, ...]
    answers: tuple[Product, ...]
    category: str
    domain: str = SHOPPING


@dataclass(frozen=True, slots=True)
class TravelRow:
    """A group: a base person's plan, and a plan for each person who joins. `questions[i]` is what person i asks for."""

    id: str
    questions: tuple[str, ...]
    answers: tuple[Plan, ...]
    base_person: BasePerson
    domain: str = TRAVEL


@dataclass(frozen=True, slots=True)
class SearchRow:
    """Sub-queries, and last the query that combines them."""

    id: str
    questions: tuple[str, ...]
    answers: tuple[str, ...]
    domain: str = SEARCH


@dataclass(frozen=True, slots=True)
class FormalRow:
    """A derivation: each question may use the results before it. `backgrounds` are the paper's definitions."""

    id: str
    questions: tuple[str, ...]
    answers: tuple[str, ...]
    paper_name: str
    backgrounds: tuple[str, ...]
    domain: str = MATH


Row = ShoppingRow | TravelRow | SearchRow | FormalRow


def read_rows(path: Path, domain: str) -> list[Row]:
    """The rows of a JSON Lines file of `domain`, in the file's order.

    Raises ValueError that names the file, the line and the field of the first fault: no JSON object, a field that
    is missing or of another type, lists of different lengths, no question, an id that came before.
    """
    rows: list[Row] = []
    seen: dict[str, int] = {}
    for number, line in _lines(path):
        where = f"{path}: line {number}"
        row = parse_row(_object(line, where), domain, where)
        if row.id in seen:
            raise ValueError(f"{where}: field id: '{row.id}' is that of line {seen[row.id]} already")
        seen[row.id] = number
        rows.append(row)
    if not rows:
        raise ValueError(f"{path}: no rows; expected one JSON object a line")
    return rows


def parse_row(raw: Mapping[str, Any], domain: str, where: str = "row") -> Row:
    """A row of `domain` from its JSON object; `where` begins the message of a ValueError. Further fields are left out:
    the published files may gain some."""
    if domain not in DOMAINS:
        raise ValueError(f"unknown domain '{domain}': known are {', '.join(DOMAINS)}")
    fields = _Fields(raw, where)
    row = _PARSERS[domain](fields, domain)
    if not row.questions:
        raise ValueError(f"{where}: field questions: is empty")
    if len(row.questions) != len(row.answers):
        counts = f"{len(row.questions)} questions and {len(row.answers)} answers"
        raise ValueError(f"{where}: field answers: {counts}; there is one answer for each question")
    return row


def row_json(row: Row) -> dict[str, Any]:
    """The JSON object of a row: `parse_row` gives the row back."""
    raw: dict[str, Any] = {"id": row.id, "questions": list(row.questions)}
    if isinstance(row, ShoppingRow):
        return {**raw, "answers": list(map(_product_json, row.answers)), "category": row.category}
    if isinstance(row, TravelRow):
        person = row.base_person
        base = {"name": person.name, "query": person.query, "daily_plans": plan_json(person.daily_plans)}
        return {**raw, "base_person": base, "answers": [plan_json(plan) for plan in row.answers]}
    if isinstance(row, FormalRow):
        raw |= {"paper_name": row.paper_name, "backgrounds": list(row.backgrounds)}
    return {**raw, "answers": list(row.answers)}


def _product_json(item: Product) -> dict[str, Any]:
    raw: dict[str, Any] = {"target_asin": item.target_asin, "attributes": list(item.attributes)}
    given = {"price_lower": item.price_lower, "price_upper": item.price_upper}
    limits = {name: value for name, value in given.items() if value is not None}
    return {**raw, "price_constraints": limits} if limits else raw


def plan_json(plan: Plan) -> list[dict[str, Any]]:
    """A plan as a policy hands it in."""
    return [day.as_json() for day in plan]


class _Fields:
    """An object's fields with their types checked; `where` and the field's path begin every message."""

    def __init__(self, raw: Mapping[str, Any], where: str, path: str = "") -> None:
        self._raw, self._where, self._path = raw, where, path

    def fault(self, name: str, what: str) -> ValueError:
        return ValueError(f"{self._where}: field {self._path}{name}: {what}")

    def value(self, name: str) -> Any:
        if name not in self._raw:
            raise self.fault(name, "is missing")
        return self._raw[name]

    def text(self, name: str) -> str:
        return self._text(name, self.value(name))

    def text_or_null(self, name: str) -> str:
        return "" if self.value(name) is None else self.text(name)

    def number(self, name: str) -> int:
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fault(name, f"expected a whole number, got {_kind(value)}")
        return value

    def optional_number(self, name: str) -> float | None:
        value = self._raw.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fault(name, f"expected a number, got {_kind(value)}")
        if not -MAX_PRICE <= value <= MAX_PRICE:  # nor is NaN
            raise self.fault(name, f"is not from -{MAX_PRICE} to {MAX_PRICE}")
        return float(value)

    def optional_child(self, name: str) -> _Fields:
        value = self._raw.get(name)
        return self._child(name, {} if value is None else value)

    def identity(self, name: str) -> str:
        """An id may be a number."""
        value = self.value(name)
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else self.text(name)

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(self._text(f"{name}[{index}]", item) for index, item in enumerate(self._list(name)))

    def child(self, name: str) -> _Fields:
        return self._child(name, self.value(name))

    def children(self, name: str) -> list[_Fields]:
        return [self._child(f"{name}[{index}]", item) for index, item in enumerate(self._list(name))]

    def lists(self, name: str) -> list[list[_Fields]]:
        """A list of lists of objects."""
        rows = [_Fields({f"{name}[{i}]": item}, self._where, self._path) for i, item in enumerate(self._list(name))]
        return [row.children(f"{name}[{index}]") for index, row in enumerate(rows)]

    def __bool__(self) -> bool:
        return bool(self._raw)

    def _list(self, name: str) -> list[Any]:
        value = self.value(name)
        if not isinstance(value, list):
            raise self.fault(name, f"expected a list, got {_kind(value)}")
        return value

    def _text(self, name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise self.fault(name, f"expected a text, got {_kind(value)}")
        return value.encode(
            "utf-8", "replace"
        ).decode()  # half a surrogate pair is legal in JSON, and can be sent nowhere

    def _child(self, name: str, value: Any) -> _Fields:
        if not isinstance(value, dict):
            raise self.fault(name, f"expected an object, got {_kind(value)}")
        return _Fields(value, self._where, f"{self._path}{name}.")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a text",
        list: "a list",
        dict: "an object",
    }
    return names[type(value)]


def _shopping(fields: _Fields, domain: str) -> Row:
    products = tuple(map(_product, fields.children("answers")))
    return ShoppingRow(fields.identity("id"), fields.texts("questions"), products, fields.text("category"))


def _product(fields: _Fields) -> Product:
    limits = fields.optional_child("price_constraints")
    lower, upper = limits.optional_number("price_lower"), limits.optional_number("price_upper")
    return Product(fields.text("target_asin"), fields.texts("attributes"), lower, upper)


def _travel(fields: _Fields, domain: str) -> Row:
    person = fields.child("base_person")
    base = BasePerson(person.text("name"), person.text("query"), _plan(person.children("daily_plans")))
    plans = tuple(map(_plan, fields.lists("answers")))
    if () in plans:
        raise fields.fault(f"answers[{plans.index(())}]", "has no day")
    return TravelRow(fields.identity("id"), fields.texts("questions"), plans, base)


def _search(fields: _Fields, domain: str) -> Row:
    return SearchRow(fields.identity("id"), fields.texts("questions"), fields.texts("answers"))


def _formal(fields: _Fields, domain: str) -> Row:
    return FormalRow(
        fields.identity("id"),
        fields.texts("questions"),
        fields.texts("answers"),
        fields.text("paper_name"),
        fields.texts("backgrounds"),
        domain,
    )


def _plan(days: list[_Fields]) -> Plan:
    """Empty objects at the end pad a plan to a fixed length in TravelPlanner's files: they are no days."""
    while days and not days[-1]:
        days = days[:-1]
    return tuple(Day(day.number("days"), *(day.text_or_null(name) for name in _DAY_FIELDS[1:])) for day in days)


_PARSERS: dict[str, Callable[[_Fields, str], Row]] = {
    SHOPPING: _shopping,
    TRAVEL: _travel,
    SEARCH: _search,
    MATH: _formal,
    PHYSICS: _formal,
}


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_ROW_BYTES + 1):
                number += 1
                if len(line) > MAX_ROW_BYTES:
                    raise ValueError(f"{path}: line {number}: more than {MAX_ROW_BYTES} bytes: no row is that long")
                if line.strip():
                    yield number, line
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None


def _object(line: bytes, where: str) -> dict[str, Any]:
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError(f"{where}: is no JSON") from None
    if not isinstance(raw, dict):
        raise ValueError(f"{where}: expected an object, got {_kind(raw)}")
    return raw
