"""The stopwatch of a step's phases, on a clock that the test sets."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from horma_rl.training.phases import PARTS, PHASES, Phases


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


def begun(clock: Clock, step: int = 0) -> Phases:
    phases = Phases(clock=clock)
    clock.wait(50.0)  # building a trainer is no part of a step
    phases.on_train_begin(None, SimpleNamespace(global_step=step), None)
    return phases


def test_the_phases_are_all_of_the_time_and_a_nested_one_is_not_counted_twice() -> None:
    clock = Clock()
    phases = begun(clock)
    clock.wait(0.5)
    phases.on_step_begin(None, None, None)
    with phases("other"):
        clock.wait(0.25)
        with phases("rollout"):
            clock.wait(4.0)
            with phases("sync"):
                clock.wait(1.0)
            phases.add("environment", 0.125)
        with phases("logprobs"):
            clock.wait(2.0)
    clock.wait(3.0)
    phases.on_step_end(None, None, None)
    with phases("save"):
        clock.wait(0.75)
    phases.count("update", 600)
    phases.count("update", 300)
    taken = phases.take(1)
    assert {name: value for name, value in taken.items() if value} == {
        "time/rollout_s": 4.0, "time/environment_s": 0.125, "time/sync_s": 1.0, "time/logprobs_s": 2.0,
        "time/update_s": 3.0, "time/save_s": 0.75, "time/other_s": 0.75, "tokens_per_s/update": 300.0,
    }  # fmt: skip
    assert sum(taken[f"time/{phase}_s"] for phase in PHASES) == pytest.approx(clock.now - 150.0)
    assert taken.keys() == {f"time/{name}_s" for name in (*PHASES, *PARTS)} | {"tokens_per_s/update"}


def test_a_line_of_several_steps_holds_means_and_the_next_begins_at_zero() -> None:
    clock = Clock()
    phases = begun(clock, step=10)
    with phases("rollout"):
        clock.wait(9.0)
    assert phases.take(13)["time/rollout_s"] == pytest.approx(3.0)
    clock.wait(1.0)
    taken = phases.take(14)
    assert taken["time/rollout_s"] == 0.0
    assert taken["time/other_s"] == pytest.approx(1.0)


def test_a_phase_that_fails_gives_way_to_the_one_before() -> None:
    clock = Clock()
    phases = begun(clock)
    with pytest.raises(ZeroDivisionError), phases("rollout"):
        _ = 1 / 0
    clock.wait(2.0)
    assert phases.take(1)["time/rollout_s"] == 0.0


def test_queued_work_is_counted_where_it_was_queued() -> None:
    clock, queued = Clock(), [3.0]
    phases = Phases(settle=lambda: clock.wait(queued.pop()) if queued else None, clock=clock)
    with phases("logprobs"):
        queued.append(2.0)
    clock.wait(1.0)
    assert phases.take(1)["time/logprobs_s"] == 2.0
