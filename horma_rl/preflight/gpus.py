"""The node's GPUs, as nvidia-smi sees them: how many, their memory, their faults, and who else uses them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from horma_rl.preflight.check import Found

FIELDS = ("index", "uuid", "name", "memory.total", "memory.used", "ecc.errors.uncorrected.volatile.total")
BUSY = 0.02
"""Share of a GPU's memory above which somebody else is using it; the driver alone takes less."""


@dataclass(frozen=True)
class Gpu:
    """One GPU; memory in MiB. `ecc`: uncorrected memory errors since the driver started, None where not counted."""

    index: str
    uuid: str
    name: str
    total: float
    used: float
    ecc: int | None

    @property
    def busy(self) -> bool:
        """Whether its memory is in use before the run has started."""
        return self.used > BUSY * self.total


def check_gpus(wanted: int) -> Found:
    """Are there `wanted` whole and idle GPUs? Those that `CUDA_VISIBLE_DEVICES` leaves out do not count."""
    if wanted == 0:
        return Found("skip", "a run on CPUs (the config sets `threads`)")
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return Found("fail", "nvidia-smi is not here", "get a node with GPUs (--gpus N), or set `threads` to use CPUs")
    gpus = visible(parse(_ask(smi, "gpu", FIELDS)), os.environ.get("CUDA_VISIBLE_DEVICES"))
    return judge(gpus, wanted, _ask(smi, "compute-apps", ("gpu_uuid", "pid", "process_name", "used_memory")))


def judge(gpus: Sequence[Gpu], wanted: int, processes: str) -> Found:
    """The verdict on `gpus`; `processes`: nvidia-smi's lines of compute processes (uuid, pid, name, MiB)."""
    if len(gpus) < wanted:
        return Found("fail", f"{len(gpus)} GPUs, {wanted} needed", "ask for more (--gpus), or lower launch.processes")
    broken = [gpu for gpu in gpus if gpu.ecc]
    if broken:
        told = ", ".join(f"GPU {gpu.index}: {gpu.ecc}" for gpu in broken)
        return Found("fail", f"uncorrected memory errors: {told}", "have the node drained; --sbatch=--exclude=NODE")
    busy = [gpu for gpu in gpus if gpu.busy]
    if busy:
        told = ", ".join(f"GPU {gpu.index}: {gpu.used:,.0f} MiB{_users(gpu, processes)}" for gpu in busy)
        return Found("fail", f"memory in use: {told}", "end those processes, or take another node")
    least = min(gpu.total for gpu in gpus)
    return Found("ok", f"{len(gpus)} x {gpus[0].name}, {least / 1024:.0f} GiB, idle, no memory errors")


def parse(text: str) -> list[Gpu]:
    """The GPUs of nvidia-smi's lines, whose columns are `FIELDS`. Raises ValueError for a line that is none."""
    gpus = []
    for line in text.strip().splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(FIELDS):
            raise ValueError(f"nvidia-smi said: {line}")
        index, uuid, name, total, used, ecc = cells
        gpus.append(Gpu(index, uuid, name, float(total), float(used), int(ecc) if ecc.isdigit() else None))
    return gpus


def visible(gpus: Sequence[Gpu], devices: str | None) -> list[Gpu]:
    """Those of `gpus` that `CUDA_VISIBLE_DEVICES` names, by index or by the start of a UUID; all when it is unset."""
    if devices is None:
        return list(gpus)
    names = [name.strip() for name in devices.split(",") if name.strip()]
    return [gpu for gpu in gpus if any(name == gpu.index or gpu.uuid.startswith(name) for name in names)]


def _users(gpu: Gpu, processes: str) -> str:
    lines = [[cell.strip() for cell in line.split(",")] for line in processes.splitlines()]
    users = [
        f"{name} (process {pid})"
        for uuid, pid, name, *_ in (cells for cells in lines if len(cells) >= 3)
        if uuid == gpu.uuid
    ]
    return f" of {', '.join(users)}" if users else ""


def _ask(smi: str, what: str, fields: Sequence[str]) -> str:
    command = [smi, f"--query-{what}={','.join(fields)}", "--format=csv,noheader,nounits"]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
