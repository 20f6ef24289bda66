"""Start-up check of a hybrid model's fast kernels: without them transformers falls back to reference code in silence.

Qwen3.5 has three Gated DeltaNet layers for each layer of full attention. Their recurrence runs in the package
`flash-linear-attention` (`fla`) and their short convolution in `causal-conv1d`, or else both in plain PyTorch.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Kernel:
    """What to install (`distribution`), what transformers takes from it (`functions` of `module`), and the cost of
    lacking it."""

    distribution: str
    module: str
    functions: tuple[str, ...]
    cost: str


KERNELS = (
    Kernel(
        "flash-linear-attention",
        "fla.ops.gated_delta_rule",
        ("chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule"),
        "the recurrence runs as a Python loop over chunks of 64 tokens in 32 bits, so that these layers' time grows by "
        "several kernel launches a chunk, and the backward pass keeps every chunk's intermediate results",
    ),
    Kernel(
        "causal-conv1d",
        "causal_conv1d",
        ("causal_conv1d_fn", "causal_conv1d_update"),
        "the short convolution runs as a general one, with its padding and activation as steps of their own",
    ),
)


def missing_kernels(model: Any) -> list[tuple[Kernel, str]]:
    """The kernels that a model with linear attention would use and that cannot be imported, each with the reason.

    Empty for a model without such layers.
    """
    kinds = getattr(model.config.get_text_config(), "layer_types", None) or []
    if "linear_attention" not in kinds:
        return []
    checked = [(kernel, _fault(kernel)) for kernel in KERNELS]
    return [(kernel, fault) for kernel, fault in checked if fault]


def kernel_warnings(model: Any, device: str) -> list[str]:
    """One line for each kernel that is missing on a GPU, with its cost and its cure; one line in all on a CPU."""
    missing = missing_kernels(model)
    if not missing:
        return []
    layers = list(model.config.get_text_config().layer_types)
    share = f"{layers.count('linear_attention')} of {len(layers)} layers"
    if device == "cpu":
        return [f"{share} are linear attention, whose fast kernels need a GPU: on this CPU they run in plain PyTorch"]
    return [
        f"WARNING: {kernel.distribution} is not usable ({fault}): {share} are slow: {kernel.cost}; "
        f"pip install {kernel.distribution}"
        for kernel, fault in missing
    ]


def _fault(kernel: Kernel) -> str:
    try:
        module = importlib.import_module(kernel.module)
    except Exception as error:  # a library built for another torch fails in its own ways
        return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
    lacking = [name for name in kernel.functions if not hasattr(module, name)]
    return f"{kernel.module} has no {', '.join(lacking)}" if lacking else ""
