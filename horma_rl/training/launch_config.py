"""The `launch` and `lora` sections of a run config, and the engine that a launch asks for. No torch here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, field_validator

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

    @field_validator("target_modules", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        if value != "all-linear" and not (isinstance(value, list) and value):
            raise UserError(f"lora.target_modules is {value!r}: write all-linear, or a list of names: [q_proj, v_proj]")
        return value


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
            f"{launch.config}: distributed_type must be one of {known}, not {given.get('distributed_type')!r}"
        )
    if kind == "FSDP2" and str(_section(launch.config, given, "fsdp_config").get("fsdp_version")) != "2":
        raise UserError(f"{launch.config}: fsdp_config.fsdp_version must be 2")
    stage = _zero_stage(launch.config, given) if kind == "ZeRO" else 0
    return Engine(kind, stage, launch.world_size)


def accelerate_config(path: Path) -> dict[str, Any]:
    """An accelerate config with the path of its DeepSpeed file made absolute: it may be relative to the present folder
    or to the config. Raises UserError when one of them cannot be read, or asks for what this program sets."""
    given = _mapping(path, yaml.safe_load)
    if given.get("use_cpu"):
        raise UserError(f"{path}: remove use_cpu, with it accelerate ignores every engine; a CPU is found by itself")
    if given.get("distributed_type") == "DEEPSPEED":
        section = _section(path, given, "deepspeed_config")
        if not isinstance(section.get("deepspeed_config_file"), str):
            raise UserError(f"{path}: deepspeed_config.deepspeed_config_file must name a DeepSpeed config (JSON)")
        name = Path(section["deepspeed_config_file"])
        found = next((p for p in (name, path.parent / name) if p.is_file()), None)
        if found is None:
            raise UserError(f"{path}: there is no file {name} (deepspeed_config.deepspeed_config_file)")
        given["deepspeed_config"] = {**section, "deepspeed_config_file": str(found.resolve())}
    return given


def _zero_stage(path: Path, given: dict[str, Any]) -> int:
    file = Path(given["deepspeed_config"]["deepspeed_config_file"])
    stage = _section(file, _mapping(file, json.loads), "zero_optimization").get("stage")
    if type(stage) is not int or stage not in (1, 2, 3):  # true is 1 to Python
        raise UserError(f"{file}: zero_optimization.stage must be 1, 2 or 3, not {stage!r}")
    return stage


def _section(path: Path, given: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The mapping under `key` of what `path` holds; empty where there is none. Raises UserError for anything else."""
    section = given.get(key)
    if section is not None and not isinstance(section, Mapping):
        raise UserError(f"{path}: {key} is {section!r}: a mapping of keys to values is expected")
    return section or {}


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
