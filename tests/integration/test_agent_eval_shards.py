"""Two shards of an evaluation of agents, side by side in one folder, merge to what one run gives."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from horma_rl.cli import main

CONFIG = """
kind: agent
name: sharded
suite: {name: interdependent, options: {kind: schedule, size: 3, tasks: 5}}
retriever: bm25-3
seeds: [0, 1]
systems:
  full: {}
  no_revise: {revise: false}
"""


def summary(folder: Path) -> dict[str, Any]:
    """What the report says, without what a clock said."""
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    for system in found["systems"].values():
        system["seconds"] = None
    return {**found, "wall_s": None}


def test_two_shards_at_once_merge_to_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, shards, whole = tmp_path / "config.yaml", tmp_path / "shards", tmp_path / "whole"
    config.write_text(CONFIG)
    command = [sys.executable, "-m", "horma_rl.cli", "eval", str(config), f"out={shards}", "--shard"]
    running = [
        subprocess.Popen([*command, f"{index}/2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for index in (1, 2)
    ]
    outputs = [process.communicate(timeout=180) for process in running]
    assert [process.returncode for process in running] == [0, 0], outputs
    lines = [json.loads(out.splitlines()[-1]) for out, _ in outputs]
    assert [(line["shard"], line["tasks"], line["errors"]) for line in lines] == [("1/2", 3, 0), ("2/2", 2, 0)]
    assert not (shards / "report.html").exists()
    written = {path: path.read_bytes() for path in shards.glob("rows.*.jsonl")}
    assert sorted(path.name for path in written) == ["rows.1-of-2.jsonl", "rows.2-of-2.jsonl"]

    assert main(["eval", str(config), f"out={shards}"]) == 0
    assert main(["eval", str(config), f"out={whole}"]) == 0
    assert (shards / "rows.jsonl").read_bytes() == b""  # nothing was left to play
    assert written == {path: path.read_bytes() for path in written}
    assert summary(shards) == summary(whole)
    assert (shards / "report.html").is_file()
    assert summary(whole)["systems"]["full"]["success"]["mean"] == 1.0
    capsys.readouterr()


def test_only_agents_have_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("benchmark: generated\n")
    for shard in ("1/2", ""):
        assert main(["eval", str(config), "--shard", shard]) == 2
        assert "--shard is for evaluations of agents" in capsys.readouterr().err


def test_an_empty_shard_is_not_the_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a script gives whose variable is not set."""
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    assert main(["eval", str(config), f"out={tmp_path / 'out'}", "--shard", ""]) == 2
    assert "--shard '': write I/N" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
