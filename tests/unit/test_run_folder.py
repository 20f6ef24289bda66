"""A run's folder: one run, one process, and a config that may not be readable."""

from __future__ import annotations

from pathlib import Path

import pytest

from horma_rl.errors import UserError
from horma_rl.memory.files import locked
from horma_rl.training import run
from horma_rl.training.config import TrainConfig
from horma_rl.training.identity import same_run


def config(tmp_path: Path) -> TrainConfig:
    return TrainConfig(name="one", runs=tmp_path)


@pytest.mark.parametrize("content", [b"name: [unclosed", b"\xff\xfe", b"name: another\n"])
def test_a_folder_with_another_config_or_an_unreadable_one_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "config.yaml").write_bytes(content)
    with pytest.raises(UserError, match="choose another name"):
        run.claim(config(tmp_path))
    assert (tmp_path / "one" / "config.yaml").read_bytes() == content


def test_alarms_may_differ_and_nothing_else() -> None:
    assert same_run("a: 1\nalarms: {x: 1}\n", "a: 1\nalarms: {x: 2}\n")
    assert not same_run("a: 1\n", "a: 2\n")
    assert not same_run("a: [", "a: 1\n")


def test_a_run_is_trained_by_one_process_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "begin", lambda config: None)
    monkeypatch.setattr(run, "prepare", lambda *_: pytest.fail("the folder is taken"))
    with locked(tmp_path / "one"), pytest.raises(UserError, match="another process"):
        run.train(config(tmp_path), print)
