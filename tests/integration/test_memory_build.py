"""Whole builds: real LoCoMo, increments, idempotence, the two kinds of notes, and the validator's verdict."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from horma_rl.benchmarks.locomo import load_locomo
from horma_rl.benchmarks.types import Observation
from horma_rl.errors import UserError
from horma_rl.memory import build, build_all, read_manifest
from horma_rl.memory.build import check_notes
from memory_shell.workspace import Workspace
from tests.memory_conversation import conversation, tree


def stamps(root: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in (root, *root.rglob("*"))}


def test_a_build_is_valid_and_says_what_it_did(tmp_path: Path) -> None:
    report = build(conversation(), tmp_path / "conv")
    workspace = Workspace.load(tmp_path / "conv")
    assert workspace.problems() == []
    assert list(workspace.turns) == list(conversation().turn_ids())
    assert (report.turns, report.archived, report.sessions, report.removed) == (24, 24, 6, 0)
    assert report.notes == report.written == len(workspace.notes)
    assert report.bytes == sum(len(workspace.files[path].data) for path in workspace.notes)
    assert {path.split("/")[0] for path in workspace.notes} == {"sessions", "people", "dates", "events", "entities"}
    assert read_manifest(tmp_path / "conv") == {
        "format": 1,
        "conversation": "conv",
        "notes": "outline",
        "sessions": 6,
        "turns": 24,
        "files": report.notes,
    }


def test_session_notes_give_each_turn_its_line(tmp_path: Path) -> None:
    build(conversation(), tmp_path)
    workspace = Workspace.load(tmp_path)
    for session in conversation().sessions:
        note = workspace.notes[f"sessions/session_{session.index:02d}.md"]
        ids = tuple(turn.id for turn in session.turns)
        assert note.sources == ids
        assert tuple(note.cited.values()) == tuple((turn_id,) for turn_id in ids)


def test_building_again_touches_nothing(tmp_path: Path) -> None:
    build(conversation(), tmp_path / "conv")
    before = stamps(tmp_path / "conv")
    report = build(conversation(), tmp_path / "conv")
    assert (report.archived, report.written, report.removed) == (0, 0, 0)
    assert stamps(tmp_path / "conv") == before


def test_growing_step_by_step_gives_the_tree_of_one_build(tmp_path: Path) -> None:
    for sessions in range(1, 7):
        build(conversation(sessions), tmp_path / "grown")
    build(conversation(), tmp_path / "whole")
    assert tree(tmp_path / "grown") == tree(tmp_path / "whole")


def test_an_increment_rewrites_only_what_it_changes(tmp_path: Path) -> None:
    build(conversation(5), tmp_path)
    before = stamps(tmp_path)
    report = build(conversation(6), tmp_path)
    after = stamps(tmp_path)
    assert report.archived == 4
    for kept in ("raw_logs/traj_0001.jsonl", "sessions/session_01.md"):
        assert before[tmp_path / kept] == after[tmp_path / kept]


def test_a_contradiction_changes_nothing(tmp_path: Path) -> None:
    build(conversation(), tmp_path / "conv")
    before = stamps(tmp_path / "conv")
    sessions = conversation().sessions
    changed = replace(sessions[0], turns=(replace(sessions[0].turns[0], text="Never"), *sessions[0].turns[1:]))
    with pytest.raises(UserError, match="turn D1:1 is archived already with another text"):
        build(replace(conversation(), sessions=(changed, *sessions[1:])), tmp_path / "conv")
    assert stamps(tmp_path / "conv") == before


def test_a_shorter_input_forgets_nothing(tmp_path: Path) -> None:
    build(conversation(), tmp_path / "conv")
    before = tree(tmp_path / "conv")
    build(conversation(2), tmp_path / "conv")
    assert tree(tmp_path / "conv") == before


def test_switching_the_kind_of_notes_and_back(tmp_path: Path) -> None:
    build(conversation(), tmp_path / "conv")
    outline = tree(tmp_path / "conv")
    report = build(conversation(), tmp_path / "conv", "observations")
    assert report.warnings == ()
    assert read_manifest(tmp_path / "conv")["notes"] == "observations"
    text = (tmp_path / "conv/people/ana.md").read_text()
    assert text.endswith("tags: [observations]\nsources: [D1:1, D1:3]\n---\n2023-05-17: Ana has a kiln. [D1:1, D1:3]\n")
    assert Workspace.load(tmp_path / "conv").problems() == []
    build(conversation(), tmp_path / "conv")
    assert tree(tmp_path / "conv") == outline


def test_observations_that_cite_nothing_known_are_reported(tmp_path: Path) -> None:
    facts = (
        Observation(1, "Ana", "Half known.", ("D1:1", "D9:9")),
        Observation(1, "Ana", "Unknown.", ("D9:9",)),
        Observation(1, "Ana", "Bare.", ()),
    )
    report = build(replace(conversation(), observations=facts), tmp_path, "observations")
    assert len(report.warnings) == 3
    assert "D9:9, which is not archived" in report.warnings[0]
    assert Workspace.load(tmp_path).problems() == []
    assert "Unknown." not in (tmp_path / "people/ana.md").read_text()


def test_observations_need_annotations(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="conv comes without observations"):
        build(replace(conversation(), observations=()), tmp_path, "observations")


def test_notes_of_others_stay(tmp_path: Path) -> None:
    build(conversation(), tmp_path)
    mine = tmp_path / "people" / "my-own.md"
    mine.write_text("---\ntitle: Mine\n---\nI wrote this. [D1:1]\n")
    (tmp_path / "absence").mkdir()
    (tmp_path / "absence/ipad.md").write_text("---\ntitle: No iPad\n---\n")
    assert build(conversation(), tmp_path).removed == 0
    assert mine.exists()
    assert (tmp_path / "absence/ipad.md").exists()


def test_a_workspace_without_a_manifest_is_unfinished(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"horma\.json is missing"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b"])
def test_a_name_that_is_no_folder_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="cannot be a folder name"):
        build_all([conversation(name=name)], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_two_conversations_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="two conversations are named 'conv'"):
        build_all([conversation(), conversation()], tmp_path)


def test_an_unknown_kind_of_notes_names_the_known() -> None:
    with pytest.raises(UserError, match="did you mean 'outline'"):
        check_notes("outlin")


def test_locomo_builds_whole_valid_and_fast(locomo_file: Path, tmp_path: Path) -> None:
    """10 conversations and 5,882 turns within 20 s of processor time, every note valid, every turn citable by line."""
    conversations = load_locomo(locomo_file).conversations
    begin = time.process_time()
    reports = build_all(conversations, tmp_path)
    seconds = time.process_time() - begin
    assert seconds < 20
    assert sum(report.turns for report in reports) == 5_882
    for report in reports:
        workspace = Workspace.load(report.path)
        assert workspace.problems() == []
        cited = {
            turn_id
            for path, note in workspace.notes.items()
            if path.startswith("sessions/")
            for ids in note.cited.values()
            for turn_id in ids
        }
        assert cited == set(workspace.turns)
        assert sum(path.startswith("entities/") for path in workspace.notes) <= 60
    captions = sum('"caption"' in path.read_text() for path in (tmp_path / "conv-26/raw_logs").iterdir())
    assert captions > 0
    assert json.loads((tmp_path / "conv-26/raw_logs/traj_0001.jsonl").read_text().splitlines()[0])["id"] == "D1:1"


def test_locomo_observations_are_valid(locomo_file: Path, tmp_path: Path) -> None:
    report = build(load_locomo(locomo_file).conversations[0], tmp_path, "observations")
    assert Workspace.load(tmp_path).problems() == []
    assert report.notes_kind == "observations"
