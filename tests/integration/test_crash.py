"""SIGKILL anywhere in a build, for real; the same build again must end with the tree of an uninterrupted one."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from horma_rl.benchmarks.types import Conversation
from horma_rl.errors import UserError
from horma_rl.memory import NotesKind, build, read_manifest
from tests.memory_conversation import conversation, tree

_OPERATIONS = frozenset({"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"})


def in_child(work: Callable[[], object], kill_at: int | None = None) -> tuple[int, int]:
    """Run `work` in a forked process: its process id's wait status, and how many file operations it came to.

    With `kill_at`, the process kills itself with SIGKILL just before its operation of that number (1-based).
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        count = 0

        def hook(event: str, _: object) -> None:
            nonlocal count
            if event in _OPERATIONS:
                count += 1
                if count == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        try:
            work()
            os.write(writer, str(count).encode())
            os._exit(0)
        except BaseException:
            os._exit(1)
    os.close(writer)
    status = os.waitpid(child, 0)[1]
    counted = os.read(reader, 32)
    os.close(reader)
    return status, int(counted or 0)


def assert_completes(out: Path, whole: dict[str, bytes], talk: Conversation, notes: NotesKind = "outline") -> None:
    """A manifest vouches for a whole workspace; and a rerun makes it whole."""
    try:
        manifest = read_manifest(out)
    except UserError:
        manifest = None
    if manifest is not None and manifest["turns"] == len(talk.turn_ids()) and manifest["notes"] == notes:
        assert tree(out) == whole
    build(talk, out, notes)
    assert tree(out) == whole


def test_killed_before_every_file_operation_of_a_first_build(tmp_path: Path) -> None:
    talk = conversation(3)
    build(talk, tmp_path / "whole")
    whole = tree(tmp_path / "whole")
    status, operations = in_child(partial(build, talk, tmp_path / "counted"))
    assert status == 0
    assert operations > 50
    for number in range(1, operations + 1):
        out = tmp_path / f"killed-{number}"
        status, _ = in_child(partial(build, talk, out), kill_at=number)
        assert os.WTERMSIG(status) == signal.SIGKILL
        assert_completes(out, whole, talk)


def test_killed_before_every_file_operation_of_an_increment_that_switches_notes(tmp_path: Path) -> None:
    """The hardest step: new turns, changed notes, notes to remove, another kind of notes."""
    short, long = conversation(2), conversation(3)
    build(short, tmp_path / "whole")
    build(long, tmp_path / "whole", "observations")
    whole = tree(tmp_path / "whole")

    def prepared(name: str) -> Path:
        build(short, tmp_path / name)
        return tmp_path / name

    counted = prepared("counted")
    _, operations = in_child(partial(build, long, counted, "observations"))
    for number in range(1, operations + 1):
        out = prepared(f"killed-{number}")
        archived = {path: data for path, data in tree(out).items() if path.startswith("raw_logs/")}
        status, _ = in_child(partial(build, long, out, "observations"), kill_at=number)
        assert os.WTERMSIG(status) == signal.SIGKILL
        assert archived.items() <= tree(out).items()
        assert_completes(out, whole, long, "observations")


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_random_times_again_and_again(tmp_path: Path, seed: int) -> None:
    """The same folder is killed in several runs one after the other before it may complete."""
    talk = conversation(12)
    begin = time.perf_counter()
    build(talk, tmp_path / "whole")
    took = time.perf_counter() - begin
    whole = tree(tmp_path / "whole")
    moments = random.Random(seed)
    killed = 0
    for trial in range(8):
        out = tmp_path / f"killed-{trial}"
        for _ in range(3):
            child = os.fork()
            if child == 0:
                build(talk, out)
                os._exit(0)
            time.sleep(moments.random() * took)
            os.kill(child, signal.SIGKILL)
            killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        assert_completes(out, whole, talk)
    assert killed > 0
