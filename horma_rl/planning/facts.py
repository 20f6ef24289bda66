"""What a plan needs to know of a run: read from its config, and from the launch files that the config names. No torch.

Defaults of the `grpo` section are those of TRL's GRPOConfig, changed as `horma_rl.training.grpo_config` changes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from horma_rl.errors import UserError
from horma_rl.planning.hardware import Hardware
from horma_rl.planning.shapes import ModelShape, model_shape
from horma_rl.planning.workload import Workload, assumed
from horma_rl.training.config import TrainConfig

Engine = Literal["single", "ddp", "zero1", "zero2", "zero3", "fsdp2"]
Rollouts = Literal["transformers", "colocate", "server"]

DEFAULTS: dict[str, Any] = {
    "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "num_generations": 8, "num_iterations": 1,
    "beta": 0.0, "use_vllm": False, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.3,
    "vllm_enable_sleep_mode": False, "vllm_tensor_parallel_size": 1, "vllm_importance_sampling_correction": True,
}  # fmt: skip
"""TRL's defaults of the fields that a plan reads; a test compares them with GRPOConfig's own."""


@dataclass(frozen=True)
class Facts:
    """A run as a plan sees it.

    `element`: bytes of a number in matrix products (2 is bf16). `weight`: bytes of a weight as it is held for training
    without sharding. `lora`: rank of the adapters, 0 when all weights are trained. `generation_batch`: episodes of one
    process per generation. `scored`: whether log-probabilities are computed again before the update.
    """

    shape: ModelShape
    hardware: Hardware
    workload: Workload
    processes: int
    nodes: int
    engine: Engine
    offload: bool
    lora: int
    element: int
    weight: int
    checkpointing: bool
    micro_batch: int
    accumulation: int
    generation_batch: int
    iterations: int
    group: int
    reference: bool
    scored: bool
    rollouts: Rollouts
    vllm_share: float
    vllm_sleep: bool
    vllm_parallel: int
    concurrency: int
    response_cap: int
    resample: int

    @property
    def world(self) -> int:
        """Processes on all nodes."""
        return self.processes * self.nodes

    @property
    def trained(self) -> int:
        """Parameters that are trained."""
        return self.shape.lora_parameters(self.lora) if self.lora else self.shape.parameters

    @property
    def sharded(self) -> bool:
        """Are the weights themselves spread over the processes?"""
        return self.engine in ("zero3", "fsdp2")

    @property
    def deepspeed(self) -> bool:
        """Does DeepSpeed hold the optimiser?"""
        return self.engine.startswith("zero")

    @property
    def held(self) -> int:
        """Bytes of one weight as the engine holds it: DeepSpeed keeps bf16 beside fp32 in the optimiser; FSDP2 and
        plain training keep the weights that the optimiser changes."""
        if self.lora:
            return self.element
        if self.deepspeed:
            return self.element
        return 4 if self.engine == "fsdp2" else self.weight

    @property
    def episodes(self) -> float:
        """Episodes that one process plays for one optimiser step, before any are drawn again."""
        return self.micro_batch * self.accumulation / self.iterations

    @property
    def capacity(self) -> float:
        """Bytes that one process may use: a GPU each, or a share of a node's memory on CPUs."""
        shared = 1 if self.hardware.is_async else self.processes
        return self.hardware.memory_gib * 2**30 / shared


def facts(config: TrainConfig, hardware: Hardware, workload: Workload | None = None) -> Facts:
    """What the plan of `config` on `hardware` is made from.

    Raises:
        UserError: the model's shape, a launch file or a field of `grpo` cannot be read.
    """
    shape = model_shape(config.model)
    grpo = {**DEFAULTS, **config.grpo}
    processes, nodes, engine, offload = _launch(config)
    micro, accumulation = _number(grpo, "per_device_train_batch_size"), _number(grpo, "gradient_accumulation_steps")
    batch = _generation_batch(grpo, micro, accumulation, processes * nodes)
    vllm = bool(grpo["use_vllm"])
    rollouts: Rollouts = "transformers"
    if vllm:
        rollouts = "server" if grpo["vllm_mode"] == "server" else "colocate"
    bf16 = bool(grpo.get("bf16", hardware.is_async and not grpo.get("fp16")))
    iterations = _number(grpo, "num_iterations")
    aligned = accumulation * micro % (batch * iterations) == 0
    return Facts(
        shape=shape,
        hardware=hardware,
        workload=workload or assumed(config),
        processes=processes,
        nodes=nodes,
        engine=engine,
        offload=offload,
        lora=_lora_rank(config),
        element=2 if bf16 or grpo.get("fp16") else 4,
        weight=_weight_bytes(config, shape),
        checkpointing=_checkpointing(grpo, hardware),
        micro_batch=micro,
        accumulation=accumulation,
        generation_batch=batch,
        iterations=iterations,
        group=_number(grpo, "num_generations"),
        reference=float(grpo["beta"]) != 0.0 and not _lora_rank(config),
        scored=not aligned or (vllm and bool(grpo["vllm_importance_sampling_correction"])),
        rollouts=rollouts,
        vllm_share=float(grpo["vllm_gpu_memory_utilization"]),
        vllm_sleep=bool(grpo["vllm_enable_sleep_mode"]),
        vllm_parallel=_number(grpo, "vllm_tensor_parallel_size"),
        concurrency=config.rollout.concurrency,
        response_cap=config.rollout.max_response_tokens,
        resample=config.resample_zero_variance,
    )


def _number(grpo: Mapping[str, Any], key: str) -> int:
    value = grpo[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UserError(f"grpo.{key} is {value!r}: a plan needs a whole number above 0")
    return value


def _generation_batch(grpo: Mapping[str, Any], micro: int, accumulation: int, world: int) -> int:
    if grpo.get("generation_batch_size"):
        return max(1, _number(grpo, "generation_batch_size") // world)
    return micro * (_number(grpo, "steps_per_generation") if grpo.get("steps_per_generation") else accumulation)


def _checkpointing(grpo: Mapping[str, Any], hardware: Hardware) -> bool:
    """Under either of its names; our default is on for GPUs and off for CPUs."""
    for key in ("activation_checkpointing", "gradient_checkpointing"):
        if key in grpo:
            return bool(grpo[key])
    return hardware.is_async


def _weight_bytes(config: TrainConfig, shape: ModelShape) -> int:
    return shape.stored_bytes


def _lora_rank(config: TrainConfig) -> int:
    return 0


def _launch(config: TrainConfig) -> tuple[int, int, Engine, bool]:
    return 1, 1, "single", False


def engine_of(path: Path | None, world: int) -> tuple[Engine, bool]:
    """The engine that an accelerate config chooses, and whether it offloads to the host; no file is plain DDP.

    Raises:
        UserError: a file that it needs is missing or unreadable.
    """
    if path is None:
        return ("ddp" if world > 1 else "single"), False
    data = _read(path)
    kind = str(data.get("distributed_type", "")).upper()
    if kind == "FSDP":
        return "fsdp2", bool(data.get("fsdp_config", {}).get("fsdp_offload_params"))
    if kind != "DEEPSPEED":
        return ("ddp" if world > 1 else "single"), False
    settings = data.get("deepspeed_config", {})
    zero: Mapping[str, Any] = {"stage": settings.get("zero_stage", 2)}
    offload = [settings.get(f"offload_{what}_device", "none") for what in ("optimizer", "param")]
    named = settings.get("deepspeed_config_file")
    if named:
        beside = path.parent / named
        zero = _read(beside if beside.is_file() else Path(named)).get("zero_optimization", {})
        offload = [zero.get(f"offload_{what}", {}).get("device", "none") for what in ("optimizer", "param")]
    stage = int(zero.get("stage", 0))
    engines: dict[int, Engine] = {0: "ddp", 1: "zero1", 2: "zero2", 3: "zero3"}
    return engines[stage], any(device not in (None, "none") for device in offload)


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except OSError:
        raise UserError(f"launch: no file {path}") from None
    except (ValueError, yaml.YAMLError) as error:
        raise UserError(f"launch: {path} cannot be read: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(data, dict):
        raise UserError(f"launch: {path} is no mapping of keys to values")
    return data
