"""The memory model: what one process holds while episodes are played, and while the model is updated, in bytes.

Both are worst cases: every sequence of a micro-batch, and every row of the key-value cache, as long as the longest
episode may be. Figures of engines are those of accelerate, DeepSpeed, PyTorch and TRL as installed: see docs/plan.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from horma_rl.planning.facts import Facts

HEADROOM = 0.95
"""Share of a device's memory that a plan fills: the rest is lost to fragmentation."""
HEAD_TOKENS, HEAD_COLUMNS = 4096, 32768
"""Tokens and vocabulary columns of one tile of TRL's output head, which never holds all logits."""
PREFILL_TOKENS = 8192
"""Tokens of one prefill of the transformers backend, padding included."""
BUCKET = 200_000_000
"""Elements of DeepSpeed's reduction bucket, as in configs/deepspeed; two are in use at a time."""
VLLM_BASE = 2.0 * 2**30
"""What vLLM keeps inside its reservation beside weights and cache: graphs, activations of 4,096 tokens."""


@dataclass(frozen=True)
class Row:
    """One line of the table: bytes held while episodes are played and while the model is updated."""

    name: str
    rollout: float
    update: float


@dataclass(frozen=True)
class Memory:
    """What one process holds, by purpose, and what it may hold."""

    rows: tuple[Row, ...]
    capacity: float

    @property
    def rollout(self) -> float:
        """Bytes while episodes are played."""
        return sum(row.rollout for row in self.rows)

    @property
    def update(self) -> float:
        """Bytes while the model is updated."""
        return sum(row.update for row in self.rows)

    @property
    def peak(self) -> float:
        """The larger of both."""
        return max(self.rollout, self.update)

    @property
    def fits(self) -> bool:
        """Does the peak leave the headroom that allocators need?"""
        return self.peak <= HEADROOM * self.capacity


def memory(facts: Facts) -> Memory:
    """The plan of one process's memory."""
    constant = [
        ("weights", _weights(facts)),
        ("optimiser states", _optimiser(facts)),
        ("reference model", _reference(facts)),
        ("framework", facts.hardware.overhead_gib * 2**30),
    ]
    rows = [Row(name, held, held) for name, held in constant]
    rows += [
        Row("weights, gathered or cast", _gathered_for_rollouts(facts), _gathered_for_update(facts)),
        Row("gradients", 0.0, _gradients(facts)),
        Row("activations", 0.0, _activations(facts)),
        Row("attention mask", 0.0, _mask(facts)),
        Row("output head", 0.0, _head(facts)),
        *_generation(facts),
    ]
    return Memory(tuple(row for row in rows if row.rollout or row.update), facts.capacity)


def _shards(facts: Facts) -> int:
    return facts.world if facts.sharded else 1


def _weights(facts: Facts) -> float:
    adapters = facts.trained * 4 if facts.lora else 0
    return (facts.shape.parameters * facts.held + adapters) / _shards(facts)


def _optimiser(facts: Facts) -> float:
    """Adam's two moments in the precision of the weights; DeepSpeed and adapters in fp32, DeepSpeed with its copy of
    the weights, and both it and FSDP2 spread over the processes."""
    if facts.offload:
        return 0.0
    if facts.deepspeed:
        return facts.trained * (12 if facts.element == 2 else 8) / facts.world
    moments = facts.trained * 2 * (4 if facts.lora else facts.held)
    return moments / _shards(facts)


def _reference(facts: Facts) -> float:
    return facts.shape.parameters * facts.held / _shards(facts) if facts.reference else 0.0


def _unit(facts: Facts) -> float:
    """Bytes of what a sharding engine gathers at a time: two layers, and the embeddings."""
    layer = facts.shape.matrix_parameters / facts.shape.layers
    return (2 * layer + facts.shape.head_parameters) * facts.element


def _gathered_for_rollouts(facts: Facts) -> float:
    if not facts.sharded:
        return 0.0
    if facts.rollouts == "transformers":
        return float(facts.shape.parameters * facts.element)
    return float(facts.shape.head_parameters * facts.element)  # one tensor at a time goes to the engine


def _gathered_for_update(facts: Facts) -> float:
    if facts.sharded:
        return _unit(facts)
    cast = facts.element < facts.held
    return float(facts.shape.matrix_parameters * facts.element) if cast else 0.0


def _gradients(facts: Facts) -> float:
    each = 4 if facts.lora else facts.held
    if facts.engine == "single":
        return float(facts.trained * each)
    if facts.engine == "ddp":
        return float(2 * facts.trained * each)  # the gradients, and the buckets in which they travel
    if facts.engine == "fsdp2":
        return facts.trained * 4 / facts.world + _unit(facts) * 2
    buckets = 2 * min(facts.trained, BUCKET) * facts.element
    if facts.engine == "zero1":
        return float(facts.trained * facts.element + buckets)
    # The share of this process, its copy in fp32 for the step, and the buckets in which gradients travel.
    return facts.trained * (facts.element + 4) / facts.world + buckets


def _tokens(facts: Facts) -> int:
    return facts.micro_batch * facts.workload.longest


def _layer(facts: Facts, tokens: int) -> float:
    """Bytes that the larger kind of layer keeps for its backward pass. With fp32 weights under autocast the residual
    stream stays in fp32."""
    shape = facts.shape
    kinds = [kind for kind, layers in ((False, shape.full_layers), (True, shape.linear_layers)) if layers]
    return max(_layer_kind(facts, tokens, kind) for kind in kinds)


def _layer_kind(facts: Facts, tokens: int, linear: bool) -> float:
    wider = max(0, facts.held - facts.element)
    elements = facts.shape.activations(linear)
    return float(tokens * (elements * facts.element + 7 * facts.shape.hidden * wider))


def _activations(facts: Facts) -> float:
    tokens, shape = _tokens(facts), facts.shape
    if facts.checkpointing:
        kept = shape.layers * tokens * shape.hidden * max(facts.element, facts.held)
        return 2 * _layer(facts, tokens) + kept  # one layer again, and the gradients that flow through it
    kinds = ((shape.full_layers, False), (shape.linear_layers, True))
    return sum(layers * _layer_kind(facts, tokens, linear) for layers, linear in kinds if layers) + _layer(
        facts, tokens
    )


def _mask(facts: Facts) -> float:
    """Padding makes PyTorch's attention take a mask of one byte and one number for every pair of tokens."""
    return float(facts.micro_batch * facts.workload.longest**2 * (1 + facts.element))


def _head(facts: Facts) -> float:
    """TRL's output head: a tile of logits, hidden states and their gradient in fp32, and the gradient of the head's
    weights in fp32 before it is added to that of the embeddings."""
    tokens = min(_tokens(facts), round(facts.micro_batch * facts.workload.turns * facts.response_cap) or 1)
    tile = min(tokens, HEAD_TOKENS) * min(facts.shape.vocab, HEAD_COLUMNS) * (4 + 2 * facts.element)
    hidden = tokens * facts.shape.hidden * (4 + 2 * facts.element)
    weights = 0 if facts.lora else facts.shape.head_parameters * 4
    return float(tile + hidden + weights)


def _generation(facts: Facts) -> list[Row]:
    if facts.rollouts == "server":
        return []
    if facts.rollouts == "colocate":
        reserved = facts.vllm_share * facts.capacity
        return [Row("vLLM's reservation", reserved, reserved)]
    shape, rows = facts.shape, min(facts.concurrency, facts.generation_batch)
    element = facts.element if facts.deepspeed or facts.sharded else facts.held
    # Both sides of the cache grow by doubling, and the old one is there until the new one is filled, layer by layer.
    slots, time = _doubled(rows, 1) + 1, _doubled(facts.workload.longest, 256)
    cache = slots * (time * shape.kv_per_token + shape.state_per_sequence) * element
    batch = min(PREFILL_TOKENS, rows * facts.workload.longest)
    work = batch * shape.activations(linear=not shape.full_layers) * element / 2 + rows * shape.vocab * 4 * 4
    return [Row("key-value cache and states", cache, 0.0), Row("prefill and sampling", work, 0.0)]


def _doubled(need: int, least: int) -> int:
    size = least
    while size < need:
        size *= 2
    return size


def vllm_sequences(facts: Facts) -> float:
    """Longest episodes that vLLM's reservation holds at once; below 1 the engine does not start."""
    return _vllm_free(facts) / _vllm_sequence(facts)


def shortfall(facts: Facts) -> float:
    """Bytes that are missing: while episodes are played, while the model is updated, and for one longest episode in
    vLLM's reservation. 0 when the run fits."""
    planned = memory(facts)
    usable = HEADROOM * planned.capacity
    missing = max(0.0, planned.rollout - usable) + max(0.0, planned.update - usable)
    if facts.rollouts == "colocate":
        missing += max(0.0, _vllm_sequence(facts) - _vllm_free(facts))
    return missing


def _vllm_free(facts: Facts) -> float:
    weights = (facts.shape.parameters + facts.shape.vision) * 2
    return facts.vllm_share * facts.capacity - weights - VLLM_BASE


def _vllm_sequence(facts: Facts) -> float:
    elements = facts.workload.longest * facts.shape.kv_per_token + facts.shape.state_per_sequence
    return float(elements * 2)
