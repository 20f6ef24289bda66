"""A score that is no number is no score."""

from __future__ import annotations

import math

import pytest

from horma_rl.retrieval.engine import in_order
from memory_shell.types import Stop
from tests.rollout_parts import FakeShell
from tests.unit.test_engine import call, engine_for, specs


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_an_episode_whose_score_is_no_number_is_unscored(score: float) -> None:
    broken = FakeShell()
    broken.score = lambda: score  # type: ignore[method-assign]
    engine, _ = engine_for(lambda _, turn: [call("select", "D1:1"), call("done")][turn])
    got = in_order(engine.run(specs([FakeShell(), broken])))
    assert [t.reward for t in got] == [1.0, None]
    assert [t.stop for t in got] == [Stop.DONE, Stop.DONE]
    assert got[1].error == f"the score is {score}"
