"""Files that are written aside: whole or not at all, by several at once, with nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from horma_rl.aside import aside

KILLED = """
import os, sys
from pathlib import Path
from horma_rl.aside import aside
with aside(Path(sys.argv[1])) as unfinished:
    unfinished.write_text("half")
    os.kill(os.getpid(), 9)
"""
WRITERS = """
import sys
from pathlib import Path
from horma_rl.aside import aside
for _ in range(200):
    with aside(Path(sys.argv[1])) as unfinished:
        unfinished.write_text(sys.argv[2] * 10_000)
"""


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_file_takes_the_place_of_the_old_one_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.json"
    for text in ("old and longer", "new"):
        with aside(path) as unfinished:
            assert unfinished.read_bytes() == b""
            unfinished.write_text(text)
        assert path.read_text() == text
    assert names(path.parent) == ["x.json"]


def test_an_exception_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("old")

    def interrupted() -> None:
        with aside(path) as unfinished:
            unfinished.write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (path.read_text(), names(tmp_path)) == ("old", ["x.json"])


def test_a_link_stays_one(tmp_path: Path) -> None:
    link, target = tmp_path / "link", tmp_path / "disk" / "x.json"
    link.symlink_to(target)
    for text in ("new", "newer"):
        with aside(link) as unfinished:
            assert unfinished.parent == target.parent
            unfinished.write_text(text)
        assert link.is_symlink()
        assert target.read_text() == text


def test_what_cannot_be_put_in_place_goes(tmp_path: Path) -> None:
    (tmp_path / "x.json").mkdir()
    with pytest.raises(IsADirectoryError), aside(tmp_path / "x.json"):
        pass
    assert names(tmp_path) == ["x.json"]


def test_what_a_killed_process_left_is_taken_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", KILLED, path], timeout=60, check=False)
        assert done.returncode == -signal.SIGKILL
        assert names(tmp_path) == [".x.json.unfinished"]
    with aside(path) as unfinished:
        unfinished.write_text("new")
    assert (path.read_text(), names(tmp_path)) == ("new", ["x.json"])


def test_what_was_left_gives_the_new_file_nothing(tmp_path: Path) -> None:
    """Neither its mode, which another umask may have made, nor another name of it."""
    path, left, other = tmp_path / "x.json", tmp_path / ".x.json.unfinished", tmp_path / "other"
    other.write_text("precious")
    os.link(other, left)
    left.chmod(0o600)
    with aside(path) as unfinished:
        unfinished.write_text("new")
    (tmp_path / "plain").write_text("")
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert (path.read_text(), other.read_text(), left.exists()) == ("new", "precious", False)


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "folder"])
def test_what_nobody_could_have_left_is_not_written_through(tmp_path: Path, kind: str) -> None:
    left, other = tmp_path / ".x.json.unfinished", tmp_path / "other"
    if kind == "link":
        other.write_text("precious")
    if kind == "pipe":
        os.mkfifo(left)
    elif kind == "folder":
        left.mkdir()
    else:
        left.symlink_to(other)
    before = names(tmp_path)
    with pytest.raises(OSError, match="unfinished"), aside(tmp_path / "x.json"):
        pass
    assert names(tmp_path) == before
    assert kind != "link" or other.read_text() == "precious"


def test_several_processes_write_whole_files_in_turn(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    writers = [subprocess.Popen([sys.executable, "-c", WRITERS, path, letter]) for letter in "abc"]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            seen.add(path.read_text())
        time.sleep(0.001)
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert seen | {path.read_text()} <= {letter * 10_000 for letter in "abc"}
    assert names(tmp_path) == ["x.json"]


def test_threads_wait_for_each_other(tmp_path: Path) -> None:
    path = tmp_path / "x.json"

    def write(number: int) -> None:
        with aside(path) as unfinished:
            unfinished.write_text(str(number))
            time.sleep(0.001)
            assert unfinished.read_text() == str(number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(40)))
    assert names(tmp_path) == ["x.json"]


def test_nothing_names_its_leftovers_by_process() -> None:
    """No process would find them again."""
    root = Path(__file__).parents[2]
    sources = [path for folder in ("horma_rl", "envs") for path in (root / folder).rglob("*.py")]
    assert len(sources) > 100
    named = [path for path in sources if "with_name" in (text := path.read_text()) and "{os.getpid()}" in text]
    assert named == []
