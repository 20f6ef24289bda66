"""Which checkpoint a run goes on from, the order of tasks in each pass, and faults of a full disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from trl.trainer.utils import RepeatSampler

from horma_rl.errors import UserError
from horma_rl.training.checkpoints import (
    MARKER,
    damage,
    is_complete,
    mark_complete,
    newest_checkpoint,
    rotate,
    step_of,
)
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


def flip(path: Path) -> None:
    """Change one bit and neither size nor time."""
    content, times = bytearray(path.read_bytes()), (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    os.utime(path, ns=times)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "short": (lambda c: os.truncate(c / "model.safetensors", 99), "model.safetensors has 99 bytes, not 100"),
    "another bit": (lambda c: flip(c / "model.safetensors"), "model.safetensors is not what was written"),
    "gone": (lambda c: (c / "inner" / "state.json").unlink(), "state.json is missing"),
    "marker cut": (lambda c: (c / MARKER).write_text('{"files": {"mod'), "its complete.json cannot be read"),
    "marker empty": (lambda c: (c / MARKER).write_text(""), "its complete.json cannot be read"),
    "marker of something else": (lambda c: (c / MARKER).write_text('{"files": [1]}'), "its complete.json cannot be"),
    "no marker": (lambda c: (c / MARKER).unlink(), "it has no complete.json"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_checkpoint_is_not_whole(name: str, tmp_path: Path) -> None:
    made = checkpoint(tmp_path, 4)
    assert is_complete(made)
    harm, words = DAMAGES[name]
    harm(made)
    assert not is_complete(made)
    assert words in str(damage(made))


def test_a_damaged_newest_checkpoint_is_set_aside_and_the_one_before_it_is_taken(tmp_path: Path) -> None:
    said: list[str] = []
    kept = checkpoint(tmp_path, 2)
    for time in ("", "-2"):
        torn = checkpoint(tmp_path, 4)
        os.truncate(torn / "model.safetensors", 50)
        assert newest_checkpoint(tmp_path, said.append) == kept
        assert not torn.exists()
        assert (tmp_path / f"checkpoint-4.corrupt{time}" / "model.safetensors").stat().st_size == 50
    assert said[1] == (
        f"warning: {torn} is damaged (model.safetensors has 50 bytes, not 100); it is now checkpoint-4.corrupt-2, "
        "and the one before it is taken"
    )


def test_a_run_whose_checkpoints_are_all_damaged_does_not_begin_anew(tmp_path: Path) -> None:
    for step in (2, 4):
        flip(checkpoint(tmp_path, step) / "model.safetensors")
    for _ in range(2):
        with pytest.raises(UserError, match=r"every checkpoint in .* is damaged"):
            newest_checkpoint(tmp_path, lambda _: None)
    sound = checkpoint(tmp_path, 2)
    assert newest_checkpoint(tmp_path) == sound


def test_a_marker_that_lists_no_weights_is_none(tmp_path: Path) -> None:
    kept, forged = checkpoint(tmp_path, 2), checkpoint(tmp_path, 4)
    (forged / MARKER).write_text('{"files": {}}')
    assert damage(forged) == f"its {MARKER} lists no weights"
    assert newest_checkpoint(tmp_path, lambda _: None) == kept


def test_what_is_no_checkpoint_folder_is_left_alone(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder = tmp_path / "checkpoints"
    kept = checkpoint(folder, 2)
    (folder / "checkpoint-7").symlink_to(tmp_path / "nowhere")
    (folder / "checkpoint-8").symlink_to(elsewhere)
    (folder / "checkpoint-9").write_text("a file")
    assert newest_checkpoint(folder) == kept
    assert elsewhere.is_dir()
    assert (folder / "checkpoint-9").is_file()


def test_rotation_keeps_the_newest_and_the_best(tmp_path: Path) -> None:
    made = {step: checkpoint(tmp_path, step) for step in (2, 4, 6, 8, 10)}
    leftover, aside = checkpoint(tmp_path, 1, whole=False), tmp_path / "checkpoint-3.corrupt"
    aside.mkdir()
    for limit in (None, 0):
        rotate(tmp_path, limit)
        assert all(path.exists() for path in made.values())
    rotate(tmp_path, 2, best=str(made[4]))
    assert [step for step, path in made.items() if path.exists()] == [4, 8, 10]
    assert aside.exists()
    assert not leftover.exists()
    rotate(tmp_path, 1)
    assert [step for step, path in made.items() if path.exists()] == [10]


def test_rotation_never_counts_a_checkpoint_that_is_not_finished(tmp_path: Path) -> None:
    kept = checkpoint(tmp_path, 2)
    checkpoint(tmp_path, 4, whole=False)
    rotate(tmp_path, 1)
    assert kept.exists()


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
