"""Group travel: the scorer against values worked out by hand, tables against TravelPlanner's own answers, the play."""

from __future__ import annotations

import ast
import csv
import json
import re
import tarfile
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interactive_env.calls import format_call
from memory_arena.domain import Part, same_text
from memory_arena.env import MemoryArenaEnv
from memory_arena.rows import SLOTS, TRAVEL, Day, Plan, TravelRow, plan_json
from memory_arena.suite import MemoryArena, builder, generated_suite
from memory_arena.travel import TravelDomain, build, plan_fault
from memory_arena.travel_score import PASS, changed_slots, score_plan, similarity
from memory_arena.travel_tables import (
    ACCOMMODATIONS,
    ATTRACTIONS,
    CITIES,
    COLUMNS,
    DISTANCES,
    FLIGHTS,
    RESTAURANTS,
    Tables,
    read_tables,
)
from tests.env_contract import CHECKS, Check, Sample


@pytest.mark.parametrize(
    ("expected", "actual", "value"),
    [
        ("Coco Bambu, Rockford", "coco bambu, ROCKFORD", 1.0),
        ("-", "-", 1.0),
        (" - ", "-", 1.0),
        ("abcd", "bcde", 0.75),  # bcd: 2 * 3 / 8
        ("abc", "abd", 2 / 3),  # ab: 2 * 2 / 6
        ("abcdefghij", "abcdefgxyz", 0.7),  # 2 * 7 / 20, which passes
        ("abcdefghij", "abcdefwxyz", 0.6),
        ("Subway, Rockford", "Subway", 1.0),  # cut to six letters
        ("Flight Number: F3573659", "F", 1.0),  # cut to one: the rule's weak point
        ("Subway", "-", 0.0),  # "s" against "-"
        ("-", "Subway", 0.0),
        ("-", "-5 C Bar", 1.0),  # "-" against "-"
        ("tide", "diet", 0.25),  # difflib is not symmetric
        ("diet", "tide", 0.5),
        ("Subway", "", 0.0),
        ("", "", 0.0),
        ("Subway", None, 0.0),
        ("Subway", "   ", 0.0),
        ("3", 3, 1.0),
        ("Subway", [], 0.0),
    ],
)
def test_similarity_by_hand(expected: str, actual: Any, value: float) -> None:
    assert similarity(expected, actual) == pytest.approx(value)
    assert (similarity(expected, actual) >= PASS) == (value >= 0.7)


BASE: Plan = (
    Day(
        1, "from Oslo to Bergen", "Flight Number: F1", "-", "Fort, Bergen;", "Grill, Bergen", "Diner, Bergen", "Loft A"
    ),
    Day(2, "from Bergen to Oslo", "Flight Number: F2", "Cafe, Bergen", "-", "Tapas, Bergen", "-", "-"),
)
GOLD: Plan = (
    replace(BASE[0], dinner="Noodles, Bergen", accommodation="Houseboat"),
    replace(BASE[1], attraction="Zoo;"),
)


def test_a_plan_by_hand() -> None:
    """Three slots were asked for: dinner and accommodation on day 1, attraction on day 2."""
    asked = {(1, "dinner"), (1, "accommodation"), (2, "attraction")}
    assert changed_slots(GOLD, BASE) == asked
    whole = score_plan(GOLD, plan_json(GOLD), BASE)
    assert set(whole.slots.values()) == {1.0}
    assert (whole.passed, whole.changed_passed, len(whole.changed)) == (True, 3, 3)

    days = plan_json(GOLD)
    days[0]["dinner"] = "Sushi Place, Oslo"
    one_off = score_plan(GOLD, days, BASE)
    assert (one_off.passed, one_off.changed_passed, len(one_off.changed)) == (False, 2, 3)
    assert sum(value >= PASS for value in one_off.slots.values()) == 11

    same_as_base = score_plan(GOLD, plan_json(BASE), BASE)
    # "diner, bergen" and "noodles, berg" (cut to 13): "berg" and a few letters: 2 * 8 / 26 = 0.615
    assert same_as_base.slots[1, "dinner"] == pytest.approx(16 / 26)
    assert (same_as_base.passed, same_as_base.changed_passed) == (False, 0)
    assert sum(value >= PASS for value in same_as_base.slots.values()) == 9


def test_days_are_found_by_number() -> None:
    days = plan_json(GOLD)
    assert score_plan(GOLD, days[::-1], BASE).passed
    assert score_plan(GOLD, [*days, {"days": 3, "dinner": "Anything"}], BASE).passed
    missing = score_plan(GOLD, days[1:], BASE)
    assert [missing.slots[1, name] for name in SLOTS] == [0.0] * 6
    assert (missing.passed, missing.changed_passed) == (False, 1)
    assert not score_plan(GOLD, [{**days[0], "dinner": "x"}, *days], BASE).passed  # the first of two counts
    assert score_plan(GOLD, [*days, {**days[0], "dinner": "x"}], BASE).passed


def test_a_slot_that_is_not_named_is_empty() -> None:
    days = [{key: value for key, value in day.items() if value != "-"} for day in plan_json(GOLD)]
    assert score_plan(GOLD, days, BASE).passed
    del days[0]["lunch"]
    assert score_plan(GOLD, days, BASE).slots[1, "lunch"] == 0.0


def test_days_that_the_base_plan_lacks_ask_for_nothing() -> None:
    assert changed_slots(GOLD, BASE[:1]) == {(1, "dinner"), (1, "accommodation")}
    with pytest.raises(ValueError, match="no day"):
        score_plan((), [], BASE)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["days", *SLOTS]), inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=60)
@given(plan=st.lists(JSON, max_size=4))
def test_anything_can_be_scored(plan: list[Any]) -> None:
    score = score_plan(GOLD, plan, BASE)
    assert set(score.slots) == {(day, name) for day in (1, 2) for name in SLOTS}
    assert all(0.0 <= value <= 1.0 for value in score.slots.values())
    assert 0 <= score.changed_passed <= 3


@pytest.fixture(scope="module")
def travel_data(horma_data: Path) -> Path:
    folder = horma_data / "travel"
    if not (folder / "travelplanner_finetuning_std.jsonl").is_file():
        pytest.skip(f"no TravelPlanner data at {folder}")
    return folder


@pytest.fixture(scope="module")
def gold_plans(travel_data: Path) -> list[Plan]:
    """TravelPlanner's 45 training plans."""
    lines = (travel_data / "travelplanner_finetuning_std.jsonl").read_text(encoding="utf-8").splitlines()
    plans = [ast.literal_eval(json.loads(line)["messages"][2]["content"]) for line in lines]
    return [tuple(Day(**day) for day in plan if day) for plan in plans]


def test_the_gold_plans_pass_themselves(gold_plans: list[Plan]) -> None:
    scores = [score_plan(plan, plan_json(plan), plan) for plan in gold_plans]
    assert len(scores) == 45
    assert sum(len(score.slots) for score in scores) == 1350  # 15 plans each of 3, 5 and 7 days, six slots a day
    assert {value for score in scores for value in score.slots.values()} == {1.0}
    assert not any(score.changed for score in scores)


@pytest.mark.parametrize(
    ("change", "filled", "empty"),
    [
        (lambda value: "\u2603" * 40, 0.0, 0.0),  # no letter in common
        (lambda value: "", 0.0, 0.0),
        (lambda value: None, 0.0, 0.0),
        (lambda value: "-", 0.0, 1.0),
        (lambda value: value[:5], 1.0, 1.0),  # shortened: compared as far as it goes
        (lambda value: f"{value}, and more", 1.0, 1.0),
        (lambda value: value.upper(), 1.0, 1.0),
        (lambda value: 0, 0.0, 0.0),
        (lambda value: [], 0.0, 0.0),
        (lambda value: {}, 0.0, 0.0),
    ],
)
def test_a_changed_slot_fails_alone(
    gold_plans: list[Plan], change: Callable[[str], Any], filled: float, empty: float
) -> None:
    """In each of the 1,350 slots of the 45 plans: 997 are filled, 353 are `-`."""
    counted = {False: 0, True: 0}
    for plan in gold_plans:
        days = plan_json(plan)
        for index, day in enumerate(plan):
            for slot in SLOTS:
                changed = [*days[:index], {**days[index], slot: change(day.slot(slot))}, *days[index + 1 :]]
                score = score_plan(plan, changed, plan)
                nothing = day.slot(slot) == "-"
                expected = {**dict.fromkeys(score.slots, 1.0), (day.days, slot): empty if nothing else filled}
                assert score.slots == expected
                assert score.passed == (expected[day.days, slot] >= 0.7)
                counted[nothing] += 1
    assert counted == {False: 997, True: 353}


def test_days_missing_and_too_many(gold_plans: list[Plan]) -> None:
    for plan in gold_plans:
        days = plan_json(plan)
        for index, day in enumerate(plan):
            score = score_plan(plan, days[:index] + days[index + 1 :], plan)
            assert {slot for slot, value in score.slots.items() if value == 0.0} == {(day.days, name) for name in SLOTS}
        assert score_plan(plan, [*days, {**days[0], "days": 99}, None, 3, "x"], plan).passed
        assert not score_plan(plan, [{**day, "days": str(day["days"])} for day in days], plan).passed
        assert not score_plan(plan, [], plan).passed


def test_one_plan_against_another(gold_plans: list[Plan]) -> None:
    """Each plan as the gold one, and the next of that length as what was handed in and as the base plan. The figures
    are what the benchmark's own evaluation (its public code, June 2026) gives for these pairs."""
    figures = {}
    for days in (3, 5, 7):
        plans = [plan for plan in gold_plans if len(plan) == days]
        scores = [score_plan(gold, plan_json(other), other) for gold, other in pairwise(plans)]
        values = [value for score in scores for value in score.slots.values()]
        changed = sum(len(score.changed) for score in scores)
        figures[days] = (len(values), sum(value >= PASS for value in values), changed)
        assert not any(score.passed for score in scores)
    assert figures == {3: (252, 66, 186), 5: (420, 128, 292), 7: (588, 131, 455)}


@pytest.fixture(scope="module")
def real_tables(travel_data: Path) -> Tables:
    return read_tables(travel_data / "travel_database_without_flights.tar.xz")


ROWS = generated_suite((TRAVEL,), 8, 11)


def one_row(domain: TravelDomain) -> MemoryArenaEnv:
    """A play of one person, on `domain`'s tables."""
    row = ROWS.tasks(TRAVEL)[0].data["row"]
    suite = MemoryArena([Part(domain, [row])], "test")
    (task,) = suite.tasks(TRAVEL)
    env = suite.make(task)
    env.reset(task)
    return env


def test_tools_answer_as_travelplanner_did(travel_data: Path, real_tables: Tables) -> None:
    """The 45 reference rows hold what TravelPlanner's tools gave for 540 look-ups without flights."""
    play = one_row(TravelDomain(real_tables, 10_000))
    counted = 0
    text = (travel_data / "travelplanner_train_ref_info.jsonl").read_text(encoding="utf-8")
    for line in text.splitlines():
        for title, wanted in json.loads(line).items():
            if match := re.fullmatch(r"(Attraction|Restaurant|Accommodation)s in (.*)", title):
                told = play.step(format_call(f"{match[1]}Search", {"city": match[2]})).observation
                head, *rows = [row.split("\t") for row in told.split("\n")]
                assert [dict(zip(head, map(number, row), strict=True)) for row in rows] == on_lines(wanted)
            elif match := re.fullmatch(r"(Self-driving|Taxi) from (.*) to (.*)", title):
                mode = "taxi" if match[1] == "Taxi" else "driving"
                call = {"origin": match[2], "destination": match[3], "mode": mode}
                told = play.step(format_call("DistanceMatrix", call)).observation
                nothing = wanted == "No valid information."
                assert told.endswith(", no valid information.") if nothing else told == wanted
            else:
                continue
            counted += 1
    assert counted == 540
    told = play.step(format_call("CitySearch", {"state": "Rhode Island"})).observation
    assert told in real_tables.states["rhode island"][0]
    refused = play.step(format_call("FlightSearch", {"origin": "a", "destination": "b", "date": "2022-03-16"}))
    assert not refused.valid
    assert "flights table is not installed" in refused.observation


def on_lines(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A few names of places to stay hold line breaks."""
    return [{key: re.sub("\n", " ", it) if isinstance(it, str) else it for key, it in row.items()} for row in rows]


def number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def gold_calls(row: TravelRow) -> list[str]:
    return [format_call("SubmitPlan", {"plan": plan_json(plan)}) for plan in row.answers]


SUITE = generated_suite((TRAVEL,), 3, 5)
TASK = SUITE.tasks(TRAVEL)[0]
ROW: TravelRow = TASK.data["row"]
CITY = ROW.base_person.daily_plans[1].current_city
INVALID = (
    "fly",
    "",
    'Teleport {"city": "X"}',
    "RestaurantSearch {}",
    'RestaurantSearch {"city": 3}',
    'RestaurantSearch {"city": "X", "stars": "5"}',
    'DistanceMatrix {"origin": "X", "destination": "Y", "mode": "walking"}',
    'SubmitPlan {"plan": []}',
    'SubmitPlan {"plan": {"days": 1}}',
    'SubmitPlan {"plan": [{"days": "1"}]}',
    'SubmitPlan {"plan": [{"days": true}]}',
    'SubmitPlan {"plan": [{"days": 1, "dinner": ["x"]}]}',
)
CONTRACT = Sample(
    lambda: SUITE.make(TASK),
    TASK,
    [
        format_call("RestaurantSearch", {"city": CITY}),
        format_call("FlightSearch", {"origin": CITY, "destination": "Nowhere", "date": "2022-03-16"}),
        *gold_calls(ROW),
    ],
    INVALID,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Check) -> None:
    check(CONTRACT)


def test_a_group_is_planned_person_by_person() -> None:
    env = SUITE.make(TASK)
    start = env.reset(TASK)
    base = ROW.base_person
    assert base.name in start.instruction
    assert start.observation.startswith(f"Subtask 1 of {len(ROW.questions)}\n{base.query}")
    assert json.dumps(base.daily_plans[0].as_json()) in start.observation
    assert start.observation.endswith(ROW.questions[0])
    first, *others = gold_calls(ROW)
    outcome = env.step(first)
    assert outcome.subtask
    assert outcome.observation == f"The plan is filed.\n\nSubtask 2 of {len(ROW.questions)}\n{ROW.questions[1]}"
    assert outcome.info["passed"]
    assert env.progress == 1 / len(ROW.questions)
    wrong = format_call("SubmitPlan", {"plan": plan_json(base.daily_plans)})
    outcome = env.step(wrong)
    assert outcome.info["figures"] == {"changed_passed": 0, "changed_total": 2}
    for call in others[1:]:
        outcome = env.step(call)
    assert outcome.terminated
    assert not env.success
    assert env.progress == (len(ROW.questions) - 1) / len(ROW.questions)


def test_thirty_steps_a_person() -> None:
    env = SUITE.make(TASK)
    assert env.capabilities.max_steps == 30 * len(ROW.questions)
    env.reset(TASK)
    search = format_call("RestaurantSearch", {"city": CITY})
    outcomes = [env.step(search) for _ in range(30)]
    assert not any(outcome.subtask for outcome in outcomes[:-1])
    assert outcomes[-1].subtask
    assert outcomes[-1].info["capped"]
    assert not outcomes[-1].info["answered"]
    assert ROW.questions[1] in outcomes[-1].observation
    assert env.progress == 0.0


def test_what_tools_tell() -> None:
    env = SUITE.make(TASK)
    env.reset(TASK)
    told = env.step(format_call("RestaurantSearch", {"city": f" {CITY.upper()} (Sunder)"})).observation
    assert told.splitlines()[0] == "Name\tAverage Cost\tCuisines\tAggregate Rating\tCity"
    assert len(told.splitlines()) == 9
    assert env.step(format_call("AttractionSearch", {"city": "Atlantis"})).observation == (
        "There is no attraction in this city."
    )
    nowhere = env.step(format_call("FlightSearch", {"origin": "a\ud800\nb", "destination": "c" * 500, "date": "d"}))
    assert nowhere.observation.startswith("There is no flight from a? b to cccc")
    assert len(nowhere.observation) < 150
    nowhere.observation.encode("utf-8")
    assert (
        "no valid information"
        in env.step(format_call("DistanceMatrix", {"origin": "a", "destination": "b", "mode": "taxi"})).observation
    )
    there = re.search(r"from (\w+) to (\w+)", ROW.base_person.daily_plans[0].current_city)
    assert there is not None
    call = {"origin": there[1], "destination": there[2], "date": "2022-03-16"}
    flights = env.step(format_call("FlightSearch", call)).observation
    assert re.search(r"Flight Number: (F\d+)", ROW.base_person.daily_plans[0].transportation)[1] in flights  # type: ignore[index]
    road = env.step(format_call("DistanceMatrix", {"origin": there[1], "destination": there[2], "mode": "driving"}))
    parts = re.fullmatch(
        r"self-driving, from \w+ to \w+, duration: .*, distance: ([\d,]+) km, cost: (\d+)", road.observation
    )
    assert parts is not None
    assert int(parts[2]) == int(int(parts[1].replace(",", "")) * 0.05)


def test_generated_groups_are_won_by_their_answers() -> None:
    for task in ROWS.tasks("all"):
        env = ROWS.make(task)
        env.reset(task)
        for call in gold_calls(task.data["row"]):
            outcome = env.step(call)
        assert outcome.terminated
        assert env.success
        base = plan_json(task.data["row"].base_person.daily_plans)
        env.reset(task)
        for _ in task.data["row"].questions:
            env.step(format_call("SubmitPlan", {"plan": base}))
        assert env.progress == 0.0  # nobody wants quite what the base person has


def test_plan_faults() -> None:
    day = plan_json(BASE)[0]
    assert plan_fault([day]) == ""
    assert plan_fault([{"days": 1}]) == ""
    assert "61 days" in plan_fault([day] * 61)
    assert plan_fault([day, 3]) == "entry 2 is no object"
    assert plan_fault([{**day, "current_city": None}]) == "entry 1: current_city is to be a text"


TABLES = {
    ATTRACTIONS: [("Fort", "1", "2", "Main Street", "1", "w", "Bergen"), ("NA", "1", "2", "x", "1", "w", "Bergen")],
    RESTAURANTS: [("Café, \"Ü\"", "20", "Thai, Greek", "4.5", "Bergen"), ("", "20", "Thai", "4.5", "Bergen")],
    ACCOMMODATIONS: [("Loft", "90.0", "Private room", "No smoking", "1.0", "2", "4.0", "Bergen")],
    DISTANCES: [("Oslo", "Bergen", "7 hours 2 mins", "463 km"), ("Oslo", "Bergen", "1 day 7 hours", "1 km"),
                ("Bergen", "Tromso", "1 day 3 hours", "2,000 km"), ("Tromso", "Oslo", "", "")],
    FLIGHTS: [("F1", "99", "08:00", "09:00", "1 hour", "2022-03-16", "Oslo", "Bergen", "300")],
}  # fmt: skip


def put(root: Path, skip: str = "") -> Path:
    """The tables of TABLES as TravelPlanner's files, deep in `root`."""
    for table, rows in TABLES.items():
        if table == skip:
            continue
        file = root / "deep" / "database" / table
        file.parent.mkdir(parents=True)
        with file.open("w", encoding="utf-8", newline="") as opened:
            writer = csv.writer(opened)
            writer.writerow(["", *COLUMNS[table]])
            writer.writerows(["7", *row] for row in rows)
    cities = root / "deep" / "database" / CITIES
    cities.parent.mkdir(parents=True)
    cities.write_text("Oslo\tEast\nBergen\tWest\nVoss\tWest", encoding="utf-8")
    return root


@pytest.mark.parametrize("packed", [False, True])
def test_tables_are_read_from_a_folder_or_an_archive(tmp_path: Path, packed: bool) -> None:
    root = put(tmp_path / "data")
    if packed:
        with tarfile.open(tmp_path / "data.tar.xz", "w:xz") as archive:
            archive.add(root, arcname="data")
        root = tmp_path / "data.tar.xz"
    tables = read_tables(root)
    assert [row[0] for row in tables.restaurants.rows("bergen")] == [
        'Café, "Ü"'
    ]  # rows that lack something are left out
    assert [row[0] for row in tables.attractions.rows("Bergen(West)")] == ["Fort"]
    assert tables.distance("Oslo", "BERGEN") == ("7 hours 2 mins", "463 km")
    assert tables.distance("Bergen", "Oslo") is None
    assert tables.cities("west") == ["Bergen", "Voss"]
    assert tables.flights is not None
    assert tables.flights.rows("oslo", "Bergen", "2022-03-16") == TABLES[FLIGHTS]
    assert tables.flights.rows("oslo", "Bergen", "2022-03-17") == []
    env = one_row(TravelDomain(tables))
    for origin, destination in (("Bergen", "Tromso"), ("Tromso", "Oslo")):  # over a day; not known
        call = {"origin": origin, "destination": destination, "mode": "taxi"}
        assert env.step(format_call("DistanceMatrix", call)).observation.endswith("no valid information.")
    taxi = env.step(format_call("DistanceMatrix", {"origin": "Oslo", "destination": "Bergen", "mode": "taxi"}))
    assert taxi.observation == "taxi, from Oslo to Bergen, duration: 7 hours 2 mins, distance: 463 km, cost: 463"


def test_what_is_wrong_with_tables(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="absent: no such folder or archive"):
        read_tables(tmp_path / "absent")
    root = put(tmp_path / "partly", skip=RESTAURANTS)
    with pytest.raises(ValueError, match=r"holds no restaurants/clean_restaurant_2022\.csv"):
        read_tables(root)
    restaurants = root / "deep" / "database" / RESTAURANTS
    restaurants.parent.mkdir()
    restaurants.write_text("Name,City\nx,y\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no column 'Average Cost'; there are Name, City"):
        read_tables(root)
    (tmp_path / "odd.tar").write_bytes(b"no archive")
    with pytest.raises(ValueError, match=r"odd\.tar: cannot be read as a tar archive"):
        read_tables(tmp_path / "odd.tar")
    good = tmp_path / "good.tar.gz"
    with tarfile.open(good, "w:gz") as archive:
        archive.add(put(tmp_path / "whole"))
    good.write_bytes(good.read_bytes()[:400])
    with pytest.raises(ValueError, match=r"good\.tar\.gz: "):
        read_tables(good)


def test_options(tmp_path: Path) -> None:
    root = put(tmp_path)
    assert build({"tables": str(root), "step_cap": 4}, same_text).step_cap == 4
    assert builder(TRAVEL)({"tables": str(root)}, same_text).step_cap == 30
    with pytest.raises(ValueError, match="needs the option 'tables'"):
        build({}, same_text)
    with pytest.raises(ValueError, match="no such option 'table': known are tables, step_cap"):
        build({"table": str(root)}, same_text)
    with pytest.raises(ValueError, match="step_cap is to be a whole number from 1 on, got 0"):
        build({"tables": str(root), "step_cap": 0}, same_text)
