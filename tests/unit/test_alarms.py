"""When an alarm sounds, what it says, and how its rules are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from horma_rl.config import dump, load_config
from horma_rl.errors import UserError
from horma_rl.training.alarms import AlarmConfig, Alarms
from horma_rl.training.config import TrainConfig

HEALTHY: dict[str, Any] = {
    "step": 1, "call_rate": 1.0, "flat_groups_kept": 0.25, "entropy": 0.5, "logprob_diff": 1e-6, "ess": 1.0,
    "invalid_rate": 0.1, "kl_start": 0.05, "grad_norm": 1.0, "nonfinite": 0.0,
}  # fmt: skip
SICK: dict[str, tuple[str, float, str]] = {
    "call_rate": ("call_rate", 0.0, "0 is below 0.05 for 10 steps"),
    "flat_groups": ("flat_groups_kept", 1.0, "1 is above 0.99 for 20 steps"),
    "entropy": ("entropy", 0.0005, "0.0005 is below 0.002 for 20 steps"),
    "logprob_diff": ("logprob_diff", 0.7, "0.7 is above 0.2 for 5 steps"),
    "ess": ("ess", 0.1, "0.1 is below 0.5 for 10 steps"),
    "invalid_rate": ("invalid_rate", 0.95, "0.95 is above 0.9 for 20 steps"),
    "kl": ("kl_start", 9.0, "9 is above 3 for 10 steps"),
    "grad_norm": ("grad_norm", 2000.0, "2000 is above 100 for 5 steps"),
    "nonfinite": ("nonfinite", 1.0, "1 is above 0.5 for 3 steps"),
}
STOPS = {"call_rate", "flat_groups", "logprob_diff", "nonfinite"}


def config(text: str, tmp_path: Path) -> AlarmConfig:
    path = tmp_path / "train.yaml"
    path.write_text("name: run\nalarms: " + text)
    return load_config(path, [], TrainConfig).alarms


def test_every_alarm_has_a_case_here() -> None:
    assert set(SICK) == set(AlarmConfig.model_fields)


def test_nothing_sounds_in_a_healthy_run() -> None:
    alarms = Alarms(AlarmConfig())
    assert [alarms.check(HEALTHY) for _ in range(100)] == [[]] * 100


@pytest.mark.parametrize("name", SICK)
def test_an_alarm_sounds_after_its_patience_and_again_after_as_many_steps(name: str) -> None:
    metric, figure, words = SICK[name]
    alarms, patience = Alarms(AlarmConfig()), getattr(AlarmConfig(), name).patience
    heard = [alarms.check({**HEALTHY, "step": step, metric: figure}) for step in range(1, 2 * patience + 1)]
    assert [len(sounding) for sounding in heard] == [*[0] * (patience - 1), 1] * 2
    (alarm,) = heard[patience - 1]
    assert alarm.name == name
    assert alarm.stops == (name in STOPS)
    assert alarm.line.startswith(f"alarm {name} at step {patience}: {words}; ")
    assert alarm.line.endswith(f"(alarms.{name})")
    assert "\n" not in alarm.line


def test_one_good_step_ends_the_count_and_a_missing_figure_does_not() -> None:
    alarms = Alarms(AlarmConfig())
    bad = {**HEALTHY, "nonfinite": 1.0}
    unknown = {key: value for key, value in HEALTHY.items() if key != "nonfinite"}
    assert not any(alarms.check(row) for row in (bad, bad, HEALTHY, bad, bad, unknown))
    assert [alarm.name for alarm in alarms.check(bad)] == ["nonfinite"]


def test_a_resumed_run_goes_on_counting() -> None:
    first, second = Alarms(AlarmConfig()), Alarms(AlarmConfig())
    bad = {**HEALTHY, "nonfinite": 1.0}
    for _ in range(2):
        first.check(bad)
    second.load_state_dict(first.state_dict())
    assert [alarm.name for alarm in second.check(bad)] == ["nonfinite"]


def test_with_a_reference_model_kl_is_trls() -> None:
    row = {key: value for key, value in HEALTHY.items() if key != "kl_start"} | {"kl": 4.0}
    alarms = Alarms(AlarmConfig())
    assert [alarm.name for _ in range(10) for alarm in alarms.check(row)] == ["kl"]


def test_a_rule_may_be_given_in_part(tmp_path: Path) -> None:
    given = config("{entropy: {action: off}, kl: {threshold: 1}, call_rate: {patience: 1, action: warn}}", tmp_path)
    default = AlarmConfig()
    assert given.entropy == default.entropy.model_copy(update={"action": "off"})
    assert given.kl == default.kl.model_copy(update={"threshold": 1.0})
    assert given.call_rate == default.call_rate.model_copy(update={"patience": 1, "action": "warn"})
    assert given.ess == default.ess
    alarms = Alarms(given)
    assert not any(alarms.check({**HEALTHY, "entropy": 0.0}) for _ in range(50))
    assert AlarmConfig.model_validate(yaml.safe_load(dump(given))) == given


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{entropi: {action: warn}}", "unknown key 'alarms.entropi' (did you mean 'entropy'?)"),
        ("{entropy: {action: halt}}", "'alarms.entropy.action' is 'halt'"),
        ("{entropy: {patience: 0}}", "'alarms.entropy.patience' is 0"),
        ("{entropy: {limit: 0}}", "unknown key 'alarms.entropy.limit'"),
        ("{entropy: off}", "'alarms.entropy' is False"),
    ],
)
def test_an_unsound_rule_is_refused_in_one_line(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        config(text, tmp_path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
