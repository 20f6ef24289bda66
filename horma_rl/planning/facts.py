"""What a plan needs to know of a run: read from its config, and from the launch files that the config names. No torch.

Defaults of the `grpo` section are those of TRL's GRPOConfig, changed as `horma_rl.training.grpo_config` changes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from horma_rl.errors import UserError
from horma_rl.planning.hardware import Hardware
from horma_rl.planning.shapes import ModelShape, model_shape
from horma_rl.planning.workload import Workload, assumed
from horma_rl.training.config import TrainConfig
from horma_rl.training.launch_config import LoraConfig, accelerate_config, engine_asked

Engine = Literal["single", "ddp", "zero1", "zero2", "zero3", "fsdp2"]
Rollouts = Literal["transformers", "colocate", "server"]

DEFAULTS: dict[str, Any] = {
    "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "num_generations": 8, "num_iterations": 1,
    "beta": 0.0, "use_vllm": False, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.3,
    "vllm_importance_sampling_correction": True,
}  # fmt: skip
"""TRL's defaults of the fields that a plan reads; a test compares them with GRPOConfig's own."""


@dataclass(frozen=True)
class Facts:
    """A run as a plan sees it.

    `element`: bytes of a number in matrix products (2 is bf16). `weight`: bytes of a weight outside of DeepSpeed: it is
    loaded in fp32 for the small updates of training, and as it is stored where only adapters are trained. `lora`: rank
    of the adapters, 0 when all weights are trained, and `adapted` their parameters. `offload`: optimiser states are
    held by the host. `reference`: share of a step's episodes that a second copy of the model scores, 0 without one.
    `generation_batch`: episodes of one process per generation. `scored`: whether log-probabilities
    are computed again before the update.
    """

    shape: ModelShape
    hardware: Hardware
    workload: Workload
    processes: int
    nodes: int
    engine: Engine
    offload: bool
    lora: int
    adapted: int
    element: int
    weight: int
    checkpointing: bool
    micro_batch: int
    accumulation: int
    generation_batch: int
    iterations: int
    group: int
    reference: float
    scored: bool
    rollouts: Rollouts
    vllm_share: float
    concurrency: int
    response_cap: int
    context_cap: int
    resample: int

    @property
    def world(self) -> int:
        """Processes on all nodes."""
        return self.processes * self.nodes

    @property
    def trained(self) -> int:
        """Parameters that are trained."""
        return self.adapted if self.lora else self.shape.parameters

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
        """Bytes of one weight as the engine holds it: DeepSpeed keeps bf16 beside fp32 in the optimiser; the others
        keep the weights that the optimiser changes."""
        if self.deepspeed:
            return self.element
        return self.weight

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
    shape, lora = model_shape(config.model), config.lora
    grpo = {**DEFAULTS, **config.grpo}
    engine, offload = _launch(config)
    processes, nodes = config.launch.processes, config.launch.nodes
    micro, accumulation = _number(grpo, "per_device_train_batch_size"), _number(grpo, "gradient_accumulation_steps")
    batch = micro * (_number(grpo, "steps_per_generation") if grpo.get("steps_per_generation") else accumulation)
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
        lora=lora.rank if lora else 0,
        adapted=_adapted(shape, lora),
        element=2 if bf16 or grpo.get("fp16") else 4,
        weight=shape.stored_bytes if lora else 4,
        checkpointing=_checkpointing(grpo, hardware),
        micro_batch=micro,
        accumulation=accumulation,
        generation_batch=batch,
        iterations=iterations,
        group=_number(grpo, "num_generations"),
        reference=0.0 if lora else _reference(config, float(grpo["beta"])),
        scored=not aligned or (vllm and bool(grpo["vllm_importance_sampling_correction"])),
        rollouts=rollouts,
        vllm_share=float(grpo["vllm_gpu_memory_utilization"]),
        concurrency=config.rollout.concurrency,
        response_cap=config.rollout.max_response_tokens,
        context_cap=config.rollout.max_context_tokens,
        resample=config.resample_zero_variance,
    )


def _reference(config: TrainConfig, beta: float) -> float:
    """All episodes for the KL term; else an eighth, to measure how far the policy has drifted from its start."""
    if beta:
        return 1.0
    return 0.125 if config.alarms.kl.action != "off" else 0.0


def _adapted(shape: ModelShape, lora: LoraConfig | None) -> int:
    if lora is None:
        return 0
    return shape.lora_parameters(lora.rank, None if lora.target_modules == "all-linear" else lora.target_modules)


def _number(grpo: Mapping[str, Any], key: str) -> int:
    value = grpo[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UserError(f"grpo.{key} is {value!r}: a plan needs a whole number above 0")
    return value


def _checkpointing(grpo: Mapping[str, Any], hardware: Hardware) -> bool:
    """Under either of its names; our default is on for GPUs and off for CPUs."""
    for key in ("activation_checkpointing", "gradient_checkpointing"):
        if key in grpo:
            return bool(grpo[key])
    return hardware.is_async


def _launch(config: TrainConfig) -> tuple[Engine, bool]:
    """The engine that the run asks for, and whether it keeps optimiser states in the host's memory."""
    asked = engine_asked(config.launch)
    if asked.kind != "ZeRO" or config.launch.config is None:
        engines: dict[str, Engine] = {"single": "single", "DDP": "ddp", "FSDP2": "fsdp2"}
        return engines[asked.kind], False
    file = Path(accelerate_config(config.launch.config)["deepspeed_config"]["deepspeed_config_file"])
    zero = json.loads(file.read_text(encoding="utf-8")).get("zero_optimization", {})
    offloaded = zero.get("offload_optimizer", {}).get("device", "none") not in ("none", None)
    stages: dict[int, Engine] = {1: "zero1", 2: "zero2", 3: "zero3"}
    return stages[asked.stage], offloaded
