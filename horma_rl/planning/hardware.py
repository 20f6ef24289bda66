"""The hardware table: what one device can hold and do. No torch."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from horma_rl.errors import UserError, nearest

GIB = 2**30


@dataclass(frozen=True)
class Hardware:
    """One device; `hardware.yaml` documents the fields and their units. `memory_gib` is never None here."""

    name: str
    memory_gib: float
    bandwidth: float
    bf16: float
    fp32: float
    link: float
    matmul: float
    half_width: float
    stream: float
    launch_us: float
    is_async: bool
    overhead_gib: float
    source: str

    def product_s(self, flops: float, element: int, width: int) -> float:
        """Seconds of matrix products of `flops` operations on elements of `element` bytes, in layers of `width`."""
        peak = self.bf16 if element == 2 else self.fp32
        return flops / (peak * 1e12 * self.reached(width))

    def reached(self, width: int) -> float:
        """Share of the peak that products in layers of `width` reach."""
        return self.matmul * width / (width + self.half_width)

    def stream_s(self, moved: float) -> float:
        """Seconds to read or write `moved` bytes of the device's memory."""
        return moved / (self.bandwidth * 1e9 * self.stream)

    def launches_s(self, kernels: float) -> float:
        """Seconds to start `kernels` kernels from Python."""
        return kernels * self.launch_us * 1e-6

    def link_s(self, sent: float) -> float:
        """Seconds to send `sent` bytes to another device of the node."""
        return sent / (self.link * 1e9 * self.stream)

    def combined_s(self, launches: float, work: float) -> float:
        """Seconds of work that is started from Python: the longer of both where they overlap, else both."""
        return max(launches, work) if self.is_async else launches + work


@cache
def table() -> dict[str, Any]:
    """The entries of `hardware.yaml` by name."""
    entries: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "hardware.yaml").read_text(encoding="utf-8"))
    return entries


def hardware(name: str) -> Hardware:
    """An entry of the table, or of a YAML file of one's own. Raises UserError for an unknown name or a faulty file."""
    if name.endswith((".yaml", ".yml")):
        return _own(Path(name))
    key = name.lower()
    if key not in table():
        raise UserError(
            f"--hardware: no '{name}' in the table{nearest(key, table())}: {', '.join(table())}, or a YAML file of "
            "your own with the keys that horma_rl/planning/hardware.yaml explains"
        )
    return _entry(key, table()[key])


def detected() -> str | None:
    """The table's name of the GPU in this machine, by `nvidia-smi`; None without one, or without an entry for it."""
    try:
        answer = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"],
            capture_output=True, text=True, timeout=10, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return match(answer.splitlines()[0]) if answer.strip() else None


def match(gpu: str) -> str | None:
    """The table's name for `NVIDIA H100 80GB HBM3, 81559`, a line of `nvidia-smi`; None when it has none."""
    title, _, memory = gpu.lower().rpartition(",")
    words = title.replace("-", " ").split()
    if "a100" in words or any(word.startswith("a100") for word in words):
        return "a100-80gb" if memory.strip().isdigit() and int(memory) > 50_000 else "a100-40gb"
    if "4090" in words:
        return "rtx4090"
    return next((name for name in ("h200", "h100", "b200", "l40s", "l4") if name in words), None)


def _own(path: Path) -> Hardware:
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError:
        raise UserError(f"--hardware: no file {path}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(f"--hardware: {path} is not YAML: {' '.join(str(error).split())}") from None
    if isinstance(data, dict) and len(data) == 1 and isinstance(next(iter(data.values())), dict):
        ((name, entry),) = data.items()
        return _entry(str(name), entry)
    if not isinstance(data, dict):
        raise UserError(f"--hardware: {path} is no mapping of keys to values")
    return _entry(path.stem, data)


def _entry(name: str, entry: Mapping[str, Any]) -> Hardware:
    known = {field.name for field in fields(Hardware)} - {"name", "is_async"} | {"async"}
    for key in entry:
        if key not in known:
            raise UserError(f"--hardware: '{name}' has an unknown key '{key}'{nearest(key, known)}")
    for key in known - {"source"}:
        value = entry.get(key)
        wrong = not isinstance(value, bool) if key == "async" else not isinstance(value, int | float) or value <= 0
        if wrong and not (key == "memory_gib" and value is None and key in entry):
            raise UserError(f"--hardware: '{name}' needs {key} as {'true or false' if key == 'async' else 'a number'}")
    memory = entry["memory_gib"] or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    numbers = {key: float(entry[key]) for key in known - {"async", "source", "memory_gib"}}
    return Hardware(
        name=name, memory_gib=memory, is_async=entry["async"], source=str(entry.get("source", "the user")), **numbers
    )
