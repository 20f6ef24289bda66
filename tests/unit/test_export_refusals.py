"""What `horma-rl export` refuses before it loads anything: one line, exit code 2, and no torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from horma_rl.cli import main
from horma_rl.config import dump, load_config
from horma_rl.training.config import TrainConfig

TINY = "configs/train/tiny_cpu.yaml"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder whose final model would fail to load."""
    config = load_config(Path(TINY), [f"runs={tmp_path / 'runs'}"], TrainConfig)
    (config.run_dir / "model").mkdir(parents=True)
    (config.run_dir / "model" / "model.safetensors").write_bytes(b"nothing")
    (config.run_dir / "config.yaml").write_text(dump(config), encoding="utf-8")
    return config.run_dir


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", ""], "--to is empty"),
        (["--to", "{tmp}"], "exists: an export never overwrites"),
        (["--to", "{tmp}", "--check"], "no horma.json there, nothing to check"),
        (["--to", "/proc/e1"], "--to /proc/e1: no folder can be made in /proc ("),
        (["--to", "{tmp}/file/e1"], "no folder can be made in {tmp}/file ("),
        (["--to", "{tmp}/new", "--merge-lora"], "trained whole weights"),
        (["--to", "{tmp}/new", "--checkpoint", "7"], "has no checkpoint '7': there are final"),
        *((["--to", "{tmp}/new", f"--max-shard-size={size}"], f"--max-shard-size '{size}': give a size above 0")
          for size in ("banana", "0", "0GB", "-1GB", "nanGB", "1e9GB", "5", "0.0000001KB", "")),
    ],
)  # fmt: skip
def test_what_is_at_fault_is_one_line(
    arguments: list[str], message: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert main(["export", str(run), *(word.format(tmp=tmp_path) for word in arguments)]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert message.format(tmp=tmp_path) in told.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "runs"]


def test_no_torch_is_imported_for_it(run: Path, tmp_path: Path) -> None:
    new, taken = str(tmp_path / "new"), str(tmp_path)
    calls = [
        ["--to", taken], ["--to", "/proc/e1"], ["--to", new, "--checkpoint=7"], ["--to", new, "--max-shard-size=0"],
    ]  # fmt: skip
    code = (
        "import json, sys; from horma_rl.cli import main; "
        f"codes = [main(['export', {str(run)!r}, *words]) for words in json.loads({json.dumps(calls)!r})]; "
        "sys.exit(3 if 'torch' in sys.modules else codes != [2] * 4)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0
