"""`horma-rl memory refine CONFIG [key=value ...]`: learn skills from tasks on which memory and raw history disagree."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from horma_rl.memory.refine.config import RefineConfig

STOPPED = 75
"""Exit code when the budget was spent: the same command goes on from there."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A config and overrides."""
    parser.add_argument("config", type=Path, help="a YAML file, for example configs/refine/chains_embedded.yaml")
    parser.add_argument(
        "overrides", nargs="*", default=[], metavar="key=value", help="override a field: rounds=2 tasks=20"
    )
    parser.add_argument("--dry-run", action="store_true", help="check the config, print it whole, and stop")


def run(args: argparse.Namespace) -> int:
    """Refine. Progress and the table go to standard error; the last line on standard output is one JSON object."""
    import asyncio

    from horma_rl.config import dump, load_config
    from horma_rl.llm.types import BudgetSpent, LlmError
    from horma_rl.memory.refine.config import RefineConfig
    from horma_rl.memory.refine.report import render_report
    from horma_rl.memory.refine.run import load_rounds

    config = load_config(args.config, args.overrides, RefineConfig)
    if args.dry_run:
        print(dump(config), end="")
        return 0
    try:
        result = asyncio.run(_refine(config))
    except BudgetSpent as error:
        print(f"stopped: {error}; the same command goes on from here, with a larger budget", file=sys.stderr)
        print(json.dumps({"name": config.name, "out": str(config.out_dir), "complete": False}))
        return STOPPED
    except LlmError as error:
        print(f"horma-rl: {error}; the same command goes on from here", file=sys.stderr)
        return 1
    print(render_report(config.name, load_rounds(config.out_dir)), file=sys.stderr, end="")
    print(json.dumps(result))
    return 0


async def _refine(config: RefineConfig) -> dict[str, Any]:
    from horma_rl.memory.refine.data import load_data
    from horma_rl.memory.refine.models import open_parts
    from horma_rl.memory.refine.run import refine

    data = load_data(config)
    async with open_parts(config) as parts:
        return await refine(config, data, parts, lambda line: print(line, file=sys.stderr))
