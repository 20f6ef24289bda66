"""Two processes on a CPU, under DDP and for real under DeepSpeed ZeRO-2 and ZeRO-3."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from horma_rl.training.launch import command, environment, meeting_point, settings_of
from horma_rl.training.launch_config import LaunchConfig, engine_asked
from memory_shell.cache import WorkspaceCache
from tests.conftest import REPOSITORY
from tests.distributed_parts import LOSSES, SHARDED_LOSSES, STEPS, moved
from tests.training_parts import memory, tiny_model, tokenizer

CONFIGS = {"DDP": None, "ZeRO-2": "zero2", "ZeRO-3": "zero3"}
has_deepspeed = importlib.util.find_spec("deepspeed") is not None and shutil.which("g++") is not None
needs_deepspeed = pytest.mark.skipif(
    not has_deepspeed, reason="DeepSpeed is not installed, or no g++ to compile for it"
)
ENGINES = [pytest.param(name, marks=[] if name == "DDP" else needs_deepspeed) for name in CONFIGS]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint and workspaces."""
    folder = tmp_path_factory.mktemp("world")
    memory(folder / "memory")
    tiny_model().save_pretrained(folder / "model")
    tokenizer().save_pretrained(folder / "model")
    return folder


Ran = Callable[[str], Path]


@pytest.fixture(scope="module")
def ran(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A function that runs both processes of an engine, once, and gives the folder of what they found."""

    @cache
    def run(engine: str) -> Path:
        out = tmp_path_factory.mktemp(engine)
        name = CONFIGS[engine]
        launch = LaunchConfig(
            processes=2, config=REPOSITORY / f"configs/accelerate/{name}.yaml" if name else None
        )  # fmt: skip
        asked = engine_asked(launch)
        settings = out / "accelerate.yaml"
        settings.write_text(yaml.safe_dump(settings_of(launch)))
        start = command(launch, settings, meeting_point(launch), bf16=False)
        start += ["-m", "tests.distributed_worker", str(world), str(out), asked.kind, str(asked.stage)]
        env = {**environment(launch, threads=1), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        done = subprocess.run(
            start, env=env, cwd=REPOSITORY, capture_output=True, text=True, timeout=900, check=False
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-6000:]
        return out

    return run


@pytest.fixture(scope="module")
def alone(
    world: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[dict[str, torch.Tensor], float]]:
    """A function that gives the gradient of one process with all eight episodes, and its norm."""
    folder = tmp_path_factory.mktemp("alone")
    return cache(lambda loss: moved(world / "model", WorkspaceCache(world / "memory"), folder, 1, loss))


def found(out: Path) -> list[dict[str, Any]]:
    """What each process wrote."""
    return [json.loads((out / f"rank{rank}.json").read_text()) for rank in (0, 1)]


def apart(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> float:
    """The distance of two gradients as a share of their length."""
    one, two = (torch.cat([g[name].flatten() for name in sorted(first)]) for g in (first, second))
    return float((one - two).norm() / one.norm())


CASES = [
    pytest.param(engine, loss, marks=[] if engine == "DDP" else needs_deepspeed)
    for engine in CONFIGS
    for loss in [*(LOSSES if engine == "DDP" else SHARDED_LOSSES), "dapo one by one"]
]


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "loss"), CASES)
def test_two_processes_with_four_episodes_are_one_with_eight(engine: str, loss: str, ran: Ran, alone: Any) -> None:
    """Whole gradients, and their norms; one by one: in four micro-batches of one episode in each process."""
    whole, norm = alone(loss.removesuffix(" one by one"))
    shared = load_file(ran(engine) / f"{loss}.safetensors")
    assert whole.keys() == shared.keys()
    assert norm > 1e-4
    assert apart(whole, shared) < 1e-4
    assert [process["norms"][loss] for process in found(ran(engine))] == pytest.approx([norm, norm], rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_uneven_idle_and_dying_episodes_hold_nobody_up(engine: str, ran: Ran) -> None:
    first, second = found(ran(engine))
    assert [max(turns) for turns in first["turns"]] == [1, 0, 1]
    assert [max(turns) for turns in second["turns"]] == [4, 4, 4]
    assert second["turns"][2] == [4, 4, 2, 4]  # one died in its second turn
    assert len(first["log"]) == len(STEPS)
    assert [row["rollout/unscored"] for row in first["log"]] == [0, 0.5, 1 / 8]
    assert all(row["grad_norm"] > 0 for row in first["log"])
    for one, two in zip(first["log"], second["log"], strict=True):
        same = {name for name in one if name.startswith("rollout/")} | {"reward", "grad_norm", "loss"}
        assert {name: one[name] for name in same} == {name: two[name] for name in same}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_the_engine_is_the_one_asked_for(engine: str, ran: Ran) -> None:
    for process in found(ran(engine)):
        weights, optimised = process["shares"]
        assert process["deepspeed"] == (engine != "DDP")
        assert weights == pytest.approx(0.5 if engine == "ZeRO-3" else 1.0, abs=0.01)
        assert optimised == pytest.approx(1.0 if engine == "DDP" else 0.5, abs=0.01)
        assert engine in process["said"][0]
        assert "2 processes" in process["said"][0]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_nan_in_one_process_moves_no_weight(engine: str, ran: Ran) -> None:
    first, second = (process["nan"] for process in found(ran(engine)))
    assert first["nonfinite"] == second["nonfinite"] == [0.0, 1.0, 0.0]
    assert first["moved"] == [False, True]
    assert first["finite"]


@needs_deepspeed
@pytest.mark.slow
@pytest.mark.parametrize("engine", ["ZeRO-2", "ZeRO-3"])
def test_a_sharded_run_resumes_exactly(engine: str, ran: Ran) -> None:
    assert [process["resumed"] for process in found(ran(engine))] == [True, True]


@pytest.mark.slow
def test_fsdp_weights_stay_whole_over_uneven_rollouts(ran: Ran) -> None:
    for process in found(ran("DDP")):
        assert process["fsdp"]["before"] == pytest.approx(0.5, abs=0.05)
        assert process["fsdp"]["after"] == process["fsdp"]["before"]
        assert process["fsdp"]["differs"] < 1e-5
        assert process["fsdp"]["gradients"]
