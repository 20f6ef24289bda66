"""Checkpoint folders of policies: where a run starts, loading, saving, and making a folder whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from horma_rl.errors import UserError
from horma_rl.retrieval.checkpoint import has_vision
from horma_rl.training.config import TrainConfig


def once(folder: Path, make: Callable[[Path], None]) -> Path:
    """`folder`, made by `make` in a folder beside it and renamed when it is whole; kept when it is there already."""
    if folder.exists():
        return folder
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    make(unfinished)
    os.replace(unfinished, folder)
    return folder


def check_model_path(config: TrainConfig) -> None:
    """Raise UserError when the config's model is a path and there is no folder; other names are ids of the hub."""
    is_path = Path(config.model).is_absolute() or config.model.startswith((".", "data/", "runs/"))
    if is_path and not Path(config.model).is_dir():
        raise UserError(f"model: no checkpoint folder at {config.model}")


def start_folder(config: TrainConfig) -> Path:
    """The folder of the starting checkpoint. A model of the hub, or the language model of a checkpoint with a vision
    tower, is stored in the run's folder first: vLLM would else build the whole, whose weights have other names."""
    if Path(config.model).is_dir() and not has_vision(Path(config.model)):
        return Path(config.model)

    def store(out: Path) -> None:
        try:
            model = AutoModelForCausalLM.from_pretrained(config.model, dtype="auto")
            tokenizer = AutoTokenizer.from_pretrained(config.model)
        except OSError as error:
            raise UserError(f"model: cannot load '{config.model}': {' '.join(str(error).split())[:200]}") from None
        save(tokenizer, model, out)

    return once(config.run_dir / "start", store)


def load(folder: Path, dtype: Any = "auto") -> tuple[Any, Any]:
    """Tokenizer and model of a checkpoint folder, ready to train, in `dtype` or as they are stored. Raises UserError
    when they cannot be read."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa")
    except (OSError, ValueError, SafetensorError) as error:
        raise UserError(f"model: cannot load {folder}: {' '.join(str(error).split())[:200]}") from None
    return tokenizer, model


def stored_dtype(folder: Path) -> Any:
    """The number format that a checkpoint folder names."""
    return AutoConfig.from_pretrained(folder).dtype or "auto"


def save(tokenizer: Any, model: Any, out: Path) -> None:
    """Write a checkpoint folder. Raises OSError when the disk is full."""
    with disk_errors(out):
        model.save_pretrained(out)
        tokenizer.save_pretrained(out)


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Tell of a full disk by OSError, whichever library wrote: safetensors and torch raise errors of their own."""
    try:
        yield
    except (SafetensorError, RuntimeError) as error:
        if "No space left" not in str(error) and "inline_container" not in str(error):
            raise
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder)) from error
