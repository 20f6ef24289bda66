"""Going back in an environment: by snapshot, by replay, or not at all; and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from interactive_env.rewind import Rewound, rewind
from interactive_env.types import Capabilities, EnvTask, Outcome, Rewind, Start
from interdependent import InterdependentSuite, optimal
from interdependent.suite import Kind

KINDS: tuple[Kind, ...] = ("bundle", "schedule")


class Counter:
    """Counts its steps; from reset number `drifts_from` on it answers otherwise, from step `drifts_at` on."""

    def __init__(self, way: Rewind = "replay", drifts_at: int = 99, ends_at: int = 99) -> None:
        self.capabilities = Capabilities("any text", way, 100)
        self.drifts_at, self.ends_at = drifts_at, ends_at
        self.resets = self.steps = 0
        self.success, self.progress = False, 0.0

    def reset(self, task: EnvTask) -> Start:
        self.resets += 1
        self.steps = 0
        return Start("count", "0")

    def step(self, action: str) -> Outcome:
        self.steps += 1
        again = self.resets > 1
        drifted = "!" if again and self.steps > self.drifts_at else ""
        return Outcome(f"{self.steps}{drifted}", terminated=again and self.steps >= self.ends_at)

    def snapshot(self) -> object:
        return self.steps

    def restore(self, snapshot: object) -> None:
        assert isinstance(snapshot, int)
        self.steps = snapshot

    def close(self) -> None: ...


def after(env: Counter, count: int) -> Sequence[str]:
    env.reset(EnvTask("t"))
    return [env.step("go").observation for _ in range(count)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["restore", "replay"])
def test_back_in_a_real_environment(kind: Kind, way: Rewind) -> None:
    suite = InterdependentSuite(kind, rewind=way)
    task = suite.tasks("test")[0]
    env = suite.make(task)
    env.reset(task)
    actions = optimal(task)
    before = [env.step(action) for action in actions[:3]]
    snapshot = env.snapshot() if way == "restore" else None
    progress = env.progress
    rest = [env.step(action) for action in actions[3:]]
    went = rewind(env, task, snapshot, actions[:3], [outcome.observation for outcome in before])
    assert went == (Rewound("restored") if way == "restore" else Rewound("replayed", None, 3))
    assert env.progress == progress
    assert [env.step(action) for action in actions[3:]] == rest
    assert env.success


def test_without_a_snapshot_it_is_replayed() -> None:
    env = Counter("restore")
    seen = after(env, 5)
    assert rewind(env, EnvTask("t"), None, ["go"] * 2, seen[:2]) == Rewound("replayed", None, 2)
    assert env.steps == 2
    assert env.resets == 2


def test_back_to_the_start() -> None:
    env = Counter()
    after(env, 3)
    assert rewind(env, EnvTask("t"), None, [], []) == Rewound("replayed", None, 0)
    assert env.steps == 0


def test_a_world_that_does_not_go_back_is_left_as_it_is() -> None:
    env = Counter("none")
    seen = after(env, 3)
    assert rewind(env, EnvTask("t"), 1, ["go"], seen[:1]) == Rewound("not")
    assert env.steps == 3
    assert env.resets == 1


def test_the_first_drift_is_told_and_the_rest_is_played() -> None:
    env = Counter(drifts_at=2)
    seen = after(env, 5)
    assert rewind(env, EnvTask("t"), None, ["go"] * 5, seen) == Rewound("replayed", 2, 5)
    assert env.steps == 5


def test_a_replay_that_ends_early_is_a_drift() -> None:
    env = Counter(ends_at=3)
    seen = after(env, 5)
    assert rewind(env, EnvTask("t"), None, ["go"] * 5, seen) == Rewound("replayed", 3, 3)


def test_there_is_one_observation_for_each_action() -> None:
    env = Counter()
    with pytest.raises(ValueError, match="2 actions with 1 observations"):
        rewind(env, EnvTask("t"), None, ["go", "go"], ["1"])
    assert env.resets == 0
