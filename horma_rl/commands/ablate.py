"""`horma-rl ablate CONFIG [key=value ...]`: run or submit the cells of an ablation, and print one table."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from horma_rl.ablation.config import AblationConfig, CellRun
    from horma_rl.ablation.table import Table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A config, overrides, and what to do with the cells."""
    parser.add_argument("config", type=Path, help="a YAML file, for example configs/ablations/reward.yaml")
    parser.add_argument(
        "overrides", nargs="*", default=[], metavar="key=value",
        help="override a field: base=configs/train/qwen3_5_4b_4xh200.yaml seeds=[0,1,2] common.grpo.max_steps=20",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="runs at once on this machine (default: 1)")
    does = parser.add_mutually_exclusive_group()
    does.add_argument("--list", action="store_true", help="print every run as a JSON line, and stop")
    does.add_argument("--index", type=int, metavar="I", help="do the run of this place in the list alone")
    does.add_argument("--submit", action="store_true", help="hand the runs to Slurm as an array job")
    does.add_argument("--table", action="store_true", help="print the table of what is finished, and run nothing")
    does.add_argument("--dry-run", action="store_true", help="check every cell's config, and stop")


def run(args: argparse.Namespace) -> int:
    """Progress and the table go to standard error; the last line on standard output is one JSON object."""
    from horma_rl.ablation.config import AblationConfig, cell_runs
    from horma_rl.ablation.table import read_table
    from horma_rl.config import load_config
    from horma_rl.errors import UserError

    if args.jobs < 1:
        raise UserError(f"--jobs is {args.jobs}: at least 1 run must be done at a time")
    config = load_config(args.config, args.overrides, AblationConfig)
    runs = cell_runs(config)
    if args.list:
        return _list(runs)
    if args.dry_run:
        return _dry_run(runs)
    if args.index is not None:
        return _one(runs, args.index)
    if args.submit:
        return _submit(args)
    failed = [] if args.table else _do(config, runs, args.jobs)
    table = read_table(config)
    if args.table and not table.cells:
        print(f"horma-rl: no run of '{config.name}' is finished: there is nothing to show", file=sys.stderr)
        return 1
    _show(table)
    for line in failed:
        print(f"horma-rl: {line}", file=sys.stderr)
    return 1 if failed else 0


def _list(runs: list[CellRun]) -> int:
    """One JSON line a run: its place, its cell, its seed, its folder, whether it is finished, and its command."""
    import shlex

    from horma_rl.ablation.runs import is_finished

    for index, run in enumerate(runs):
        config = run.config()
        row = {"index": index, "cell": run.cell, "seed": run.seed, "run": str(config.run_dir),
               "finished": is_finished(config), "command": shlex.join(["horma-rl", *run.command])}  # fmt: skip
        print(json.dumps(row))
    return 0


def _dry_run(runs: list[CellRun]) -> int:
    """Check each config as `horma-rl train --dry-run` does."""
    from horma_rl.errors import UserError
    from horma_rl.quiet import quieten_deepspeed

    quieten_deepspeed()
    from horma_rl.training.dry_run import check_config

    notes: list[str] = []
    for run in runs:
        try:
            notes += check_config(run.config())
        except UserError as error:
            raise UserError(f"cell '{run.cell}': {error}") from None
    for note in dict.fromkeys(notes):
        print(f"horma-rl: {note}", file=sys.stderr)
    print(json.dumps({"runs": len(runs), "cells": len({run.cell for run in runs})}))
    return 0


def _one(runs: list[CellRun], index: int) -> int:
    from horma_rl.cli import main
    from horma_rl.errors import UserError

    if not 0 <= index < len(runs):
        raise UserError(f"--index is {index}: the ablation has the runs 0 to {len(runs) - 1}")
    return main(runs[index].command)


def _submit(args: argparse.Namespace) -> int:
    """Hand the array to `scripts/submit.sh` of the current folder."""
    from horma_rl.errors import UserError

    script = Path("scripts/submit.sh")
    if not script.is_file():
        raise UserError(f"no {script} here: run this in the repository's folder")
    return subprocess.run(["bash", str(script), str(args.config), *args.overrides], check=False).returncode


def _do(config: AblationConfig, runs: list[CellRun], jobs: int) -> list[str]:
    from horma_rl.ablation.config import folder_of
    from horma_rl.ablation.runs import RunSet

    return RunSet(folder_of(config), jobs, lambda line: print(line, file=sys.stderr, flush=True)).do(runs)


def _show(table: Table) -> None:
    from horma_rl.ablation.table import aligned, write_table

    print(f"\n{table.config.question}\n\n{aligned(table)}", file=sys.stderr)
    if table.missing:
        print(f"\nwithout results: {', '.join(table.missing)}", file=sys.stderr)
    print(json.dumps({**table.as_json(), "folder": str(write_table(table))}))
