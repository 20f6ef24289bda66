"""What every InteractiveEnv must hold, as checks that the tests of each environment share.

SAMPLE = Sample(lambda: suite.make(TASK), TASK, actions=WINNING_ACTIONS, invalid=("fly", ""))

@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Check) -> None:
    check(SAMPLE)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from interactive_env.types import EnvTask, InteractiveEnv, Outcome


@dataclass(frozen=True, slots=True)
class Sample:
    """A task, `actions` that play it to its end and win, and `invalid` ones, which are refused wherever they are tried.

    `won`: whether `actions` win; without, they only end the task.
    """

    make: Callable[[], InteractiveEnv]
    task: EnvTask
    actions: Sequence[str]
    invalid: Sequence[str]
    won: bool = True


Check = Callable[[Sample], None]

MAX_SECONDS = 5.0
"""Of processor time for one action. What is linear takes milliseconds; what is quadratic took minutes."""
MAX_TOLD = 100_000
_LONG = 99_000
_WORDS = (
    "",
    "\0",
    "\x1b[2J",
    "\ud800",
    "../../etc/passwd",
    "'; DROP TABLE documents;--",
    'a" OR NEAR(b) *',
    "9" * 5_000,
)
_FORMS = ("{}", "search[{}]", "click[{}]", "answer[{}]", "search {}", "view {}", "buy {}", "calendar {}", "go to {}")
_CALLS = ("search", "get_document", "RestaurantSearch", "FlightSearch", "SubmitPlan", "answer")
_ARGUMENTS = ("query", "id", "city", "plan", "text")
HOSTILE = (
    *(form.format(word) for form in _FORMS for word in (*_WORDS, "x" * 1_000_000)),
    *(f"{name}{' ' * _LONG}x" for name in ("a", "search", "answer", "CitySearch")),
    *(mark * _LONG for mark in "[]{}()\" "),
    *(f'{name} {{"{key}": {value}}}' for name in _CALLS for key in _ARGUMENTS
      for value in ('"\\ud800"', '"\\u0000\\u001b[2J"', "NaN", "9" * 5_000, "[" * 900 + "]" * 900, "[" * _LONG)),
    *(f'{name} {{"{key}": "{"(" * _LONG}"}}' for name, key in (("search", "query"), ("RestaurantSearch", "city"))),
    *(f"book {name} d\u0660-09 Elm" for name in ("x", "\0")),
)  # fmt: skip
"""Actions that nobody means well with, for whatever grammar."""


def resets_are_repeatable(sample: Sample) -> None:
    """The same start, outcomes and scores after a second reset, and from a second environment."""
    env = sample.make()
    first = _whole(env, sample)
    assert _whole(env, sample) == first
    env.close()
    assert _whole(sample.make(), sample) == first


def actions_are_played_to_the_end(sample: Sample) -> None:
    """Only the last action ends the task; scores are in range at each step, and agree at the end."""
    env = sample.make()
    env.reset(sample.task)
    _scores(env)
    outcomes = []
    for action in sample.actions:
        outcomes.append(env.step(action))
        _scores(env)
    assert [outcome.terminated for outcome in outcomes] == [False] * (len(outcomes) - 1) + [True]
    assert not any(outcome.truncated for outcome in outcomes)
    assert env.success == sample.won
    env.close()


def steps_need_a_running_task(sample: Sample) -> None:
    """A step before reset and one after the end raise RuntimeError, and reset begins anew."""
    env = sample.make()
    with pytest.raises(RuntimeError):
        env.step(sample.actions[0])
    start = env.reset(sample.task)
    _play(env, sample.actions)
    with pytest.raises(RuntimeError):
        env.step(sample.actions[0])
    assert env.reset(sample.task) == start
    assert not env.success
    env.step(sample.actions[0])
    env.close()


def invalid_actions_change_nothing(sample: Sample) -> None:
    """They are told as observations, wherever they come, and the task goes on as if they had not been."""
    env = sample.make()
    env.reset(sample.task)
    plain = _play(env, sample.actions)
    points = _points(len(sample.actions))
    env.reset(sample.task)
    for index, action in enumerate(sample.actions):
        for wrong in sample.invalid if index in points else ():
            before = (env.success, env.progress)
            outcome = env.step(wrong)
            assert not outcome.valid, wrong
            assert outcome.observation, f"nothing is said of {wrong!r}"
            ended = outcome.terminated or outcome.truncated or outcome.subtask
            assert not ended, wrong
            assert (env.success, env.progress) == before, wrong
        assert env.step(action) == plain[index], f"after {sample.invalid!r}"
    env.close()


def hostile_actions_are_answered(sample: Sample) -> None:
    """In little time, and with a text of a sane length that UTF-8 can hold and that moves no terminal's cursor."""
    env = sample.make()
    env.reset(sample.task)
    for action in HOSTILE:
        began = time.process_time()
        outcome = env.step(action)
        assert time.process_time() - began < MAX_SECONDS, f"slow: {action[:40]!a}"
        told = outcome.observation
        assert 0 < len(told.encode("utf-8")) < MAX_TOLD, ascii(action[:40])
        assert not any(ord(character) < 32 and character not in "\n\t" for character in told), ascii(action[:40])
        _scores(env)
        if outcome.terminated or outcome.truncated:
            env.reset(sample.task)
    env.close()


def the_step_cap_ends_it(sample: Sample) -> None:
    """Invalid actions count: the last that the cap allows truncates, without success."""
    env = sample.make()
    env.reset(sample.task)
    outcomes = [env.step(sample.invalid[0]) for _ in range(env.capabilities.max_steps)]
    assert [outcome.truncated for outcome in outcomes] == [False] * (len(outcomes) - 1) + [True]
    assert not env.success
    with pytest.raises(RuntimeError):
        env.step(sample.actions[0])
    env.close()


def going_back_gives_the_same(sample: Sample) -> None:
    """From the first, a middle and the last step: restored any number of times, or replayed, the rest plays alike."""
    env = sample.make()
    start = env.reset(sample.task)
    plain = _play(env, sample.actions)
    for point in _points(len(sample.actions)):
        assert env.reset(sample.task) == start
        assert _play(env, sample.actions[:point]) == plain[:point]
        if env.capabilities.rewind != "restore":
            with pytest.raises(NotImplementedError):
                env.snapshot()
        else:
            _restore_twice(env, sample.actions[point:], plain[point:])
    env.close()


def it_closes_twice(sample: Sample) -> None:
    """Before a reset, in the middle of a task, and once more."""
    sample.make().close()
    env = sample.make()
    env.reset(sample.task)
    env.step(sample.actions[0])
    env.close()
    env.close()


CHECKS: tuple[Check, ...] = (
    resets_are_repeatable,
    actions_are_played_to_the_end,
    steps_need_a_running_task,
    invalid_actions_change_nothing,
    hostile_actions_are_answered,
    the_step_cap_ends_it,
    going_back_gives_the_same,
    it_closes_twice,
)


def _restore_twice(env: InteractiveEnv, rest: Sequence[str], expected: Sequence[Outcome]) -> None:
    snapshot, scores = env.snapshot(), (env.success, env.progress)
    for _ in range(2):
        assert _play(env, rest) == list(expected)
        env.restore(snapshot)
        assert (env.success, env.progress) == scores
    assert _play(env, rest) == list(expected)


def _points(count: int) -> tuple[int, ...]:
    return tuple(sorted({0, count // 2, count - 1}))


def _play(env: InteractiveEnv, actions: Sequence[str]) -> list[Outcome]:
    return [env.step(action) for action in actions]


def _whole(env: InteractiveEnv, sample: Sample) -> tuple[object, ...]:
    return env.reset(sample.task), _play(env, sample.actions), env.success, env.progress


def _scores(env: InteractiveEnv) -> None:
    assert 0.0 <= env.progress <= 1.0
    assert not env.success or env.progress == 1.0
