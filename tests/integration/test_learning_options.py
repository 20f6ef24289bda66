"""Learning options with the real trainer: groups never mix, looking on changes nothing, and all of them resume."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from horma_rl.cli import main
from horma_rl.config import load_config
from horma_rl.training.config import TrainConfig
from horma_rl.training.grpo import make_trainer
from horma_rl.training.grpo_config import grpo_args
from horma_rl.training.policies import load
from horma_rl.training.progress import read_metrics
from horma_rl.training.validation import chosen_checkpoint
from memory_shell.types import Task
from tests.training_parts import (
    lines_of,
    memory,
    partly_trained,
    run_config,
    same_weights,
    train_signalled,
    weights,
    world,
)

CLOCKS = {"time", "step_s", "seconds", "tokens_per_s"}
OPTIONS: dict[str, Any] = {
    "evaluation": {"limit": 3, "episodes_shown": 1, "every": 2, "during": 4, "best": True},
    "curriculum": {"order": "evidence", "pools": 2, "steps": 3, "window": 2},
    "reward": {"turn_cost": 0.2, "token_cost": 0.2, "format_bonus": 0.1},
    "resample_zero_variance": 1,
}


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("start")
    return partly_trained(folder, memory(folder / "memory"))


def five_steps(folder: Path, start: Path, **options: Any) -> Path:
    folder.mkdir(exist_ok=True)
    return run_config(folder, start, grpo={"max_steps": 5, "save_steps": 2}, **options)


def trained(folder: Path, start: Path, **options: Any) -> Path:
    """The folder of a finished run of five steps."""
    assert main(["train", str(five_steps(folder, start, **options))]) == 0
    return folder / "runs" / "run"


def metrics(run: Path) -> list[dict[str, Any]]:
    rows = read_metrics(run / "metrics.jsonl")
    return [{k: v for k, v in row.items() if k.partition("/")[0] not in CLOCKS} for row in rows]


@pytest.fixture(scope="module")
def plain(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("plain"), start)


@pytest.fixture(scope="module")
def whole(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with every option that nothing interrupted."""
    return trained(tmp_path_factory.mktemp("whole"), start, **OPTIONS)


def half(task: Task, name: str, first: int = 0) -> Task:
    """`task` with every other turn of its memory as evidence, so that any selection is worth something."""
    turns = next(c for c in world().conversations if c.name == task.workspace).turn_ids()
    return replace(task, id=f"{task.id}/{name}", evidence=turns[first::2])


def same_text() -> tuple[Task, Task, Task]:
    """Three tasks with one question about one memory: two halves of its turns are their evidence, and a turn that does
    not exist is that of the third, so that its group is flat."""
    task = world().train[0]
    return half(task, "even"), half(task, "odd", 1), replace(task, id=f"{task.id}/flat", evidence=("D99:99",))


def score(tasks: list[Task], start: Path, folder: Path, resample: int) -> dict[str, tuple[str, Any, Any]]:
    """TRL's own scoring of one step with these tasks. By id: the task that was played in its place, the prompt, and the
    advantages of its group."""
    folder.mkdir()
    grpo = {"num_generations": 8, "per_device_train_batch_size": 8}
    config = load_config(run_config(folder, start, grpo=grpo, resample_zero_variance=resample), [], TrainConfig)
    memory(config.run_dir / "memory")
    others = tuple(half(task, "other") for task in world().train[1:])
    benchmark = replace(world(), train=(*others, *same_text()))
    tokenizer, model = load(start)
    trainer = make_trainer(config, grpo_args(config), benchmark, tokenizer, model, [])
    trainer.model.train()
    out = trainer._generate_and_score_completions([{"prompt": task.id} for task in tasks for _ in range(8)])
    played = lines_of(config.run_dir / "trajectories.jsonl")
    return {
        task.id: (played[at]["task"], out["prompt_ids"][at], out["advantages"][at : at + 8])
        for at, task in zip(range(0, 24, 8), tasks, strict=True)
    }


@pytest.mark.parametrize("resample", [0, 5])
def test_swapping_tasks_of_the_same_text_leaves_their_advantages(resample: int, start: Path, tmp_path: Path) -> None:
    """Also where a group is replaced by that of another task: nothing is grouped by text."""
    even, odd, flat = same_text()
    one = score([even, odd, flat], start, tmp_path / "one", resample)
    two = score([flat, odd, even], start, tmp_path / "two", resample)
    for task in (even, odd, flat):
        advantages = one[task.id][2]
        assert torch.equal(advantages, two[task.id][2])
        assert one[task.id][0] == two[task.id][0]
        assert abs(float(advantages.sum())) < 1e-4  # the mean is of this group alone
    assert one[even.id][2].any() or one[odd.id][2].any()
    if resample == 0:
        assert torch.equal(one[even.id][1], one[odd.id][1])
        assert not torch.equal(one[even.id][2], one[odd.id][2])
        assert not one[flat.id][2].any()
    else:
        assert one[flat.id][0] != flat.id
        assert one[flat.id][2].any()


def test_looking_on_changes_no_weight(plain: Path, start: Path, tmp_path: Path) -> None:
    on = {"limit": 3, "episodes_shown": 1, "every": 2, "during": 4, "during_split": "eval"}
    watched = trained(tmp_path, start, evaluation=on)
    assert same_weights(watched / "model", plain / "model")
    seen = {row["step"]: row for row in read_metrics(watched / "metrics.jsonl")}
    assert [step for step, row in seen.items() if "eval/jaccard" in row] == [2, 4, 5]
    assert all(0 <= seen[step]["eval/jaccard"] <= 1 for step in (2, 4, 5))
    assert all(seen[step]["time/evaluate_s"] > 0 for step in (2, 4, 5))
    assert [{k: v for k, v in row.items() if not k.startswith("eval/")} for row in metrics(watched)] == metrics(plain)


def test_the_best_checkpoint_is_the_model(whole: Path, plain: Path, start: Path) -> None:
    config = load_config(whole / "config.yaml", [], TrainConfig)
    chosen = chosen_checkpoint(config)
    assert chosen is not None
    scores = {row["step"]: row["eval/jaccard"] for row in metrics(whole) if "eval/jaccard" in row}
    assert scores[chosen.step] == chosen.jaccard == max(scores.values())
    assert chosen.step == min(step for step, score in scores.items() if score == chosen.jaccard)
    assert same_weights(whole / "model", chosen.folder)
    summary = json.loads((whole / "summary.json").read_text())
    assert summary["chosen"] == {"step": chosen.step, "jaccard": chosen.jaccard}
    assert f"step {chosen.step}, the best" in (whole / "report.txt").read_text()
    assert not any(torch.equal(tensor, weights(start)[name]) for name, tensor in weights(whole / "model").items())
    assert not same_weights(whole / "model", plain / "model")


def test_held_out_tasks_are_never_trained_on(whole: Path) -> None:
    played = {row["task"] for row in lines_of(whole / "trajectories.jsonl")}
    assert len(played) <= len(world().train) - 4
    assert all("training_reward" in row for row in lines_of(whole / "trajectories.jsonl") if row["reward"] == 1.0)
    opened = [row["tasks_open"] for row in metrics(whole)]
    assert opened == [0.5, 0.5, 0.5, 1.0, 1.0]


def test_a_killed_run_with_every_option_ends_the_same(whole: Path, start: Path, tmp_path: Path) -> None:
    path = five_steps(tmp_path / "killed", start, **OPTIONS)
    child = train_signalled(path, signal.SIGKILL, "open", "metrics.jsonl", 4)
    assert child.returncode == -signal.SIGKILL, child.stderr
    run = tmp_path / "killed" / "runs" / "run"
    assert not (run / "model").exists()
    assert main(["train", str(path)]) == 0
    assert same_weights(run / "model", whole / "model")
    last = "checkpoints/checkpoint-5"
    assert same_weights(run / last, whole / last)
    assert metrics(run) == metrics(whole)
    state = "horma_state.json"
    assert json.loads((run / last / state).read_text()) == json.loads((whole / last / state).read_text())


def test_several_updates_from_the_same_episodes_resume_between_them(start: Path, tmp_path: Path) -> None:
    """Episodes are played before steps 1, 3 and 5; the run is killed after the save at step 3, between two updates."""
    grpo = {"max_steps": 5, "save_steps": 1, "num_iterations": 2}
    for name in ("undisturbed", "killed"):
        (tmp_path / name).mkdir()
    undisturbed, killed = (run_config(tmp_path / name, start, grpo=grpo) for name in ("undisturbed", "killed"))
    assert main(["train", str(undisturbed)]) == 0
    child = train_signalled(killed, signal.SIGKILL, "open", "metrics.jsonl", 4)
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert main(["train", str(killed)]) == 0
    runs = [path.parent / "runs" / "run" for path in (undisturbed, killed)]
    assert same_weights(runs[0] / "model", runs[1] / "model")
    rows = metrics(runs[0])
    assert metrics(runs[1]) == rows
    assert [row["step"] for row in rows if "reward" in row] == [1, 3, 5]
    assert [row["step"] for row in rows if row["grad_norm"] > 0] != []
    assert len(rows) == 5
