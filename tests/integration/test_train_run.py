"""`horma-rl train` from config to report, and the ways in which a run ends early."""

from __future__ import annotations

import importlib.util
import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from horma_rl.cli import main
from horma_rl.config import load_config
from horma_rl.training.config import TrainConfig
from tests.training_parts import (
    lines_of,
    memory,
    partly_trained,
    run_config,
    same_weights,
    train_signalled,
    world,
)

TRACKERS = [name for name in ("tensorboard", "wandb") if importlib.util.find_spec(name)]
SUMMARY = {"before", "after", "delta", "ci95", "n", "seed", "wall_s", "peak_rss_mb"}


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("start")
    return partly_trained(folder, memory(folder / "memory"))


@pytest.fixture(scope="module")
def finished(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The config of a finished run of two steps, with a warm start, that told every tracker there is."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_MODE", "offline")
        patch.setenv("WANDB_DIR", str(folder))
        patch.setenv("WANDB_SILENT", "true")
        sft = {"steps": 3, "tokens_per_step": 500, "max_tokens": 900}
        config = run_config(folder, start, sft=sft, trackers=TRACKERS)
        assert main(["train", str(config)]) == 0
        if "wandb" in TRACKERS:
            import wandb

            wandb.finish()
        yield config


def run_of(config: Path) -> Path:
    return config.parent / "runs" / "run"


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    error = capsys.readouterr().err.strip()
    assert "\n" not in error
    return error


def test_a_run_leaves_everything_that_it_promises(finished: Path) -> None:
    run = run_of(finished)
    assert load_config(run / "config.yaml", [], TrainConfig) == load_config(finished, [], TrainConfig)
    metrics = lines_of(run / "metrics.jsonl")
    assert [row["step"] for row in metrics] == [1, 2]
    assert {"reward", "reward_std", "loss", "grad_norm", "entropy", "turns", "invalid_rate", "tokens_per_s",
            "flat_groups", "call_rate", "stop_done"} <= set(metrics[0])  # fmt: skip
    episodes = lines_of(run / "trajectories.jsonl")
    assert [row["step"] for row in episodes] == [0] * 8 + [1] * 8
    assert {row["task"] for row in episodes} <= {task.id for task in world().train}
    summary = json.loads((run / "summary.json").read_text())
    assert summary.keys() >= SUMMARY
    assert (summary["n"], summary["seed"], summary["steps"]) == (3, 5, 2)
    assert summary["delta"] == pytest.approx(summary["after"] - summary["before"], abs=1e-6)
    assert summary["wall_s"] > 0
    assert summary["peak_rss_mb"] > 100
    assert {row["system"] for row in lines_of(run / "evaluation" / "rows.jsonl")} == {"before", "warm start", "after"}
    assert "<article" in (run / "report.html").read_text()
    assert "before" in (run / "report.txt").read_text()
    assert (run / "model" / "tokenizer.json").is_file()
    assert not list((run / "checkpoints").rglob("README.md"))
    assert not same_weights(run / "warm_start", run / "model")


def test_trackers_got_their_files(finished: Path) -> None:
    assert TRACKERS, "neither tensorboard nor wandb is installed: pip install 'horma-rl[tracking]'"
    if "tensorboard" in TRACKERS:
        assert [p for p in run_of(finished).rglob("events.out.tfevents.*") if p.stat().st_size > 100]
    if "wandb" in TRACKERS:
        assert [p for p in finished.parent.rglob("*.wandb") if p.stat().st_size > 100]


def test_a_finished_run_started_again_changes_nothing(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = tree(run_of(finished))
    assert main(["train", str(finished)]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["n"] == 3
    assert "grpo 2/2" not in said.err
    after = tree(run_of(finished))
    # The evaluation's own folder tells the wall time of its last look, which is none of the run's results.
    changed = {name for name in before if before[name] != after.get(name) and not name.startswith("evaluation/")}
    assert (after.keys() - before.keys(), changed) == (set(), set())


def test_another_config_may_not_take_the_name(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = tree(run_of(finished))
    assert main(["train", str(finished), "grpo.learning_rate=0.5"]) == 2
    assert "choose another name" in one_line(capsys)
    assert tree(run_of(finished)) == before


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("grpo.top_p=0.9", "biases the importance ratio"),
        ("grpo.lerning_rate=1", "did you mean 'learning_rate'"),
        ("grpo.output_dir=x", "use the key 'runs'"),
        ("model=./nowhere", "no checkpoint folder at ./nowhere"),
        ("options.trian=3", "did you mean 'train'"),
        ("grpo.per_device_train_batch_size=64", "a step takes 32 different tasks, but the train split has 14"),
        ("trackers=[nosuchtracker]", "input should be 'tensorboard' or 'wandb'"),
    ],
)
def test_a_config_at_fault_is_one_line_and_takes_no_name(
    override: str, message: str, start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", str(run_config(tmp_path, start)), override]) == 2
    assert message in one_line(capsys)
    assert not (tmp_path / "runs").exists()


def test_a_learning_rate_of_zero_changes_nothing(start: Path, tmp_path: Path) -> None:
    grpo = {"learning_rate": 0.0, "weight_decay": 0.1}
    config = run_config(tmp_path, start, grpo=grpo, evaluation={"limit": None})
    assert main(["train", str(config)]) == 0
    run = run_of(config)
    assert any(row["grad_norm"] > 0 for row in lines_of(run / "metrics.jsonl"))
    assert same_weights(start, run / "model")
    before, after = (_by_task(run, system) for system in ("before", "after"))
    assert before == after
    assert len(before) == 7
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["delta"], summary["ci95"]) == (0.0, [0.0, 0.0])


def _by_task(run: Path, system: str) -> dict[str, dict[str, Any]]:
    """What was evaluated, by task, without names and clocks."""
    rows = [row for row in lines_of(run / "evaluation" / "rows.jsonl") if row["system"] == system]
    return {row["task"]: {k: v for k, v in row.items() if k not in ("system", "wall_s")} for row in rows}


def test_ctrl_c_saves_and_the_same_command_goes_on(
    start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = run_config(tmp_path, start, grpo={"max_steps": 4, "save_steps": 100})
    run = run_of(config)
    child = train_signalled(config, signal.SIGINT, "open", "metrics.jsonl", 2)
    assert child.returncode == 130, child.stderr
    assert "Traceback" not in child.stderr
    assert child.stderr.count("finishing this step") == 1
    assert child.stderr.strip().splitlines()[-1].startswith("horma-rl: interrupted; what was finished is on disk")
    assert [path.name for path in (run / "checkpoints").glob("checkpoint-*")] == ["checkpoint-3"]

    assert main(["train", str(config)]) == 0
    assert "checkpoint-3" in capsys.readouterr().err
    assert [row["step"] for row in lines_of(run / "metrics.jsonl")] == [1, 2, 3, 4]
    whole = run_config(tmp_path, start, grpo={"max_steps": 4, "save_steps": 100}, name="whole")
    assert main(["train", str(whole)]) == 0
    assert same_weights(run / "model", tmp_path / "runs" / "whole" / "model")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of 64 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_one_line_and_costs_nothing(
    disk: Path, start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The disk grows a little after each failure, so that it fills while different things are written."""
    grpo = {"max_steps": 3, "save_steps": 1}
    config = run_config(tmp_path, start, grpo=grpo, runs=str(disk))
    reached: list[str] = []
    for kilobytes in (64, 400, 1200, 2600, 4500, 6400):
        subprocess.run(["mount", "-o", f"remount,size={kilobytes}k", str(disk)], check=True)
        assert main(["train", str(config)]) == 1
        last = capsys.readouterr().err.strip().splitlines()[-1]
        assert last.startswith("horma-rl: [Errno 28] No space left on device")
        reached.append(" ".join(sorted(path.name for path in (disk / "run").rglob("*") if "checkpoint-" in path.name)))
    assert len(set(reached)) >= 3, reached
    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
    assert main(["train", str(config)]) == 0
    assert [row["step"] for row in lines_of(disk / "run" / "metrics.jsonl")][-1] == 3
    assert main(["train", str(run_config(tmp_path, start, grpo=grpo))]) == 0
    assert same_weights(disk / "run" / "model", tmp_path / "runs" / "run" / "model")
