"""The time model: seconds of one optimiser step on one process, phase by phase.

A phase is the longer of what its matrix products take and what its memory traffic takes, plus what Python takes to
start its kernels where that does not overlap (CPUs). Episodes are those of the workload, not the worst case.
"""

from __future__ import annotations

from dataclasses import dataclass

from horma_rl.planning.facts import Facts

KERNELS = 100
"""Time to run one decoder layer from Python, forward, in starts of a kernel: about 30 kernels, and modules and checks
between them. On GPUs this is the 0.8 ms a layer that eager decoding of models of 30 layers is known for."""
FEWEST_KERNELS = 200
"""The same for what a forward does beside the layers: embeddings, masks, sampling, bookkeeping."""
PASSES = 2.0
"""How often a forward pass moves what a layer would keep for its backward pass: written once, read once."""
SAMPLING_PASSES = 8
"""How often drawing a token moves its row of logits in fp32: scaling, log-softmax, noise, arg-max, entropy."""
TURN_S = 0.0012
"""Seconds of Python for one turn: tokenising, parsing, the shell's command, the episode's bookkeeping (one core)."""
STEP_VLLM_S = 0.003
"""Seconds of vLLM's own work for one decoding step in process: scheduling, sampling, handing tokens over."""
LOAD_TENSOR_S = 0.0003
"""Seconds of Python to hand one tensor to vLLM."""
TENSORS = 12
"""Weight tensors of a decoder layer."""
PADDING = 1.2
"""Tokens that the update computes for each real one: micro-batches are formed by length."""
NODE_LINK = 50.0
"""GB/s in one direction between nodes, for each GPU: 400 Gb/s adapters."""
OVERLAP = 0.5
"""Share of the sharding engines' traffic that hides behind computation."""


@dataclass(frozen=True)
class Phase:
    """A phase of a step: seconds, and what they are spent on."""

    name: str
    seconds: float
    note: str


def timing(facts: Facts) -> tuple[Phase, ...]:
    """Seconds of one optimiser step by phase."""
    prefill, decode = _prefill(facts), _decode(facts)
    again = _drawn_again(facts)
    sync, how = _sync(facts)
    phases = [
        Phase("rollout: prefill", again * prefill, f"{again * facts.episodes * _read_tokens(facts):,.0f} tokens read"),
        Phase("rollout: decode", again * decode, f"{again * _decode_steps(facts):,.0f} steps, {_rows(facts):.0f} rows"),
        Phase("rollout: environment", again * _environment(facts), f"{again * _turns(facts):,.0f} turns"),
        Phase("logprobs", _logprobs(facts), _scoring(facts)),
        Phase("update", _update(facts), f"{facts.episodes * facts.workload.tokens:,.0f} tokens, forward and backward"),
        Phase("optimiser and gradients", _optimiser(facts), f"{facts.trained / 1e6:,.1f} M parameters"),
        Phase("sync", sync, how),
    ]
    return tuple(phases)


def _drawn_again(facts: Facts) -> float:
    """Episodes played over episodes kept: flat groups are drawn again up to `resample` times."""
    return sum(facts.workload.flat**attempt for attempt in range(facts.resample + 1))


def _turns(facts: Facts) -> float:
    return facts.episodes * facts.workload.turns


def _environment(facts: Facts) -> float:
    return _turns(facts) * TURN_S


# Rollouts -----------------------------------------------------------------------------------------------------------


def _players(facts: Facts) -> float:
    """Processes whose episodes one engine plays: a server plays those of all, and counts as one GPU."""
    return float(facts.world) if facts.rollouts == "server" else 1.0


def _rollout_element(facts: Facts) -> int:
    if facts.rollouts != "transformers":
        return 2 if facts.hardware.is_async else 4
    return facts.element if facts.deepspeed or facts.sharded else facts.held


def prefix_block(facts: Facts) -> int:
    """Tokens between the recurrent states from which vLLM goes on; 0 without such layers, or without vLLM."""
    return 0 if facts.rollouts == "transformers" else facts.shape.prefix_block


def _read_tokens(facts: Facts) -> float:
    """Tokens that an engine reads for one episode, beside those that it writes.

    With recurrent layers vLLM goes on from the last whole block: a group shares whole blocks of its prompt, and a turn
    reads half a block again on average, but never more than the whole episode.
    """
    load, later, block = facts.workload, max(0.0, facts.workload.turns - 1), prefix_block(facts)
    shared = facts.group if facts.rollouts != "transformers" else 1
    if not block:
        return load.prompt / shared + later * load.observation
    whole = load.prompt // block * block
    kept = load.prompt - whole + whole / shared + later * (load.observation + block / 2)
    everything = load.turns * (load.prompt + later / 2 * (load.response + load.observation))
    return min(kept, everything)


def _concurrent(facts: Facts) -> float:
    """Episodes that an engine plays at once."""
    return min(facts.concurrency, facts.generation_batch) * _players(facts)


def _prefill(facts: Facts) -> float:
    tokens = facts.episodes * _players(facts) * _read_tokens(facts)
    element = _rollout_element(facts)
    work = _forward_s(facts, tokens, facts.workload.tokens / 2, element)
    # New prompts are fed when an eighth of the rows waits, each batch to every layer.
    batches = _turns(facts) * _players(facts) / max(1.0, _concurrent(facts) / 8)
    return facts.hardware.combined_s(_launches(facts) * batches, work)


def _decode_steps(facts: Facts) -> float:
    """Decoding steps of one engine: full batches, then the longest episode's tail."""
    load = facts.workload
    full = facts.episodes * _players(facts) * load.model_tokens / _concurrent(facts)
    return full + (load.spread - 1) * load.model_tokens


def _rows(facts: Facts) -> float:
    """Sequences in a mean decoding step."""
    return facts.episodes * _players(facts) * facts.workload.model_tokens / _decode_steps(facts)


def _computed_rows(facts: Facts) -> float:
    """Sequences that a decoding step computes. The transformers backend computes idle rows along until their episodes
    end, except for recurrent layers, where it may not."""
    if facts.rollouts != "transformers" or facts.shape.linear_layers:
        return _rows(facts)
    return (_concurrent(facts) + _rows(facts)) / 2


def _decode(facts: Facts) -> float:
    shape, hardware, element = facts.shape, facts.hardware, _rollout_element(facts)
    rows, head = _computed_rows(facts), shape.matrix_parameters + shape.head_parameters
    # The transformers backend attends to the longest row's length in every row; vLLM to each row's own.
    context = facts.workload.tokens / (1 if facts.rollouts == "transformers" else 2)
    cache = rows * (context * shape.kv_per_token + 2 * shape.state_per_sequence) * element
    products = hardware.product_s(2 * rows * head, element, shape.hidden)
    sampling = hardware.stream_s(rows * shape.vocab * 4 * SAMPLING_PASSES)
    work = max(products, hardware.stream_s(head * element)) + hardware.stream_s(cache) + sampling
    if facts.rollouts != "transformers":
        return _decode_steps(facts) * (STEP_VLLM_S + work)
    return _decode_steps(facts) * hardware.combined_s(_launches(facts), work)


# Update -------------------------------------------------------------------------------------------------------------


def _launches(facts: Facts) -> float:
    """Seconds to start the kernels of one forward from Python."""
    return facts.hardware.launches_s(facts.shape.layers * KERNELS + FEWEST_KERNELS)


def _forward_s(facts: Facts, tokens: float, context: float, element: int) -> float:
    """Seconds of the decoder layers for `tokens` that see `context` tokens each, without the output head."""
    shape = facts.shape
    attention = 4 * shape.full_layers * shape.heads * shape.head_dim * context
    recurrence = 0
    if shape.linear is not None:
        recurrence = 8 * shape.linear_layers * shape.linear.value_heads * shape.linear.key_dim * shape.linear.value_dim
    products = facts.hardware.product_s(
        tokens * (2 * shape.matrix_parameters + attention + recurrence), element, shape.hidden
    )
    return products + facts.hardware.stream_s(PASSES * _moved(facts, tokens) * element)


def _moved(facts: Facts, tokens: float) -> float:
    """Elements that the layers of a forward pass write for `tokens`."""
    shape = facts.shape
    linear = shape.linear_layers * shape.activations(True) if shape.linear_layers else 0
    return tokens * (shape.full_layers * shape.activations(False) + linear)


def _head_s(facts: Facts, tokens: float, passes: float) -> float:
    """Seconds of the output head for scored tokens: products, and the tiles of logits that are written and read."""
    flops = passes * 2 * tokens * facts.shape.head_parameters
    products = facts.hardware.product_s(flops, facts.element, facts.shape.hidden)
    return products + facts.hardware.stream_s(passes * 2 * tokens * facts.shape.vocab * 4)


def _micro_batches(facts: Facts) -> float:
    return facts.episodes / facts.micro_batch


def _computed(facts: Facts) -> float:
    return facts.episodes * facts.workload.tokens * PADDING


def _scoring(facts: Facts) -> str:
    by_policy = "all by the policy" if facts.scored else ""
    by_reference = f"{facts.reference:.0%} by a second copy" if facts.reference else ""
    return ", ".join(part for part in (by_policy, by_reference) if part) or "not needed"


def _logprobs(facts: Facts) -> float:
    passes = int(facts.scored) + facts.reference
    if not passes:
        return 0.0
    work = _forward_s(facts, _computed(facts), facts.workload.tokens, facts.element)
    work += _head_s(facts, facts.episodes * (facts.workload.tokens - facts.workload.prompt), 1)
    gathered = _sharding_traffic(facts, 1)
    return passes * (facts.hardware.combined_s(_launches(facts) * _micro_batches(facts), work) + gathered)


def _update(facts: Facts) -> float:
    """Forward, backward (twice a forward) and, with checkpointing, the forward again, for each use of an episode."""
    passes = 4 if facts.checkpointing else 3
    forward = _forward_s(facts, _computed(facts), facts.workload.tokens, facts.element)
    if facts.lora:
        forward *= (passes - 1) / passes  # no gradients of the frozen matrices
    head = _head_s(facts, facts.episodes * facts.workload.model_tokens, 4)
    launches = passes * _launches(facts) * _micro_batches(facts)
    once = facts.hardware.combined_s(launches, passes * forward + head) + _sharding_traffic(facts, passes - 1)
    return once * facts.iterations


def _sharding_traffic(facts: Facts, gathers: int) -> float:
    """Seconds of gathering weights for each micro-batch, and of spreading its gradients, that nothing hides."""
    if facts.world == 1 or not facts.sharded:
        return 0.0
    sent = gathers * facts.shape.parameters * facts.element * (facts.world - 1) / facts.world
    return (1 - OVERLAP) * _link_s(facts, sent) * _micro_batches(facts)


def _link_s(facts: Facts, sent: float) -> float:
    if facts.nodes == 1:
        return facts.hardware.link_s(sent)
    return sent / (min(NODE_LINK, facts.hardware.link) * 1e9 * facts.hardware.stream)


def _optimiser(facts: Facts) -> float:
    """Gradients between processes, then Adam: weights, gradient and two moments read, three of them written, and the
    gradient read once more for its norm."""
    shards = facts.world if facts.sharded or facts.engine in ("zero1", "zero2") else 1
    each = 4 if facts.deepspeed or facts.lora else facts.held
    step = facts.hardware.stream_s(8 * facts.trained * each / shards)
    if facts.world == 1 or facts.sharded:
        return step
    share = (facts.world - 1) / facts.world
    if facts.engine == "ddp":
        return step + (1 - OVERLAP) * _link_s(facts, 2 * share * facts.trained * each)
    times = facts.accumulation if facts.engine == "zero2" else 1
    sent = share * facts.trained * facts.element * (1 + times)
    return step + (1 - OVERLAP) * _link_s(facts, sent)


def _sync(facts: Facts) -> tuple[float, str]:
    """Seconds until the rollouts see the new weights."""
    size = facts.shape.parameters * facts.element
    gathered = _link_s(facts, size) if facts.sharded and facts.world > 1 else 0.0
    if facts.rollouts == "transformers":
        return gathered, "weights gathered" if gathered else "the same weights"
    tensors = facts.shape.layers * TENSORS * LOAD_TENSOR_S
    if facts.rollouts == "server":
        return gathered + tensors + facts.hardware.link_s(size), "weights sent to the server"
    return gathered + tensors + facts.hardware.stream_s(2 * size), "weights copied into vLLM"
