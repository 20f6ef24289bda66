"""The metrics log, the live line and the orderly end on Ctrl-C."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from horma_rl.training.progress import Live, MetricsLog, StopOnInterrupt, read_metrics
from horma_rl.training.signals import CLUSTER_SIGNALS, Preempted, preemptible
from tests.training_parts import lines_of


def log(to: MetricsLog, step: int, **values: Any) -> None:
    to.on_log(None, SimpleNamespace(global_step=step, max_steps=9), None, values)


def test_a_line_holds_the_step_under_our_names(tmp_path: Path) -> None:
    shown: list[tuple[Any, int]] = []
    to = MetricsLog(tmp_path / "m.jsonl", lambda row, steps: shown.append((row, steps)))
    others = {"completions/mean_length": 7.0, "rollout/turns": 2.0, "rewards/reward/std": 0.5, "kl": None}
    log(to, 3, reward=0.5, **others)
    (row,) = lines_of(tmp_path / "m.jsonl")
    assert row.pop("time") > 1e9
    assert row == {"step": 3, "reward": 0.5, "model_tokens": 7.0, "turns": 2.0}
    assert shown[0][0]["step"] == 3
    assert shown[0][1] == 9


def test_totals_write_nothing(tmp_path: Path) -> None:
    to = MetricsLog(tmp_path / "m.jsonl", lambda row, steps: pytest.fail("nothing to show"))
    log(to, 3, train_runtime=1.0)
    assert not (tmp_path / "m.jsonl").exists()


def test_the_last_line_of_a_step_counts(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"step": 1, "reward": 1}\n{"step": 2, "reward": 2}\n{"step": 1, "reward": 3}\n{"step": 3, "rew')
    assert read_metrics(path) == [{"step": 1, "reward": 3}, {"step": 2, "reward": 2}]
    assert read_metrics(tmp_path / "none.jsonl") == []


def test_damaged_lines_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(b'{"step": 1, "reward": 1}\n\xff\xfe\n5\n[]\n{"no": 1}\n{"step": "x"}\n{"step": 2}\n')
    assert read_metrics(path) == [{"step": 1, "reward": 1}, {"step": 2}]


def test_a_torn_line_does_not_swallow_the_next(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"step": 1, "reward": 1.0}\n{"step": 2, "rew')
    log(MetricsLog(path, lambda row, steps: None), 2, reward=0.25)
    assert [(row["step"], row["reward"]) for row in read_metrics(path)] == [(1, 1.0), (2, 0.25)]
    assert path.read_text().count("\n") == 2


def test_the_live_line_tells_what_matters(capsys: pytest.CaptureFixture[str]) -> None:
    live = Live(every=2)
    row = {"reward": 0.4321, "reward_std": 0.1, "turns": 2.5, "invalid_rate": 0.125, "tokens_per_s": 1234.5}
    for step in (1, 2, 3, 5):
        live({"step": step, **row}, 5)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == ["1/5", "2/5", "5/5"]
    assert "reward 0.432 (spread 0.100)  turns 2.5  invalid 12%  1,234 tokens/s  0:00 left" in lines[0]
    assert lines[-1].endswith("0:00 left")


def test_the_live_line_stands_a_step_without_rewards(capsys: pytest.CaptureFixture[str]) -> None:
    Live(every=1)({"step": 1}, 3)
    assert "reward nan" in capsys.readouterr().err


def test_the_time_left_after_a_resume_counts_from_the_resume(capsys: pytest.CaptureFixture[str]) -> None:
    Live(every=1)({"step": 91, "step_s": 2.0}, 100)
    assert "0:18 left" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_the_first_signal_saves_and_stops_after_the_step(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number)
    control = SimpleNamespace(should_save=False, should_training_stop=False)
    with StopOnInterrupt() as stop:
        assert vars(stop.on_step_end(None, None, control)) == {"should_save": False, "should_training_stop": False}
        os.kill(os.getpid(), number)
        assert stop.stopped
        assert vars(stop.on_step_end(None, None, control)) == {"should_save": True, "should_training_stop": True}
        assert "finishing this step" in capsys.readouterr().err
        assert isinstance(stop.reason(), Preempted) == (number != signal.SIGINT)
    assert signal.getsignal(number) == before


def test_the_second_signal_stops_at_once_and_the_signals_go_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with StopOnInterrupt():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == before


def test_a_clusters_second_signal_changes_nothing() -> None:
    with StopOnInterrupt() as stop:
        for number in (signal.SIGUSR1, signal.SIGTERM):
            os.kill(os.getpid(), number)
        assert stop.number == signal.SIGUSR1


@pytest.mark.parametrize("number", CLUSTER_SIGNALS)
def test_a_cluster_stops_what_is_no_step_at_once(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Preempted), preemptible():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) == before
