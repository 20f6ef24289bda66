"""MemoryArena's rows: the published schema, what is wrong with a file, generated rows, and fetching the release."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horma_rl.benchmarks import sources
from horma_rl.cli import main
from memory_arena.domain import same_text
from memory_arena.make_rows import make_math, make_physics, make_travel
from memory_arena.rows import (
    DOMAINS,
    MATH,
    PHYSICS,
    SEARCH,
    SHOPPING,
    TRAVEL,
    FormalRow,
    Product,
    TravelRow,
    parse_row,
    read_rows,
    row_json,
)
from memory_arena.travel_score import changed_slots

DAY = {
    "days": 1,
    "current_city": "from Oslo to Bergen",
    "transportation": "Flight Number: F1",
    "breakfast": "-",
    "attraction": "Fort, Bergen;",
    "lunch": "Grill, Bergen",
    "dinner": "Diner, Bergen",
    "accommodation": "Loft, Bergen",
}
EXAMPLES: dict[str, dict[str, Any]] = {
    SHOPPING: {
        "id": 0,
        "questions": ["Rules. Product 1: flour", "Product 2: icing"],
        "answers": [
            {"target_asin": "B000000001", "attributes": ["gluten free"]},
            {"target_asin": "B000000002", "attributes": []},
        ],
        "category": "baking_item_0",
    },
    TRAVEL: {
        "id": 1,
        "base_person": {"name": "Ann", "query": "I am Ann. Plan a trip.", "daily_plans": [DAY, {}, {}]},
        "questions": ["I am Ben.\n I'm joining Ann for this trip."],
        "answers": [[{**DAY, "dinner": "Noodles, Bergen"}]],
    },
    SEARCH: {"id": 2, "questions": ["Who?", "Where was who?"], "answers": ["Ann", "Oslo"]},
    MATH: {"id": "m", "paper_name": "p", "backgrounds": ["Let x.", ""], "questions": ["a", "b"], "answers": ["1", "2"]},
    PHYSICS: {"id": 4, "paper_name": "p", "backgrounds": [], "questions": ["a"], "answers": ["$E$"]},
}


def written(tmp_path: Path, *rows: Any) -> Path:
    path = tmp_path / "data.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_row_is_read_and_written_back(tmp_path: Path, domain: str) -> None:
    (row,) = read_rows(written(tmp_path, EXAMPLES[domain]), domain)
    assert row.domain == domain
    assert row.id == str(EXAMPLES[domain]["id"])
    assert list(row.questions) == EXAMPLES[domain]["questions"]
    assert parse_row(json.loads(json.dumps(row_json(row))), domain) == row


def test_what_the_fields_become() -> None:
    shopping = parse_row(EXAMPLES[SHOPPING], SHOPPING)
    assert shopping.answers[0] == Product("B000000001", ("gluten free",))
    travel = parse_row(EXAMPLES[TRAVEL], TRAVEL)
    assert isinstance(travel, TravelRow)
    assert len(travel.base_person.daily_plans) == 1  # padding is no day
    assert travel.answers[0][0].slot("dinner") == "Noodles, Bergen"
    assert travel.answers[0][0].as_json() == EXAMPLES[TRAVEL]["answers"][0][0]


def test_a_slot_may_be_null_and_blank_lines_are_none(tmp_path: Path) -> None:
    row = {**EXAMPLES[TRAVEL], "answers": [[{**DAY, "dinner": None}]]}
    path = tmp_path / "data.jsonl"
    path.write_text(f"\n{json.dumps(row)}\n\n", encoding="utf-8")
    (read,) = read_rows(path, TRAVEL)
    assert isinstance(read, TravelRow)
    assert read.answers[0][0].dinner == ""


def changed(domain: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    return domain, {**EXAMPLES[domain], **fields}


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ((SEARCH, {"id": 1, "questions": []}), "line 2: field answers: is missing"),
        (changed(SEARCH, id=None), "line 2: field id: expected a text, got null"),
        (changed(SEARCH, id=True), "line 2: field id: expected a text, got true or false"),
        (changed(SEARCH, questions="Who?"), "line 2: field questions: expected a list, got a text"),
        (changed(SEARCH, questions=["Who?", 3]), r"line 2: field questions\[1\]: expected a text, got a number"),
        (changed(SEARCH, questions=[], answers=[]), "line 2: field questions: is empty"),
        (changed(SEARCH, answers=["Ann"]), "line 2: field answers: 2 questions and 1 answers"),
        (changed(SHOPPING, category=1.5), "line 2: field category: expected a text, got a number"),
        (
            changed(SHOPPING, answers=[{"target_asin": "B1", "attributes": []}, {"target_asin": "B2"}]),
            r"line 2: field answers\[1\].attributes: is missing",
        ),
        *(
            (
                changed(SHOPPING, answers=[{"target_asin": "B1", "attributes": [], "price_constraints": limits}]),
                r"line 2: field answers\[0\].price_constraints.price_upper: is not from ",
            )
            for limits in ({"price_upper": float("nan")}, {"price_upper": float("inf")}, {"price_upper": 10**400})
        ),
        (changed(TRAVEL, base_person=[]), "line 2: field base_person: expected an object, got a list"),
        (
            changed(TRAVEL, base_person={"name": "A", "query": "q", "daily_plans": [{**DAY, "days": "1"}]}),
            r"line 2: field base_person.daily_plans\[0\].days: expected a whole number, got a text",
        ),
        (
            changed(TRAVEL, answers=[[{**DAY, "lunch": 3}]]),
            r"line 2: field answers\[0\]\[0\].lunch: expected a text, got a number",
        ),
        (changed(TRAVEL, answers=[DAY]), r"line 2: field answers\[0\]: expected a list, got an object"),
        (changed(TRAVEL, answers=[[]]), r"line 2: field answers\[0\]: has no day"),
        (changed(MATH, backgrounds=None), "line 2: field backgrounds: expected a list, got null"),
        ((MATH, [1]), "line 2: expected an object, got a list"),
    ],
)
def test_a_fault_is_told_with_file_line_and_field(tmp_path: Path, case: tuple[str, Any], message: str) -> None:
    domain, row = case
    path = written(tmp_path, {**EXAMPLES[domain], "id": "first"}, row)
    with pytest.raises(ValueError, match=re.escape(str(path)) + ": " + message):
        read_rows(path, domain)


def test_half_a_surrogate_pair_is_replaced(tmp_path: Path) -> None:
    (row,) = read_rows(
        written(tmp_path, {**EXAMPLES[SEARCH], "id": "a\ud800", "questions": ["Who\udfff?", "So?"]}), SEARCH
    )
    assert (row.id, row.questions) == ("a?", ("Who??", "So?"))


def test_other_faults_of_a_file(tmp_path: Path) -> None:
    row = EXAMPLES[SEARCH]
    with pytest.raises(ValueError, match=r"line 2: field id: '2' is that of line 1 already"):
        read_rows(written(tmp_path, row, row), SEARCH)
    with pytest.raises(ValueError, match="no rows"):
        read_rows(written(tmp_path), SEARCH)
    with pytest.raises(ValueError, match=r"absent.jsonl: cannot be read \(No such file"):
        read_rows(tmp_path / "absent.jsonl", SEARCH)
    (tmp_path / "odd.jsonl").write_bytes(b'{"id": 1\n')
    with pytest.raises(ValueError, match="line 1: is no JSON"):
        read_rows(tmp_path / "odd.jsonl", SEARCH)
    (tmp_path / "deep.jsonl").write_bytes(b"[" * 200_000 + b"\n")
    with pytest.raises(ValueError, match="line 1: is no JSON"):
        read_rows(tmp_path / "deep.jsonl", SEARCH)
    (tmp_path / "bytes.jsonl").write_bytes(b'{"id": "\xff"}\n')
    with pytest.raises(ValueError, match="line 1: is no JSON"):
        read_rows(tmp_path / "bytes.jsonl", SEARCH)
    with pytest.raises(ValueError, match="unknown domain 'cooking': known are bundled_shopping"):
        parse_row(row, "cooking")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60)
@given(domain=st.sampled_from(DOMAINS), data=st.data())
def test_any_json_is_a_row_or_a_told_fault(domain: str, data: st.DataObject) -> None:
    """A published row with any part replaced by anything."""
    raw = json.loads(json.dumps(EXAMPLES[domain]))
    place: Any = raw
    while isinstance(place, dict | list) and place:
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
        if data.draw(st.booleans()) or not isinstance(place[key], dict | list):
            place[key] = data.draw(JSON)
            break
        place = place[key]
    fault = ""
    try:
        row = parse_row(raw, domain, "here")
    except ValueError as error:
        fault = str(error)
    assert fault.startswith("here: field ") if fault else parse_row(row_json(row), domain) == row


MAKERS = {TRAVEL: make_travel, MATH: make_math, PHYSICS: make_physics}


@pytest.mark.parametrize("domain", MAKERS)
def test_generated_rows_keep_to_the_schema(domain: str) -> None:
    part = MAKERS[domain](10, 3, same_text)
    assert len({row.id for row in part.rows}) == 10
    for row in part.rows:
        assert parse_row(json.loads(json.dumps(row_json(row))), domain) == row
    assert part.rows == MAKERS[domain](10, 3, same_text).rows
    assert part.rows[:4] == MAKERS[domain](4, 3, same_text).rows
    assert part.rows != MAKERS[domain](10, 4, same_text).rows


def test_generated_groups_lean_on_each_other() -> None:
    """Whoever joins after the first shares a slot of an earlier person's plan in which that one left the base plan."""
    for row in make_travel(30, 0, same_text).rows:
        assert isinstance(row, TravelRow)
        base = row.base_person.daily_plans
        names = [re.match(r"I am (\w+)\.", question)[1] for question in row.questions]  # type: ignore[index]
        days = {"first": 1, "second": 2, "third": 3}
        for index, (question, plan) in enumerate(zip(row.questions, row.answers, strict=True)):
            asked = changed_slots(plan, base)
            assert len(asked) == 2, question
            joined = re.findall(r"For (\w+) on the (\w+) day, I'd like to join (\w+)\.", question)
            assert len(joined) == min(index, 1)
            for slot, day, other in joined:
                theirs = row.answers[names.index(other)]
                assert names.index(other) < index
                assert plan[days[day] - 1].slot(slot) == theirs[days[day] - 1].slot(slot)
                assert (days[day], slot) in changed_slots(theirs, base)


def test_generated_derivations_come_out_right_and_lean_on_each_other() -> None:
    """Worked anew from the questions alone, with the results before."""
    for row in make_math(40, 1, same_text).rows:
        assert isinstance(row, FormalRow)
        found: dict[str, int] = {}
        for index, (question, answer) in enumerate(zip(row.questions, row.answers, strict=True), 1):
            assert int(answer) == solve(question, found), question
            assert index == 1 or "a_" in re.sub(rf"a_{index}\b", "", question)
            found[f"a_{index}"] = int(answer)


def solve(question: str, known: dict[str, int]) -> int:
    if match := re.search(r"= (\d+) \\cdot (\d+) \+ (\d+)\.", question):
        return int(match[1]) * int(match[2]) + int(match[3])
    if match := re.search(r"= (\d+) (a_\d+) - (\d+)\.", question):
        return int(match[1]) * known[match[2]] - int(match[3])
    if match := re.search(r"with (\d+) x = (a_\d+) ([+-]) (\d+)\.", question):
        right = known[match[2]] + int(match[3] + match[4])
        assert right % int(match[1]) == 0
        return right // int(match[1])
    if match := re.search(r"remainder of (a_\d+)\^2 on division by (\d+)\.", question):
        return int(known[match[1]] ** 2 % int(match[2]))
    match = re.search(r"= (a_\d+) \+ (a_\d+)\.", question)
    assert match is not None, question
    return known[match[1]] + known[match[2]]


def test_generated_mechanics_come_out_right() -> None:
    for row in make_physics(20, 1, same_text).rows:
        assert isinstance(row, FormalRow)
        mass, acceleration, seconds, lost = (
            int(re.search(pattern, text)[1])  # type: ignore[index]
            for pattern, text in (
                (r"of (\d+) kg", row.backgrounds[0]),
                (r"at (\d+) m", row.questions[0]),
                (r"for (\d+) s", row.questions[1]),
                (r"turns (\d+) J", row.questions[4]),
            )
        )
        force, speed, momentum, energy, rest = map(int, row.answers)
        assert force / mass == acceleration
        assert speed == acceleration * seconds
        assert momentum / speed == mass
        assert energy == momentum**2 / (2 * mass)
        assert rest == energy - lost > 0


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[str]]]:
    """Five files at the release's paths on a server of this machine; gives the paths that were asked for so far."""
    asked: list[str] = []
    root = tmp_path / "served"
    for domain in DOMAINS:
        (root / domain).mkdir(parents=True)
        (root / domain / "data.jsonl").write_text(json.dumps(EXAMPLES[domain]) + "\n", encoding="utf-8")

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            asked.append(self.path)

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(root)))
    threading.Thread(target=partial(server.serve_forever, 0.01), daemon=True).start()
    real = sources.files("memory_arena")
    ours = {}
    for one in real:
        path = one.url.split("/resolve/")[1].partition("/")[2]
        content = (root / path).read_bytes()
        url = f"http://127.0.0.1:{server.server_port}/{path}"
        digest = hashlib.sha256(content).hexdigest()
        ours[one.name] = replace(one, url=url, bytes=len(content), sha256=digest)
    monkeypatch.setattr(sources, "sources", lambda: ours)
    monkeypatch.setenv("HORMA_CACHE", str(tmp_path / "cache"))
    yield lambda: [path for path in asked if path.startswith("/")]
    server.shutdown()
    server.server_close()


def test_the_manifest_names_five_files_of_one_revision() -> None:
    found = sources.files("memory_arena")
    assert {one.name.partition("/")[2] for one in found} == set(DOMAINS)
    assert sum(one.bytes for one in found) == 12_302_265  # the 12.3 MB of the data set's page
    assert all("da1a37c8b19280e18627ca01cf368195a5e1d92e" in one.url and one.note for one in found)
    assert sources.source("memory_arena/progressive_search").sha256.startswith("b445ee36fa3ccb9a")
    with pytest.raises(sources.UserError, match="memory_arena has several files; name one of memory_arena/bundled"):
        sources.source("memory_arena")
    with pytest.raises(sources.UserError, match=r"unknown dataset 'memory' .*known are locomo, memory_arena"):
        sources.files("memory")


def test_fetch_gets_all_files_and_goes_on_where_it_stopped(
    served: Callable[[], list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "fetch", "memory_arena/group_travel_planner"]) == 0
    assert served() == ["/group_travel_planner/data.jsonl"]
    assert main(["data", "fetch", "memory_arena"]) == 0
    assert sorted(served()) == sorted(f"/{domain}/data.jsonl" for domain in DOMAINS)  # none twice
    told = capsys.readouterr().out
    assert "CC BY 4.0" in told
    assert "this project has not seen the files" in told
    for domain in DOMAINS:
        path = sources.find(sources.source(f"memory_arena/{domain}"))
        assert path == tmp_path / "cache" / "memory_arena" / domain / "data.jsonl"
        assert len(read_rows(path, domain)) == 1


def test_fetch_keeps_no_other_file(served: Callable[[], list[str]], tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "served" / MATH / "data.jsonl"
    file.write_bytes(file.read_bytes()[:-2] + b"!\n")
    assert main(["data", "fetch", "memory_arena"]) == 2
    error = capsys.readouterr().err
    assert "sha256 is" in error
    assert "nothing was kept" in error
    kept = {path.parent.name for path in (tmp_path / "cache").rglob("*") if path.is_file()}
    assert MATH not in kept


def test_fetch_takes_a_folder(served: Callable[[], list[str]], tmp_path: Path, capsys: Any) -> None:
    assert main(["data", "fetch", "memory_arena", "--from", str(tmp_path / "served")]) == 0
    assert served() == []
    assert len(list((tmp_path / "cache" / "memory_arena").rglob("data.jsonl"))) == 5
    assert main(["data", "fetch", "memory_arena", "--from", str(tmp_path / "served" / MATH / "data.jsonl")]) == 2
    assert "no folder; memory_arena has 5 files" in capsys.readouterr().err
