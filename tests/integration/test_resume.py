"""SIGKILL in the middle of `horma-rl train`, for real; the same command again ends where an uninterrupted run ends."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from horma_rl.cli import main
from horma_rl.training.checkpoints import is_complete
from horma_rl.training.progress import read_metrics
from tests.training_parts import memory, partly_trained, run_config, same_weights, train_signalled, untimed, weights

MOMENTS = {
    # The 14 tasks make passes of three steps: steps 4 and 5 are in the second.
    "after step 5, before its line": ("open", "metrics.jsonl", 5, 4),
    "while checkpoint 4 is written": ("open", "checkpoint-4/trainer_state.json", 1, 2),
    "after the last checkpoint": ("open", ".model.unfinished", 1, 5),
}
"""Which file operation the process kills itself at, and the checkpoint that is whole then."""


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("start")
    return partly_trained(folder, memory(folder / "memory"))


def config(folder: Path, start: Path) -> Path:
    """Five steps of four groups, saved after two, four and five. The learning rate falls from step to step."""
    folder.mkdir()
    grpo = {"max_steps": 5, "gradient_accumulation_steps": 4, "save_steps": 2}
    return run_config(folder, start, grpo=grpo, resample_zero_variance=1)


@pytest.fixture(scope="module")
def whole(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "whole"
    assert main(["train", str(config(folder, start))]) == 0
    return folder / "runs" / "run"


def metrics(run: Path) -> list[dict[str, Any]]:
    return [untimed(row) for row in read_metrics(run / "metrics.jsonl")]


def test_training_moved_the_weights(whole: Path, start: Path) -> None:
    """Else the comparisons below would say nothing."""
    before = weights(start)
    assert all(row["grad_norm"] > 0 for row in metrics(whole)[2:])
    assert not any(torch.equal(tensor, before[name]) for name, tensor in weights(whole / "model").items())


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_run_ends_with_the_same_weights(
    moment: str, whole: Path, start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    event, part, count, kept = MOMENTS[moment]
    path = config(tmp_path / "killed", start)
    run = tmp_path / "killed" / "runs" / "run"
    child = train_signalled(path, signal.SIGKILL, event, part, count)
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert not (run / "model").exists()
    torn = run / "checkpoints" / "checkpoint-4"
    assert (torn / "model.safetensors").is_file()
    assert (torn / "complete.json").is_file() == (kept >= 4)

    assert main(["train", str(path)]) == 0
    assert same_weights(run / "model", whole / "model")
    assert metrics(run) == metrics(whole)
    resumed = f"resuming from {run / 'checkpoints' / f'checkpoint-{kept}'}"
    assert (resumed in capsys.readouterr().err) == (kept < 5)
    assert sorted(path.name for path in run.iterdir() if path.name.startswith(".")) == []


def test_an_alarm_ends_the_run_with_exit_code_3_and_the_run_goes_on_under_other_alarms(
    whole: Path, start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A divergence from the start above -1 is there in every step; saved is the step that it stopped after."""
    path, run = config(tmp_path / "alarmed", start), tmp_path / "alarmed" / "runs" / "run"
    rule = {"threshold": -1, "patience": 3, "action": "stop"}
    assert main(["train", str(path), *(f"alarms.kl.{key}={value}" for key, value in rule.items())]) == 3
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("horma-rl: stopped, and saved: alarm kl at step 3: ")
    assert " is above -1 for 3 steps; " in last
    assert [row.get("alarms") for row in metrics(run)] == [None, None, ["kl"]]
    assert is_complete(run / "checkpoints" / "checkpoint-3")
    assert not (run / "model").exists()

    assert main(["train", str(path)]) == 0
    assert same_weights(run / "model", whole / "model")
    assert "alarms: " not in capsys.readouterr().err
