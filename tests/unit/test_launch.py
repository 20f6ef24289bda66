"""The launch of several processes: what is asked for, what is refused, and how its end is told."""

from __future__ import annotations

import importlib.util
import json
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from horma_rl.cli import main
from horma_rl.config import load_config
from horma_rl.errors import UserError
from horma_rl.training.alarms import AlarmError
from horma_rl.training.config import TrainConfig
from horma_rl.training.engines import EngineCheck, check_shares, engine_in_force
from horma_rl.training.grpo_config import _process_defaults, grpo_args
from horma_rl.training.launch import _conclude, environment, meeting_point, settings_of
from horma_rl.training.launch_config import Engine, LaunchConfig, accelerate_config, engine_asked
from horma_rl.training.signals import Preempted
from tests.conftest import REPOSITORY

SHIPPED = REPOSITORY / "configs/accelerate"
ZERO2, ZERO3, FSDP2 = (SHIPPED / f"{name}.yaml" for name in ("zero2", "zero3", "fsdp2"))


@pytest.mark.parametrize(
    ("launch", "engine", "told"),
    [
        (LaunchConfig(), Engine("single"), "single"),
        (LaunchConfig(processes=2, nodes=2), Engine("DDP", 0, 4), "DDP, 4 processes"),
        (LaunchConfig(processes=2, config=ZERO2), Engine("ZeRO", 2, 2), "DeepSpeed ZeRO-2, 2 processes"),
        (LaunchConfig(processes=2, config=ZERO3), Engine("ZeRO", 3, 2), "DeepSpeed ZeRO-3, 2 processes"),
        (LaunchConfig(processes=4, config=FSDP2), Engine("FSDP2", 0, 4), "FSDP2, 4 processes"),
    ],
)  # fmt: skip
def test_the_engine_follows_from_the_config(launch: LaunchConfig, engine: Engine, told: str) -> None:
    assert engine_asked(launch) == engine
    assert str(engine) == told


ZERO = "distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: ds.json}\n"


@pytest.mark.parametrize(
    ("text", "zero", "message"),
    [
        ("distributed_type: MULTI_CPU\n", "", "distributed_type must be one of MULTI_GPU, DEEPSPEED, FSDP"),
        ("distributed_type: MULTI_GPU\nuse_cpu: true\n", "", "remove use_cpu"),
        ("distributed_type: DEEPSPEED\n", "", "must name a DeepSpeed config"),
        (ZERO, "", "no file ds.json"),
        (ZERO, '{"zero_optimization": {"stage": 0}}', "must be 1, 2 or 3, not 0"),
        (ZERO, '{"zero_optimization": {"stage": true}}', "must be 1, 2 or 3, not True"),
        (ZERO, '{"zero_optimization": {"stage": "2"}}', "must be 1, 2 or 3, not '2'"),
        (ZERO, '{"zero_optimization": 3}', "zero_optimization is 3: a mapping"),
        (ZERO.replace("ds.json", "5"), "", "must name a DeepSpeed config"),
        ("distributed_type: DEEPSPEED\ndeepspeed_config: [1]\n", "", r"deepspeed_config is \[1\]: a mapping"),
        ("distributed_type: FSDP\nfsdp_config: null\n", "", "fsdp_version must be 2"),
        ("distributed_type: FSDP\nfsdp_config: [2]\n", "", r"fsdp_config is \[2\]: a mapping"),
        (ZERO, "{", "cannot be read"),
        ("distributed_type: FSDP\nfsdp_config: {fsdp_version: 1}\n", "", "fsdp_version must be 2"),
        ("[1]", "", "a mapping"),
    ],
)
def test_an_accelerate_config_that_cannot_be_used_is_one_line(
    text: str, zero: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "launch.yaml"
    path.write_text(text)
    if zero:
        (tmp_path / "ds.json").write_text(zero)
    with pytest.raises(UserError, match=message) as error:
        engine_asked(LaunchConfig(processes=2, config=path))
    assert "\n" not in str(error.value)


def test_an_engine_for_one_process_is_refused() -> None:
    with pytest.raises(UserError, match=r"set launch\.processes"):
        engine_asked(LaunchConfig(config=ZERO2))


def test_the_numbers_of_the_run_replace_those_of_the_accelerate_config(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 2}}')
    (tmp_path / "a.yaml").write_text(f"{ZERO}num_processes: 64\nmixed_precision: fp16\n")
    found = settings_of(LaunchConfig(processes=2, nodes=3, config=tmp_path / "a.yaml"))
    assert (found["num_processes"], found["num_machines"], found["mixed_precision"]) == (6, 3, None)
    assert found["deepspeed_config"]["deepspeed_config_file"] == str(tmp_path / "ds.json")


def test_shipped_files_are_found_from_any_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    given = accelerate_config(Path("configs/accelerate/zero3.yaml"))
    assert Path(given["deepspeed_config"]["deepspeed_config_file"]).is_absolute()


def test_nodes_meet_where_slurm_says() -> None:
    launch = LaunchConfig(processes=4, nodes=2)
    there = {"SLURM_NODEID": "1", "MASTER_ADDR": "node-a", "MASTER_PORT": "29501"}
    assert meeting_point(launch, there) == (1, "node-a", 29501)
    assert meeting_point(launch, {**there, "NODE_RANK": "0"})[0] == 0
    for missing in there:
        with pytest.raises(UserError, match="set MASTER_ADDR and MASTER_PORT"):
            meeting_point(launch, {key: value for key, value in there.items() if key != missing})
    assert meeting_point(LaunchConfig(processes=2), there)[:2] == (0, "127.0.0.1")


def test_what_makes_accelerate_ignore_an_engine_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    env = environment(LaunchConfig(processes=2), threads=3)
    assert "ACCELERATE_USE_CPU" not in env
    assert env["OMP_NUM_THREADS"] == "3"


class Ignored:
    """A trainer of two processes whose DeepSpeed config was ignored."""

    is_deepspeed_enabled = is_fsdp_enabled = False
    accelerator = SimpleNamespace(num_processes=2)
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters())


def test_an_engine_that_is_ignored_ends_the_run() -> None:
    trainer: Any = Ignored()
    assert engine_in_force(trainer) == Engine("DDP", 0, 2)
    said: list[str] = []
    with pytest.raises(UserError, match="asks for DeepSpeed ZeRO-3, 2 processes, but DDP, 2 processes is in force"):
        EngineCheck(trainer, Engine("ZeRO", 3, 2), said.append).on_train_begin(None, None, None)
    EngineCheck(trainer, Engine("DDP", 0, 2), said.append).on_train_begin(None, None, None)
    assert said == ["engine: DDP, 2 processes; each holds 100% of the weights and 100% of the optimiser's state"]


@pytest.mark.parametrize(
    ("engine", "weights", "optimiser", "fault"),
    [
        (Engine("DDP", 0, 4), 1.0, 1.0, None),
        (Engine("ZeRO", 2, 4), 1.0, 0.25, None),
        (Engine("ZeRO", 2, 4), 1.0, 1.0, "optimiser"),
        (Engine("ZeRO", 3, 4), 0.26, 0.26, None),
        (Engine("ZeRO", 3, 4), 1.0, 0.25, "parameters"),
        (Engine("FSDP2", 0, 4), 0.25, 1.0, "optimiser"),
    ],
)
def test_an_engine_that_does_not_shard_ends_the_run(
    engine: Engine, weights: float, optimiser: float, fault: str | None
) -> None:
    if fault is None:
        check_shares(engine, weights, optimiser)
        return
    with pytest.raises(UserError, match=f"should shard the {fault}, but a process holds 100%"):
        check_shares(engine, weights, optimiser)


@pytest.mark.parametrize(
    ("outcome", "code", "sent", "raised"),
    [
        ({"finished": True}, 0, [], None),
        ({"finished": True}, 0, [15], None),  # the signal came too late to matter
        ({"signal": 15}, 0, [], Preempted),  # another node was told
        ({"signal": 2}, 0, [2], KeyboardInterrupt),
        (None, 1, [10], Preempted),
        ({"user_error": "x"}, 0, [], UserError),
        ({"alarm": "x"}, 0, [], AlarmError),
        (None, 1, [], OSError),
        (None, 0, [], OSError),
    ],
)
def test_how_the_processes_ended_is_raised_here(
    outcome: dict[str, Any] | None, code: int, sent: list[int], raised: type[BaseException] | None, tmp_path: Path
) -> None:
    path = tmp_path / "outcome.json"
    if outcome:
        path.write_text(json.dumps(outcome))
    if raised is None:
        _conclude(path, code, sent)
    else:
        with pytest.raises(raised):
            _conclude(path, code, sent)
    assert not path.exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has GPUs")
def test_fsdp_on_a_cpu_is_refused_before_anything_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = str(REPOSITORY / "configs/train/tiny_cpu.yaml")
    changed = ["launch.processes=2", f"launch.config={FSDP2}", f"runs={tmp_path}/runs"]
    assert main(["train", config, *changed]) == 2
    assert "FSDP2 needs GPUs" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
    assert main(["train", config, *changed, "--dry-run"]) == 0
    assert "this machine has no GPU: the run needs one" in capsys.readouterr().err


def test_a_run_on_several_nodes_is_started_by_stages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = [str(REPOSITORY / "configs/train/tiny_cpu.yaml"), "launch.nodes=2", f"runs={tmp_path}/runs"]
    assert main(["train", *config]) == 2
    assert "--stage prepare once" in capsys.readouterr().err
    assert main(["train", *config, "--stage", "evaluate"]) == 2
    assert "with --stage grpo first" in capsys.readouterr().err


def arguments(*changes: str) -> Any:
    """TRL's arguments of the default run with `changes`."""
    return grpo_args(load_config(REPOSITORY / "configs/train/tiny_cpu.yaml", changes, TrainConfig))


def test_the_time_of_a_step_is_shorter_than_the_others_wait() -> None:
    with pytest.raises(UserError, match=r"rollout_step_s must be below grpo\.ddp_timeout"):
        arguments("rollout_step_s=1800")
    assert arguments("rollout_step_s=1800", "grpo.ddp_timeout=3600").ddp_timeout == 3600


@pytest.mark.parametrize("name", ["gradient_checkpointing", "activation_checkpointing"])
def test_both_names_of_checkpointed_activations_are_taken_without_a_warning(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert arguments(f"grpo.{name}=true").activation_checkpointing


def test_a_process_of_deepspeed_on_a_cpu_is_not_told_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """accelerate would leave DeepSpeed out in silence. The starter itself runs without DeepSpeed."""
    config = TrainConfig(name="x", launch=LaunchConfig(processes=2, config=ZERO2))
    assert _process_defaults(config, on_gpu=True) == {}
    assert _process_defaults(config, on_gpu=False) == {}
    monkeypatch.setenv("LOCAL_RANK", "0")
    assert _process_defaults(config, on_gpu=False) == {"ddp_backend": "gloo", "use_cpu": True}
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    assert _process_defaults(config, on_gpu=False) == {"ddp_backend": "gloo", "use_cpu": False}


def test_a_launch_that_cannot_be_had_fails_the_dry_run(capsys: pytest.CaptureFixture[str]) -> None:
    config = str(REPOSITORY / "configs/train/tiny_cpu.yaml")
    assert main(["train", config, "launch.processes=2", "launch.config=nowhere.yaml", "--dry-run"]) == 2
    assert "no file at nowhere.yaml (launch.config)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["model=data/models/nope"], "no checkpoint folder at data/models/nope"),
        (["benchmark=locomoo"], "did you mean 'locomo'?"),
        (["options.trian=4"], "'trian': no such option (did you mean 'train'?)"),
        (["curriculum.order=rate", "curriculum.rates=/nope"], "curriculum.rates: no file at /nope"),
    ],
    ids=str,
)
def test_the_dry_run_finds_what_would_fail_on_any_machine(
    changes: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", str(REPOSITORY / "configs/train/tiny_cpu.yaml"), *changes, "--dry-run"]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert not shown.out


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed")
def test_the_dry_run_notes_that_vllm_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(REPOSITORY)
    assert main(["train", "configs/train/tiny_cpu.yaml", "grpo.use_vllm=true", "--dry-run"]) == 0
    assert "vLLM is not installed here: the run needs it" in capsys.readouterr().err
