"""A plan: the memory and time of a run, what it rests on, a verdict, and what to change first if it does not fit."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from horma_rl.errors import UserError
from horma_rl.planning.advice import Change, changes
from horma_rl.planning.facts import Facts, facts
from horma_rl.planning.hardware import GIB, Hardware
from horma_rl.planning.memory import HEADROOM, Memory, memory, shortfall, vllm_sequences
from horma_rl.planning.timing import NODE_LINK, PADDING, Phase, prefix_block, timing
from horma_rl.planning.workload import Workload
from horma_rl.training.config import TrainConfig

ENGINES = {
    "single": "one process", "ddp": "DDP", "zero1": "DeepSpeed ZeRO-1", "zero2": "DeepSpeed ZeRO-2",
    "zero3": "DeepSpeed ZeRO-3", "fsdp2": "FSDP2",
}  # fmt: skip

CPU_ERROR = "in measured runs on a CPU memory was 20% above to 6% below, and a step 34% below to 21% above what it took"
"""What `scripts/bench/plan_calibration.py` found, in the plan's own direction: above is too much planned."""


@dataclass(frozen=True)
class Plan:
    """What `horma-rl plan` tells. `warnings` are faults that the run would not stop for."""

    facts: Facts
    memory: Memory
    phases: tuple[Phase, ...]
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]
    changes: tuple[Change, ...]

    @property
    def fits(self) -> bool:
        """Does the run fit as it is?"""
        return shortfall(self.facts) == 0

    @property
    def step_s(self) -> float:
        """Expected seconds of one optimiser step."""
        return sum(phase.seconds for phase in self.phases)

    @property
    def verdict(self) -> str:
        """One line: does it fit, and how far off is it."""
        peak, capacity = self.memory.peak / GIB, self.memory.capacity / GIB
        of = f"{peak:.1f} of {capacity:.1f} GiB ({peak / capacity:.0%}, at most {HEADROOM:.0%} can be used)"
        if self.memory.fits and not self.fits:
            return "does not fit: vLLM's reservation holds less than one episode of the longest kind"
        return f"fits: {of}" if self.fits else f"does not fit: {of}"

    def as_json(self) -> dict[str, Any]:
        """Plain values; sizes in GiB, times in seconds."""
        shape, run = self.facts.shape, self.facts
        return {
            "fits": self.fits,
            "verdict": self.verdict,
            "model": {
                "name": shape.name, "source": shape.source, "parameters": shape.parameters, "trained": run.trained,
                "full_attention_layers": shape.full_layers, "linear_attention_layers": shape.linear_layers,
                "vision_parameters": shape.vision, "vocabulary": shape.vocab,
            },
            "hardware": run.hardware.name,
            "engine": run.engine,
            "processes": run.processes,
            "nodes": run.nodes,
            "rollouts": run.rollouts,
            "memory_gib": {row.name: {"rollout": row.rollout / GIB, "update": row.update / GIB}
                           for row in self.memory.rows},
            "peak_gib": self.memory.peak / GIB,
            "capacity_gib": self.memory.capacity / GIB,
            "seconds": {phase.name: phase.seconds for phase in self.phases},
            "step_s": self.step_s,
            "episodes_per_step": round(run.episodes * run.world),
            "workload": asdict(run.workload),
            "assumptions": list(self.assumptions),
            "warnings": list(self.warnings),
            "changes": [{"overrides": list(change.overrides), "why": change.why, "peak_gib": change.peak / GIB,
                         "fits": change.fits} for change in self.changes],
        }  # fmt: skip


def make_plan(config: TrainConfig, hardware: Hardware, workload: Workload | None = None) -> Plan:
    """The plan of `config` on `hardware`, for `workload` or, without one, for episodes as they are assumed.

    Raises:
        UserError: the run has no GRPO, or the model's shape, a launch file or a field of `grpo` cannot be read.
    """
    if config.grpo.get("max_steps") == 0:
        raise UserError("grpo.max_steps is 0: this run has no GRPO, so there is no step to plan")
    run = facts(config, hardware, workload)
    return Plan(
        facts=run,
        memory=memory(run),
        phases=timing(run),
        assumptions=tuple(_assumptions(run)),
        warnings=tuple(_warnings(run)),
        changes=tuple(changes(config, lambda changed: facts(changed, hardware, workload))),
    )


def _assumptions(run: Facts) -> list[str]:
    load, hardware = run.workload, run.hardware
    said = [
        f"model: {run.shape.parameters / 1e9:.3f} billion parameters, {run.shape.full_layers} layers of full and "
        f"{run.shape.linear_layers} of linear attention, from {run.shape.source}",
        f"hardware: {hardware.name}, {hardware.memory_gib:.1f} GiB, {hardware.bandwidth:,.0f} GB/s, {hardware.bf16:,g} "
        f"TFLOP/s in bf16 and {hardware.fp32:,g} in fp32, of which {hardware.stream:.0%} and "
        f"{hardware.reached(run.shape.hidden):.0%} are reached; {hardware.source}",
        f"episodes: {load.source}: prompt {load.prompt:,.0f} tokens, {load.turns:.1f} turns of {load.response:,.0f} "
        f"tokens, observations of {load.observation:,.0f}; the longest writes {load.spread:.1f} times the mean; "
        f"{load.flat:.0%} of groups without spread",
        f"memory: worst case, {run.micro_batch} x {load.longest:,} tokens in the update, "
        f"{min(run.concurrency, run.generation_batch)} at once in the rollouts; "
        f"{hardware.overhead_gib:g} GiB for the framework itself",
        f"time: the update computes {PADDING - 1:.0%} more tokens than there are, for padding; loading, checkpoints "
        "and evaluation are left out",
    ]
    if run.nodes > 1:
        said.append(f"between nodes: {NODE_LINK:g} GB/s for each GPU in one direction")
    if run.rollouts != "transformers":
        said.append(f"vLLM keeps prefixes, so a turn reads only what is new{_block(prefix_block(run))}")
    if run.rollouts == "server":
        said.append("the server's own GPUs are not in the memory table; one engine plays the episodes of all processes")
    if run.shape.linear_layers:
        said.append("Gated DeltaNet runs on its fast kernels; PyTorch's reference kernels take many times as long")
    if hardware.is_async:
        said.append("error: not measured on GPUs; shares of their peaks are assumed (docs/plan.md)")
    else:
        said.append(f"error: {CPU_ERROR} (docs/plan.md)")
    return said


def _block(tokens: int) -> str:
    if not tokens:
        return ""
    return f" and half a block again: states are kept every {tokens} tokens (mamba cache mode align; computed)"


def _warnings(run: Facts) -> list[str]:
    found = []
    if run.shape.window and run.context_cap > run.shape.window:
        found.append(
            f"rollout.max_context_tokens is {run.context_cap:,}, more than the {run.shape.window:,} positions that the "
            "model was made for (max_position_embeddings)"
        )
    if run.rollouts == "colocate":
        held, wanted = vllm_sequences(run), min(run.concurrency, run.generation_batch)
        if held < wanted:
            found.append(
                f"vLLM's reservation holds {max(0.0, held):.1f} episodes of the longest kind at once, fewer than the "
                f"{wanted} of the config: the others wait, or are read again; raise grpo.vllm_gpu_memory_utilization"
            )
    return found
