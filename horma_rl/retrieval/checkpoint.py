"""What a checkpoint folder's `config.json` says, without loading anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def has_vision(folder: Path) -> bool:
    """Whether the checkpoint holds a vision tower beside its language model (Qwen3.5 as it is released)."""
    return "vision_config" in _config(folder)


def stored_dtype(folder: Path) -> str:
    """The number format of the weights (`float32`, `bfloat16`); `auto` when the config names none."""
    config = _config(folder)
    text = config.get("text_config") or {}
    found = (part.get(name) for part in (config, text) for name in ("dtype", "torch_dtype"))
    return str(next((name for name in found if name), "auto"))


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return config
