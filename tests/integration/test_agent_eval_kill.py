"""kill -9 in the middle of an evaluation of agents: no episode is played twice, none is lost, and the totals match."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from horma_rl.cli import main

CONFIG = """
kind: agent
name: killed
suite: {name: interdependent, options: {kind: bundle, size: 3, tasks: 3}}
retriever: bm25-3
seeds: [0, 1]
concurrency: 2
systems:
  full: {}
  neither: {state: recent, horma: false}
"""
EPISODES = 12


def rows(folder: Path) -> list[dict[str, Any]]:
    """The whole lines of the rows' file."""
    path = folder / "rows.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.is_file() else []
    return [json.loads(line) for line in lines]


def untimed(folder: Path) -> dict[tuple[str, str, int], dict[str, Any]]:
    """By episode, the row without what a clock said."""
    found = rows(folder)
    assert len({(row["system"], row["task"], row["seed"]) for row in found}) == len(found)
    return {(row["system"], row["task"], row["seed"]): {**row, "wall_s": 0} for row in found}


def kill_after(config: Path, folder: Path, count: int) -> None:
    """Start the evaluation, and kill it once at least `count` rows are written."""
    command = [sys.executable, "-m", "horma_rl.cli", "eval", str(config), f"out={folder}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    path, limit = folder / "rows.jsonl", time.monotonic() + 120
    while process.poll() is None and not (path.is_file() and path.read_bytes().count(b"\n") >= count):
        assert time.monotonic() < limit
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it ended before it could be killed"


def test_a_killed_evaluation_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, killed, whole = tmp_path / "config.yaml", tmp_path / "killed", tmp_path / "whole"
    config.write_text(CONFIG)
    kill_after(config, killed, 2)
    with (killed / "rows.jsonl").open("a") as file:
        file.write(json.dumps(rows(killed)[0])[:100])  # what a kill in the middle of a write leaves
    kill_after(config, killed, len(rows(killed)) + 2)
    before = (killed / "rows.jsonl").read_text()
    kept = before[: before.rfind("\n") + 1]
    finished = [killed / "episodes" / row["system"] / f"{row['task']}-{row['seed']}" for row in rows(killed)]
    touched = {path: (path / "steps.jsonl").stat().st_mtime_ns for path in finished}
    assert 4 <= len(finished) < EPISODES

    assert main(["eval", str(config), f"out={killed}"]) == 0
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert main(["eval", str(config), f"out={whole}"]) == 0
    undisturbed = json.loads(capsys.readouterr().out.splitlines()[-1])

    assert (killed / "rows.jsonl").read_text().startswith(kept)
    assert {path: (path / "steps.jsonl").stat().st_mtime_ns for path in finished} == touched
    assert len(rows(killed)) == EPISODES
    assert untimed(killed) == untimed(whole)
    timed = ("wall_s", "report")
    assert {**line, **dict.fromkeys(timed)} == {**undisturbed, **dict.fromkeys(timed)}
    assert line["systems"]["full"]["success"] == 1.0
    for path in (killed / "episodes").glob("*/*"):
        other = whole / path.relative_to(killed)
        assert (path / "steps.jsonl").read_text() == (other / "steps.jsonl").read_text(), path
