"""The starting checkpoint: its folder is whole and can be read, or the hub's cache has it. Without torch."""

from __future__ import annotations

import json
import os
from pathlib import Path

from horma_rl.preflight.check import Found
from horma_rl.training.config import TrainConfig

ANY_TOKENIZER = ("tokenizer.json", "tokenizer.model", "vocab.json")


def check_model(config: TrainConfig) -> Found:
    """Read the headers of every weight file, and look for the tokenizer."""
    folder = Path(config.model)
    if not folder.is_dir():
        return _of_hub(config.model)
    json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if not any((folder / name).is_file() for name in ANY_TOKENIZER):
        return Found("fail", f"{folder} has no tokenizer", "save it there: tokenizer.save_pretrained(FOLDER)")
    files = weight_files(folder)
    missing = [name for name in files if not (folder / name).is_file()]
    if missing or not files:
        told = ", ".join(missing) or "model.safetensors"
        return Found("fail", f"{folder} lacks {told}", "copy the checkpoint again")
    tensors = sum(_tensors(folder / name) for name in files)
    size = sum((folder / name).stat().st_size for name in files)
    return Found("ok", f"{folder}: {tensors} tensors in {len(files)} files, {size / 1e9:.2f} GB")


def weight_files(folder: Path) -> list[str]:
    """The names of the weight files that a checkpoint has, or should have by its index."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        return sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    return sorted(path.name for path in folder.glob("*.safetensors"))


def _tensors(path: Path) -> int:
    """Tensors in a file, after its header and its length were found to be sound. Raises SafetensorError."""
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as weights:
        return len(weights.keys())


def _of_hub(name: str) -> Found:
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(name, "config.json")
    if isinstance(found, str):
        return Found("ok", f"{name}, in the hub's cache on this machine")
    if os.environ.get("HF_HUB_OFFLINE", "0").upper() in ("1", "TRUE", "YES", "ON"):
        advice = f"with network: hf download {name}; or set `model` to a folder"
        return Found("fail", f"{name} is no folder, and not in the hub's cache; HF_HUB_OFFLINE is set", advice)
    advice = f"nodes often have no network: hf download {name} on a login node first"
    return Found("warn", f"{name} is not in the hub's cache: it will be downloaded", advice)
