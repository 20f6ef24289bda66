"""What a real run logs: docs/metrics.md explains every number of it and no other, and wandb and TensorBoard have the
same under the same names, also when the run is killed and goes on."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from horma_rl.cli import main
from horma_rl.training.phases import PARTS, PHASES
from horma_rl.training.progress import read_metrics
from horma_rl.training.trackers import numbers_of
from tests.conftest import REPOSITORY
from tests.training_parts import lines_of, run_config, tiny_model, tokenizer, train_signalled
from tests.wandb_file import Offline, read_offline

ELSEWHERE = {"kl"}
"""Metrics that this run cannot have: `kl` comes with `grpo.beta`, in the place of `kl_start`."""
GRPO = {"max_steps": 4, "save_steps": 2, "num_generations": 2, "gradient_accumulation_steps": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a run with every option that logs something; killed before its fourth line, then finished."""
    folder = tmp_path_factory.mktemp("tracked")
    start = folder / "start"
    tiny_model().save_pretrained(start)
    tokenizer().save_pretrained(start)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_MODE", "offline")
        patch.setenv("WANDB_SILENT", "true")
        patch.delenv("WANDB_DIR", raising=False)
        config = run_config(
            folder, start, grpo=GRPO, trackers=["wandb", "tensorboard"], curriculum={"window": 2},
            evaluation={"limit": 2, "every": 2, "during": 2}, alarms={"flat_groups": {"patience": 1, "action": "warn"}},
        )  # fmt: skip
        killed = train_signalled(config, signal.SIGKILL, "open", "metrics.jsonl", 4)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert main(["train", str(config)]) == 0
        yield folder / "runs" / "run"


def documented() -> set[str]:
    text = (REPOSITORY / "docs/metrics.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| `([\w/]+)` \|", text, re.MULTILINE)
    assert len(found) == len(set(found)), "a metric is explained twice"
    return set(found)


def logged(run: Path) -> set[str]:
    return {name for row in lines_of(run / "metrics.jsonl") for name in row}


def test_every_metric_is_documented_and_every_documented_metric_is_logged(run: Path) -> None:
    assert documented() - ELSEWHERE == logged(run)


def test_the_killed_run_repeated_a_step(run: Path) -> None:
    assert [row["step"] for row in lines_of(run / "metrics.jsonl")] == [1, 2, 3, 3, 4]


def test_the_phases_are_the_time_between_two_lines(run: Path) -> None:
    before, last = read_metrics(run / "metrics.jsonl")[-2:]
    assert sum(last[f"time/{phase}_s"] for phase in PHASES) == pytest.approx(last["time"] - before["time"], abs=0.3)
    assert all(last[f"time/{part}_s"] > 0 for part in (*PARTS, "rollout", "logprobs", "update", "evaluate"))
    assert last["time/environment_s"] < last["time/rollout_s"]
    assert all(last[f"tokens_per_s/{phase}"] > 0 for phase in ("rollout", "logprobs", "update"))
    assert "Where the time went" in (run / "report.html").read_text(encoding="utf-8")


def wandb_parts(run: Path) -> list[Offline]:
    """What each start of the run wrote for wandb, in order."""
    files = sorted(run.glob("wandb/offline-run-*/*.wandb"), key=lambda path: path.stat().st_mtime)
    return [read_offline(path) for path in files]


def test_wandb_has_one_run_with_the_numbers_of_the_log(run: Path) -> None:
    killed, resumed, results = wandb_parts(run)
    kept = json.loads((run / "trackers.json").read_text(encoding="utf-8"))["wandb"]
    assert {resumed.id, results.id} == {kept}
    assert resumed.config["grpo"]["max_steps"] == 4
    assert [line["_step"] for line in resumed.history] == [3, 4]
    steps = [line["_step"] for line in killed.history]  # the kill costs what wandb had not written yet: the last ones
    assert steps == [1, 2, 3][: len(steps)]
    assert killed.id == kept or (killed.id == "" and not steps)  # the id is its first record
    rows = {row["step"]: numbers_of(row) for row in lines_of(run / "metrics.jsonl")}
    for line in resumed.history:
        sent = {name: value for name, value in line.items() if not name.startswith("_")}
        assert sent == pytest.approx(rows[line["_step"]])


def test_wandb_has_the_results_and_the_report(run: Path) -> None:
    results = wandb_parts(run)[-1]
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    assert results.summary["summary/after"] == summary["after"]
    assert results.summary["report"] == str(run / "report.html")
    assert results.artifacts == {"report": ["report.html"]}


def test_tensorboard_has_each_step_once_under_the_same_names(run: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events: Any = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    rows = read_metrics(run / "metrics.jsonl")
    curves = {name for name in events.Tags()["scalars"] if not name.startswith("summary/")}
    assert curves == {name for row in rows for name in numbers_of(row)}
    assert [point.step for point in events.Scalars("loss")] == [1, 2, 3, 4]
    assert [point.value for point in events.Scalars("grad_norm")] == pytest.approx([row["grad_norm"] for row in rows])
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    assert [(p.step, p.value) for p in events.Scalars("summary/after")] == [(4, pytest.approx(summary["after"]))]
