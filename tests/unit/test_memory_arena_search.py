"""Progressive search: the tools, grading, and generated queries played through."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interactive_env.calls import format_call
from memory_arena.catalogue import make_search, make_world, search_actions
from memory_arena.domain import Part, Score, same_text
from memory_arena.env import GradingError
from memory_arena.index import Document, TextIndex, build_index
from memory_arena.rows import SEARCH, SearchRow, ShoppingRow, parse_row, row_json
from memory_arena.search import EXCERPT, PAGE, RESULTS, Search, SearchPlay, build
from memory_arena.suite import MemoryArena, generated_suite
from tests.env_contract import CHECKS, Check, Sample

LONG = Document("long", "A long one", "heron " * 3_000)
DOCUMENTS = [
    LONG,
    Document("otter", "Otters", "Otters eat fish."),
    *(Document(f"n{number}", "", f"note {number} on newts") for number in range(8)),
]
ROW = SearchRow("1", ("What do otters eat?", "And what else?"), ("fish", "crabs"))


@pytest.fixture(scope="module")
def suite() -> MemoryArena:
    return generated_suite((SEARCH,), count=12, seed=5)


@pytest.fixture(scope="module")
def part() -> Part:
    return make_search(12, 5, same_text)


@pytest.fixture
def play() -> SearchPlay:
    play = Search(TextIndex.of(DOCUMENTS), same_text).play(ROW)
    assert play.begin(0) == ROW.questions[0]
    return play


def test_results_show_the_beginning_of_the_best_documents(play: SearchPlay) -> None:
    assert play.act('search {"query": "otter"}').observation == "[otter] Otters\nOtters eat fish."
    shown = play.act('search {"query": "newt"}').observation
    assert [line for line in shown.splitlines() if line.startswith("[")] == [
        f"[n{number}]" for number in range(RESULTS)
    ]
    start = play.act('search {"query": "heron"}').observation.splitlines()[1]
    assert start.startswith("heron heron")
    assert len(start) == EXCERPT + len("...")
    assert play.act('search {"query": "zebra"}').observation == "No document holds any of these words."


def test_a_long_document_has_pages(play: SearchPlay) -> None:
    pages = [play.act(format_call("get_document", {"id": "long", "page": page})).observation for page in (1, 2, 3)]
    assert [page.splitlines()[0] for page in pages] == [f"[long] A long one (page {page} of 3)" for page in (1, 2, 3)]
    assert "".join(page.split("\n", 1)[1] for page in pages) == LONG.text
    assert len(pages[0].split("\n", 1)[1]) == PAGE
    assert play.act('get_document {"id": "long"}').observation == pages[0]
    assert "pages 1 to 3" in play.act('get_document {"id": "long", "page": 4}').observation


@pytest.mark.parametrize(
    ("action", "told"),
    [
        ("what do otters eat", "not a tool call"),
        ("", "not a tool call"),
        ("search", "search needs the argument query"),
        ('search {"query": " "}', "needs the argument query"),
        ('search {"query": 3}', "of type string"),
        ('search {"q": "otter"}', "no such argument; it takes query"),
        ('search {"query"}', "no JSON object"),
        ('browse {"url": "x"}', "no tool browse; there are search, get_document, answer"),
        ('get_document {"id": "OTTER"}', "no document with this id"),
        ('get_document {"id": "long", "page": 0}', "pages 1 to 3"),
        ('get_document {"id": "long", "page": true}', "of type integer"),
        ('get_document {"id": "long", "page": "2"}', "of type integer"),
        ('answer {"text": ""}', "needs the argument text"),
        ('answer {"text": null}', "of type string"),
    ],
)
def test_what_cannot_be_done_is_told(play: SearchPlay, action: str, told: str) -> None:
    reply = play.act(action)
    assert not reply.valid
    assert not reply.ended
    assert told in reply.observation
    assert play.score() == Score(passed=False, answered=False)


def test_answers_are_graded_and_no_answer_is_not() -> None:
    asked: list[tuple[str, str, str]] = []

    def grader(question: str, gold: str, answer: str) -> bool:
        asked.append((question, gold, answer))
        return answer == "Fish, of course"

    play = Search(TextIndex.of(DOCUMENTS), grader).play(ROW)
    play.begin(0)
    assert play.act('answer {"text": " Fish, of course "}').ended
    assert play.score() == Score(passed=True, answered=True)
    play.begin(1)
    assert play.score() == Score(passed=False, answered=False)
    assert asked == [(ROW.questions[0], "fish", "Fish, of course")]


@settings(max_examples=60)
@given(
    st.text(max_size=60)
    | st.sampled_from(["search", "get_document"]).flatmap(
        lambda name: st.dictionaries(
            st.sampled_from(["query", "id", "page", "x"]), st.none() | st.integers() | st.text(max_size=20), max_size=3
        ).map(lambda arguments: format_call(name, arguments))
    )
)
def test_no_text_breaks_a_play(action: str) -> None:
    play = Search(TextIndex.of(DOCUMENTS), same_text).play(ROW)
    play.begin(0)
    reply = play.act(action)
    assert reply.observation
    assert not reply.ended


# Generated rows


def test_generated_rows_are_the_same_for_a_seed_and_in_the_schema(part: Part) -> None:
    assert make_search(12, 5, same_text).rows == part.rows
    assert make_search(1, 6, same_text).rows != part.rows[:1]
    assert {len(row.questions) for row in part.rows} == {4, 5, 6}
    for row in part.rows:
        raw = json.loads(json.dumps(row_json(row)))
        assert set(raw) == {"id", "questions", "answers"}
        assert parse_row(raw, SEARCH) == row


def test_a_query_says_nothing_of_what_an_earlier_one_asked_for(part: Part) -> None:
    for row in part.rows:
        assert isinstance(row, SearchRow)
        assert len(set(row.answers)) == len(row.answers)
        for question in row.questions:
            assert not any(answer in question for answer in row.answers)


def test_the_invented_country_gives_no_name_twice() -> None:
    world = make_world(5)
    names = [town.name for town in world.towns] + [town.river for town in world.towns]
    names += [village.name for village in world.villages] + [village.tree for village in world.villages]
    names += [part for person in world.people for part in person.name.split()]
    assert len(names) == len(set(names))


def test_every_row_is_won_by_its_best_play(suite: MemoryArena, part: Part) -> None:
    assert isinstance(part.domain, Search)
    for task in suite.tasks(SEARCH):
        env = suite.make(task)
        env.reset(task)
        outcomes = [env.step(action) for action in search_actions(part.domain, task.data["row"])]
        assert all(outcome.valid for outcome in outcomes)
        assert outcomes[-1].terminated
        assert (env.success, env.progress) == (True, 1.0)


def test_the_last_query_decides_and_progress_counts_every_slot(suite: MemoryArena, part: Part) -> None:
    task = suite.tasks(SEARCH)[0]
    count = len(task.data["row"].questions)
    assert isinstance(part.domain, Search)
    actions = search_actions(part.domain, task.data["row"])
    wrong = format_call("answer", {"text": "nobody"})

    def played(actions: list[str]) -> tuple[bool, float]:
        env = suite.make(task)
        env.reset(task)
        for action in actions:
            env.step(action)
        return env.success, env.progress

    assert played([wrong] * (count - 1) + actions[-1:]) == (True, 1 / count)
    assert played([*actions[:-1], wrong]) == (False, (count - 1) / count)
    assert played([*actions[:3]]) == (False, 1 / count)


def test_a_grader_that_fails_is_an_error_and_no_zero() -> None:
    def broken(question: str, gold: str, answer: str) -> bool:
        raise TimeoutError("no answer")

    suite = generated_suite((SEARCH,), count=1, seed=5, grader=broken)
    env = suite.make(suite.tasks(SEARCH)[0])
    env.reset(suite.tasks(SEARCH)[0])
    with pytest.raises(GradingError, match="no answer"):
        env.step('answer {"text": "x"}')


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Check, suite: MemoryArena, part: Part) -> None:
    task = suite.tasks(SEARCH)[1]
    assert isinstance(part.domain, Search)
    actions = search_actions(part.domain, task.data["row"])
    invalid = ("look it up", "", 'search {"q": 1}', 'get_document {"id": "none"}')
    check(Sample(lambda: suite.make(task), task, actions, invalid))


def test_the_domain_is_built_from_an_index_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "d.db"
    build_index(DOCUMENTS, path)
    domain = build({"index": str(path)}, same_text)
    assert domain.step_cap == 30
    assert [tool.name for tool in domain.tools] == ["search", "get_document", "answer"]
    assert domain.play(ROW).act('get_document {"id": "otter"}').valid
    with pytest.raises(ValueError, match="expected a SearchRow"):
        domain.play(ShoppingRow("2", ("q",), (), "x"))
    with pytest.raises(ValueError, match="horma-rl data index documents"):
        build({}, same_text)
    for odd in (5, ["x"], True, {}):
        with pytest.raises(ValueError, match=r"the option 'index' is .*; it is the path"):
            build({"index": odd}, same_text)
    with pytest.raises(ValueError, match="no such option"):
        build({"idx": str(path)}, same_text)
