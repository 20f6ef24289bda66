"""What DeepSpeed compiles for a CPU (an all-reduce through shared memory), compiled once before the processes start.

It would compile on its own, in every process's first step. But a compile that is killed leaves a lock file behind for
which every later one waits for ever. Here a lock of the operating system, which ends with its process, says whether
somebody compiles; a lock file found while holding it is an old one.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

from horma_rl.errors import UserError

_BUILD = "from deepspeed.ops.op_builder.cpu import ShareMemCommBuilder as B; b = B(); b.is_compatible() and b.load()"


def cpu_extensions() -> Path:
    """The folder of the compiled extensions: $TORCH_EXTENSIONS_DIR, or one in the user's cache. Raises UserError when
    they cannot be compiled."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("TORCH_EXTENSIONS_DIR") or cache / "horma_rl" / "torch_extensions")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".horma-lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if (folder / "deepspeed_shm_comm" / "deepspeed_shm_comm.so").is_file():
            _drop_lock_files(folder)
            return folder
        _drop_lock_files(folder)
        _compile(folder)
    return folder


def _drop_lock_files(folder: Path) -> None:
    for lock in folder.glob("*/lock"):
        lock.unlink(missing_ok=True)


def _compile(folder: Path) -> None:
    env = {**os.environ, "DS_ACCELERATOR": "cpu", "TORCH_EXTENSIONS_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", _BUILD], env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UserError(f"DeepSpeed's extension for CPUs did not compile (needs g++ and ninja): {last}")
