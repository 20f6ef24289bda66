"""An ablation as a person runs it: cells as processes, one table, resumed, stopped, and with a cell that fails."""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from horma_rl.ablation.runs import RunSet
from horma_rl.cli import main
from horma_rl.training.config import TrainConfig
from tests.conftest import REPOSITORY
from tests.training_parts import environment, run_config, tiny_model, tokenizer


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(REPOSITORY)


def test_two_cells_of_two_steps_from_the_yaml_to_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = tmp_path / "start"
    tiny_model().save_pretrained(start)
    tokenizer().save_pretrained(start)
    config = {
        "name": "caps", "question": "How many turns?", "base": str(run_config(tmp_path, start)), "reference": "four",
        "cells": {"four": {}, "two": {"shell": {"caps": {"turns": 2}}, "rollout": {"max_turns": 2}}},
    }  # fmt: skip
    path = tmp_path / "caps.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    assert main(["ablate", str(path), "--dry-run"]) == 0
    assert not (tmp_path / "runs").exists()
    assert main(["ablate", str(path), "--jobs", "2"]) == 0
    said = capsys.readouterr()
    table = json.loads(said.out.splitlines()[-1])
    assert [cell["cell"] for cell in table["cells"]] == ["four", "two"]
    assert not table["missing"]
    assert table["cells"][1]["turns"] <= 2
    assert table["cells"][1]["difference"]["n"] == 3
    assert "How many turns?" in said.err
    runs = tmp_path / "runs"
    assert (runs / "caps-two-s0" / "report.html").is_file()
    assert json.loads((runs / "caps-four-s0" / "summary.json").read_text())["steps"] == 2
    assert "grpo 2/2" in (runs / "ablations" / "caps" / "logs" / "caps-two-s0.log").read_text()
    assert main(["ablate", str(path)]) == 0
    again = capsys.readouterr()
    assert "2 runs, 2 of them finished before" in again.err
    assert "started" not in again.err
    assert json.loads(again.out.splitlines()[-1]) == table


@pytest.mark.parametrize("base", [None, "configs/train/qwen3_5_4b_4xh200.yaml"], ids=["own", "paper"])
@pytest.mark.parametrize("path", sorted(REPOSITORY.glob("configs/ablations/*.yaml")), ids=lambda path: path.stem)
def test_every_cell_of_a_shipped_config_could_be_trained(
    path: Path, base: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ablate", str(path), "--dry-run", *([f"base={base}"] if base else [])]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] >= 6


@dataclass
class Quick:
    """Stands for a run: a command that is over soon, or sleeps until it is stopped."""

    name: str
    command: list[str]
    folder: Path

    def config(self) -> Any:
        return TrainConfig(name=self.name, runs=self.folder)


def test_a_run_that_fails_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    said: list[str] = []
    bad = Quick("bad", ["data", "stats", "nosuch.jsonl"], tmp_path)
    good = Quick("good", ["data", "stats", "data/sample"], tmp_path)
    runs: list[Any] = [bad, good]
    failed = RunSet(tmp_path / "out", 1, said.append).do(runs)
    assert len(failed) == 1
    assert failed[0].startswith("bad failed with exit code 2: horma-rl: ")
    assert any(line.startswith("good: done after") for line in said)


def test_a_signal_is_passed_on_and_starts_no_other_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "horma_rl"  # in the place of the real one, for the processes that are started here
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "cli.py").write_text("import time; time.sleep(60)")
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    runs: list[Any] = [Quick("first", [], tmp_path), Quick("second", [], tmp_path)]
    threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        RunSet(tmp_path / "out", 1, said.append).do(runs)
    assert said[1] == "started first"
    assert not any("second" in line for line in said)
