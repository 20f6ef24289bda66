"""The LongMemEval reader and its surrogate haystacks: exact counts on the real data, every fault one clear line."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from horma_rl.benchmarks.longmemeval import (
    TYPES,
    Item,
    LongMemEvalOptions,
    load_items,
    load_sittings,
    longmemeval,
    make_pool,
    surrogate,
)
from horma_rl.benchmarks.longmemeval.report import describe, item_tokens
from horma_rl.benchmarks.longmemeval.surrogate import DAYS, Pool
from horma_rl.benchmarks.registry import load_benchmark
from horma_rl.errors import UserError
from horma_rl.tokens import Estimate


def official_row(name: str = "q1", kind: str = "multi-session", *, oracle: bool = False) -> dict[str, Any]:
    """A row of the official schema: two answer sessions, the later one first, and one of filler."""
    sessions = {
        "answer_2": ("2023/05/20 (Sat) 02:21", [said("user", "I sold the kiln.", True), said("assistant", "Noted.")]),
        "answer_1": ("2023/05/01 (Mon) 09:00", [said("user", "I bought a kiln.", True)]),
        "filler": ("2023/05/10 (Wed) 12:00", [said("user", "What is a sonnet?"), said("assistant", "A poem.")]),
    }
    kept = [key for key in sessions if not (oracle and key == "filler")]
    return {
        "question_id": name,
        "question_type": kind,
        "question": "Do I own a kiln?",
        "answer": 0,
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": kept,
        "haystack_dates": [sessions[key][0] for key in kept],
        "haystack_sessions": [sessions[key][1] for key in kept],
        "answer_session_ids": ["answer_1", "answer_2"],
    }


def said(role: str, content: str, has_answer: bool | None = None) -> dict[str, Any]:
    turn = {"role": role, "content": content}
    return turn if has_answer is None else {**turn, "has_answer": has_answer}


def written(path: Path, rows: list[dict[str, Any]], form: Literal["array", "lines"] = "array") -> Path:
    text = json.dumps(rows, indent=1) if form == "array" else "\n".join(map(json.dumps, rows)) + "\n"
    path.write_text(text)
    return path


@pytest.mark.parametrize("form", ["array", "lines"])
def test_official_rows_become_dated_conversations_and_tasks(tmp_path: Path, form: Literal["array", "lines"]) -> None:
    path = written(tmp_path / "s.json", [official_row("q1"), official_row("q2_abs", "knowledge-update")], form)
    benchmark = longmemeval(LongMemEvalOptions(path=path, haystack="file", subset="all"))
    assert (benchmark.name, benchmark.train, len(benchmark.eval)) == ("longmemeval", (), 2)
    conversation, task = benchmark.conversations[0], benchmark.eval[0]
    assert [session.time.isoformat() for session in conversation.sessions] == [
        "2023-05-01T09:00:00", "2023-05-10T12:00:00", "2023-05-20T02:21:00",
    ]  # fmt: skip
    assert conversation.turn_ids() == ("D1:1", "D2:1", "D2:2", "D3:1", "D3:2")
    assert (task.evidence, task.answer, task.asked_at) == (("D1:1", "D3:1"), "0", "2023-05-30T23:40")
    assert (task.category, task.meta["abstention"]) == ("multi-session", False)
    assert benchmark.eval[1].meta["abstention"] is True


def test_an_oracle_file_is_evidence_only_and_says_so(tmp_path: Path) -> None:
    path = written(tmp_path / "oracle.json", [official_row(oracle=True)])
    benchmark = longmemeval(LongMemEvalOptions(path=path, haystack="file", subset="all"))
    assert benchmark.name == "longmemeval-evidence"
    assert "EVIDENCE ONLY" in benchmark.provenance
    assert benchmark.eval[0].workspace == "q1.evidence"


def test_long_rows_are_read_across_chunks(tmp_path: Path) -> None:
    rows = [official_row(f"q{number}") for number in range(3)]
    for row in rows:
        row["haystack_sessions"][2][1]["content"] = "é" * 1_500_000
    for form in ("array", "lines"):
        items = load_items(written(tmp_path / "big.json", rows, form))  # type: ignore[arg-type]
        assert [item.id for item in items] == ["q0", "q1", "q2"]
        assert sum(len(turn.text) for item in items for part in item.sittings for turn in part.turns) > 4_500_000


FAULTS = {
    "question_type": ("single-session", "did you mean 'single-session-"),
    "question_date": ("30 May 2023", "is not like '2023/05/30 (Tue) 23:40'"),
    "question_id": ("../q1", "cannot be a folder name"),
    "answer": (None, "'answer' must be"),
    "haystack_dates": ([], "3 haystack_sessions, 0 dates"),
    "haystack_sessions": ([[{"role": "user"}], [], []], "'content' is missing"),
}


@pytest.mark.parametrize("key", FAULTS)
def test_a_wrong_row_is_named(tmp_path: Path, key: str) -> None:
    value, message = FAULTS[key]
    rows = [official_row("q0"), {**official_row("q1"), key: value}]
    with pytest.raises(UserError) as error:
        load_items(written(tmp_path / "s.json", rows))
    assert message in str(error.value)
    assert "row 1" in str(error.value)


@pytest.mark.parametrize("text", ["", "[", "{}", "[1]", '[{"question_id": ', "nonsense"])
def test_a_file_that_is_none_is_a_clear_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"s\.json"):
        load_items(path)


def test_no_question_comes_twice(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="second question"):
        load_items(written(tmp_path / "s.json", [official_row(), official_row()]))


@pytest.fixture(scope="module")
def evidence_file(horma_data: Path) -> Path:
    path = horma_data / "longmemeval" / "longmemeval_evidence_500.jsonl"
    if not path.is_file():
        pytest.skip(f"no LongMemEval at {path}")
    return path


@pytest.fixture(scope="module")
def items(evidence_file: Path) -> list[Item]:
    return load_items(evidence_file)


@pytest.fixture(scope="module")
def pool(evidence_file: Path, items: list[Item]) -> Pool:
    files = sorted(evidence_file.parent.glob("longmemeval_s_*item*.json"))
    return make_pool(items, [found for file in files for found in load_sittings(file)], Estimate())


def test_counts_of_the_evidence_file(evidence_file: Path) -> None:
    report = describe(evidence_file, LongMemEvalOptions(tokens=5_000))
    assert (report["questions"], report["paper_subset"], report["abstention"]) == (500, 367, 30)
    assert [report["by_type"][name] for name in TYPES] == [70, 30, 56, 133, 133, 78]
    assert [report["abstention_by_type"][name] for name in TYPES] == [6, 0, 0, 12, 6, 6]
    evidence = report["evidence"]
    assert (evidence["questions_with"], evidence["sessions"], evidence["turns"]) == (479, 854, 896)
    assert evidence["turns_by_role"] == {"assistant": 54, "user": 842}
    assert (evidence["questions_without"], evidence["abstention_without"]) == (21, 21)
    assert report["integer_answers"] == 32
    assert report["surrogate"]["haystacks"] == 500
    assert report["surrogate"]["over_file_limit"] == report["surrogate"]["over_workspace_limit"] == 0


def test_the_complete_item_is_read_as_official(horma_data: Path, evidence_file: Path) -> None:
    (item,) = load_items(evidence_file.parent / "longmemeval_s_item_e47becba.json")
    assert (len(item.sittings), item.complete, item.answer) == (53, True, "Business Administration")
    assert 100_000 < item_tokens(item, Estimate()) < 140_000


def test_surrogates_hold_the_evidence_among_others_up_to_the_tokens(items: list[Item], pool: Pool) -> None:
    for item in items[::12]:
        made = surrogate(item, pool)
        assert abs(item_tokens(made, Estimate()) - 115_000) < 12_000
        assert [sitting for sitting in made.sittings if sitting.is_evidence] == list(item.sittings)
        own = {turn.text for sitting in item.sittings for turn in sitting.turns}
        others = [sitting for sitting in made.sittings if not sitting.is_evidence]
        assert len(others) > 30
        assert not any(turn.text in own for sitting in others for turn in sitting.turns)
        times = [sitting.time for sitting in made.sittings]
        assert times == sorted(times)
        earliest = min([item.asked_at - timedelta(days=DAYS), *(sitting.time for sitting in item.sittings)])
        assert all(earliest <= sitting.time <= item.asked_at for sitting in others)


def test_surrogates_depend_on_seed_and_question_alone(items: list[Item], pool: Pool) -> None:
    first, again, other = (surrogate(items[0], pool, 20_000, seed) for seed in (0, 0, 1))
    assert first == again != other
    assert surrogate(items[1], pool, 20_000).sittings != first.sittings


def test_the_unanswerable_variant_of_a_question_gives_it_no_distractor(items: list[Item], pool: Pool) -> None:
    by_id = {item.id: item for item in items}
    twins = [item for item in items if item.abstention and item.root in by_id and by_id[item.root].sittings]
    assert twins
    for twin in twins:
        known = {turn.text for sitting in by_id[twin.root].sittings for turn in sitting.turns}
        mine = {turn.text for sitting in twin.sittings for turn in sitting.turns}
        shown = {turn.text for sitting in surrogate(twin, pool, 60_000).sittings for turn in sitting.turns}
        assert not (known - mine) & shown


def test_a_surrogate_says_that_it_is_one_everywhere(evidence_file: Path, items: list[Item]) -> None:
    names = [items[0].id, items[5].id]
    benchmark = load_benchmark("longmemeval", path=evidence_file, tokens=5_000, seed=3, only=names, subset="all")
    assert benchmark.name == "longmemeval-surrogate"
    assert "SURROGATE" in benchmark.provenance
    assert benchmark.details["haystack"] == "surrogate"
    assert benchmark.details["counted_by"] == "estimate, 4 characters a token"
    for conversation, task, name in zip(benchmark.conversations, benchmark.eval, names, strict=True):
        assert conversation.name == task.workspace == f"{name}.surrogate-5000-s3"
        assert task.meta["haystack"] == "surrogate"
        assert set(task.evidence) <= set(conversation.turn_ids())


def test_surrogates_are_refused_where_they_make_no_sense(
    tmp_path: Path, evidence_file: Path, items: list[Item]
) -> None:
    path = written(tmp_path / "s.json", [official_row()])
    with pytest.raises(UserError, match="whole haystacks"):
        load_benchmark("longmemeval", path=path, subset="all")
    alone = tmp_path / "evidence.jsonl"
    alone.write_bytes(evidence_file.read_bytes())
    with pytest.raises(UserError, match="no haystacks beside"):
        load_benchmark("longmemeval", path=alone)
    with pytest.raises(UserError, match="distractors hold"):
        load_benchmark("longmemeval", path=evidence_file, tokens=2_000_000, only=[items[0].id])
    with pytest.raises(UserError, match="no question 'nobody'"):
        load_benchmark("longmemeval", path=evidence_file, only=["nobody"])
