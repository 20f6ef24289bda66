"""`horma-rl train` in two processes, from config to report, with Ctrl-C on the way."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from horma_rl.cli import main
from tests.conftest import REPOSITORY
from tests.training_parts import environment, lines_of, run_config, same_weights, weights

START = REPOSITORY / "data/models/tiny"
STEPS = 12


def config(folder: Path) -> Path:
    """LoRA on the shipped model, in steps of two groups, one in each process."""
    grpo = {"max_steps": STEPS, "gradient_accumulation_steps": 1, "save_steps": 100, "learning_rate": 1e-2}
    launch = {"processes": 2}
    return run_config(folder, START, grpo=grpo, launch=launch, lora={"rank": 4, "alpha": 8}, rollout_step_s=600)


def interrupted(path: Path, metrics: Path) -> tuple[int, str, list[psutil.Process]]:
    """Start the run, press Ctrl-C after its first step: exit code, what it said, and the processes that it had."""
    command = [sys.executable, "-m", "horma_rl.cli", "train", str(path)]
    run = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    while run.poll() is None and not (metrics.is_file() and metrics.stat().st_size):
        time.sleep(0.02)
    children = psutil.Process(run.pid).children(recursive=True) if run.poll() is None else []
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=300)
    return run.returncode, said, children


@pytest.mark.slow
def test_ctrl_c_stops_and_saves_in_all_processes_and_the_run_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, run = config(tmp_path), tmp_path / "runs" / "run"
    code, said, children = interrupted(path, run / "metrics.jsonl")
    assert code == 130, said
    assert "engine: DDP, 2 processes" in said
    assert "Traceback" not in said
    assert len(children) >= 3  # accelerate's launcher and two processes
    assert not [child for child in children if child.is_running()]
    (saved,) = (run / "checkpoints").glob("checkpoint-*")
    done = int(saved.name.partition("-")[2])
    assert 1 <= done < STEPS

    assert main(["train", str(path)]) == 0
    told = capfd.readouterr()
    assert f"resuming from {saved}" in told.err
    assert json.loads(told.out.splitlines()[-1])["steps"] == STEPS
    assert [row["step"] for row in lines_of(run / "metrics.jsonl")] == [*range(1, STEPS + 1)]
    for log in ("trajectories.jsonl", "trajectories.rank1.jsonl"):
        assert [row["step"] for row in lines_of(run / log)] == [step for step in range(STEPS) for _ in range(4)]
    assert weights(run / "model").keys() == weights(START).keys()  # adapters are merged
    assert not same_weights(run / "model", START)
    assert sorted(path.name for path in run.iterdir() if path.name.startswith(".")) == []
