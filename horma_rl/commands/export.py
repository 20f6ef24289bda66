"""`horma-rl export RUN --to DIR`: a checkpoint of a run as a folder that transformers, vLLM and `retrieve` load."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from horma_rl.errors import UserError
from horma_rl.quiet import quieten_deepspeed

if TYPE_CHECKING:
    from horma_rl.retrieval.manifest import Manifest


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The run, the folder, and what to do with the weights."""
    parser.add_argument("run", type=Path, help="a run's folder, for example runs/tiny_cpu")
    parser.add_argument("--to", required=True, metavar="DIR", help="the new folder")
    parser.add_argument(
        "--checkpoint", default="final", metavar="NAME", help="final (the default), best, or the step of a checkpoint"
    )
    parser.add_argument(
        "--dtype",
        choices=("keep", "fp32", "bf16", "fp16"),
        default="keep",
        help="type of the weights (keep: as trained)",
    )
    parser.add_argument("--merge-lora", action="store_true", help="fold a LoRA adapter into its base model")
    parser.add_argument("--max-shard-size", default="5GB", metavar="SIZE", help="size of a weights file at most (5GB)")
    parser.add_argument(
        "--check",
        action="store_true",
        help="replay 20 greedy episodes with the checkpoint and the export; exit code 1 where a token differs. Of a "
        "folder that exists, only this is done",
    )


def run(args: argparse.Namespace) -> int:
    """Export, check, or both. Progress goes to standard error; the last line of standard output is one JSON object."""
    quieten_deepspeed()
    from horma_rl.serving.check import check
    from horma_rl.serving.export import Options, check_options, export
    from horma_rl.serving.source import find_checkpoint, read_run

    if not args.to.strip():
        raise UserError("--to is empty: name the new folder")
    out = Path(args.to)
    config = read_run(args.run)
    options = Options(args.dtype, args.merge_lora, args.max_shard_size)
    manifest = _exported(out) if args.check and out.is_dir() else None
    if manifest is None:
        check_options(config, out, options)
    checkpoint = find_checkpoint(config, args.checkpoint)
    if manifest is None:
        manifest = export(config, checkpoint, out, options, _say)
    elif (manifest.trained_from.run, manifest.trained_from.step) != (config.name, checkpoint.step):
        origin = manifest.trained_from
        raise UserError(
            f"{out} was exported from step {origin.step} of run {origin.run}, not from step {checkpoint.step} of "
            f"{config.name}"
        )
    result = {
        "out": str(out),
        "kind": checkpoint.kind,
        "step": checkpoint.step,
        "dtype": manifest.precision.exported,
    }
    if not args.check:
        print(json.dumps(result))
        return 0
    checked = check(config, checkpoint, out, _say)
    for parting in checked.partings:
        _say(f"parted: {parting}")
    _say(f"{checked.episodes - len(checked.partings)} of {checked.episodes} episodes are the same to the last token")
    print(json.dumps({**result, "check": checked.as_json()}))
    return 0 if checked.same else 1


def _exported(folder: Path) -> Manifest:
    from horma_rl.retrieval.manifest import FILE, Manifest

    manifest = Manifest.read(folder)
    if manifest is None:
        raise UserError(f"{folder} exists and is no export: no {FILE} there, nothing to check")
    return manifest


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
