"""`horma-rl export`: a run's checkpoint as one folder that transformers and vLLM load, with all that belongs to it.

The folder is made beside its final name and renamed when it is whole, so it is there entirely or not at all.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from horma_rl.errors import UserError
from horma_rl.memory.build import FORMAT as WORKSPACE_FORMAT
from horma_rl.retrieval import manifest as horma
from horma_rl.retrieval.manifest import Manifest
from horma_rl.retrieval.prompt import PROMPT_VERSION, ChatCodec
from horma_rl.serving import card
from horma_rl.serving.source import ADAPTER, Checkpoint, adapter_base, load_model, load_tokenizer
from horma_rl.training.config import TrainConfig

DTYPES = {"keep": "auto", "fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
SHARD = "5GB"
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?[KMGT]B", re.IGNORECASE)
"""Sizes of files as transformers reads them."""
_LANGUAGE_PARTS = frozenset({"qwen3_5_text"})
"""Models that were taken out of a larger one, under whose prefix transformers would write their weights again. Their
own names are those that every loader of their class expects."""
_NOT_HASHED = {card.FILE, horma.FILE, ".gitattributes"}


@dataclass(frozen=True)
class Options:
    """How to export. `dtype`: a key of DTYPES. `merge`: fold a LoRA adapter into its base. `shard`: the size of a file
    of weights at most, such as `5GB`."""

    dtype: str = "keep"
    merge: bool = False
    shard: str = SHARD


def check_options(config: TrainConfig, out: Path, options: Options) -> None:
    """Refuse what can be refused before anything is loaded.

    Raises:
        UserError: `out` exists or cannot be made, or `options` do not fit the run.
    """
    if out.exists():
        raise UserError(f"{out} exists: an export never overwrites, name a new folder")
    if options.merge and config.lora is None:
        raise UserError(f"--merge-lora: run {config.name} trained whole weights, not a LoRA adapter: leave it out")
    size = _SIZE.fullmatch(options.shard)
    if size is None or float(size[1]) * 1000 < 1:
        raise UserError(f"--max-shard-size '{options.shard}': give a size above 0 in KB, MB, GB or TB, such as {SHARD}")
    _check_writable(out)


def _check_writable(out: Path) -> None:
    """Make and remove a folder where `out` will be: modes alone do not tell (root, /proc, read-only mounts)."""
    parent = next(folder for folder in out.absolute().parents if folder.exists())
    try:
        Path(tempfile.mkdtemp(prefix=".horma-", dir=parent)).rmdir()
    except OSError as error:
        raise UserError(f"--to {out}: no folder can be made in {parent} ({error.strerror})") from None


def export(
    config: TrainConfig, checkpoint: Checkpoint, out: Path, options: Options, say: Callable[[str], None]
) -> Manifest:
    """Write `checkpoint` of `config`'s run to the new folder `out`, and return what its `horma.json` says.

    Raises:
        UserError: `out` exists, the checkpoint cannot be read, or `options` do not fit it.
    """
    check_options(config, out, options)
    tokenizer = load_tokenizer(checkpoint)
    codec = ChatCodec(tokenizer, config.prompt, config.thinking, config.tools)
    say(f"reading {checkpoint.folder} ({checkpoint.kind})")
    model = load_model(checkpoint)
    trained = _dtype(model)
    if options.merge and checkpoint.kind == "lora":  # the final model of a run is merged already
        model = model.merge_and_unload()
    if options.dtype != "keep":
        import torch

        model = model.to(getattr(torch, DTYPES[options.dtype]))
    unfinished = out.with_name(f".{out.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        _write_model(model, tokenizer, codec, checkpoint, unfinished, options)
        manifest = _manifest(config, checkpoint, codec, (trained, _dtype(model)), unfinished)
        manifest.write(unfinished)
        card.write(unfinished, config, checkpoint, manifest)
        _settle(unfinished)
        os.replace(unfinished, out)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    if manifest.precision.trained != manifest.precision.exported:
        say(f"note: weights were {manifest.precision.trained} in training and are {manifest.precision.exported} here")
    return manifest


def _write_model(
    model: Any, tokenizer: Any, codec: ChatCodec, checkpoint: Checkpoint, out: Path, options: Options
) -> None:
    from transformers import GenerationConfig

    from horma_rl.training.policies import disk_errors

    generation = GenerationConfig(
        eos_token_id=list(codec.eos_ids),
        pad_token_id=tokenizer.pad_token_id if tokenizer.pad_token_id is not None else codec.end_id,
        bos_token_id=tokenizer.bos_token_id,
        do_sample=False,
    )
    with disk_errors(out):
        if checkpoint.kind == "lora" and not options.merge:
            model.peft_config["default"].base_model_name_or_path = base_name(checkpoint)
        else:
            model.generation_config = generation
        own_names = model.config.model_type in _LANGUAGE_PARTS
        model.save_pretrained(out, max_shard_size=options.shard, save_original_format=not own_names)
        generation.save_pretrained(out)
        tokenizer.save_pretrained(out)


def base_name(checkpoint: Checkpoint) -> str:
    """What an adapter's configuration calls its base: an absolute path, for the base is a folder of this machine."""
    return str(adapter_base(checkpoint).resolve())


def _manifest(
    config: TrainConfig, checkpoint: Checkpoint, codec: ChatCodec, precision: tuple[str, str], folder: Path
) -> Manifest:
    names = [path.name for path in folder.iterdir() if path.is_file() and path.name not in _NOT_HASHED]
    return Manifest(
        format=horma.FORMAT,
        prompt_version=PROMPT_VERSION,
        prompt=config.prompt,
        thinking=config.thinking,
        tools=config.tools,
        tool_schema_sha256=horma.schema_sha256(config.tools),
        prompt_ids_sha256=horma.ids_sha256(codec),
        shell=horma.TrainedShell.model_validate(config.shell.model_dump()),
        rollout=config.rollout,
        memory=horma.Memory(format=WORKSPACE_FORMAT, notes=config.notes),
        trained_from=horma.Origin(
            run=config.name,
            checkpoint=checkpoint.name,
            kind=checkpoint.kind,
            step=checkpoint.step,
            seed=config.seed,
            base=config.model,
            benchmark=config.benchmark,
        ),
        precision=horma.Precision(trained=precision[0], exported=precision[1]),
        adapter_of=base_name(checkpoint) if (folder / ADAPTER).is_file() else None,
        files=horma.hash_files(folder, names),
    )


def _dtype(model: Any) -> str:
    return str(next(model.parameters()).dtype).removeprefix("torch.")


def _settle(folder: Path) -> None:
    """Give the files the mode that new files have (safetensors makes private ones), and wait until the disk has all."""
    mask = os.umask(0)
    os.umask(mask)
    for path in folder.iterdir():
        path.chmod(0o666 & ~mask)
    for path in [*folder.iterdir(), folder]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
