"""The state of a run's parts in a checkpoint."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from horma_rl.errors import UserError
from horma_rl.training.state import read_state, write_state


class Part:
    """Keeps whatever it is given."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state

    def state_dict(self) -> dict[str, Any]:
        return self.state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state = state


def test_every_part_gets_its_own_state_back_bit_for_bit(tmp_path: Path) -> None:
    values = {"mean": 0.1 + 0.2, "least": math.ulp(0.0), "counts": {"a": 3}, "none": None}
    write_state(tmp_path, {"one": Part(values), "two": Part({"step": 7})})
    one, two = Part({}), Part({})
    read_state(tmp_path, {"two": two, "one": one})
    assert one.state == values
    assert two.state == {"step": 7}


def test_a_part_that_the_checkpoint_does_not_know_is_an_error(tmp_path: Path) -> None:
    read_state(tmp_path, {})
    write_state(tmp_path, {"one": Part({})})
    with pytest.raises(UserError, match="holds no state of 'two'"):
        read_state(tmp_path, {"two": Part({})})
