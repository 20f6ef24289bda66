"""Take an environment back to an earlier state, in the way that it can, and say how far that can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from interactive_env.types import EnvTask, InteractiveEnv

How = Literal["restored", "replayed", "not"]


@dataclass(frozen=True, slots=True)
class Rewound:
    """How an environment went back.

    `not`: it did not, and is as it was; the policy must be told that the world has not rolled back. `drift`: index of
    the first replayed action whose observation was not what it had been, or that could not be played again because the
    task had ended before it; the environment is then in a state that nobody has seen. `steps`: actions that the replay
    took, none with a snapshot.
    """

    how: How
    drift: int | None = None
    steps: int = 0


def rewind(
    env: InteractiveEnv,
    task: EnvTask,
    snapshot: object | None,
    actions: Sequence[str],
    expected_observations: Sequence[str],
) -> Rewound:
    """Take `env` back to the state after `actions`, which brought `expected_observations`, from the start of `task`.

    With a `snapshot` of that state it is restored, where the environment can; without, or where it can only replay,
    it is reset and plays `actions` once more. Raises ValueError when there is not one observation for each action.
    """
    if len(actions) != len(expected_observations):
        raise ValueError(
            f"{len(actions)} actions with {len(expected_observations)} observations: there must be one each"
        )
    way = env.capabilities.rewind
    if way == "none":
        return Rewound("not")
    if way == "restore" and snapshot is not None:
        env.restore(snapshot)
        return Rewound("restored")
    env.reset(task)
    return _replay(env, actions, expected_observations)


def _replay(env: InteractiveEnv, actions: Sequence[str], expected: Sequence[str]) -> Rewound:
    """Play `actions`; all of them, even after a drift, for as long as the task runs."""
    drift: int | None = None
    ended = False
    for index, (action, before) in enumerate(zip(actions, expected, strict=True)):
        if ended:
            return Rewound("replayed", index if drift is None else drift, index)
        outcome = env.step(action)
        ended = outcome.terminated or outcome.truncated
        if drift is None and outcome.observation != before:
            drift = index
    return Rewound("replayed", drift, len(actions))
