"""The shape of a model, from its config.json alone, and what follows from it: parameters, cache and state sizes."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from horma_rl.errors import UserError, nearest

_DENSE = {"llama", "mistral", "qwen2", "qwen3"}
_HYBRID = {"qwen3_5", "qwen3_5_text"}
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "F32": 4, "BF16": 2, "F16": 2}


@dataclass(frozen=True)
class LinearAttention:
    """A Gated DeltaNet layer (Qwen3.5): heads and widths of its keys and values, and its convolution."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int

    @property
    def channels(self) -> int:
        """Channels of the convolution: queries, keys and values."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    @property
    def state(self) -> int:
        """Elements of a sequence's recurrent and convolution state in one layer."""
        return self.value_heads * self.key_dim * self.value_dim + self.channels * self.kernel


@dataclass(frozen=True)
class Projection:
    """A weight matrix that each of `layers` layers has."""

    name: str
    layers: int
    inputs: int
    outputs: int


@dataclass(frozen=True)
class ModelShape:
    """A causal language model, counted in elements. `source` says where the figures come from.

    `gated`: the query projection is twice as wide, for an output gate (Qwen3.5). `stored_bytes`: bytes of one weight in
    the checkpoint. `window`: positions that the model was made for, 0 where its config does not say. `vision`:
    parameters of a vision tower, which text-only training leaves out. `counted`: parameters counted in the headers of
    safetensors files, where there are any.
    """

    name: str
    source: str
    hidden: int
    intermediate: int
    vocab: int
    heads: int
    kv_heads: int
    head_dim: int
    full_layers: int
    linear_layers: int
    tied: bool
    gated: bool
    qkv_bias: bool
    qk_norm: bool
    linear: LinearAttention | None
    vision: int
    stored_bytes: int
    window: int = 0
    counted: int | None = None

    @property
    def layers(self) -> int:
        """Decoder layers of either kind."""
        return self.full_layers + self.linear_layers

    @property
    def projections(self) -> tuple[Projection, ...]:
        """Every weight matrix in the decoder layers: what LoRA adapts and FLOPs count."""
        query, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        found = [
            Projection("q_proj", self.full_layers, self.hidden, query * (2 if self.gated else 1)),
            Projection("k_proj", self.full_layers, self.hidden, kv),
            Projection("v_proj", self.full_layers, self.hidden, kv),
            Projection("o_proj", self.full_layers, query, self.hidden),
            Projection("gate_proj", self.layers, self.hidden, self.intermediate),
            Projection("up_proj", self.layers, self.hidden, self.intermediate),
            Projection("down_proj", self.layers, self.intermediate, self.hidden),
        ]
        if self.linear is None:
            return tuple(found)
        layers, values = self.linear_layers, self.linear.value_heads * self.linear.value_dim
        wide = {"in_proj_qkv": self.linear.channels, "in_proj_z": values}
        wide |= {"in_proj_b": self.linear.value_heads, "in_proj_a": self.linear.value_heads}
        found += [Projection(name, layers, self.hidden, outputs) for name, outputs in wide.items()]
        return (*found, Projection("out_proj", layers, values, self.hidden))

    @property
    def matrix_parameters(self) -> int:
        """Parameters of all matrices in the decoder layers."""
        return sum(matrix.layers * matrix.inputs * matrix.outputs for matrix in self.projections)

    @property
    def head_parameters(self) -> int:
        """Parameters of the output head, tied or not."""
        return self.vocab * self.hidden

    @property
    def parameters(self) -> int:
        """Parameters that text-only training holds."""
        if self.counted is not None:
            return self.counted
        small = 2 * self.layers * self.hidden + self.hidden
        if self.qk_norm:
            small += 2 * self.full_layers * self.head_dim
        if self.qkv_bias:
            small += self.full_layers * (self.heads + 2 * self.kv_heads) * self.head_dim
        if self.linear is not None:
            each = self.linear.channels * self.linear.kernel + 2 * self.linear.value_heads + self.linear.value_dim
            small += self.linear_layers * each
        return self.matrix_parameters + small + self.head_parameters * (1 if self.tied else 2)

    def lora_parameters(self, rank: int, names: Sequence[str] | None = None) -> int:
        """Parameters of LoRA adapters of `rank` on the matrices whose names end in one of `names`, or on all."""
        chosen = [m for m in self.projections if names is None or any(m.name.endswith(name) for name in names)]
        return sum(matrix.layers * rank * (matrix.inputs + matrix.outputs) for matrix in chosen)

    @property
    def kv_per_token(self) -> int:
        """Elements of the key-value cache for one token."""
        return 2 * self.full_layers * self.kv_heads * self.head_dim

    @property
    def state_per_sequence(self) -> int:
        """Elements of the recurrent and convolution states of one sequence."""
        return self.linear_layers * self.linear.state if self.linear else 0

    @property
    def prefix_block(self) -> int:
        """Tokens between the recurrent states that vLLM's prefix cache keeps, 0 without recurrent layers.

        In its mamba cache mode `align` a block is as many tokens of one layer's keys and values, in 16 bits, as take
        the room of one layer's state (the recurrent part in fp32, the convolution in 16 bits), in multiples of 16.
        """
        if self.linear is None:
            return 0
        convolution = self.linear.channels * (self.linear.kernel - 1)
        recurrent = self.linear.value_heads * self.linear.key_dim * self.linear.value_dim
        token = 2 * self.kv_heads * self.head_dim * 2
        return 16 * math.ceil((4 * recurrent + 2 * convolution) / (16 * token))

    def activations(self, linear: bool) -> int:
        """Elements that one layer keeps for its backward pass, for one token.

        Full attention: the residual stream and its norms, queries, keys and values before and after norm and rotation
        and repeated for the heads, the attention's output; then gate, up, their activation and product. Linear
        attention: projections and convolution, keys and queries repeated for the value heads, the chunk states.
        """
        mlp = 4 * self.intermediate
        stream = 7 * self.hidden
        if not linear:
            query, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
            return stream + mlp + 4 * query + 2 * kv + 2 * query + (2 * query if self.gated else 0)
        assert self.linear is not None
        values = self.linear.value_heads * self.linear.value_dim
        keys = self.linear.value_heads * self.linear.key_dim
        chunk_states = self.linear.value_heads * self.linear.key_dim * self.linear.value_dim // 64
        return stream + mlp + 3 * self.linear.channels + 2 * keys + 4 * values + chunk_states


def model_shape(model: str) -> ModelShape:
    """The shape of a checkpoint folder, of a model in the hub's cache, or of one in the table `models.yaml`.

    Raises:
        UserError: no config.json can be found, or its architecture is not one that can be planned.
    """
    folder = Path(model) if (Path(model) / "config.json").is_file() else _cached(model)
    if folder is not None:
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        except ValueError:
            raise UserError(f"model: {folder / 'config.json'} is not JSON") from None
        return _shape(model, f"{folder}/config.json", config, _count(folder))
    known = _known()
    if model in known:
        return _shape(model, "the table of known models", known[model], None)
    raise UserError(
        f"model: '{model}' is no folder with a config.json, and not among the models that plan knows"
        f"{nearest(model, known)}: {', '.join(known)}. Put the model's config.json into a folder, and plan with "
        "model=FOLDER"
    )


@cache
def _known() -> dict[str, Any]:
    known: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "models.yaml").read_text(encoding="utf-8"))
    return known


def _cached(model: str) -> Path | None:
    """The newest snapshot of a hub model on this machine."""
    home = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
    snapshots = home / "hub" / f"models--{model.replace('/', '--')}" / "snapshots"
    found = sorted(snapshots.glob("*/config.json"), key=lambda path: path.stat().st_mtime)
    return found[-1].parent if found else None


def _shape(name: str, source: str, config: Mapping[str, Any], counted: tuple[int, int] | None) -> ModelShape:
    text = {**config, **config.get("text_config", {})}
    kind = str(text.get("model_type"))
    if kind not in _DENSE | _HYBRID:
        raise UserError(
            f"model: plan does not know the architecture '{kind}' of {name}; it knows {', '.join(sorted(_DENSE))} and "
            "qwen3_5"
        )
    try:
        return _read_shape(name, source, config, text, counted)
    except KeyError as error:
        raise UserError(f"model: {source} has no key {error}") from None


def _read_shape(
    name: str, source: str, config: Mapping[str, Any], text: Mapping[str, Any], counted: tuple[int, int] | None
) -> ModelShape:
    kind, layers = str(text["model_type"]), int(text["num_hidden_layers"])
    hybrid = kind in _HYBRID
    every = int(text.get("full_attention_interval", 4))
    kinds = text.get("layer_types") or ["linear_attention" if hybrid and (i + 1) % every else "" for i in range(layers)]
    linear_layers = sum(layer == "linear_attention" for layer in kinds)
    vision = _vision_parameters(config["vision_config"]) if "vision_config" in config else 0
    dtype = str(text.get("dtype") or text.get("torch_dtype") or "float32")
    return ModelShape(
        name=name,
        source=source,
        hidden=int(text["hidden_size"]),
        intermediate=int(text["intermediate_size"]),
        vocab=int(text["vocab_size"]),
        heads=int(text["num_attention_heads"]),
        kv_heads=int(text.get("num_key_value_heads") or text["num_attention_heads"]),
        head_dim=int(text.get("head_dim") or text["hidden_size"] // text["num_attention_heads"]),
        full_layers=layers - linear_layers,
        linear_layers=linear_layers,
        tied=bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", False))),
        gated=hybrid,
        qkv_bias=kind == "qwen2" or bool(text.get("attention_bias")),
        qk_norm=hybrid or kind == "qwen3",
        linear=_linear(text) if linear_layers else None,
        vision=vision,
        stored_bytes=counted[1] if counted else _BYTES.get(dtype, 4),
        window=int(text.get("max_position_embeddings") or 0),
        counted=counted[0] if counted else None,
    )


def _linear(text: Mapping[str, Any]) -> LinearAttention:
    return LinearAttention(
        key_heads=int(text["linear_num_key_heads"]),
        value_heads=int(text["linear_num_value_heads"]),
        key_dim=int(text["linear_key_head_dim"]),
        value_dim=int(text["linear_value_head_dim"]),
        kernel=int(text["linear_conv_kernel_dim"]),
    )


def _vision_parameters(config: Mapping[str, Any]) -> int:
    """Parameters of Qwen3.5's vision tower: patches, positions, blocks, and the merger into the language model."""
    width, inner = int(config["hidden_size"]), int(config["intermediate_size"])
    patch = int(config["in_channels"]) * int(config["temporal_patch_size"]) * int(config["patch_size"]) ** 2
    merged = width * int(config["spatial_merge_size"]) ** 2
    attention = width * 3 * width + 3 * width + width * width + width
    mlp = 2 * width * inner + inner + width
    block = attention + mlp + 4 * width
    merger = 2 * width + merged * merged + merged + merged * int(config["out_hidden_size"])
    merger += int(config["out_hidden_size"])
    embedding = patch * width + width + int(config["num_position_embeddings"]) * width
    return int(config["depth"]) * block + merger + embedding


def _count(folder: Path) -> tuple[int, int] | None:
    """Parameters in the safetensors files of `folder` that text-only training loads, and the bytes of one; None
    without such files. Only the headers are read."""
    total = size = 0
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with path.open("rb") as stream:
                header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
        except (ValueError, MemoryError, OverflowError):
            raise UserError(f"model: {path} is no whole safetensors file") from None
        for key, tensor in header.items():
            if key == "__metadata__" or ".visual." in key or key.startswith(("visual.", "mtp.")):
                continue
            count = 1
            for side in tensor["shape"]:
                count *= side
            total += count
            size += count * _BYTES.get(tensor["dtype"], 4)
    return (total, round(size / total)) if total else None
