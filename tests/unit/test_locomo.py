"""The LoCoMo reader: exact counts on the released file, and one clear line for each way a file can be wrong."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horma_rl.benchmarks.evidence import repair_ids
from horma_rl.benchmarks.locomo import CATEGORIES, Locomo, load_locomo
from horma_rl.benchmarks.locomo_report import describe
from horma_rl.benchmarks.types import Split
from horma_rl.errors import UserError

KNOWN = frozenset(f"D{session}:{turn}" for session in range(1, 12) for turn in range(1, 31))


@pytest.fixture(scope="module")
def locomo(locomo_file: Path) -> Locomo:
    return load_locomo(locomo_file)


def test_counts_of_the_release(locomo: Locomo) -> None:
    report = describe(locomo)
    assert (report["conversations"], report["sessions"], report["turns"]) == (10, 272, 5882)
    assert report["questions"] == 1986
    assert list(report["by_category"].values()) == [282, 321, 96, 841, 446]
    assert report["images"] == {"urls": 910, "captions": 1226, "queries": 888, "captions_without_url": 316}
    per = {row["name"]: (row["sessions"], row["turns"], row["paper_questions"]) for row in report["per_conversation"]}
    assert per["conv-26"] == (19, 419, 154)
    assert per["conv-50"] == (30, 568, 165)


def test_split_of_the_release(locomo: Locomo) -> None:
    split = describe(locomo)["split"]
    assert split["train"]["questions"] == 1089
    assert split["train"]["by_category"] == {"temporal": 214, "single-hop": 563, "adversarial": 312}
    assert split["eval"]["questions"] == 519
    assert split["eval"]["by_category"] == {"temporal": 107, "single-hop": 278, "adversarial": 134}
    assert split["eval"]["conversations"] == ["conv-48", "conv-49", "conv-50"]
    assert len(locomo.tasks("all", None)) == 1986
    assert all(task.evidence for task in locomo.tasks("all"))


def test_split_equals_the_published_index(locomo: Locomo, locomo_file: Path) -> None:
    published = json.loads((locomo_file.parent / "split_7_3.json").read_text())
    for split in ("train", "eval"):
        wanted = [f"{name}/qa-{index}" for name, index in published[split]["qa_index"]]
        assert [task.id for task in locomo.tasks(split)] == wanted


def test_irregularities_of_the_release(locomo: Locomo) -> None:
    found = describe(locomo)["irregularities"]
    assert found["evidence_resolved_as_they_stand"] == 2806
    assert found["evidence"] == {
        "joined_by_semicolon": 1, "joined_by_space": 3, "stray_colon": 1, "leading_zero": 1, "no_id": 1, "absent": 2,
        "repeated": 1,
    }  # fmt: skip
    assert found["qa_without_evidence"] == 4
    assert found["qa_with_one_evidence_label"] == 1559
    assert found["most_evidence_labels"] == 19
    assert found["integer_answers"] == {"multi-hop": 2, "temporal": 4}
    assert (found["adversarial_without_answer"], found["adversarial_with_both_answers"]) == (444, 2)
    assert found["duplicate_questions"] == 12
    assert found["dates_without_session"] == {"conv-26": 16}


def test_repairs_of_the_release(locomo: Locomo) -> None:
    by_id = {question.task.id: question.task for question in locomo.questions}
    assert by_id["conv-26/qa-37"].evidence == ("D8:6", "D9:17")
    assert "D11:26" in by_id["conv-43/qa-18"].evidence
    assert by_id["conv-50/qa-69"].evidence == ("D30:5",)
    assert by_id["conv-26/qa-1"].answer == "2022"


def test_every_evidence_turn_exists(locomo: Locomo) -> None:
    known = {conversation.name: set(conversation.turn_ids()) for conversation in locomo.conversations}
    assert all(set(question.task.evidence) <= known[question.task.workspace] for question in locomo.questions)
    assert all(set(fact.sources) <= known[c.name] for c in locomo.conversations for fact in c.observations)


@pytest.mark.parametrize(
    ("label", "ids", "problem"),
    [
        ("D8:6; D9:17", ("D8:6", "D9:17"), "joined_by_semicolon"),
        ("D9:1 D4:4 D4:6", ("D9:1", "D4:4", "D4:6"), "joined_by_space"),
        ("D:11:26", ("D11:26",), "stray_colon"),
        ("D3:05", ("D3:5",), "leading_zero"),
        ("D", (), "no_id"),
        ("", (), "no_id"),
        ("D10:99", (), "absent"),
    ],
)
def test_each_kind_of_label(label: str, ids: tuple[str, ...], problem: str) -> None:
    repair = repair_ids([label], KNOWN)
    assert repair.ids == ids
    assert repair.problems == {problem: 1}
    assert repair.repaired == ((label, ids),)


def test_clean_and_repeated_labels() -> None:
    repair = repair_ids(["D2:1", "D1:4", "D2:1"], KNOWN)
    assert repair.ids == ("D2:1", "D1:4")
    assert repair.problems == {"repeated": 1}
    assert repair.repaired == ()


@given(st.lists(st.one_of(st.text(max_size=20), st.text("D:; 0123456789", max_size=12))))
def test_repair_of_any_text(labels: list[str]) -> None:
    repair = repair_ids(labels, KNOWN)
    assert set(repair.ids) <= KNOWN
    assert len(set(repair.ids)) == len(repair.ids)
    again = repair_ids(repair.ids, KNOWN)
    assert (again.ids, again.problems) == (repair.ids, {})


@given(
    st.lists(st.sampled_from(sorted(KNOWN)), min_size=1, max_size=5, unique=True),
    st.sampled_from([";", "; ", " ", ", "]),
    st.booleans(),
    st.booleans(),
)
def test_repair_finds_every_id_of_a_joined_label(ids: list[str], joiner: str, zero: bool, colon: bool) -> None:
    written = [label.replace(":", ":0") if zero else label for label in ids]
    written = [label.replace("D", "D:") if colon else label for label in written]
    assert repair_ids([joiner.join(written)], KNOWN).ids == tuple(ids)


def small() -> list[Any]:
    """A file of one conversation with two sessions and one question of each category."""
    turns = [{"speaker": name, "dia_id": f"D1:{n}", "text": "x"} for n, name in enumerate(["A", "B", "A"], 1)]
    asked = [{"question": f"q{n}", "answer": "a", "evidence": ["D1:1"], "category": n} for n in range(1, 5)]
    asked.append({"question": "q5", "adversarial_answer": "b", "evidence": ["D1:2"], "category": 5})
    talk = {
        "speaker_a": "A",
        "speaker_b": "B",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": turns,
        "session_2_date_time": "12:05 am on 19 June, 2023",
        "session_2": [{"speaker": "B", "dia_id": "D2:1", "text": "y", "blip_caption": "a photo", "img_url": ["u"]}],
    }
    return [{"sample_id": "conv-1", "conversation": talk, "qa": asked}]


def write(folder: Path, value: Any) -> Path:
    path = folder / "file.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_small_file(tmp_path: Path) -> None:
    locomo = load_locomo(write(tmp_path, small()))
    (conversation,) = locomo.conversations
    assert [session.time.isoformat() for session in conversation.sessions] == [
        "2023-05-08T13:56:00",
        "2023-06-19T00:05:00",
    ]
    assert conversation.sessions[1].turns[0].caption == "a photo"
    assert [task.category for task in locomo.tasks("train", None)] == list(CATEGORIES.values())
    assert locomo.tasks("eval") == []
    trap = locomo.tasks("train", ["adversarial"])[0]
    assert (trap.answer, trap.meta) == (None, {"adversarial_answer": "b"})


def test_tasks_refuse_unknown_names(tmp_path: Path) -> None:
    locomo = load_locomo(write(tmp_path, small()))
    with pytest.raises(UserError, match="unknown split 'test'"):
        locomo.tasks(cast(Split, "test"))
    with pytest.raises(UserError, match="did you mean 'temporal'"):
        locomo.tasks("train", ["temporel"])
    with pytest.raises(UserError, match="must be a list"):
        locomo.tasks("train", "temporal")


def change(path: str, value: Any) -> Any:
    """The small file with one place changed; `value` None deletes the place."""
    rows = copy.deepcopy(small())
    keys = path.split("/")
    spot: Any = rows
    for key in keys[:-1]:
        spot = spot[int(key) if isinstance(spot, list) else key]
    last: Any = int(keys[-1]) if isinstance(spot, list) else keys[-1]
    if value is None:
        del spot[last]
    else:
        spot[last] = value
    return rows


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{not json", r"not JSON \(line 1, column 2"),
        ("[" * 100_000, "not JSON|nested too deeply"),
        ({}, "expected a list of conversations, found dict"),
        ([], "found an empty list"),
        ([3], "conversation 0: expected an object, found int"),
        (change("0/sample_id", None), "conversation 0: 'sample_id' is missing"),
        (change("0/sample_id", "../up"), "cannot be a folder name"),
        (small() * 2, "a second conversation named 'conv-1'"),
        (change("0/conversation", []), "'conversation' must be dict, found an empty list"),
        (change("0/conversation/speaker_b", None), "'speaker_b' is missing"),
        (change("0/conversation/session_1_date_time", None), "session_1: 'session_1_date_time' is missing"),
        (change("0/conversation/session_1_date_time", "8.5.2023"), "session_1: date '8.5.2023' is not like"),
        (change("0/conversation/session_1/2/dia_id", None), r"session_1\[2\]: 'dia_id' is missing"),
        (change("0/conversation/session_1/2/dia_id", "D1:x"), "is not like 'D3:12'"),
        (change("0/conversation/session_1/2/dia_id", "D1:1"), "two turns have the dia_id 'D1:1'"),
        (change("0/conversation/session_1/2/speaker", "C"), "speaker 'C' is neither of A, B"),
        (change("0/conversation/session_1/2/text", 4), "'text' must be str, found int"),
        (change("0/conversation/session_2/0/img_url", "u"), "'img_url' must be list, found str"),
        (change("0/qa", None), "'qa' is missing"),
        (change("0/qa/1/question", None), r"qa\[1\]: 'question' is missing"),
        (change("0/qa/1/answer", None), r"qa\[1\]: 'answer' is missing"),
        (change("0/qa/1/evidence", "D1:1"), "'evidence' must be list, found str"),
        (change("0/qa/1/evidence", [1]), "evidence must be a list of texts"),
        (change("0/qa/1/category", 6), "category 6 is not 1 to 5"),
        (change("0/qa/1/category", True), "'category' must be int, found bool"),
        (change("0/observation", [3]), "observation: expected an object"),
        (change("0/observation", {"session_1_observation": {"A": [["x"]]}}), r"A\[0\]: expected \[text, dia_id\]"),
        (change("0/observation", {"session_1_observation": [3]}), "'session_1_observation' must be dict"),
        (change("0/observation", {"session_1_observation": {"A": 3}}), "'A' must be list"),
    ],
)
def test_malformed_files(tmp_path: Path, content: Any, message: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(UserError, match=message) as caught:
        load_locomo(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        load_locomo(tmp_path / "absent.json")
    with pytest.raises(UserError, match="cannot be read"):
        load_locomo(tmp_path)
    (tmp_path / "latin").write_bytes(b'["\xff"]')
    with pytest.raises(UserError, match="not UTF-8"):
        load_locomo(tmp_path / "latin")
