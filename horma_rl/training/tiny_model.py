"""The project's own tiny policy: a Qwen3 model of a few million parameters, small enough to train on two CPU cores."""

from __future__ import annotations

from typing import Any

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from horma_rl.config import StrictModel


class TinyModelConfig(StrictModel):
    """Shape of the tiny model."""

    hidden_size: int = 128
    """Width of the residual stream; a multiple of 32, the width of an attention head."""
    layers: int = 4
    """Transformer layers: matching a line to a question and copying from it takes about four hops."""
    intermediate_size: int = 320
    """Width of the gated MLP."""
    rope_theta: float = 1e5
    """Base of the rotary embedding: large, so that a head can match content at any distance."""
    max_position_embeddings: int = 4096
    """Longest context in tokens."""


HEAD_DIM = 32
EMBEDDING_STD = 0.07
OUTPUT_GAIN = 0.5


def build_tiny_model(config: TinyModelConfig, tokenizer: Any, seed: int) -> Qwen3ForCausalLM:
    """A freshly initialised model over `tokenizer`'s vocabulary, with attention that starts as matching and copying.

    Each head's query and key projections start equal, so that a token attends to tokens like itself, and its output
    projection starts as the transpose of its value projection, so that what is attended to is copied (the mimetic
    initialisation of Trockman and Kolter, 2023, arXiv:2305.09828, with the sign that copies). With random projections
    the same data takes many times longer to teach copying.
    """
    torch.manual_seed(seed)
    heads = config.hidden_size // HEAD_DIM
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.layers,
            num_attention_heads=heads,
            num_key_value_heads=heads,
            head_dim=HEAD_DIM,
            max_position_embeddings=config.max_position_embeddings,
            tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    with torch.no_grad():
        model.model.embed_tokens.weight.normal_(0.0, EMBEDDING_STD)
        for layer in model.model.layers:
            _start_as_matching(layer.self_attn, heads)
    return model


def _start_as_matching(attention: Any, heads: int) -> None:
    width = attention.q_proj.weight.shape[1]
    for head in range(heads):
        rows = slice(head * HEAD_DIM, (head + 1) * HEAD_DIM)
        shared = _orthonormal(width, HEAD_DIM).T
        for projection in (attention.q_proj, attention.k_proj):
            projection.weight[rows] = shared + 0.02 * torch.randn(HEAD_DIM, width)
    value = _orthonormal(width, width)
    attention.v_proj.weight.copy_(value)
    attention.o_proj.weight.copy_(OUTPUT_GAIN * value.T)


def _orthonormal(rows: int, columns: int) -> torch.Tensor:
    q: torch.Tensor = torch.linalg.qr(torch.randn(rows, columns))[0]
    return q
