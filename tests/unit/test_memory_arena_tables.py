"""Group travel as it is played: the tools, against TravelPlanner's own answers; plans; the tables as files."""

from __future__ import annotations

import csv
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interactive_env.calls import format_call
from memory_arena.domain import Part, same_text
from memory_arena.env import MemoryArenaEnv
from memory_arena.make_travel import CITIES as CITY_NAMES
from memory_arena.rows import TRAVEL, TravelRow, plan_json
from memory_arena.suite import MemoryArena, builder, generated_suite
from memory_arena.travel import TOOLS, TravelDomain, build, plan_fault
from memory_arena.travel_tables import (
    ACCOMMODATIONS,
    ATTRACTIONS,
    CITIES,
    COLUMNS,
    DISTANCES,
    FLIGHTS,
    RESTAURANTS,
    Line,
    Tables,
    read_tables,
    tables_from_rows,
)
from tests.env_contract import CHECKS, Check, Sample


@pytest.fixture(scope="module")
def travel_data(horma_data: Path) -> Path:
    folder = horma_data / "travel"
    if not (folder / "travelplanner_finetuning_std.jsonl").is_file():
        pytest.skip(f"no TravelPlanner data at {folder}")
    return folder


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


ODD = st.text(st.characters(exclude_categories=()), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | ODD | st.sampled_from(list(CITY_NAMES)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["days", "dinner"]) | ODD, inner),
    max_leaves=6,
)
NAMES = st.sampled_from([tool.name for tool in TOOLS])
ARGUMENTS = st.sampled_from(["city", "origin", "destination", "date", "mode", "state", "plan"])


def calls(name: str) -> st.SearchStrategy[str]:
    """Calls of a tool with the arguments that it takes, and anything in them."""
    parameters = next(tool for tool in TOOLS if tool.name == name).parameters["properties"]
    return st.fixed_dictionaries({key: VALUES | ODD for key in parameters}).map(lambda given: format_call(name, given))


@settings(max_examples=60)
@given(
    actions=st.lists(
        ODD | NAMES.flatmap(calls) | st.builds(format_call, NAMES, st.dictionaries(ARGUMENTS, VALUES)), max_size=6
    )
)
def test_whatever_is_written_is_answered(actions: list[str]) -> None:
    env = SUITE.make(TASK)
    env.reset(TASK)
    for action in actions:
        outcome = env.step(action)
        assert outcome.observation.encode("utf-8")
        if outcome.terminated or outcome.truncated:
            break
    assert 0.0 <= env.progress <= 1.0


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


DAY = {
    "days": 1,
    "current_city": "from Oslo to Bergen",
    "transportation": "Flight Number: F1",
    "breakfast": "-",
    "attraction": "Fort, Bergen;",
    "lunch": "Grill, Bergen",
    "dinner": "Diner, Bergen",
    "accommodation": "Loft",
}


def test_plan_faults() -> None:
    assert plan_fault([DAY]) == ""
    assert plan_fault([{"days": 1}]) == ""
    assert "61 days" in plan_fault([DAY] * 61)
    assert plan_fault([DAY, 3]) == "entry 2 is no object"
    assert plan_fault([{**DAY, "current_city": None}]) == "entry 1: current_city is to be a text"


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


@pytest.mark.parametrize("distance", [", km", f"{'9' * 400} km", "-1 km", "\u0663 km", "", "km"])
def test_an_odd_distance_is_no_information(distance: str) -> None:
    rows: dict[str, list[Line]] = {name: [] for name in (ATTRACTIONS, RESTAURANTS, ACCOMMODATIONS)}
    rows[DISTANCES] = [("Oslo", "Bergen", "7 hours", distance)]
    env = one_row(TravelDomain(tables_from_rows(rows, {})))
    told = env.step(format_call("DistanceMatrix", {"origin": "Oslo", "destination": "Bergen", "mode": "taxi"}))
    assert told.observation.endswith("no valid information.")


def test_links_and_paths_that_leave_an_archive_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("Oslo\tEast")
    root = put(tmp_path / "data")
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE):
        with tarfile.open(tmp_path / "links.tar", "w") as archive:
            archive.add(root, arcname="../..", filter=lambda member: None if member.name.endswith(CITIES) else member)
            link = tarfile.TarInfo(CITIES)
            link.type, link.linkname = kind, str(secret)
            archive.addfile(link)
        with pytest.raises(ValueError, match="holds no background/citySet_with_states"):
            read_tables(tmp_path / "links.tar")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["data", "links.tar", "secret.txt"]


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
    restaurants.write_text(",".join(COLUMNS[RESTAURANTS]) + '\n"' + "x" * 200_000, encoding="utf-8")
    with pytest.raises(ValueError, match=r"restaurant_2022\.csv: line 2 is no CSV \(field larger"):
        read_tables(root)
    (put(tmp_path / "nowhere") / "deep" / "database" / CITIES).write_text("Oslo, East", encoding="utf-8")
    with pytest.raises(ValueError, match=r"citySet_with_states\.txt: no line has a city, a tab and a state"):
        read_tables(tmp_path / "nowhere")
    (tmp_path / "odd.tar").write_bytes(b"no archive")
    with pytest.raises(ValueError, match=r"odd\.tar: cannot be read as a tar archive \(.*\)$"):
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
    with pytest.raises(ValueError, match="the option 'tables' is 5; it is the path"):
        build({"tables": 5}, same_text)
    with pytest.raises(ValueError, match="no such option 'table': known are tables, step_cap"):
        build({"table": str(root)}, same_text)
    with pytest.raises(ValueError, match="step_cap is to be a whole number from 1 on, got 0"):
        build({"tables": str(root), "step_cap": 0}, same_text)
