"""The checkpoints of a run, whichever engine wrote them, as models that transformers has loaded.

| kind | what the folder holds | read by |
|---|---|---|
| plain | `model.safetensors`, or shards with their index | transformers |
| lora | `adapter_model.safetensors` and the name of its base | PEFT |
| zero | DeepSpeed's `global_step*` partitions without gathered weights | DeepSpeed's own `zero_to_fp32` |
| fsdp | `pytorch_model_fsdp_0`, sharded by `torch.distributed.checkpoint` | accelerate's own `merge_fsdp_weights` |

A ZeRO checkpoint with gathered weights is plain. The last two kinds hold pickles beside their tensors: they are read
from a run's own folder only, and only when they are whole.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from horma_rl.config import load_config
from horma_rl.errors import UserError
from horma_rl.training.checkpoints import MARKER, damage, step_of
from horma_rl.training.config import TrainConfig

if TYPE_CHECKING:
    from horma_rl.training.validation import Chosen

Kind = Literal["plain", "lora", "zero", "fsdp"]
FSDP_FOLDER = "pytorch_model_fsdp_0"
ADAPTER = "adapter_config.json"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of a run. `name`: final, best or the step. `start`: the checkpoint that GRPO started from."""

    folder: Path
    kind: Kind
    name: str
    step: int
    start: Path

    @property
    def base(self) -> Path:
        """`start`, which has the configuration and the tokenizer where `folder` has not, and the weights that an
        adapter changes. Raises UserError when it is not there any more."""
        if not self.start.is_dir():
            raise UserError(
                f"{self.folder} needs the checkpoint that its run started from, which is not at {self.start}"
            )
        return self.start


def read_run(run: Path) -> TrainConfig:
    """The config of the run at `run`, with its paths as the folder stands now. Raises UserError when it is no run."""
    if not (run / "config.yaml").is_file():
        named = Path("runs") / run
        hint = f" (did you mean '{named}'?)" if (named / "config.yaml").is_file() else ""
        raise UserError(f"{run} is no run's folder, it has no config.yaml{hint}")
    config = load_config(run / "config.yaml", [], TrainConfig)
    place = run.resolve()
    return config.model_copy(update={"name": place.name, "runs": run.parent if run.name else place.parent})


def find_checkpoint(config: TrainConfig, name: str = "final") -> Checkpoint:
    """The checkpoint `name` of a run: `final`, `best`, or a step.

    Raises UserError when it is not there, or not whole.
    """
    run = config.run_dir
    best = _best(config)
    folders = {"final": run / "model"} | ({"best": best.folder} if best else {})
    there = [path for path in (run / "checkpoints").glob("*") if re.fullmatch(r"checkpoint-\d+", path.name)]
    saved = {str(step_of(path)): path for path in there}
    folder = {**folders, **saved}.get(name)
    if folder is None or not folder.is_dir():
        known = [key for key, path in folders.items() if path.is_dir()] + sorted(saved, key=int)
        raise UserError(f"{run} has no checkpoint '{name}': there are {', '.join(known) or 'none yet'}")
    marked = name != "final" or (folder / MARKER).exists()  # models of earlier releases have no marker
    if marked and (fault := damage(folder)):
        raise UserError(f"{folder} is no whole checkpoint ({fault}): choose another --checkpoint")
    step = best.step if best and name == "final" else _step(config, folder)
    return Checkpoint(folder, kind_of(folder), name, step, _start(config))


def _best(config: TrainConfig) -> Chosen | None:
    """The checkpoint that validation chose. While GRPO goes on there is none yet, and whoever asks for it clears away a
    checkpoint that is being written."""
    if not config.evaluation.best or not (config.run_dir / "model").is_dir():
        return None
    from horma_rl.training.validation import chosen_checkpoint  # imports torch

    return chosen_checkpoint(config)


def kind_of(folder: Path) -> Kind:
    """How the weights of a checkpoint folder are kept. Raises UserError for none that is known."""
    if (folder / ADAPTER).is_file():
        return "lora"
    if any(folder.glob("model*.safetensors")):
        return "plain"
    if (folder / FSDP_FOLDER / ".metadata").is_file():
        return "fsdp"
    if (folder / "latest").is_file() and any(folder.glob("global_step*")):
        return "zero"
    raise UserError(f"{folder} holds no weights of a known kind (safetensors, LoRA adapter, ZeRO or FSDP partitions)")


def load_tokenizer(checkpoint: Checkpoint) -> Any:
    """The tokenizer of a checkpoint, or of what it started from. Raises UserError when it cannot be read."""
    from transformers import AutoTokenizer

    has_own = (checkpoint.folder / "tokenizer_config.json").is_file()
    folder = checkpoint.folder if has_own else checkpoint.base
    try:
        return AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise UserError(f"{folder}: no usable tokenizer: {' '.join(str(error).split())[:300]}") from None


def load_model(checkpoint: Checkpoint, dtype: str = "auto") -> Any:
    """The model, its adapter still apart if it has one. `dtype`: `auto` (as trained) or a name such as `bfloat16`.

    Raises UserError when it cannot be read, or when its weights do not fit its configuration.
    """
    if checkpoint.kind == "plain":
        return _from_pretrained(checkpoint.folder, dtype)
    if checkpoint.kind == "lora":
        return _with_adapter(checkpoint, dtype)
    with tempfile.TemporaryDirectory(prefix=".horma-gather-", dir=checkpoint.folder.parent) as folder:
        gather(checkpoint, Path(folder))
        return _from_pretrained(Path(folder), dtype)


def gather(checkpoint: Checkpoint, out: Path) -> None:
    """Put the weights of a `zero` or `fsdp` checkpoint together in `out`, as a plain one with its configuration."""
    from accelerate.utils import merge_fsdp_weights
    from safetensors.torch import save_file

    here = checkpoint.folder if (checkpoint.folder / "config.json").is_file() else checkpoint.base
    shutil.copy(here / "config.json", out)
    with contextlib.redirect_stdout(sys.stderr):  # DeepSpeed tells its progress there
        if checkpoint.kind == "fsdp":
            merge_fsdp_weights(str(checkpoint.folder / FSDP_FOLDER), str(out))
        else:
            save_file(_zero_weights(checkpoint.folder), out / "model.safetensors", {"format": "pt"})


def _zero_weights(folder: Path) -> dict[str, Any]:
    try:
        from deepspeed.utils import zero_to_fp32  # type: ignore[import-untyped]
    except ImportError:
        raise UserError(f"{folder} is a ZeRO checkpoint, which DeepSpeed reads: pip install deepspeed") from None
    tensors = dict(zero_to_fp32.get_fp32_state_dict_from_zero_checkpoint(str(folder)))
    if any(".lora_" in name for name in tensors):
        raise UserError(f"{folder} holds LoRA weights in ZeRO partitions: export another --checkpoint, such as final")
    # They are views into one flat buffer, and tied ones are the same view twice, of which the file takes one.
    first = {(tensor.data_ptr(), tensor.shape): name for name, tensor in reversed(tensors.items())}
    return {name: tensors[name].clone() for name in first.values()}


def _from_pretrained(folder: Path, dtype: str) -> Any:
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    try:
        model, info = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, attn_implementation="sdpa", output_loading_info=True
        )
    except (OSError, ValueError, SafetensorError) as error:
        raise UserError(f"{folder} cannot be loaded: {' '.join(str(error).split())[:300]}") from None
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info.get(what):
            names = ", ".join(str(key) for key in sorted(info[what], key=str)[:3])
            raise UserError(f"{folder}: the weights do not fit config.json: {what.replace('_', ' ')} {names}")
    return model


def _with_adapter(checkpoint: Checkpoint, dtype: str) -> Any:
    try:
        from peft import PeftModel
    except ImportError:
        raise UserError(f"{checkpoint.folder} is a LoRA adapter, which PEFT reads: pip install peft") from None
    model = _from_pretrained(adapter_base(checkpoint), dtype)
    return PeftModel.from_pretrained(model, checkpoint.folder)


def adapter_base(checkpoint: Checkpoint) -> Path:
    """The folder of the model that a LoRA checkpoint adapts: the one that it names, else what the run started from."""
    named = json.loads((checkpoint.folder / ADAPTER).read_text(encoding="utf-8")).get("base_model_name_or_path")
    return Path(named) if named and Path(named).is_dir() else checkpoint.base


def _start(config: TrainConfig) -> Path:
    """The folder that GRPO started from."""
    stored = config.run_dir / "start"
    return config.run_dir / "warm_start" if config.sft.steps else stored if stored.is_dir() else Path(config.model)


def _step(config: TrainConfig, folder: Path) -> int:
    """The optimiser steps behind a checkpoint. The final model has those of the last line of the metrics."""
    if folder.name.startswith("checkpoint-"):
        return step_of(folder)
    from horma_rl.training.progress import read_metrics

    rows = read_metrics(config.run_dir / "metrics.jsonl")
    return int(rows[-1]["step"]) if rows else 0
