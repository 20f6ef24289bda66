"""Hostile command lines over a hostile workspace: nothing raises, nothing leaks, nothing floods, nothing hangs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from memory_shell.text import neutralise
from memory_shell.types import Caps
from memory_shell.verbs import execute, render
from memory_shell.workspace import Limits, Workspace, WorkspaceError
from tests.hostile_workspace import SECRET, TOKENS, build, command_lines

CAPS = Caps(lines=40, bytes=3000, line_bytes=600)
LINES = 100_000
BIG = 4_000
"""Of these lines, how many also run over the files with lines of 5 MB."""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.load(build(tmp_path_factory.mktemp("hostile")))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The same with lines of 2 KB, for a great many commands."""
    return Workspace.load(build(tmp_path_factory.mktemp("small"), long_line=2_000))


def _check(workspace: Workspace, cwd: str, line: str) -> str:
    """Run one line and give back the directory after it."""
    output = execute(workspace, cwd, line)
    shown = render(output, CAPS)
    assert len(shown.encode("utf-8")) <= CAPS.bytes, line
    assert shown.count("\n") <= CAPS.lines + 2, line  # the marker, and a hint
    assert SECRET not in shown, line
    assert "root:x:" not in shown, line
    assert not [token for token in TOKENS if token in shown], line
    assert neutralise(shown) == shown, line
    assert not any(char < " " and char not in "\n\t" for char in shown), line
    assert output.cwd is None or output.cwd in workspace.dirs, line
    assert set(output.searched + output.opened) <= set(workspace.files), line
    assert all(ident in workspace.turns for _, ids in output.evidence for ident in ids), line
    return cwd if output.cwd is None else output.cwd


def test_a_hundred_thousand_lines(small: Workspace) -> None:
    cwd = ""
    for line in command_lines(LINES, seed=0):
        cwd = _check(small, cwd, line)


def test_lines_of_five_megabytes(hostile: Workspace) -> None:
    for line in command_lines(BIG, seed=1):
        _check(hostile, "big", line)


def test_nothing_is_opened_that_is_no_file(hostile: Workspace) -> None:
    kinds = {"out": "link", "outdir": "link", "loop": "link", "sessions/abs": "link", "pipe": "fifo", "sock": "socket"}
    assert hostile.specials == kinds
    for name, kind in kinds.items():
        wanted = f"cat: {name}: Is a {kind}, and those are never opened here\n"
        assert execute(hostile, "", f"cat {name}").text == wanted
        assert execute(hostile, "", f"grep -r . {name}").status == 2
    assert execute(hostile, "", "ls").text.split("\n")[:-1] == sorted(
        ["big", "loop", "out", "outdir", "people", "pipe", "raw_logs", "sessions", "sock"]
    )


def test_the_faults_of_a_hostile_workspace_are_reported(hostile: Workspace) -> None:
    problems = "\n".join(hostile.problems())
    for fault in (
        "traj_0001.jsonl:20: not a JSON record",
        "s1.md: source D7:7 is in no raw log",
        "s2.md: front matter is not YAML",
    ):
        assert fault in problems


@pytest.mark.parametrize(
    "pattern",
    [
        "-E '(a+)+$'",
        "-E '(a|a)*b'",
        "-E '(x+x+)+y'",
        "'.*.*.*.*=.*'",
        "-E '(.*a){20}b'",
        "-w a",
        "-o 'a*'",
        "-c ''",
        "-v b",
    ],
)
def test_time_grows_with_the_bytes_searched(tmp_path: Path, pattern: str) -> None:
    """Eight times the text takes about eight times the CPU time, not sixty-four times."""
    for name, size in (("one", 200_000), ("eight", 1_600_000)):
        (tmp_path / f"{name}.txt").write_bytes((b"a" * 99 + b"\n") * (size // 200) + b"a" * (size // 2))
    workspace = Workspace.load(tmp_path)
    execute(workspace, "", f"grep {pattern} one.txt")  # compiles

    def cost(name: str) -> float:
        times = []
        for _ in range(3):
            started = time.process_time()
            execute(workspace, "", f"grep {pattern} {name}.txt")
            times.append(time.process_time() - started)
        return min(times)

    assert cost("eight") < 30 * cost("one") + 0.2


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (Limits(files=5), "more than 5 files and folders"),
        (Limits(bytes=10_000), "over 10000 bytes in all files"),
        (Limits(file_bytes=1_000), "over 1000 bytes, the limit for one file"),
        (Limits(depth=0), "folders more than 0 deep"),
    ],
)
def test_a_workspace_over_a_limit_is_refused(tmp_path: Path, limits: Limits, says: str) -> None:
    root = build(tmp_path, long_line=2_000)
    with pytest.raises(WorkspaceError, match=says) as refused:
        Workspace.load(root, limits)
    assert "\n" not in str(refused.value)


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="is not a folder"):
        Workspace.load(tmp_path / "nosuch")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(WorkspaceError, match="is not a folder"):
        Workspace.load(tmp_path / "pipe")
