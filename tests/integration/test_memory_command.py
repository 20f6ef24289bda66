"""`horma-rl memory` as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from horma_rl.benchmarks.storage import save_conversations
from horma_rl.cli import main
from tests.memory_conversation import conversation


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file of two conversations, in the current directory of the test."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "conversations.jsonl"
    save_conversations([conversation(name="one"), conversation(3, name="two")], path)
    return str(path)


def last_line(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert isinstance(found, dict)
    return found


def test_build_and_check_a_file(source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "memory"
    assert main(["memory", "build", source, "--out", str(out)]) == 0
    first = last_line(capsys)
    assert (first["workspaces"], first["turns"], first["archived"]) == (2, 36, 36)
    assert first["notes"] == first["written"] == len(list(out.glob("*/*/*.md")))
    assert main(["memory", "build", source, "--out", str(out), "--only", "two"]) == 0
    again = last_line(capsys)
    assert (again["workspaces"], again["turns"], again["archived"], again["written"]) == (1, 12, 0, 0)
    assert main(["memory", "check", str(out)]) == 0
    assert last_line(capsys) == {"workspaces": 2, "problems": 0}


def test_check_names_what_is_wrong(source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "memory"
    main(["memory", "build", source, "--out", str(out)])
    note = out / "one/sessions/session_01.md"
    note.write_text(note.read_text() + "Made up. [D99:1]\n")
    (out / "two/horma.json").unlink()
    capsys.readouterr()
    assert main(["memory", "check", str(out)]) == 1
    printed = capsys.readouterr().out
    assert "sessions/session_01.md:11: cites D99:1" in printed
    assert "two/horma.json is missing" in printed
    assert main(["memory", "check", str(out / "two")]) == 1


def test_an_archive_that_grew_without_its_manifest_is_found(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "memory"
    main(["memory", "build", source, "--out", str(out)])
    log = out / "one/raw_logs/traj_0001.jsonl"
    log.write_text(log.read_text() + '{"id": "D1:9", "time": "2023-05-08", "speaker": "Ana", "text": "More"}\n')
    capsys.readouterr()
    assert main(["memory", "check", str(out / "one")]) == 1
    assert "horma.json counts 24 turns, raw_logs/ holds 25" in capsys.readouterr().out


def test_build_generated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["memory", "build", "generated", "--out", str(tmp_path), "--split", "eval", "--set", "train=1", "eval=2"]
    assert main(command) == 0
    assert last_line(capsys)["workspaces"] == 2
    assert main(["memory", "check", str(tmp_path)]) == 0


def test_tree_draws_folders_first_and_no_control_characters(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "memory"
    main(["memory", "build", source, "--out", str(out)])
    (out / "one" / "evil\x1b[31m").write_text("")
    (out / "one" / "out").symlink_to("/")
    capsys.readouterr()
    assert main(["memory", "tree", str(out / "one"), "--depth", "1"]) == 0
    drawn = capsys.readouterr().out
    assert drawn.index("dates/") < drawn.index("horma.json")
    assert "\x1b[31m" not in drawn
    assert "out (link)" in drawn
    assert "session_01.md" not in drawn
    assert main(["memory", "tree", str(out)]) == 0
    assert "sessions/ 6" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "locmo", "--out", "x"], "did you mean 'locomo'"),
        (["build", "SOURCE", "--out", "x", "--notes", "outlin"], "did you mean 'outline'"),
        (["build", "SOURCE", "--out", "x", "--only", "onee"], "did you mean 'one'"),
        (["build", "SOURCE", "--out", "x", "--split", "eval"], "takes neither --split nor --set"),
        (["build", "SOURCE", "--out", "SOURCE"], "a file is in the way"),
        (["build", "generated", "--out", "x", "--set", "seed"], "not of the form key=value"),
        (["build", "generated", "--out", "x", "--split", "tset"], "unknown split 'tset'"),
        (["check", "nosuch"], "is no workspace and holds none"),
        (["tree", "nosuch"], "is not a folder"),
        (["tree", ".", "--depth", "0"], "must be at least 1"),
    ],
)
def test_mistakes_end_in_one_clear_line(
    source: str, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["memory", *(source if part == "SOURCE" else part for part in arguments)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not Path("x").exists()
