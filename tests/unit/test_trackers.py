"""Trackers: what they get, which id a run has, and what happens when one is not there."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from horma_rl.errors import UserError
from horma_rl.training import trackers
from horma_rl.training.config import TrainConfig
from horma_rl.training.trackers import Trackers, check_trackers, kept_id, numbers_of, report_to_trackers


class Notes:
    """A tracker that writes down what it gets."""

    def __init__(self, config: TrainConfig, step: int) -> None:
        self.got: list[Any] = [("open", step)]

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        self.got.append((dict(numbers), step))

    def conclude(self, numbers: Mapping[str, float], report: Path, step: int) -> None:
        self.got.append((dict(numbers), report.name, step))

    def close(self) -> None:
        self.got.append("closed")


def config(tmp_path: Path, *names: str) -> TrainConfig:
    return TrainConfig.model_validate({"name": "run", "runs": str(tmp_path), "trackers": list(names)})


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Notes]:
    """The trackers that were opened as TensorBoard's; wandb's server is away."""
    made: list[Notes] = []

    def notes(config: TrainConfig, step: int) -> Notes:
        made.append(Notes(config, step))
        return made[-1]

    def away(config: TrainConfig, step: int) -> Notes:
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(trackers, "KINDS", {"tensorboard": notes, "wandb": away})
    return made


def test_lines_are_shown_and_their_numbers_sent(tmp_path: Path, opened: list[Notes]) -> None:
    shown: list[Any] = []
    with Trackers(config(tmp_path, "tensorboard"), lambda row, steps: shown.append((row["step"], steps))) as send:
        send({"step": 7, "reward": 0.5, "loss": nan, "alarms": ["kl"]}, 9)
        send({"step": 8, "reward": 1}, 9)
    assert shown == [(7, 9), (8, 9)]
    assert [tracker.got for tracker in opened] == [[("open", 7), ({"reward": 0.5}, 7), ({"reward": 1}, 8), "closed"]]


def test_a_run_without_lines_opens_nothing(tmp_path: Path, opened: list[Notes]) -> None:
    with Trackers(config(tmp_path, "tensorboard"), lambda row, steps: None):
        pass
    assert opened == []


def test_they_are_closed_when_the_training_fails(tmp_path: Path, opened: list[Notes]) -> None:
    def training() -> None:
        with Trackers(config(tmp_path, "tensorboard"), lambda row, steps: None) as send:
            send({"step": 1}, 2)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        training()
    assert opened[0].got[-1] == "closed"


def test_one_that_is_away_is_told_of_and_left_out(
    tmp_path: Path, opened: list[Notes], capsys: pytest.CaptureFixture[str]
) -> None:
    with Trackers(config(tmp_path, "wandb", "tensorboard"), lambda row, steps: None) as send:
        send({"step": 1, "reward": 0.5}, 2)
    assert opened[0].got[1] == ({"reward": 0.5}, 1)
    assert capsys.readouterr().err == "horma-rl: goes on without wandb: ConnectionError: no route to host\n"


def test_results_come_after_the_last_step(tmp_path: Path, opened: list[Notes]) -> None:
    report_to_trackers(config(tmp_path, "tensorboard"), {"after": 0.5, "name": "run"}, tmp_path / "report.html", 70)
    assert opened[0].got == [("open", 71), ({"after": 0.5}, "report.html", 70), "closed"]


def test_only_finite_numbers_are_points() -> None:
    row = {"step": 3, "a": 1, "b": 0.5, "c": nan, "d": inf, "e": "word", "f": None, "g": True, "h": [1]}
    assert numbers_of(row) == {"a": 1, "b": 0.5}


def test_the_id_stays_the_run_s(tmp_path: Path) -> None:
    made = kept_id(tmp_path)
    assert kept_id(tmp_path) == made
    (tmp_path / "other").mkdir()
    assert kept_id(tmp_path / "other") != made


def test_wandb_without_a_key_is_refused_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setattr(wandb, "login", lambda **_: False)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    with pytest.raises(UserError, match="no API key here"):
        check_trackers(config(tmp_path, "wandb"))
    monkeypatch.setenv("WANDB_MODE", "offline")
    check_trackers(config(tmp_path, "wandb"))


def test_one_that_is_not_installed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match="tensorboard is not installed"):
        check_trackers(config(tmp_path, "tensorboard"))
