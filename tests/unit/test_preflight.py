"""The checks of a preflight on what they find: sound and faulty machines, disks, models and releases."""

from __future__ import annotations

import errno
import json
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from horma_rl.cli import main
from horma_rl.config import load_config
from horma_rl.preflight import disk
from horma_rl.preflight import run as preflight_run
from horma_rl.preflight.check import ChildError, Found, bounded, children
from horma_rl.preflight.collective import check_collective
from horma_rl.preflight.gpus import Gpu, check_gpus, judge, parse, visible
from horma_rl.preflight.model import check_model
from horma_rl.preflight.node import Node
from horma_rl.preflight.rollout import check_rollout
from horma_rl.preflight.versions import check_versions, conflicts
from horma_rl.training.config import TrainConfig
from tests.conftest import REPOSITORY

TINY = REPOSITORY / "data" / "models" / "tiny"
SMI = """0, GPU-aaa, NVIDIA H200, 143771, 4, 0
1, GPU-bbb, NVIDIA H200, 143771, 4, 0
2, GPU-ccc, NVIDIA H200, 143771, 4, [N/A]
"""


def config(folder: Path, *overrides: str) -> TrainConfig:
    path = REPOSITORY / "configs" / "train" / "tiny_cpu.yaml"
    return load_config(path, [f"runs={folder}/runs", f"model={TINY}", *overrides], TrainConfig)


def node(rank: int = 0, nodes: int = 1) -> Node:
    return Node(rank, nodes, f"n{rank}", "7-0", "127.0.0.1", 0)


def test_nvidia_smi_is_read() -> None:
    gpus = parse(SMI)
    assert [(gpu.index, gpu.uuid, gpu.total, gpu.ecc) for gpu in gpus] == [
        ("0", "GPU-aaa", 143771.0, 0), ("1", "GPU-bbb", 143771.0, 0), ("2", "GPU-ccc", 143771.0, None),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="Unable to determine"):
        parse("Unable to determine the device handle")


@pytest.mark.parametrize(("devices", "left"), [(None, "012"), ("0,2", "02"), ("GPU-b", "1"), ("", "")])
def test_only_visible_gpus_count(devices: str | None, left: str) -> None:
    assert "".join(gpu.index for gpu in visible(parse(SMI), devices)) == left


def test_the_verdict_on_gpus_names_what_is_wrong() -> None:
    good = parse(SMI)
    assert judge(good, 3, "") == Found("ok", "3 x NVIDIA H200, 140 GiB, idle, no memory errors")
    assert judge(good, 4, "").result == "fail"
    broken = Gpu("0", "GPU-aaa", "NVIDIA H200", 143771, 4, 2)
    assert "GPU 0: 2" in judge([broken], 1, "").figure
    busy = Gpu("1", "GPU-bbb", "NVIDIA H200", 143771, 90000, 0)
    found = judge([good[0], busy], 2, "GPU-aaa, 1, mine, 4\nGPU-bbb, 4711, python, 89996")
    assert found.result == "fail"
    assert found.figure == "memory in use: GPU 1: 90,000 MiB of python (process 4711)"


def test_gpus_are_wanted_but_for_runs_on_cpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_gpus(0).result == "skip"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert check_gpus(1).figure == "nvidia-smi is not here"
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\ncase $1 in *compute*) ;; *) printf '%s' '{SMI}' ;; esac\n")
    smi.chmod(0o755)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2")
    assert check_gpus(2).result == "ok"
    assert check_gpus(3).figure == "2 GPUs, 3 needed"


def test_room_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = disk.check_space(config(tmp_path))
    assert found.result == "ok"
    assert "3 checkpoints of 45.2 MB" in found.figure
    usage = type("Usage", (), {"free": 10**9})
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    assert disk.check_space(config(tmp_path)).result == "fail"


def test_adapters_take_less_room_than_whole_checkpoints(tmp_path: Path) -> None:
    whole, weights = disk.checkpoint_bytes(config(tmp_path))
    adapters, same = disk.checkpoint_bytes(config(tmp_path, "lora.rank=4"))
    assert whole == 4 * weights
    assert (adapters < weights / 4, same) == (True, weights)


def test_the_disk_is_tried_and_left_as_it_was(tmp_path: Path) -> None:
    given = config(tmp_path)
    assert disk.check_speed(given, node()).result == "ok"
    disk.clean_up(given, node())
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_full_disk_is_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(disk.os, "fsync", full)
    given = config(tmp_path)
    with pytest.raises(OSError, match="No space left"):
        disk.check_speed(given, node())
    disk.clean_up(given, node())
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_preflight_that_is_stopped_cleans_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = config(tmp_path)
    monkeypatch.setattr(preflight_run, "check_gpus", lambda gpus: Found("ok", ""))
    monkeypatch.setattr(preflight_run.Node, "here", node)
    checks = preflight_run.preflight(given, tmp_path / "config.yaml")
    next(checks)
    folder = tmp_path / "runs" / ".preflight-7-0"
    folder.mkdir(parents=True)
    (folder / "node-0").write_text("n0")
    checks.close()
    assert not folder.exists()


def test_a_slow_disk_is_told_with_the_time_that_a_checkpoint_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "checkpoint_bytes", lambda config: (10**15, 10**14))
    found = disk.check_speed(config(tmp_path), node())
    assert found.result == "warn"
    assert "--lead" in found.advice


def test_a_read_only_disk_fails(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file in the way")
    found = bounded("disk", 5, lambda: disk.check_speed(config(tmp_path), node()), "look at the disk")
    assert (found.result, found.advice) == ("fail", "look at the disk")


def test_nodes_find_each_other_on_a_shared_disk_only(tmp_path: Path) -> None:
    given = config(tmp_path)
    assert disk.check_shared(given, node(), 1).result == "skip"
    alone = disk.check_shared(given, node(0, 2), 0)
    assert (alone.result, "1 of 2 nodes" in alone.figure) == ("fail", True)
    other = threading.Thread(target=disk.check_shared, args=(given, node(1, 2), 10))
    other.start()
    assert disk.check_shared(given, node(0, 2), 10).result == "ok"
    other.join()
    for rank in (0, 1):
        disk.clean_up(given, node(rank, 2))
    assert list((tmp_path / "runs").iterdir()) == []


def test_the_model_is_read(tmp_path: Path) -> None:
    assert "46 tensors in 1 files" in check_model(config(tmp_path)).figure
    copy = tmp_path / "model"
    shutil.copytree(TINY, copy)
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert bounded("model", 9, lambda: check_model(config(tmp_path, f"model={copy}")), "copy").result == "fail"
    weights.rename(copy / "other.bin")
    assert "lacks model.safetensors" in check_model(config(tmp_path, f"model={copy}")).figure
    (copy / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "one", "b": "two"}}))
    assert "lacks one, two" in check_model(config(tmp_path, f"model={copy}")).figure
    (copy / "tokenizer.json").unlink()
    assert "no tokenizer" in check_model(config(tmp_path, f"model={copy}")).figure


def test_a_model_of_the_hub_has_to_be_there_already_when_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = config(tmp_path, "model=nobody/nothing")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert check_model(given).result == "fail"
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert check_model(given).result == "warn"


def test_releases_that_do_not_go_together_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_versions(config(tmp_path)).result == "ok"
    monkeypatch.setattr("horma_rl.preflight.versions.version", {"torch": "2.13.0", "transformers": "4.0.0"}.get)
    assert conflicts("horma-rl", ["torch"]) == []
    (told,) = conflicts("horma-rl", ["torch", "transformers"])
    assert told.startswith("horma-rl wants transformers")
    assert told.endswith("not 4.0.0")
    monkeypatch.setattr("horma_rl.preflight.versions.version", {"vllm": "0.33.0"}.get)
    assert "trl wants vllm" in conflicts("trl", ["vllm"])[0]
    assert "vllm missing" not in check_versions(config(tmp_path, "grpo.use_vllm=true")).figure
    monkeypatch.setattr("horma_rl.preflight.versions.version", {"torch": "2.13.0"}.get)
    found = check_versions(config(tmp_path, "grpo.use_vllm=true"))
    assert (found.result, "vllm" in found.advice) == ("fail", True)


def test_a_check_that_hangs_is_given_up() -> None:
    found = bounded("hung", 0.2, lambda: Found("ok", str(threading.Event().wait(30))), "unplug it")
    assert (found.result, found.advice) == ("fail", "unplug it")
    assert "no answer within" in found.figure


def test_processes_of_a_check_are_ended_with_it(tmp_path: Path) -> None:
    module = tmp_path / "child.py"
    module.write_text("import sys, time\nif sys.argv[1] == 'die': sys.exit('the reason')\ntime.sleep(60)\n")
    environment: dict[str, Any] = {"PYTHONPATH": str(tmp_path)}
    started = time.monotonic()
    with pytest.raises(ChildError, match="the reason"):
        children([(["child", "die"], environment), (["child", "wait"], environment)], 40)
    with pytest.raises(ChildError, match="no answer within"):
        children([(["child", "wait"], environment)], 0.5)
    assert time.monotonic() - started < 60


def test_one_process_has_nothing_to_reduce() -> None:
    assert check_collective(node(), 1, gpus=False, seconds=1).result == "skip"


def test_the_node_is_read_from_the_job_step() -> None:
    alone = Node.here({})
    assert (alone.rank, alone.nodes, alone.address) == (0, 1, "127.0.0.1")
    step = {"SLURM_NODEID": "1", "SLURM_STEP_NUM_NODES": "2", "SLURM_JOB_ID": "9", "SLURMD_NODENAME": "n2",
            "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "20009", "SLURM_RESTART_COUNT": "3"}  # fmt: skip
    assert Node.here(step) == Node(1, 2, "n2", "9-3", "10.0.0.1", 20009)
    # Within an allocation of several nodes, but outside srun or in a step on one node: this node alone.
    assert Node.here({**step, "SLURM_STEP_NUM_NODES": "1"}).nodes == 1


def test_a_vllm_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    server = ["grpo.use_vllm=true", "grpo.vllm_mode=server", "grpo.vllm_server_base_url=http://127.0.0.1:9"]
    found = check_rollout(config(tmp_path, *server), tmp_path / "unused", 5)
    assert (found.result, "http://127.0.0.1:9" in found.figure) == ("fail", True)


def test_the_limit_has_to_leave_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preflight", str(REPOSITORY / "configs" / "train" / "tiny_cpu.yaml"), "--limit=0"]) == 2
    assert "at least 1 second" in capsys.readouterr().err
