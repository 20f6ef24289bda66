"""Seeds that depend on what is sampled, not on when, where or beside what."""

from __future__ import annotations

import hashlib


def rollout_seed(run_seed: int, step: int, task_id: str, index: int) -> int:
    """The seed of rollout `index` of a task at one training step, in [0, 2^63). Stable over processes and machines."""
    return _digest(f"rollout/{run_seed}/{step}/{index}/{task_id}")


def turn_seed(seed: int, turn: int) -> int:
    """The seed of one response of a rollout, in [0, 2^63)."""
    return _digest(f"turn/{seed}/{turn}")


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
