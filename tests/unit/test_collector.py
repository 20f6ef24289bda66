"""The cycle collector is set, and set back."""

from __future__ import annotations

import gc

import pytest

from horma_rl.collector import rare_collections


@pytest.mark.parametrize("fails", [False, True])
def test_the_collector_is_as_before_afterwards(fails: bool) -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    try:
        with rare_collections():
            assert gc.get_threshold()[0] > before[0]
            assert gc.get_freeze_count() > frozen
            assert gc.isenabled()
            if fails:
                raise RuntimeError
    except RuntimeError:
        pass
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, frozen)
