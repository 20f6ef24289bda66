"""Reading a workspace: what it holds, what lines stand for, and what is wrong with it."""

from __future__ import annotations

import itertools
import os
import pickle
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_shell.workspace import File, Limits, Workspace, WorkspaceError

LOG = """{"id":"D1:1","time":"2023-05-08T13:56:00","speaker":"Ann","text":"hi"}

{"id":"D1:2","role":"user","text":"yo","caption":"a cat"}
"""
NOTE = """---
title: "Session: one"
timestamp: 2023-05-08T13:56:00
sources: [D1:1, D1:2, D9:9]
tags: [a, b]
superseded_by: other.md
status: old
---
Ann: hi [D1:1]
Bob: both [D1:2, D1:1] and [D7:7]
nothing here
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path, text in {
        "raw_logs/traj_0001.jsonl": LOG,
        "sessions/s1.md": NOTE,
        "sessions/plain.md": "no front matter [D1:2]\n",
        "sessions/bare.md": "---\ntitle: t\n---\n[D1:2] x [D1:1]\n",
        "b.txt": "text\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


@pytest.fixture
def workspace(root: Path) -> Workspace:
    return Workspace.load(root)


def test_turns_come_in_archive_order(workspace: Workspace) -> None:
    first, second = workspace.turns.values()
    assert (first.id, first.time, first.speaker, first.line, first.caption) == (
        "D1:1",
        "2023-05-08T13:56:00",
        "Ann",
        1,
        None,
    )
    assert (second.id, second.time, second.speaker, second.line, second.caption) == ("D1:2", None, "user", 3, "a cat")


def test_a_note_is_read_when_asked_for(workspace: Workspace) -> None:
    note = workspace.notes["sessions/s1.md"]
    assert (note.title, note.timestamp, note.status, note.tags) == (
        "Session: one",
        "2023-05-08T13:56:00",
        "old",
        ("a", "b"),
    )
    assert note.sources == ("D1:1", "D1:2")
    assert note.body_line == 9
    assert dict(note.cited) == {9: ("D1:1",), 10: ("D1:2", "D1:1")}
    assert list(workspace.notes) == ["sessions/bare.md", "sessions/plain.md", "sessions/s1.md"]
    with pytest.raises(KeyError):
        workspace.notes["b.txt"]


@pytest.mark.parametrize(
    ("path", "first", "last", "ids"),
    [
        ("raw_logs/traj_0001.jsonl", None, None, ("D1:1", "D1:2")),
        ("raw_logs/traj_0001.jsonl", 2, 3, ("D1:2",)),
        ("raw_logs/traj_0001.jsonl", 2, 2, ()),
        ("sessions/s1.md", None, None, ("D1:1", "D1:2")),
        ("sessions/s1.md", 9, 9, ("D1:1",)),
        ("sessions/s1.md", 10, 99, ("D1:2", "D1:1")),
        ("sessions/s1.md", 1, 8, ()),
        ("sessions/bare.md", None, None, ("D1:2", "D1:1")),
        ("b.txt", None, None, ()),
        ("nosuch", None, None, ()),
    ],
)
def test_lines_stand_for_turns(
    workspace: Workspace, path: str, first: int | None, last: int | None, ids: tuple[str, ...]
) -> None:
    assert workspace.evidence(path, first, last) == ids


def test_every_fault_is_named(workspace: Workspace) -> None:
    assert workspace.problems() == [
        "sessions/plain.md: no front matter: the first line is not '---'",
        "sessions/s1.md:10: cites D7:7, which no raw log holds",
        "sessions/s1.md: source D9:9 is in no raw log",
        "sessions/s1.md: superseded_by names other.md, which is not there",
    ]


@pytest.mark.parametrize(
    ("front", "fault"),
    [
        ("---\ntitle: x\n", "not closed by a second '---'"),
        ("---\n- a\n---\n", "not a mapping of fields"),
        ("---\na: [\n---\n", "is not YAML"),
        ("---\na: &x [1]\nb: *x\n---\n", "anchors"),
        ("---\na: !!python/object:os.system x\n---\n", "is not YAML"),
    ],
)
def test_bad_front_matter_is_a_problem_and_no_crash(root: Path, front: str, fault: str) -> None:
    (root / "sessions/s1.md").write_text(front + "text [D1:1]\n")
    workspace = Workspace.load(root)
    assert any(fault in problem for problem in workspace.problems())
    assert workspace.evidence("sessions/s1.md") == ("D1:1",)


def test_ids_are_used_once(root: Path) -> None:
    (root / "raw_logs/traj_0002.jsonl").write_text('{"id":"D1:1","text":"again"}\n{"text":"no id"}\n')
    workspace = Workspace.load(root)
    assert workspace.turns["D1:1"].text == "hi"
    assert [problem for problem in workspace.problems() if "traj_0002" in problem] == [
        "raw_logs/traj_0002.jsonl:1: id D1:1 was used before, at raw_logs/traj_0001.jsonl:1",
        "raw_logs/traj_0002.jsonl:2: a record needs an 'id'",
    ]


def test_a_workspace_without_turns_is_a_problem(tmp_path: Path) -> None:
    assert Workspace.load(tmp_path).problems() == ["no turns: raw_logs/ holds no readable record"]


def test_a_workspace_is_read_once(root: Path, workspace: Workspace) -> None:
    (root / "b.txt").write_text("changed\n")
    assert workspace.files["b.txt"].data == b"text\n"


def _all(workspace: Workspace) -> tuple[object, ...]:
    files = [(path, file.data) for path, file in workspace.files.items()]
    evidence = {path: workspace.evidence(path) for path in workspace.files}
    index = workspace.index
    return (
        *(files, workspace.dirs, dict(workspace.specials), workspace.size, list(workspace.turns.items()), evidence),
        *(workspace.problems(), list(workspace.notes), workspace.listings, index.text, index.paths, index.spans),
    )


def _loaded(root: Path, limits: Limits, known: Workspace | None, changed: set[str]) -> Workspace | None:
    """None where a limit is exceeded."""
    try:
        return known.after(changed, limits) if known else Workspace.load(root, limits)
    except WorkspaceError:
        return None


ODD = ["a", "a.txt", "a-b", "A", "é", "\udcff", ".h", "a\n", "n.md", "b.jsonl", "raw_logs"]
"""Names that sort otherwise with a folder's slash behind them than without it, and some that are no text."""
LIMITS = st.builds(
    Limits,
    files=st.sampled_from([5, 8, 60_000]),
    bytes=st.sampled_from([60, 60_000]),
    file_bytes=st.sampled_from([40, 60_000]),
    depth=st.sampled_from([1, 16]),
)
CHANGES = st.tuples(
    st.lists(st.sampled_from(ODD), min_size=1, max_size=3).map("/".join)
    | st.sampled_from(["raw_logs/a.jsonl", "raw_logs/b.jsonl", "notes/n.md", "top.md"]),
    st.sampled_from(["add", "add", "add", "over", "over", "gone", "fifo", "link", "out"]),
    st.lists(
        st.sampled_from([*(f'{{"id": "D1:{n}", "text": "x"}}\n' for n in range(4)), "\n", "{\n", "cut"]), max_size=3
    ),
)


def _change(root: Path, path: str, how: str, lines: list[str]) -> set[str]:
    """Change one path, a folder whole. Returns the files that were there and are not, or are there now."""
    place = root / path
    above = [root / parent for parent in Path(path).parents]
    if any(os.path.lexists(parent) and (parent.is_symlink() or not parent.is_dir()) for parent in above):
        return set()  # a file or a link is in the way
    changed = {path} | {file.relative_to(root).as_posix() for file in place.rglob("*") if not place.is_symlink()}
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    elif how not in ("add", "over") or not place.is_file() or place.is_symlink():
        place.unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    if how in ("add", "over"):
        with place.open("a" if how == "add" else "w") as file:
            file.writelines(lines)
    elif how == "fifo":
        os.mkfifo(place)
    elif how != "gone":
        place.symlink_to(root.parent if how == "out" else "top.md")
    return changed


@given(LIMITS, st.lists(st.lists(CHANGES, max_size=4), min_size=1, max_size=5))
@settings(max_examples=60)
def test_a_workspace_that_was_loaded_before_is_what_a_whole_load_gives(
    tmp_path_factory: pytest.TempPathFactory, limits: Limits, rounds: list[list[tuple[str, str, list[str]]]]
) -> None:
    """Logs are appended to, written over and removed, with ids that are used again and lines that are no record; files
    become folders, links and pipes, and these files; and limits are exceeded."""
    root = tmp_path_factory.mktemp("workspace")
    known: Workspace | None = None
    changed: set[str] = set()
    for changes in rounds:
        changed = changed.union(*(_change(root, *change) for change in changes))
        whole, after = _loaded(root, limits, None, set()), _loaded(root, limits, known, changed)
        assert (after and _all(after)) == (whole and _all(whole))
        if after:
            known, changed = after, set()


def test_what_makes_room_is_seen_whatever_the_order(root: Path) -> None:
    """The limits hold for the folder as it is, not as it is halfway through what changed."""
    known = Workspace.load(root)
    limits = Limits(files=len(known.files) + len(known.dirs) - 1, bytes=known.size)
    (root / "b.txt").unlink()
    (root / "sessions/plain.md").write_bytes(b"")
    (root / "new.txt").write_text("no front matter [D1:2]\n")
    for changed in itertools.permutations(["b.txt", "new.txt", "sessions/plain.md"]):
        assert _all(known.after(changed, limits)) == _all(Workspace.load(root, limits))
    (root / "b.txt").write_text("text\n")
    with pytest.raises(WorkspaceError, match="files and folders; split the workspace"):
        known.after(["b.txt", "new.txt", "sessions/plain.md"], limits)


@pytest.mark.parametrize("path", ["sessions/s1.md", "sessions/deep/s.md"])
def test_a_folder_that_became_a_link_is_not_followed(
    root: Path, tmp_path_factory: pytest.TempPathFactory, path: str
) -> None:
    (root / "sessions/deep").mkdir()
    (root / "sessions/deep/s.md").write_text("x")
    known = Workspace.load(root)
    outside = tmp_path_factory.mktemp("outside") / "sessions"
    (root / "sessions").rename(outside)
    (outside.parent / path).write_text("secret")
    (root / "sessions").symlink_to(outside)
    after = known.after([path])
    assert _all(after) == _all(Workspace.load(root))
    assert (after.specials, path in after.files) == ({"sessions": "link"}, False)


def test_only_what_changed_is_read_again(root: Path, workspace: Workspace) -> None:
    (root / "b.txt").write_text("other\n")
    (root / "sessions" / "plain.md").write_text("other\n")
    again = workspace.after(["b.txt"])
    assert again.files["b.txt"].data == b"other\n"
    assert again.files["sessions/plain.md"].data == workspace.files["sessions/plain.md"].data
    assert again.turns["D1:1"] is workspace.turns["D1:1"]


def test_a_workspace_can_be_pickled(workspace: Workspace) -> None:
    again = pickle.loads(pickle.dumps(workspace))
    assert again.turns == workspace.turns
    assert again.index.text == workspace.index.text


def test_folders_that_are_no_workspace(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(WorkspaceError, match="is not a folder: give the folder that holds raw_logs/"):
        Workspace.load(tmp_path / "file")


@pytest.mark.parametrize(
    ("data", "first", "last", "lines"),
    [
        (b"a\nb\nc\n", 2, 2, b"b\n"),
        (b"a\nb\nc", 2, 9, b"b\nc"),
        (b"a\nb", 3, 4, b""),
        (b"", 1, 1, b""),
        (b"\n\n", 2, 2, b"\n"),
        (b"a\r\nb\0\n", 1, 2, b"a\r\nb\0\n"),
    ],
)
def test_lines_of_a_file(data: bytes, first: int, last: int, lines: bytes) -> None:
    assert File("x", data).lines(first, last) == lines
