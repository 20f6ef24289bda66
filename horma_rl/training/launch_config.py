"""The `launch` and `lora` sections of a run config, and the engine that a launch asks for. No torch here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field

from horma_rl.config import StrictModel
from horma_rl.errors import UserError

_ENGINES = {"MULTI_GPU": "DDP", "DEEPSPEED": "ZeRO", "FSDP": "FSDP2"}


class LaunchConfig(StrictModel):
    """The processes of GRPO. With more than one, `horma-rl train` starts them through accelerate."""

    processes: int = Field(default=1, ge=1)
    """Processes on each node; one for each GPU where there are GPUs."""
    nodes: int = Field(default=1, ge=1)
    """Machines. With more than one, each runs `horma-rl train CONFIG --stage grpo`; see docs/distributed.md."""
    config: Path | None = None
    """An accelerate config (`configs/accelerate/zero2.yaml`): how parameters are spread; null is DDP, a whole copy in
    each process. The numbers of processes and nodes in it do not count, those above do."""

    @property
    def world_size(self) -> int:
        """Processes on all nodes together."""
        return self.processes * self.nodes


class LoraConfig(StrictModel):
    """Low-rank adapters (peft) in place of training every weight (arXiv:2106.09685)."""

    rank: int = Field(default=16, ge=1)
    """Rank of the two factors of each update."""
    alpha: int = Field(default=32, ge=1)
    """The update is scaled by alpha / rank."""
    target_modules: list[str] | Literal["all-linear"] = "all-linear"
    """Modules that get an adapter, by the end of their names; `all-linear`: every linear layer but the output head."""


@dataclass(frozen=True)
class Engine:
    """How the processes of a run share the work. `kind`: single, DDP, ZeRO or FSDP2; `stage`: of ZeRO, else 0."""

    kind: str
    stage: int = 0
    processes: int = 1

    def __str__(self) -> str:
        name = f"DeepSpeed ZeRO-{self.stage}" if self.kind == "ZeRO" else self.kind
        return name if self.kind == "single" else f"{name}, {self.processes} processes"


def engine_asked(launch: LaunchConfig) -> Engine:
    """The engine that `launch` asks for. Raises UserError where its accelerate config cannot be used."""
    if launch.world_size == 1 and launch.config is not None:
        raise UserError("launch.config says how several processes share the work: set launch.processes, or remove it")
    if launch.world_size == 1:
        return Engine("single")
    if launch.config is None:
        return Engine("DDP", processes=launch.world_size)
    given = accelerate_config(launch.config)
    kind = _ENGINES.get(str(given.get("distributed_type")))
    if kind is None:
        known = ", ".join(_ENGINES)
        raise UserError(
            f"{launch.config}: distributed_type must be one of {known}, not {given.get('distributed_type')}"
        )
    if kind == "FSDP2" and str(given.get("fsdp_config", {}).get("fsdp_version")) != "2":
        raise UserError(f"{launch.config}: fsdp_config.fsdp_version must be 2")
    stage = _zero_stage(launch.config, given) if kind == "ZeRO" else 0
    return Engine(kind, stage, launch.world_size)


def accelerate_config(path: Path) -> dict[str, Any]:
    """An accelerate config with the path of its DeepSpeed file made absolute: it may be relative to the present folder
    or to the config. Raises UserError when one of them cannot be read, or asks for what this program sets."""
    given = _mapping(path, yaml.safe_load)
    if given.get("use_cpu"):
        raise UserError(f"{path}: remove use_cpu, with it accelerate ignores every engine; a CPU is found by itself")
    section = given.get("deepspeed_config") or {}
    if given.get("distributed_type") == "DEEPSPEED":
        if "deepspeed_config_file" not in section:
            raise UserError(f"{path}: deepspeed_config.deepspeed_config_file must name a DeepSpeed config (JSON)")
        name = Path(section["deepspeed_config_file"])
        found = next((p for p in (name, path.parent / name) if p.is_file()), None)
        if found is None:
            raise UserError(f"{path}: there is no file {name} (deepspeed_config.deepspeed_config_file)")
        given["deepspeed_config"] = {**section, "deepspeed_config_file": str(found.resolve())}
    return given


def _zero_stage(path: Path, given: dict[str, Any]) -> int:
    file = Path(given["deepspeed_config"]["deepspeed_config_file"])
    stage = _mapping(file, json.loads).get("zero_optimization", {}).get("stage")
    if stage not in (1, 2, 3):
        raise UserError(f"{file}: zero_optimization.stage must be 1, 2 or 3, not {stage}: 0 shards nothing")
    return int(stage)


def _mapping(path: Path, read: Any) -> dict[str, Any]:
    try:
        found = read(path.read_text(encoding="utf-8"))
    except OSError:
        raise UserError(f"no file at {path} (launch.config)") from None
    except (ValueError, yaml.YAMLError) as error:
        raise UserError(f"{path}: cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(found, dict):
        raise UserError(f"{path}: a mapping of keys to values is expected")
    return found
