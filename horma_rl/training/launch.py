"""Starts the processes of GRPO through `accelerate launch`, and passes signals on to them.

The processes run in a session of their own, so that Ctrl-C on the terminal reaches this process alone. What starts them
(torch's elastic agent) ends them when it gets a signal, before they could save; so signals go to the processes
themselves. Each node's first process leaves in a file how its part ended.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
import torch
import yaml

from horma_rl.errors import UserError
from horma_rl.training.alarms import AlarmError
from horma_rl.training.config import TrainConfig
from horma_rl.training.launch_config import LaunchConfig, accelerate_config, engine_asked
from horma_rl.training.signals import CLUSTER_SIGNALS, STOP_SIGNALS, interruption

WORKER = "horma_rl.training.worker"
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def launch(config: TrainConfig, bf16: bool, say: Callable[[str], None]) -> int:
    """Run GRPO in this node's share of `config.launch`'s processes; returns the node's number when they have finished.

    Raises:
        UserError: this node does not know where the processes meet, or one of them found the config at fault.
        KeyboardInterrupt: stopped by a signal, after the state was saved.
        AlarmError: an alarm stopped the training.
        OSError: a process failed; what it said is on standard error.
    """
    node, address, port = meeting_point(config.launch)
    outcome = outcome_path(config.run_dir, node)
    outcome.unlink(missing_ok=True)
    settings = config.run_dir / f".accelerate.{node}.yaml"
    settings.write_text(yaml.safe_dump(settings_of(config.launch)), encoding="utf-8")
    start = command(config.launch, settings, (node, address, port), bf16)
    start += ["-m", WORKER, str(config.run_dir / "config.yaml"), str(outcome)]
    say(f"starting {engine_asked(config.launch)}" + (f", node {node}" if config.launch.nodes > 1 else ""))
    agent = subprocess.Popen(start, env=environment(config.launch, config.threads), start_new_session=True)
    with _forwarding(agent.pid) as sent:
        code = agent.wait()
    settings.unlink(missing_ok=True)
    _conclude(outcome, code, sent)
    return node


def meeting_point(launch: LaunchConfig, environ: Mapping[str, str] = os.environ) -> tuple[int, str, int]:
    """This node's number, and the address and port where the processes meet. Raises UserError when they are not set."""
    if launch.nodes == 1:
        return 0, "127.0.0.1", _free_port()
    try:
        node = int(environ.get("NODE_RANK") or environ["SLURM_NODEID"])
        return node, environ["MASTER_ADDR"], int(environ["MASTER_PORT"])
    except (KeyError, ValueError) as error:
        raise UserError(
            f"launch.nodes={launch.nodes}: on every node set MASTER_ADDR and MASTER_PORT, and NODE_RANK where Slurm "
            f"does not set SLURM_NODEID ({error})"
        ) from None


def check_machine(launch: LaunchConfig) -> None:
    """Raise UserError when this machine cannot run the engine, or has fewer GPUs than processes."""
    engine = engine_asked(launch)
    on_gpu = torch.cuda.is_available()
    if engine.kind == "FSDP2" and not on_gpu:
        raise UserError("launch.config: FSDP2 needs GPUs: on a CPU accelerate trains unsharded; use DDP or ZeRO here")
    if on_gpu and torch.cuda.device_count() < launch.processes:
        raise UserError(f"launch.processes={launch.processes}, but this machine has {torch.cuda.device_count()} GPUs")
    if engine.kind == "ZeRO" and importlib.util.find_spec("deepspeed") is None:
        raise UserError("launch.config asks for DeepSpeed: pip install 'horma-rl[deepspeed]'")


def command(launch: LaunchConfig, settings: Path, meeting: tuple[int, str, int], bf16: bool) -> list[str]:
    """The command that starts this node's processes, up to the module that each of them runs."""
    node, address, port = meeting
    return [
        sys.executable, "-m", "horma_rl.training.launch", "--config_file", str(settings),
        "--num_processes", str(launch.world_size), "--num_machines", str(launch.nodes), "--machine_rank", str(node),
        "--main_process_ip", address, "--main_process_port", str(port),
        "--mixed_precision", "bf16" if bf16 else "no", "--dynamo_backend", "no",
    ]  # fmt: skip


def settings_of(launch: LaunchConfig) -> dict[str, Any]:
    """The accelerate config that the processes are started with: the one given, with this program's numbers."""
    given = accelerate_config(launch.config) if launch.config else {"distributed_type": "MULTI_GPU"}
    numbers = {"num_processes": launch.world_size, "num_machines": launch.nodes, "machine_rank": 0}
    fixed = {"compute_environment": "LOCAL_MACHINE", "mixed_precision": None, "gpu_ids": None, "use_cpu": False}
    return {**given, **numbers, **fixed}


def environment(launch: LaunchConfig, threads: int | None = None) -> dict[str, str]:
    """The environment of the processes. On a CPU their threads share the cores, and DeepSpeed is told of the CPU."""
    share = max(1, (os.cpu_count() or 1) // launch.processes)
    env = {"OMP_NUM_THREADS": str(threads or share), **os.environ}
    for name in ("ACCELERATE_USE_CPU", "ACCELERATE_MIXED_PRECISION"):
        env.pop(name, None)  # left by this process's own trainer arguments
    if torch.cuda.is_available():
        return env
    env["DS_ACCELERATOR"] = "cpu"
    if engine_asked(launch).kind == "ZeRO":
        from horma_rl.training.extensions import cpu_extensions

        env["TORCH_EXTENSIONS_DIR"] = str(cpu_extensions())
    return env


def outcome_path(run_dir: Path, node: int) -> Path:
    """Where a node's first process writes how GRPO ended."""
    return run_dir / f".outcome.{node}.json"


def die_with_parent() -> None:
    """Let this process be killed when its parent dies: no GPU may stay taken by what nobody waits for (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def workers_of(agent: int) -> list[psutil.Process]:
    """The processes of GRPO that `agent` (a process id) has started, and that still run."""
    try:
        return [child for child in psutil.Process(agent).children(recursive=True) if _is_worker(child)]
    except psutil.NoSuchProcess:
        return []


def _is_worker(process: psutil.Process) -> bool:
    try:
        return WORKER in process.cmdline()
    except psutil.Error:  # ended meanwhile
        return False


@contextmanager
def _forwarding(agent: int) -> Iterator[list[int]]:
    """Pass stop signals on to the processes; the list holds those that came. Before there are any, end the agent."""
    sent: list[int] = []

    def forward(number: int, frame: FrameType | None) -> None:
        sent.append(number)
        workers = workers_of(agent)
        for worker in workers:
            with suppress(psutil.NoSuchProcess):
                worker.send_signal(number)
        if not workers:
            with suppress(ProcessLookupError):
                os.kill(agent, signal.SIGKILL)

    before = {number: signal.signal(number, forward) for number in STOP_SIGNALS}
    try:
        yield sent
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _conclude(outcome: Path, code: int, sent: list[int]) -> None:
    """Return when GRPO finished, else raise what its processes ended with."""
    found: dict[str, Any] = json.loads(outcome.read_text(encoding="utf-8")) if outcome.is_file() else {}
    outcome.unlink(missing_ok=True)
    if "signal" in found or (sent and "finished" not in found):
        raise interruption(found.get("signal") or sent[0])
    if "user_error" in found:
        raise UserError(found["user_error"])
    if "alarm" in found:
        raise AlarmError(found["alarm"])
    if "os_error" in found:
        raise OSError(found["os_error"])
    if code or "finished" not in found:
        raise OSError(f"a process of GRPO failed (exit code {code}), see above; the same command goes on from the last "
                      "checkpoint")  # fmt: skip


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":  # accelerate's launcher, in a process that does not outlive its starter
    die_with_parent()
    # Slurm signals every process of a job step, this one too, whose end would be the end of the processes of GRPO. They
    # inherit the mask and lift it once they are ready to stop in good order.
    signal.pthread_sigmask(signal.SIG_BLOCK, CLUSTER_SIGNALS)
    from accelerate.commands.launch import main

    main()
