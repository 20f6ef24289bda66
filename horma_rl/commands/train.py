"""`horma-rl train CONFIG [key=value ...]`: train a retriever, evaluate it before and after, write the report."""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from pathlib import Path

from horma_rl.quiet import quieten_deepspeed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A config and overrides."""
    parser.add_argument("config", type=Path, help="a YAML file, for example configs/train/tiny_cpu.yaml")
    parser.add_argument(
        "overrides", nargs="*", default=[], metavar="key=value", help="override a field: grpo.learning_rate=1e-5"
    )
    parser.add_argument(
        "--stage",
        choices=("all", "prepare", "grpo", "evaluate"),
        default="all",
        help="one part of the run, for jobs on several nodes: prepare once, grpo on every node, evaluate once",
    )
    parser.add_argument("--dry-run", action="store_true", help="check the config, print it whole, and stop")
    parser.epilog = (
        "exit codes: 0 done; 1 failed; 2 the config, or what it names, is at fault; 3 an alarm stopped the run, which "
        "is saved; 75 a cluster's signal stopped it, and the same command goes on; 130 Ctrl-C, likewise."
    )


def run(args: argparse.Namespace) -> int:
    """Train. Progress and tables go to standard error; the last line on standard output is one JSON object."""
    from horma_rl.config import dump, load_config
    from horma_rl.training.config import TrainConfig

    config = load_config(args.config, args.overrides, TrainConfig)
    if args.dry_run:
        quieten(keep_bars=False)
        from horma_rl.training.dry_run import check_config

        for note in check_config(config):
            print(f"horma-rl: {note}", file=sys.stderr)
        print(dump(config), end="")
        return 0
    quieten(keep_bars=not Path(config.model).is_dir())
    from horma_rl.training.alarms import ALARM_EXIT_CODE, AlarmError
    from horma_rl.training.signals import RESUME_EXIT_CODE, Preempted, preemptible

    try:
        with preemptible():
            from horma_rl.training.run import train

            finished = train(config, lambda line: print(line, file=sys.stderr, flush=True), args.stage)
    except Preempted:
        print(
            "horma-rl: stopped; what was finished is on disk, and the same command goes on from there", file=sys.stderr
        )
        return RESUME_EXIT_CODE
    except AlarmError as alarm:
        print(f"horma-rl: stopped, and saved: {alarm}", file=sys.stderr)
        return ALARM_EXIT_CODE
    if finished is None:
        print(json.dumps({"stage": args.stage, "run": str(config.run_dir)}))
        return 0
    from rich.console import Console

    from horma_rl.commands.eval import results_table

    console = Console(stderr=True)
    console.print(results_table(finished.evaluation, console.width))
    short = {key: value for key, value in finished.summary.items() if key not in ("systems", "change_by_category")}
    print(json.dumps(short))
    return 0


def quieten(*, keep_bars: bool) -> None:
    """Keep notes that libraries write for their callers off the terminal. A model that is downloaded keeps its bar."""
    quieten_deepspeed()
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    if not keep_bars:
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
