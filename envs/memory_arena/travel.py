"""Group travel: a person's plan is known, and others join one by one, each with a plan that leans on those before."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from interactive_env.types import ToolSpec
from memory_arena.domain import (
    Decides,
    Domain,
    Grader,
    Play,
    Reply,
    Score,
    checked_call,
    expect,
    options,
    path_option,
    shown,
    step_cap,
)
from memory_arena.rows import SLOTS, TRAVEL, Row, TravelRow, plan_json
from memory_arena.travel_score import score_plan
from memory_arena.travel_tables import Line, Table, Tables, read_tables

STEP_CAP = 30
MAX_LINES = 100
MAX_DAYS = 60
ACTIONS = """\
Call one tool at a time: NAME {"argument": "value"}. Search, then hand in the person's plan with SubmitPlan, once.
A plan is a list of days: {"days": 1, "current_city": "from A to B", "transportation": "...", "breakfast": "NAME, CITY",
"attraction": "NAME, CITY;NAME, CITY;", "lunch": "...", "dinner": "...", "accommodation": "NAME, CITY"}.
"-" stands for nothing. Names are those of the search results."""
INSTRUCTION = """\
Plan a trip for a group. {name}'s plan is fixed. The others join one after the other; each says what they want, and
whose plan they share. Make one plan for each person, from the tools' data and the plans made so far. Where a person
asks for nothing of their own, they do as {name} does."""


def _tool(name: str, description: str, **arguments: str) -> ToolSpec:
    properties = {key: {"type": "string", "description": text} for key, text in arguments.items()}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return ToolSpec(name, description, MappingProxyType(schema))


_PLAN = {
    "type": "object",
    "properties": {
        "plan": {
            "type": "array",
            "description": "one object for each day of the trip",
            "items": {
                "type": "object",
                "properties": {
                    "days": {"type": "integer", "description": "number of the day, from 1"},
                    **{name: {"type": "string"} for name in ("current_city", *SLOTS)},
                },
                "required": ["days", "current_city", *SLOTS],
            },
        }
    },
    "required": ["plan"],
}
TOOLS = (
    _tool(
        "FlightSearch",
        "Flights between two cities on a day.",
        origin="city",
        destination="city",
        date="YYYY-MM-DD",
    ),
    _tool("RestaurantSearch", "Restaurants of a city.", city="city"),
    _tool("AccommodationSearch", "Places to stay in a city.", city="city"),
    _tool("AttractionSearch", "Attractions of a city.", city="city"),
    _tool(
        "DistanceMatrix",
        "Duration, distance and cost between two cities by road.",
        origin="city",
        destination="city",
        mode="driving or taxi",
    ),
    _tool("CitySearch", "Cities of a US state.", state="state"),
    ToolSpec("SubmitPlan", "Hand in the plan of the person who joins. It ends the subtask.", MappingProxyType(_PLAN)),
)


class TravelDomain:
    """Travel over one set of tables. `step_cap`: steps for each person."""

    name = TRAVEL
    actions = ACTIONS
    tools: Sequence[ToolSpec] = TOOLS
    decides: Decides = "all"

    def __init__(self, tables: Tables, step_cap: int = STEP_CAP) -> None:
        self.step_cap = step_cap
        self._tables = tables

    def play(self, row: Row) -> Play:
        """Start a group."""
        return TravelPlay(expect(row, TravelRow), self._tables)


def build(given: Mapping[str, Any], grader: Grader) -> Domain:
    """Options: `tables`, the folder or the tar archive of TravelPlanner's database, which is needed; `step_cap` (30).
    The scorer is deterministic: `grader` is not used. Raises ValueError."""
    known = options(given, ("tables", "step_cap"), TRAVEL)
    missing = "needs the option 'tables': the folder or tar archive of TravelPlanner's database"
    return TravelDomain(read_tables(path_option(known, "tables", TRAVEL, missing)), step_cap(known, STEP_CAP, TRAVEL))


class TravelPlay:
    """One group."""

    def __init__(self, row: TravelRow, tables: Tables) -> None:
        self._row = row
        self._tables = tables
        self._index = 0
        self._plan: list[Any] | None = None
        self._tools: dict[str, Callable[..., Reply]] = {
            "FlightSearch": self._flights,
            "RestaurantSearch": lambda city: _listing(tables.restaurants, "restaurant", city),
            "AccommodationSearch": lambda city: _listing(tables.accommodations, "accommodation", city),
            "AttractionSearch": lambda city: _listing(tables.attractions, "attraction", city),
            "DistanceMatrix": self._distance,
            "CitySearch": self._cities,
            "SubmitPlan": self._submit,
        }

    @property
    def instruction(self) -> str:
        """What holds for the group."""
        return INSTRUCTION.format(name=self._row.base_person.name)

    def begin(self, index: int) -> str:
        """The next person's wish; before the first one, the base person's query and plan."""
        self._index, self._plan = index, None
        question = self._row.questions[index]
        if index:
            return question
        base = self._row.base_person
        days = "\n".join(json.dumps(day, ensure_ascii=False) for day in plan_json(base.daily_plans))
        return f"{base.query}\n{base.name}'s plan:\n{days}\n\n{question}"

    def act(self, action: str) -> Reply:
        """Call a tool."""
        try:
            name, arguments = checked_call(action, TOOLS)
        except ValueError as error:
            return Reply(f"Error: {error}", valid=False)
        return self._tools[name](**arguments)

    def score(self) -> Score:
        """Whether the person's plan passes, and `changed_passed` of `changed_total` for SPS."""
        plan = score_plan(self._row.answers[self._index], self._plan or [], self._row.base_person.daily_plans)
        figures = {"changed_passed": plan.changed_passed, "changed_total": len(plan.changed)}
        return Score(plan.passed, self._plan is not None, figures)

    def _flights(self, origin: str, destination: str, date: str) -> Reply:
        flights = self._tables.flights
        if flights is None:
            told = "Error: FlightSearch has no data here: the flights table is not installed. Use the other tools."
            return Reply(told, valid=False)
        rows = flights.rows(origin, destination, date)
        if not rows:
            return Reply(f"There is no flight from {shown(origin)} to {shown(destination)} on {shown(date)}.")
        return Reply(_lines(flights.columns, rows))

    def _distance(self, origin: str, destination: str, mode: str) -> Reply:
        if mode not in ("driving", "taxi"):
            return Reply("Error: mode is driving or taxi", valid=False)
        way = "self-driving" if mode == "driving" else "taxi"
        route = f"{way}, from {shown(origin)} to {shown(destination)}"
        found = self._tables.distance(origin, destination)
        kilometres = _kilometres(found[1]) if found is not None else None
        if found is None or kilometres is None or not found[0] or "day" in found[0]:
            return Reply(f"{route}, no valid information.")
        cost = int(kilometres * (0.05 if mode == "driving" else 1))
        return Reply(f"{route}, duration: {found[0]}, distance: {found[1]}, cost: {cost}")

    def _cities(self, state: str) -> Reply:
        cities = self._tables.cities(state)
        return Reply(", ".join(cities) if cities else f"There is no state {shown(state)}.")

    def _submit(self, plan: list[Any]) -> Reply:
        fault = plan_fault(plan)
        if fault:
            return Reply(f"Error: SubmitPlan: {fault}", valid=False)
        self._plan = plan
        return Reply("The plan is filed.", ended=True)


def plan_fault(plan: Sequence[Any]) -> str:
    """What is wrong with a plan's form, in words for the policy; empty when nothing is. Slots may be left out (`-`)."""
    if not plan:
        return "the plan has no day"
    if len(plan) > MAX_DAYS:
        return f"the plan has {len(plan)} days; {MAX_DAYS} are the most"
    for place, day in enumerate(plan, 1):
        if not isinstance(day, dict):
            return f"entry {place} is no object"
        number = day.get("days")
        if isinstance(number, bool) or not isinstance(number, int):
            return f"entry {place} needs days, the number of the day"
        for name in ("current_city", *SLOTS):
            if not isinstance(day.get(name, "-"), str):
                return f"entry {place}: {name} is to be a text"
    return ""


def _listing(table: Table, what: str, city: str) -> Reply:
    rows = table.rows(city)
    return Reply(_lines(table.columns, rows) if rows else f"There is no {what} in this city.")


def _lines(columns: Line, rows: Sequence[Line]) -> str:
    """A row a line, with tabs: names hold commas and bars, and a few of them line breaks, which become spaces."""
    lines = ["\t".join(row).replace("\n", " ") for row in (columns, *rows[:MAX_LINES])]
    if len(rows) > MAX_LINES:
        lines.append(f"({len(rows) - MAX_LINES} more are not shown)")
    return "\n".join(lines)


def _kilometres(distance: str) -> float | None:
    """`1,433 km` is 1433.0."""
    match = re.fullmatch(r"([0-9][0-9,]{0,11}(?:\.[0-9]+)?) km", distance)
    return float(match[1].replace(",", "")) if match else None
