"""The raw log: written first, never rewritten, original text intact."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horma_rl.benchmarks.types import Conversation, RawTurn, Session
from horma_rl.errors import UserError
from horma_rl.memory import archive, files

TIME = datetime(2023, 5, 8, 13, 56)


def talk(*sessions: tuple[int, list[RawTurn]]) -> Conversation:
    return Conversation("conv", ("Ana", "Ben"), tuple(Session(index, TIME, tuple(turns)) for index, turns in sessions))


def test_one_file_per_session_and_one_record_per_turn(tmp_path: Path) -> None:
    conversation = talk((1, [RawTurn("D1:1", "Ana", "Hi"), RawTurn("D1:2", "Ben", "Look", "a photo of a dog")]), (12, [
        RawTurn("D12:1", "Ana", "Bye")
    ]))  # fmt: skip
    found = archive.merge(tmp_path, conversation)
    found.write(tmp_path)
    assert found.added == 3
    assert sorted(path.name for path in (tmp_path / "raw_logs").iterdir()) == ["traj_0001.jsonl", "traj_0012.jsonl"]
    rows = [json.loads(line) for line in (tmp_path / "raw_logs/traj_0001.jsonl").read_text().splitlines()]
    assert rows == [
        {"id": "D1:1", "time": "2023-05-08T13:56:00", "speaker": "Ana", "text": "Hi"},
        {
            "id": "D1:2",
            "time": "2023-05-08T13:56:00",
            "speaker": "Ben",
            "text": "Look",
            "caption": "a photo of a dog",
        },
    ]


def test_more_turns_are_appended_and_old_bytes_stay(tmp_path: Path) -> None:
    first = RawTurn("D1:1", "Ana", "Hi")
    archive.merge(tmp_path, talk((1, [first]))).write(tmp_path)
    before = (tmp_path / "raw_logs/traj_0001.jsonl").read_bytes()
    longer = archive.merge(tmp_path, talk((1, [first, RawTurn("D1:2", "Ben", "Hello")]), (2, [
        RawTurn("D2:1", "Ben", "Again")
    ])))  # fmt: skip
    longer.write(tmp_path)
    assert longer.added == 2
    assert (tmp_path / "raw_logs/traj_0001.jsonl").read_bytes().startswith(before)
    shorter = archive.merge(tmp_path, talk((1, [first])))
    assert shorter.added == 0
    assert [record.id for record in shorter.records()] == ["D1:1", "D1:2", "D2:1"]


@pytest.mark.parametrize(
    ("field", "changed"),
    [
        ("text", RawTurn("D1:1", "Ana", "Ho")),
        ("speaker", RawTurn("D1:1", "Ben", "Hi")),
        ("caption", RawTurn("D1:1", "Ana", "Hi", "a cat")),
    ],
)
def test_a_changed_turn_is_refused_by_name(tmp_path: Path, field: str, changed: RawTurn) -> None:
    archive.merge(tmp_path, talk((1, [RawTurn("D1:1", "Ana", "Hi")]))).write(tmp_path)
    with pytest.raises(UserError, match=rf"D1:1 is archived already with another {field}"):
        archive.merge(tmp_path, talk((1, [changed])))


def test_a_turn_that_moved_to_another_session_is_refused(tmp_path: Path) -> None:
    archive.merge(tmp_path, talk((1, [RawTurn("D1:1", "Ana", "Hi")]))).write(tmp_path)
    with pytest.raises(UserError, match="D1:1 is archived already with another session"):
        archive.merge(tmp_path, talk((2, [RawTurn("D1:1", "Ana", "Hi")])))


@pytest.mark.parametrize("turn_id", ["", "D1", "D1:", "../x:1", "D1:1\n", "[D1:1]", "D 1:1", "D1:\u0663"])
def test_ids_that_cannot_be_cited_are_refused(tmp_path: Path, turn_id: str) -> None:
    with pytest.raises(UserError, match="cannot be cited"):
        archive.merge(tmp_path, talk((1, [RawTurn(turn_id, "Ana", "Hi")])))


def test_an_id_used_twice_is_refused(tmp_path: Path) -> None:
    turn = RawTurn("D1:1", "Ana", "Hi")
    with pytest.raises(UserError, match="stands for 2 turns"):
        archive.merge(tmp_path, talk((1, [turn]), (2, [replace(turn, text="Ho")])))


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"id": 1, "time": "2023-05-08", "speaker": "A", "text": "B"}'])
def test_a_damaged_archive_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "raw_logs").mkdir()
    (tmp_path / "raw_logs/traj_0001.jsonl").write_text(f"{line}\n")
    with pytest.raises(UserError, match=r"traj_0001\.jsonl:1: not a turn as archived"):
        archive.merge(tmp_path, talk())


TEXT = st.text(st.characters(), max_size=60).map(lambda text: text.encode("utf-16", "surrogatepass"))


@settings(max_examples=200)
@given(TEXT, TEXT)
def test_any_text_survives_the_round_trip(data: bytes, caption: bytes) -> None:
    """Any Python string, lone surrogates, line ends and control characters included, on one line of valid UTF-8."""
    text, shown = data.decode("utf-16", "surrogatepass"), caption.decode("utf-16", "surrogatepass")
    record = archive.Record("D1:1", TIME, "Ana", text, 1, shown)
    line = record.line()
    assert len(line.splitlines()) == 1
    row = json.loads(line.encode("utf-8"))
    assert (row["text"], row["caption"]) == (text, shown)


def test_write_leaves_an_equal_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "a" / "note.md"
    assert files.write(path, b"one")
    before = path.stat()
    assert not files.write(path, b"one")
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert path.stat().st_ino == before.st_ino
    assert files.write(path, b"two", durable=True)
    assert path.read_bytes() == b"two"
    assert [child.name for child in path.parent.iterdir()] == ["note.md"]


def test_only_one_writer_at_a_time(tmp_path: Path) -> None:
    second = files.locked(tmp_path / "ws")
    with files.locked(tmp_path / "ws"), pytest.raises(UserError, match="written by another process"), second:
        pass
    with files.locked(tmp_path / "ws"):
        assert list((tmp_path / "ws").iterdir()) == []


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "ws").write_text("")
    with pytest.raises(UserError, match="a file is in the way"), files.locked(tmp_path / "ws"):
        pass
