"""Which checkpoint a run goes on from, the order of tasks in each pass, and faults of a full disk."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from trl.trainer.utils import RepeatSampler

from horma_rl.training.checkpoints import MARKER, is_complete, mark_complete, newest_checkpoint, step_of
from horma_rl.training.policies import disk_errors, once
from horma_rl.training.trainer import PassSampler


def checkpoint(folder: Path, step: int, whole: bool = True) -> Path:
    made = folder / f"checkpoint-{step}"
    (made / "inner").mkdir(parents=True)
    (made / "model.safetensors").write_bytes(b"x" * 100)
    (made / "inner" / "state.json").write_text("{}")
    if whole:
        mark_complete(made)
    return made


def test_the_newest_whole_checkpoint_is_taken_and_newer_ones_go(tmp_path: Path) -> None:
    kept = [checkpoint(tmp_path, step) for step in (8, 10)]
    torn = [checkpoint(tmp_path, step, whole=False) for step in (12, 100)]
    older = checkpoint(tmp_path, 6, whole=False)
    assert newest_checkpoint(tmp_path) == kept[1]
    assert not any(path.exists() for path in torn)
    assert all(path.exists() for path in (*kept, older))
    assert step_of(kept[1]) == 10


def test_without_a_whole_checkpoint_there_is_none(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path / "none") is None
    checkpoint(tmp_path, 2, whole=False)
    assert newest_checkpoint(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def damages() -> dict[str, Callable[[Path], object]]:
    return {
        "short": lambda c: (c / "model.safetensors").write_bytes(b"x" * 99),
        "gone": lambda c: (c / "inner" / "state.json").unlink(),
        "marker cut": lambda c: (c / MARKER).write_text('{"files": {"mod'),
        "marker empty": lambda c: (c / MARKER).write_text(""),
        "marker of something else": lambda c: (c / MARKER).write_text('{"x": 1}'),
    }


@pytest.mark.parametrize("damage", damages())
def test_a_damaged_checkpoint_is_not_whole(damage: str, tmp_path: Path) -> None:
    made = checkpoint(tmp_path, 4)
    assert is_complete(made)
    damages()[damage](made)
    assert not is_complete(made)


def test_a_folder_that_was_made_in_part_is_made_again(tmp_path: Path) -> None:
    def fail(out: Path) -> None:
        out.mkdir()
        (out / "half").touch()
        raise OSError("no")

    def make(out: Path) -> None:
        out.mkdir()
        (out / "whole").touch()

    with pytest.raises(OSError, match="no"):
        once(tmp_path / "model", fail)
    assert not (tmp_path / "model").exists()
    assert once(tmp_path / "model", make) == tmp_path / "model"
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["whole"]
    once(tmp_path / "model", lambda out: pytest.fail("it is there already"))
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def sampler(number: Callable[[], int], seed: int = 5, shuffle: bool = True) -> PassSampler:
    tasks = [f"t{i}" for i in range(7)]
    return PassSampler(RepeatSampler(tasks, mini_repeat_count=2, batch_size=3, shuffle=shuffle, seed=seed), number)


def test_each_pass_has_its_own_order_whatever_came_before() -> None:
    passes = [list(sampler(lambda n=n: n)) for n in range(4)]
    assert len({tuple(order) for order in passes}) == 4
    counter = iter(range(4))
    one = sampler(lambda: next(counter))
    assert [list(one) for _ in range(4)] == passes
    assert [len(order) for order in passes] == [12] * 4 == [len(one)] * 4
    assert all(order[::2] == order[1::2] and len(set(order)) == 6 for order in passes)


def test_the_first_pass_is_trls_and_seeds_differ() -> None:
    plain = RepeatSampler(list(range(7)), mini_repeat_count=2, batch_size=3, seed=5)
    assert list(sampler(lambda: 0)) == list(plain)
    assert list(sampler(lambda: 0, seed=6)) != list(plain)
    assert list(sampler(lambda: 3, shuffle=False))[::2] == [0, 1, 2, 3, 4, 5]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_what_torch_says_of_a_full_disk_becomes_an_os_error(tmp_path: Path) -> None:
    link = tmp_path / "full.pt"
    link.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device") as caught, disk_errors(tmp_path):
        torch.save({"x": torch.zeros(100_000)}, link)
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(tmp_path)


def test_other_faults_pass_unchanged(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2"), disk_errors(tmp_path):
        torch.zeros(2, 3).mm(torch.zeros(2, 3))
    with pytest.raises(Exception, match="No such file"), disk_errors(tmp_path):
        save_file({"x": torch.zeros(1)}, tmp_path / "none" / "x.safetensors")
