"""The config of the warm start. No torch is imported here."""

from __future__ import annotations

from pydantic import Field

from horma_rl.config import StrictModel


class SftConfig(StrictModel):
    """The warm start. Zero `steps` skips it."""

    steps: int = 0
    """Optimiser steps."""
    max_minutes: float | None = None
    """Wall time after which the learning rate has come down and the run ends, whatever `steps` says."""
    tokens_per_step: int = 8192
    """Tokens (padding included) of one optimiser step."""
    max_tokens: int = 1200
    """Longest example, in tokens; longer ones are left out."""
    learning_rate: float = 1e-3
    """Peak learning rate of AdamW: linear warm-up, cosine decay to a tenth."""
    warmup_steps: int = 50
    """Steps of linear warm-up."""
    weight_decay: float = 0.01
    """Decoupled weight decay."""
    id_weight: float = 3.0
    """Loss weight of a turn-id token."""
    word_weight: float = 1.5
    """Loss weight of other tokens of a call's arguments."""
    fixed_weight: float = 0.4
    """Loss weight of the fixed parts of a response."""
    restricted_share: float = Field(default=0.0, ge=0.0, le=1.0)
    """Share of the run, from its start, in which the softmax is over the tokens that occur in the batch instead of the
    whole vocabulary. Copying is learned faster so; the rest of the run teaches what not to say."""
    turn_share: float = Field(default=0.0, ge=0.0, le=1.0)
    """Share of examples whose question is made of the words of a turn of the training memories, instead of being one
    of the benchmark's: a small model needs more practice in finding a turn than a benchmark has questions."""
    cascade: float = Field(0.0, ge=0.0, le=1.0)
    """Share of demonstrations that try the searches suggested by the overview in order, rarest word first, until one
    shows the evidence; the rest know beforehand which one will."""
