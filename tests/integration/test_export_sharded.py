"""Exports of checkpoints that several processes left in parts: DeepSpeed ZeRO-2 and ZeRO-3, and FSDP2, all real."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.conftest import REPOSITORY
from tests.export_parts import STEP, export, last_json, make_run
from tests.training_parts import environment, tiny_model, tokenizer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("deepspeed") is None or shutil.which("g++") is None,
        reason="needs DeepSpeed and g++: pip install deepspeed, apt-get install g++",
    ),
]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("start")
    tiny_model().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def parts(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes leave after a step under each engine; see `sharded_checkpoints`."""
    from horma_rl.training.extensions import cpu_extensions

    out = tmp_path_factory.mktemp("parts")
    env = environment(
        DS_ACCELERATOR="cpu", TORCH_EXTENSIONS_DIR=str(cpu_extensions()), PYTHONPATH=str(REPOSITORY)
    )  # fmt: skip
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1",
        "--nproc_per_node", "2", str(REPOSITORY / "tests" / "sharded_checkpoints.py"), str(start), str(out),
    ]  # fmt: skip
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return out


@pytest.mark.parametrize(("name", "kind"), [("zero2", "zero"), ("zero3", "zero"), ("fsdp", "fsdp")])
def test_weights_in_parts_are_put_together(
    name: str, kind: str, parts: Path, start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The export has, bit for bit, the weights that the engine itself gathered, and they are not those of the start."""
    run = make_run(tmp_path / "made", start, checkpoint=parts / name)
    out = tmp_path / "out"
    assert export(run, out, "--checkpoint", str(STEP), "--check") == 0
    result = last_json(capsys.readouterr().out)
    assert (result["kind"], result["check"]["same"]) == (kind, 20)
    exported, gathered, first = (
        load_file(path)
        for path in (out / "model.safetensors", parts / f"{name}.safetensors", start / "model.safetensors")
    )
    assert exported.keys() == gathered.keys() == first.keys()
    assert all(torch.equal(exported[key], gathered[key]) for key in gathered)
    assert not any(torch.equal(exported[key], first[key]) for key in first if "proj" in key)
    assert not [path for path in (run / "checkpoints").iterdir() if path.name.startswith(".")]


def test_a_part_that_is_missing_is_told(
    parts: Path, start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "made", start, checkpoint=parts / "zero3")
    next((run / "checkpoints").rglob("*rank_1*optim_states.pt")).unlink()
    assert export(run, tmp_path / "out", "--checkpoint", str(STEP)) == 2
    assert "optim_states.pt is missing): choose another --checkpoint" in capsys.readouterr().err
