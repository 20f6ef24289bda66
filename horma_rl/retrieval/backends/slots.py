"""A key-value cache whose rows live and grow independently, so that episodes can come and go while others decode.

Attention layers keep `[rows, heads, time, head_dim]`; a row's tokens stand at positions 0 to length - 1.
Linear-attention layers (Qwen3.5's Gated DeltaNet) keep one convolution and one recurrent state per row. A forward
works on a `Step`, which says which rows its batch is made of and where each new token is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import Cache

_MIN_TIME = 256


@dataclass
class Step:
    """What one forward does. `rows` [B]; `positions` [B, Q], -1 for padding; `span`: the keys it may see are at
    positions 0 to span - 1; `leading`: the rows are exactly 0 to B - 1 in order, so that views replace copies."""

    rows: torch.Tensor
    positions: torch.Tensor
    span: int
    leading: bool
    _targets: dict[int, torch.Tensor] = field(default_factory=dict)

    def targets(self, heads: int, time: int, spare: int) -> torch.Tensor:
        """Where each new key goes in a `[rows * heads * time]` layout, [B * heads * Q]; padding goes to row `spare`."""
        if heads not in self._targets:
            padding = self.positions < 0
            base = torch.where(padding, spare, self.rows[:, None]) * (heads * time) + self.positions.clamp(min=0)
            offsets = torch.arange(heads, device=base.device) * time
            self._targets[heads] = (base[:, None, :] + offsets[None, :, None]).reshape(-1)
        return self._targets[heads]


class SlotCache(Cache):
    """The cache of all rows. Call `reserve` before a forward, set `step`, and `commit` after it."""

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.step: Step | None = None
        self.rows = 0
        self.time = 0
        self._keys: dict[int, torch.Tensor] = {}
        self._values: dict[int, torch.Tensor] = {}
        self._states: dict[tuple[str, int, int], torch.Tensor] = {}
        self._working: dict[tuple[str, int, int], torch.Tensor] = {}

    def reserve(self, rows: int, time: int) -> None:
        """Make room for `rows` rows of `time` tokens; both grow by doubling, and what is there is kept."""
        if rows <= self.rows and time <= self.time:
            return
        self.rows, self.time = _grown(self.rows, rows, 1), _grown(self.time, time, _MIN_TIME)
        for store in (self._keys, self._values):
            for layer, old in store.items():
                # One row more than asked for: padding is written there.
                store[layer] = _enlarged(old, (self.rows + 1, old.shape[1], self.time, old.shape[3]))
        for key, old in self._states.items():
            self._states[key] = _enlarged(old, (self.rows, *old.shape[1:]))

    def clear(self) -> None:
        """Give the memory back; the sizes are remembered, so that the next use allocates once."""
        for store in (self._keys, self._values, self._states, self._working):
            store.clear()

    def move(self, source: int, target: int) -> None:
        """Copy row `source` over row `target`."""
        for store in (self._keys, self._values, self._states):
            for tensor in store.values():
                tensor[target].copy_(tensor[source])

    def reset_row(self, row: int) -> None:
        """Begin an episode in `row`: recurrent states start at zero. Old keys need no clearing: no mask shows them."""
        for state in self._states.values():
            state[row].zero_()

    def commit(self) -> None:
        """Write the recurrent states of the step's rows back."""
        assert self.step is not None
        for key, working in self._working.items():
            if key not in self._states:
                self._states[key] = working.new_zeros((self.rows, *working.shape[1:]))
            self._states[key].index_copy_(0, self.step.rows, working)
        self._working.clear()

    # What the models call. ---------------------------------------------------------------------------------------

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store `[B, heads, Q, head_dim]` and return the keys and values `[B, heads, span, head_dim]` of the rows."""
        return self._write(self._keys, layer_idx, key_states), self._write(self._values, layer_idx, value_states)

    def get_conv_state(self, layer_idx: int, state_idx: int = 0) -> torch.Tensor | None:
        """A copy of the rows' convolution states; the model may change it in place."""
        return self._gather("conv", layer_idx, state_idx)

    def get_recurrent_state(self, layer_idx: int, state_idx: int = 0) -> torch.Tensor | None:
        """The rows' recurrent states."""
        return self._gather("recurrent", layer_idx, state_idx)

    def update_conv_state(
        self, conv_states: torch.Tensor, layer_idx: int, state_idx: int = 0, conv_kernel_size: int = 0, **_: Any
    ) -> torch.Tensor:
        """Put the stored context in front of `[B, channels, Q]`; keep the last `conv_kernel_size` columns."""
        width = conv_kernel_size or conv_states.shape[-1]
        before = self._gather("conv", layer_idx, state_idx)
        if before is None:
            before = conv_states.new_zeros((*conv_states.shape[:-1], width))
        whole = torch.cat([before, conv_states], dim=-1)
        self._working["conv", layer_idx, state_idx] = whole[..., -width:].contiguous()
        return whole

    def update_recurrent_state(
        self, recurrent_states: torch.Tensor, layer_idx: int, state_idx: int = 0, **_: Any
    ) -> torch.Tensor:
        """Store the rows' new recurrent states."""
        self._working["recurrent", layer_idx, state_idx] = recurrent_states
        return recurrent_states

    def is_recording_past(self, layer_idx: int) -> bool:
        """States are never rolled back."""
        return False

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Rows have lengths of their own, so there is no one answer; positions are always given to the model."""
        return 0

    def _write(self, store: dict[int, torch.Tensor], layer: int, new: torch.Tensor) -> torch.Tensor:
        step = self.step
        assert step is not None
        batch, heads, _, width = new.shape
        if layer not in store:
            store[layer] = new.new_zeros((self.rows + 1, heads, self.time, width))
        held = store[layer]
        held.view(-1, width).index_copy_(0, step.targets(heads, self.time, self.rows), new.reshape(-1, width))
        return held[:batch, :, : step.span] if step.leading else held[:, :, : step.span].index_select(0, step.rows)

    def _gather(self, kind: str, layer: int, index: int) -> torch.Tensor | None:
        key = (kind, layer, index)
        if key not in self._working and key in self._states:
            assert self.step is not None
            self._working[key] = self._states[key].index_select(0, self.step.rows)
        return self._working.get(key)


def _grown(have: int, need: int, least: int) -> int:
    size = max(have, least)
    while size < need:
        size *= 2
    return size


def _enlarged(old: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    new = old.new_zeros(shape)
    new[tuple(slice(0, size) for size in old.shape)] = old
    return new
