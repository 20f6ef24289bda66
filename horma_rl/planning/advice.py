"""What to change when a run does not fit: single changes, cheapest for what is learned first, each planned again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import yaml

from horma_rl.config import validate
from horma_rl.errors import UserError
from horma_rl.planning.facts import Facts
from horma_rl.planning.memory import HEADROOM, memory, shortfall, vllm_sequences
from horma_rl.training.config import TrainConfig

MOST_CHANGES = 8
"""Changes that are tried one on top of the other before giving up."""

MOST_GPUS, MOST_NODES = 8, 8
"""GPUs of the largest common node, and nodes, up to which more of them are advised."""


@dataclass(frozen=True)
class Change:
    """One change: `overrides` as the command line takes them, why, and with it the peak of memory and what is still
    missing, in bytes."""

    overrides: tuple[str, ...]
    why: str
    peak: float
    missing: float

    @property
    def fits(self) -> bool:
        """Does the run fit with it, and with those before it?"""
        return self.missing == 0


def changes(config: TrainConfig, plan: Callable[[TrainConfig], Facts]) -> list[Change]:
    """The first thing to change so that `config` fits, or several, each on top of the one before, where one is not
    enough. The last one fits; if it does not, nothing that is known here makes the run fit. Empty when it fits already.

    `plan` gives the facts of a changed config.
    """
    facts = plan(config)
    missing = shortfall(facts)
    found: list[Change] = []
    while missing and len(found) < MOST_CHANGES:
        tried = [pair for pair in _tried(config, facts, plan) if pair[0].missing < missing]
        if not tried:
            break
        fitting = next((pair for pair in tried if pair[0].fits), None)
        change, config = fitting or min(tried, key=lambda pair: pair[0].missing)
        found.append(change)
        facts, missing = plan(config), change.missing
    return found


def _tried(
    config: TrainConfig, facts: Facts, plan: Callable[[TrainConfig], Facts]
) -> Iterator[tuple[Change, TrainConfig]]:
    for overrides, why in _candidates(config, facts):
        try:
            changed = with_overrides(config, overrides)
            planned = plan(changed)
        except UserError:
            continue  # the change is at odds with another setting
        yield Change(overrides, why, memory(planned).peak, shortfall(planned)), changed


def _candidates(config: TrainConfig, facts: Facts) -> Iterator[tuple[tuple[str, ...], str]]:
    """Changes by what they cost: nothing, time, hardware, then what is learned."""
    if facts.reference and not config.grpo.get("beta"):
        yield ("alarms.kl.action=off",), "no second copy of the model, which measures how far the policy has drifted"
    if not facts.checkpointing:
        yield ("grpo.activation_checkpointing=true",), "activations are computed again in the backward pass"
    if facts.rollouts == "colocate":
        yield from _other_reservation(facts)
    if facts.rollouts == "transformers" and facts.concurrency > 1:
        half = min(facts.concurrency, facts.generation_batch) // 2
        yield (f"rollout.concurrency={max(1, half)}",), "fewer episodes at once need less cache; the same are played"
    yield from _smaller_micro_batch(config, facts)
    yield from _more_sharding(facts)
    yield from _more_hardware(facts)
    if not facts.lora:
        yield ("lora.rank=16",), "only adapters are trained, with gradients and optimiser states for them alone"
    if config.rollout.max_context_tokens > 2048:
        half = config.rollout.max_context_tokens // 2
        yield (f"rollout.max_context_tokens={half}",), "episodes end earlier when they grow long"


def _other_reservation(facts: Facts) -> Iterator[tuple[tuple[str, ...], str]]:
    """The share for vLLM, in hundredths, that fits beside the rest, or that holds an episode."""
    now = memory(facts)
    excess = (now.peak - HEADROOM * now.capacity) / now.capacity
    if excess > 0 and facts.vllm_share - excess >= 0.05:
        share = math.floor((facts.vllm_share - excess) * 100) / 100
        yield (f"grpo.vllm_gpu_memory_utilization={share}",), "a smaller reservation for vLLM; fewer episodes at once"
    if vllm_sequences(facts) < 1:
        share = math.ceil((facts.vllm_share + shortfall(facts) / now.capacity) * 100) / 100
        yield (f"grpo.vllm_gpu_memory_utilization={share}",), "vLLM's reservation has to hold an episode"


def _smaller_micro_batch(config: TrainConfig, facts: Facts) -> Iterator[tuple[tuple[str, ...], str]]:
    if facts.micro_batch % 2:
        return
    overrides = [
        f"grpo.per_device_train_batch_size={facts.micro_batch // 2}",
        f"grpo.gradient_accumulation_steps={2 * facts.accumulation}",
    ]
    if config.grpo.get("steps_per_generation"):
        overrides.append(f"grpo.steps_per_generation={2 * config.grpo['steps_per_generation']}")
    yield tuple(overrides), "the same batch in smaller pieces"


def _more_hardware(facts: Facts) -> Iterator[tuple[tuple[str, ...], str]]:
    """Twice the GPUs of a node while it can have them, then twice the nodes."""
    if 2 * facts.processes <= MOST_GPUS:
        yield (f"launch.processes={2 * facts.processes}",), "twice the GPUs on a node"
    elif facts.processes <= MOST_GPUS and 2 * facts.nodes <= MOST_NODES:
        yield (f"launch.nodes={2 * facts.nodes}",), "twice the nodes"


def _more_sharding(facts: Facts) -> Iterator[tuple[tuple[str, ...], str]]:
    if facts.world == 1:
        return
    if facts.engine in ("ddp", "zero1"):
        yield ("launch.config=configs/accelerate/zero2.yaml",), "gradients and optimiser states are spread (ZeRO-2)"
    if facts.engine in ("ddp", "zero1", "zero2"):
        yield ("launch.config=configs/accelerate/zero3.yaml",), "weights are spread as well (ZeRO-3)"


def with_overrides(config: TrainConfig, overrides: tuple[str, ...]) -> TrainConfig:
    """`config` with `key.sub=value` overrides. Raises UserError when the result is not sound."""
    data: dict[str, Any] = deepcopy(config.model_dump(mode="json"))
    for override in overrides:
        key, _, value = override.partition("=")
        *parents, last = key.split(".")
        node = data
        for parent in parents:
            if node.get(parent) is None:
                node[parent] = {}
            node = node[parent]
        node[last] = yaml.safe_load(value)
    return validate(data, TrainConfig, "the changed config")
