"""What `scripts/submit.sh` writes into the templates of `slurm/`, and what it refuses."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from horma_rl.config import dump, load_config
from horma_rl.slurm import main, read_job
from horma_rl.training.config import TrainConfig
from tests.conftest import REPOSITORY

CONFIGS = sorted(REPOSITORY.glob("configs/train/*.yaml"))
TINY = REPOSITORY / "configs" / "train" / "tiny_cpu.yaml"


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    for name in ("SBATCH_PARTITION", "SBATCH_ACCOUNT", "SBATCH_QOS", "SBATCH_TIMELIMIT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    def dry_run(*arguments: str | Path) -> str:
        assert main([*map(str, arguments), "--dry-run"]) == 0
        return capsys.readouterr().out

    return dry_run


def directives(script: str) -> set[str]:
    return {word for line in script.splitlines() if line.startswith("#SBATCH ") for word in line.split()[1:]}


def bash_accepts(script: str) -> bool:
    return subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_train_config_fills_its_template(path: Path, printed: Any) -> None:
    script, config = printed(path), load_config(path, [], TrainConfig)
    assert "{{" not in script
    assert bash_accepts(script)
    assert directives(script) >= {
        f"--nodes={config.launch.nodes}", f"--job-name=horma-{config.name}", "--signal=B:USR1@120", "--requeue",
        "--open-mode=append", "--time=1-00:00:00", "--dependency=singleton",
    }  # fmt: skip
    gpus = {word for word in directives(script) if word.startswith("--gpus-per-node")}
    assert gpus == (set() if config.threads else {f"--gpus-per-node={config.launch.processes}"})
    assert f"cd {REPOSITORY}" in script
    assert "max_requeues=20\n" in script
    assert " preflight " in script
    assert script.count(" train ") == (3 if config.launch.nodes > 1 else 1)


def test_several_nodes_take_turns_in_stages(printed: Any) -> None:
    script = printed(TINY, "launch.nodes=2", "launch.processes=4", "threads=null")
    assert {"--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=4", "--cpus-per-task=32"} <= directives(script)
    stages = [line.split("--stage ")[1] for line in script.splitlines() if "--stage" in line]
    assert stages == ["prepare", "grpo", "evaluate"]


def test_an_ablation_is_an_array_of_its_runs(printed: Any) -> None:
    path = REPOSITORY / "configs" / "ablations" / "rl.yaml"
    script = printed(path, "seeds=[0,1,2,3]", "--at-once=3")
    assert {"--array=0-7%3", "--job-name=horma-rl", "--cpus-per-task=2"} <= directives(script)
    assert '--index "$SLURM_ARRAY_TASK_ID"' in script
    assert bash_accepts(script)


def test_options_come_from_flags_and_from_sbatchs_variables(printed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_PARTITION", "gpu")
    monkeypatch.setenv("SBATCH_ACCOUNT", "mine")
    monkeypatch.setenv("SBATCH_TIMELIMIT", "2:00:00")
    script = printed(TINY, "--account=ours", "--qos=high", "--gpus=1", "--cpus=5", "--lead=300", "--requeues=3",
                     "--sbatch=--mem=400G", "--sbatch=--constraint=h200")  # fmt: skip
    assert directives(script) >= {
        "--partition=gpu", "--account=ours", "--qos=high", "--time=2:00:00", "--gpus-per-node=1", "--cpus-per-task=5",
        "--signal=B:USR1@300", "--mem=400G", "--constraint=h200",
    }  # fmt: skip
    assert "max_requeues=3\n" in script


@pytest.mark.parametrize("time", ["90", "90:30", "2:00:00", "1-12", "1-12:30", "1-12:30:15", "UNLIMITED"])
def test_every_form_of_a_time_limit_is_taken(time: str, printed: Any) -> None:
    assert f"--time={time}" in directives(printed(TINY, f"--time={time}"))


def test_several_partitions_are_taken(printed: Any) -> None:
    assert "--partition=gpu-a,gpu.b" in directives(printed(TINY, "--partition=gpu-a,gpu.b"))


def test_a_folder_with_a_space_is_quoted(printed: Any, tmp_path: Path) -> None:
    script = printed(TINY, f"runs={tmp_path / 'my runs'}")
    assert re.search(rf"train '{tmp_path}/my runs/tiny_cpu/slurm/config-\w+.yaml'\n", script)
    assert bash_accepts(script)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["configs/train/tiny_cp.yaml"], "did you mean 'configs/train/tiny_cpu.yaml'"),
        (["configs/train/tiny_cpu.yaml", "nam=x"], "did you mean 'name'"),
        (["configs/train/tiny_cpu.yaml", "--gpus=-1"], "--gpus -1: give at least 0"),
        (["configs/train/tiny_cpu.yaml", "--requeues=-1"], "--requeues -1: give at least 0"),
        (["configs/train/tiny_cpu.yaml", "--partition=a b"], "remove the space"),
        (["configs/train/tiny_cpu.yaml", "--partition=a;b"], "--partition 'a;b': give a plain name"),
        (["configs/train/tiny_cpu.yaml", "--account=$(id)"], "--account '$(id)': give a plain name"),
        (["configs/train/tiny_cpu.yaml", "--qos=-x"], "--qos '-x': give a plain name"),
        (["configs/train/tiny_cpu.yaml", "--time=banana"], "--time 'banana': give minutes"),
        (["configs/train/tiny_cpu.yaml", "--time="], "--time '': give minutes"),
        (["configs/train/tiny_cpu.yaml", "--time=1:2:3:4"], "--time '1:2:3:4': give minutes"),
        (["configs/train/tiny_cpu.yaml", "--time=-5"], "--time '-5': give minutes"),
        (["configs/ablations/rl.yaml", "common.launch.nodes=2"], "an ablation's run gets one"),
    ],
)
def test_what_is_at_fault_is_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert told.err.count("\n") == 1
    assert message in told.err
    assert told.out == ""


def test_without_slurm_it_says_so_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main([str(TINY), f"runs={tmp_path}"]) == 2
    assert "there is no sbatch here" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_another_run_has_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken = tmp_path / "tiny_cpu"
    taken.mkdir()
    config = load_config(TINY, [f"runs={tmp_path}", "seed=1"], TrainConfig)
    (taken / "config.yaml").write_text(dump(config))
    assert main([str(TINY), f"runs={tmp_path}"]) == 2
    assert "choose another name" in capsys.readouterr().err
    assert read_job(TINY, [f"runs={tmp_path}", "seed=1"]).name == "horma-tiny_cpu"


def test_what_is_submitted_is_kept_with_its_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stand-in for sbatch notes what it was given; tests/integration/test_slurm_jobs.py has the real one."""
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.parent.mkdir()
    sbatch.write_text(
        f"#!/bin/bash\n/bin/cat >{tmp_path}/given\nenv | grep SBATCH_ >{tmp_path}/env\necho '17;cluster'\n"
    )
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sbatch.parent}:/usr/bin:/bin")
    monkeypatch.setenv("SBATCH_PARTITION", "gpu")
    assert main([str(TINY), f"runs={tmp_path}/runs", "seed=4", "--partition=cpu"]) == 0
    told = json.loads(capsys.readouterr().out)
    folder = tmp_path / "runs" / "tiny_cpu" / "slurm"
    assert told == {"job": "17", "name": "horma-tiny_cpu", "log": str(folder / "17.out")}
    given = (tmp_path / "given").read_text()
    assert given == (folder / "train.sbatch").read_text()
    assert "--partition=cpu" in directives(given)
    assert (tmp_path / "env").read_text() == "", "a variable would count for more than the flag"
    (frozen,) = folder.glob("config-*.yaml")
    assert f"train {frozen}\n" in given
    assert load_config(frozen, [], TrainConfig).seed == 4
