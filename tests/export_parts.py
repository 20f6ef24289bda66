"""Finished runs to export from, without the training: a run's folder around checkpoints that a test makes itself."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import yaml

from horma_rl.cli import main
from horma_rl.config import dump, load_config
from horma_rl.training.checkpoints import mark_complete
from horma_rl.training.config import TrainConfig
from tests.training_parts import run_config

STEP = 2


def make_run(
    folder: Path, model: Path, *, checkpoint: Path | None = None, start: Path | None = None, **changes: Any
) -> Path:
    """The folder of a run whose final model is `model`; `checkpoint` becomes the checkpoint of step 2. The run says
    that it began from `start`, by default from `model` as well."""
    folder.mkdir(parents=True, exist_ok=True)
    config = load_config(run_config(folder, start or model, **changes), [], TrainConfig)
    shutil.copytree(model, config.run_dir / "model", ignore=shutil.ignore_patterns("memory", "*.jsonl"))
    (config.run_dir / "config.yaml").write_text(dump(config), encoding="utf-8")
    if checkpoint is not None:
        saved = config.run_dir / "checkpoints" / f"checkpoint-{STEP}"
        shutil.copytree(checkpoint, saved)
        mark_complete(saved)
    return config.run_dir


def export(run: Path, out: Path, *options: str) -> int:
    """`horma-rl export RUN --to OUT ...`."""
    return main(["export", str(run), "--to", str(out), *options])


def last_json(text: str) -> dict[str, Any]:
    """The object on the last line of a command's output."""
    found: dict[str, Any] = json.loads(text.strip().splitlines()[-1])
    return found


def edit(path: Path, **changes: Any) -> None:
    """Change top-level keys of a JSON file."""
    data = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**data, **changes}), encoding="utf-8")


def eval_config(folder: Path, model: Path, **changes: Any) -> Path:
    """An evaluation of `model` on the run's held-out tasks, in the environment of `run_config`."""
    train = yaml.safe_load((folder / "train.yaml").read_text(encoding="utf-8"))
    config = {
        "name": "e", "benchmark": "generated", "options": train["options"], "memory": str(folder / "memory"),
        "policies": {"it": {"model": str(model)}}, "baselines": [], "limit": 2, "shell": train["shell"],
        "rollout": train["rollout"], "out": str(folder / "evaluated"), **changes,
    }  # fmt: skip
    path = folder / "eval.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path
