"""The batch scripts under a real Slurm: pre-emption, a node's failure, an ablation, two nodes, what is not repeated."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from horma_rl.ablation.config import AblationConfig
from horma_rl.cli import main
from horma_rl.config import load_config
from horma_rl.training.progress import read_metrics
from tests.conftest import REPOSITORY
from tests.slurm_cluster import SlurmCluster, missing_programs, until
from tests.training_parts import environment, run_config, same_weights

MISSING = missing_programs()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"no {', '.join(MISSING)}: apt-get install slurm-wlm munge"),
]
CONFIGS = sorted([*REPOSITORY.glob("configs/train/*.yaml"), *REPOSITORY.glob("configs/ablations/*.yaml")])
START = REPOSITORY / "data" / "models" / "tiny"
PATIENCE_S = 900
"""What a run may take on a machine that others use too; nothing here is about speed."""
ENDS = ("COMPLETED", "FAILED", "CANCELLED")


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with SlurmCluster(nodes=2) as running:
        yield running


def submit(cluster: SlurmCluster, config: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "scripts/submit.sh", str(config), *arguments],
        cwd=REPOSITORY, env={**environment(), **cluster.environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def submitted(cluster: SlurmCluster, config: Path, *arguments: str) -> dict[str, Any]:
    """What `scripts/submit.sh` said of the job."""
    done = submit(cluster, config, *arguments)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def batch(cluster: SlurmCluster, folder: Path, command: str, requeues: int = 1) -> tuple[str, Path]:
    """A job of one step under `slurm/steps.sh`, and its log."""
    log, script = folder / "log.txt", folder / "job.sh"
    script.write_text(
        f"#!/bin/bash\n#SBATCH --output={log} --open-mode=append --requeue --signal=B:USR1@30 --time=10\n"
        f"cd {shlex.quote(str(REPOSITORY))}\nmax_requeues={requeues}\nsource slurm/steps.sh\n"
        f"step {command}\necho went on\n"
    )
    return cluster.call("sbatch", "--parsable", str(script)), log


def steps_done(run: Path) -> int:
    return len(read_metrics(run / "metrics.jsonl"))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_slurm_accepts_the_script_of_every_config(
    config: Path, cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from horma_rl import slurm

    monkeypatch.chdir(REPOSITORY)
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    assert slurm.main([str(config), "--test-only"]) == 0
    assert "to start at" in capfd.readouterr().err


def test_a_run_survives_a_dead_node_and_a_pre_emption(cluster: SlurmCluster, tmp_path: Path) -> None:
    config = run_config(tmp_path, START, grpo={"max_steps": 24, "save_steps": 1000})
    run = tmp_path / "runs" / "run"
    told = submitted(cluster, config, "--time=30", "--preflight=400", "--sbatch=--nodelist=n1")
    job, log = told["job"], Path(told["log"])

    until(lambda: log.is_file() and "preflight of run" in log.read_text(), PATIENCE_S, lambda: cluster.state(job))
    cluster.call("scontrol", "update", "NodeName=n1", "State=DOWN", "Reason=test")
    until(lambda: cluster.field(job, "Restarts") == "1", 60, lambda: cluster.state(job))
    cluster.call("scontrol", "update", "NodeName=n1", "State=RESUME", check=False)  # it may be back by itself

    until(lambda: steps_done(run) >= 2, PATIENCE_S, lambda: log.read_text()[-2000:])
    taking = ["--partition=urgent", "--nodelist=n1", "--exclusive", "--output=/dev/null", "--wrap=true"]
    cluster.wait(cluster.call("sbatch", "--parsable", *taking), "COMPLETED", PATIENCE_S)
    stopped_at = steps_done(run)
    cluster.wait(job, ENDS, PATIENCE_S)

    text = log.read_text()
    assert cluster.state(job) == "COMPLETED", text
    assert cluster.field(job, "Restarts") == "2"
    assert text.count("fit (") == 2
    assert "a signal of the cluster: stopping after the step in progress" in text
    assert "stopped; queued again (2 of at most 20)" in text
    assert stopped_at < 24
    assert f"resuming from {run / 'checkpoints' / f'checkpoint-{stopped_at}'}" in text
    assert (run / "summary.json").is_file()

    assert main(["train", str(config), "name=undisturbed"]) == 0
    assert same_weights(run / "model", tmp_path / "runs" / "undisturbed" / "model")
    assert not same_weights(run / "model", START)


def test_an_ablation_is_an_array(cluster: SlurmCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = run_config(tmp_path, START, evaluation={"limit": 2})
    cells = {"low": {"grpo": {"learning_rate": 0.0}}, "high": {"grpo": {"learning_rate": 1e-3}}}
    path = tmp_path / "ablation.yaml"
    path.write_text(
        yaml.safe_dump({"name": "rate", "question": "?", "base": str(base), "reference": "low", "cells": cells})
    )
    told = submitted(cluster, path, "--time=30")
    job = told["job"]
    until(lambda: set(cluster.state(job).split(",")) <= set(ENDS), PATIENCE_S, lambda: cluster.state(job))
    logs = "\n".join(log.read_text() for log in sorted(Path(told["log"]).parent.glob("*.out")))
    assert cluster.state(job) == "COMPLETED,COMPLETED", logs
    runs = {cell: tmp_path / "runs" / f"rate-{cell}-s0" for cell in cells}
    assert all(steps_done(run) == 2 for run in runs.values())
    assert same_weights(runs["low"] / "model", START)
    assert not same_weights(runs["high"] / "model", START)
    (frozen,) = Path(told["log"]).parent.glob("config-*.yaml")
    assert load_config(frozen, [], AblationConfig).cells == cells
    assert main(["ablate", str(path), "--table"]) == 0
    assert "low" in capsys.readouterr().err


def test_an_evaluation_of_agents_is_an_array_that_survives_a_signal(cluster: SlurmCluster, tmp_path: Path) -> None:
    suite = {"name": "interdependent", "options": {"kind": "bundle", "size": 12, "tasks": 30}}
    config = {"kind": "agent", "name": "array", "suite": suite, "concurrency": 1, "systems": {"full": {}}}
    path, shards, whole = tmp_path / "agents.yaml", tmp_path / "shards", tmp_path / "whole"
    path.write_text(yaml.safe_dump({**config, "out": str(shards)}))
    told = submitted(cluster, path, "--shards=2", "--time=30", "--lead=10")
    job, first = told["job"], shards / "rows.1-of-2.jsonl"
    until(lambda: first.is_file() and b"\n" in first.read_bytes(), PATIENCE_S, lambda: cluster.state(job))
    cluster.call("scancel", "--batch", "--signal=USR1", f"{job}_0")
    cluster.wait(job, ENDS, PATIENCE_S)

    logs = "\n".join(log.read_text() for log in sorted(Path(told["log"]).parent.glob("*.out")))
    assert cluster.state(job) == "COMPLETED,COMPLETED", logs
    assert logs.count("stopped; queued again (1 of at most 20)") == 1
    tasks = [json.loads(line)["task"] for rows in shards.glob("rows.*.jsonl") for line in rows.open()]
    assert len(tasks) == len(set(tasks)) == 30
    assert main(["eval", str(path)]) == 0
    assert main(["eval", str(path), f"out={whole}"]) == 0
    by_shards, at_once = (json.loads((folder / "summary.json").read_text()) for folder in (shards, whole))
    assert by_shards["systems"]["full"]["success"] == at_once["systems"]["full"]["success"]
    assert by_shards["systems"]["full"]["tokens"] == at_once["systems"]["full"]["tokens"]


def test_two_nodes_train_together_and_stop_together(cluster: SlurmCluster, tmp_path: Path) -> None:
    grpo = {"gradient_accumulation_steps": 1, "max_steps": 12, "save_steps": 1000}
    config = run_config(tmp_path, START, grpo=grpo, launch={"processes": 1, "nodes": 2}, evaluation={"limit": 2})
    told = submitted(cluster, config, "--time=30", "--preflight=400")
    job, log = told["job"], Path(told["log"])
    run = tmp_path / "runs" / "run"
    until(lambda: steps_done(run) >= 1, PATIENCE_S, lambda: log.read_text()[-2000:])
    cluster.call("scancel", "--batch", "--signal=USR1", job)
    until(lambda: cluster.field(job, "Restarts") == "1", PATIENCE_S, log.read_text)
    stopped_at = steps_done(run)
    cluster.wait(job, ENDS, PATIENCE_S)
    text = log.read_text()
    assert cluster.state(job) == "COMPLETED", text
    assert stopped_at < 12
    assert f"resuming from {run / 'checkpoints' / f'checkpoint-{stopped_at}'}" in text
    assert text.count("fit (") == 4
    assert text.count("2 nodes see each other's files") == 4
    assert "gloo, 2 processes on 2 nodes" in text
    assert "DDP, 2 processes" in text
    assert json.loads((run / "summary.json").read_text())["steps"] == 12
    assert not same_weights(run / "model", START)
    assert not list((tmp_path / "runs").glob(".preflight*"))


@pytest.mark.parametrize("code", [1, 3])
def test_what_failed_is_not_repeated(code: int, cluster: SlurmCluster, tmp_path: Path) -> None:
    job, log = batch(cluster, tmp_path, f"bash -c 'exit {code}'")
    assert cluster.wait(job, ENDS, 30) == "FAILED"
    assert (cluster.field(job, "ExitCode"), cluster.field(job, "Restarts")) == (f"{code}:0", "0")
    assert "not queued again" in log.read_text()
    assert "went on" not in log.read_text()


def test_a_job_queues_itself_again_a_bounded_number_of_times(cluster: SlurmCluster, tmp_path: Path) -> None:
    job, log = batch(cluster, tmp_path, "bash -c 'exit 75'", requeues=1)
    until(lambda: cluster.state(job) == "FAILED", 60, log.read_text)
    assert cluster.field(job, "Restarts") == "1"
    assert log.read_text().count("stopped; queued again") == 1
    assert "the most allowed" in log.read_text()


def test_a_job_that_is_cancelled_stays_so(cluster: SlurmCluster, tmp_path: Path) -> None:
    job, log = batch(cluster, tmp_path, "bash -c 'trap \"sleep 1; exit 75\" USR1; sleep 60 & wait'")
    until(lambda: cluster.state(job) == "RUNNING" and log.is_file(), 30, lambda: cluster.state(job))
    cluster.call("scancel", "--batch", "--signal=TERM", job)
    cluster.call("scancel", job)
    until(lambda: "stopped by scancel" in log.read_text(), 20, log.read_text)
    assert cluster.wait(job, "CANCELLED", 20) == "CANCELLED"


def test_a_refusal_of_slurm_is_passed_on(cluster: SlurmCluster, tmp_path: Path) -> None:
    done = submit(cluster, run_config(tmp_path, START), "--partition=nosuch")
    assert done.returncode == 1
    assert "invalid partition" in done.stderr
    assert os.environ.get("SLURM_CONF") is None
