"""`horma-rl preflight CONFIG [key=value ...]`: are the machines fit for this run? A verdict in under two minutes."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from horma_rl.preflight.check import Check

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red", "skip": "dim"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A config and overrides."""
    parser.add_argument("config", type=Path, help="the config of the run, for example configs/train/tiny_cpu.yaml")
    parser.add_argument("overrides", nargs="*", default=[], metavar="key=value", help="override a field of the config")
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output as well")
    parser.add_argument("--limit", type=float, default=115, metavar="S", help="seconds for all checks (default: 115)")


def run(args: argparse.Namespace) -> int:
    """Check, one line a check on standard error. Exit code 0 when nothing failed, 1 otherwise."""
    from horma_rl.config import dump, load_config
    from horma_rl.errors import UserError
    from horma_rl.preflight.node import Node
    from horma_rl.preflight.run import preflight
    from horma_rl.training.config import TrainConfig

    if args.limit < 1:
        raise UserError(f"--limit {args.limit:g}: give at least 1 second")
    config = load_config(args.config, args.overrides, TrainConfig)
    started, node = time.monotonic(), Node.here()
    print(f"preflight of {config.name} on {node.name}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="horma-preflight-") as folder:
        path = Path(folder) / "config.yaml"
        path.write_text(dump(config), encoding="utf-8")
        checks = []
        for check in preflight(config, path, args.limit):
            checks.append(check)
            _show(check)
    spent = time.monotonic() - started
    failed = [check.name for check in checks if check.result == "fail"]
    verdict = f"not fit: {', '.join(failed)}" if failed else "fit"
    print(f"{verdict} ({spent:.0f} s)", file=sys.stderr, flush=True)
    if args.json:
        rows = [asdict(check) for check in checks]
        print(json.dumps({"node": node.name, "fit": not failed, "seconds": round(spent, 1), "checks": rows}))
    return 1 if failed else 0


def _show(check: Check) -> None:
    """A row of the table, as soon as it is known; a log of Slurm has no colours."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, soft_wrap=True, highlight=False)
    row = Text(f"  {check.name:<12} ").append(f"{check.result:<5}", COLOURS[check.result]).append(f" {check.figure}")
    if check.advice:
        row.append(f"\n{'':21}{check.advice}", "yellow")
    console.print(row)
