"""Keeps what libraries print for their own sake off standard output, whose last lines programs read."""

from __future__ import annotations

import importlib.util
import os


def quieten_deepspeed() -> None:
    """Name DeepSpeed its accelerator where there is no GPU: it would else warn on standard output when it is imported,
    which TRL does wherever it is installed. Call this before TRL or transformers is imported."""
    if "DS_ACCELERATOR" in os.environ or importlib.util.find_spec("deepspeed") is None:
        return
    import torch

    if not torch.cuda.is_available():
        os.environ["DS_ACCELERATOR"] = "cpu"
