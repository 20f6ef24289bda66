"""`horma-rl plan CONFIG [key=value ...]`: memory per GPU and time per step of a run, before any GPU is used."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from horma_rl.errors import UserError

if TYPE_CHECKING:
    from horma_rl.planning.hardware import Hardware
    from horma_rl.planning.plan import Plan
    from horma_rl.training.config import TrainConfig

MOST = {"turns": 10_000, "response": 1_000_000, "observation": 1_000_000}
"""The largest lengths of an episode that the command line takes: turns, and tokens."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A config and overrides, the hardware, and what is known of the episodes."""
    parser.add_argument("config", type=Path, help="a YAML file, for example configs/train/qwen3_5_4b_4xh200.yaml")
    parser.add_argument("overrides", nargs="*", default=[], metavar="key=value", help="override a field of the config")
    parser.add_argument(
        "--hardware", help="a name of horma_rl/planning/hardware.yaml, or a YAML file with the same keys "
        "(default: the GPU of this machine; else cpu for a config that sets threads, and h200 for others)"
    )  # fmt: skip
    parser.add_argument("--like", type=Path, metavar="RUN", help="take lengths of episodes from this run's folder")
    parser.add_argument("--turns", type=float, help="expected turns of an episode")
    parser.add_argument("--response", type=float, help="expected tokens of a response")
    parser.add_argument("--observation", type=float, help="expected tokens of an observation")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print the plan. Exit code 0 when the run fits, 1 when it does not."""
    from horma_rl.config import load_config
    from horma_rl.planning.plan import make_plan
    from horma_rl.planning.workload import assumed, measured
    from horma_rl.training.config import TrainConfig

    given = _lengths(args)
    config = load_config(args.config, args.overrides, TrainConfig)
    workload = assumed(config)
    if args.like:
        workload = measured(args.like, workload.longest)
    if given:
        workload = replace(workload, **given, source=f"{workload.source}; {', '.join(given)} as given")
    plan = make_plan(config, _hardware(args.hardware, config), workload)
    if args.json:
        print(json.dumps(plan.as_json()))
    else:
        _show(plan)
    return 0 if plan.fits else 1


def _lengths(args: argparse.Namespace) -> dict[str, Any]:
    """What the command line says of the episodes. Raises UserError for a number that none can have."""
    given = {name: getattr(args, name) for name in MOST if getattr(args, name) is not None}
    for name, value in given.items():
        if not 0 < value <= MOST[name]:  # false for nan as well
            raise UserError(f"--{name} {value:g}: give a number above 0 and at most {MOST[name]:,}")
    return given


def _hardware(name: str | None, config: TrainConfig) -> Hardware:
    from horma_rl.planning.hardware import detected, hardware

    return hardware(name or detected() or ("cpu" if config.threads else "h200"))


def _show(plan: Plan) -> None:
    from rich.console import Console

    from horma_rl.planning.plan import ENGINES

    facts = plan.facts
    console = Console(highlight=False)
    where = f"{facts.world} x {facts.hardware.name}" if facts.world > 1 else facts.hardware.name
    what = f"LoRA of rank {facts.lora}" if facts.lora else "all weights"
    console.print(
        f"[bold]{facts.shape.name}[/bold] on {where}, {ENGINES[facts.engine]}, {what}, rollouts by "
        f"{ {'colocate': 'vLLM in the same process', 'server': 'a vLLM server'}.get(facts.rollouts, 'transformers')}, "
        f"{round(facts.episodes * facts.world)} episodes a step"
    )  # fmt: skip
    _show_memory(plan, console.print)
    _show_time(plan, console.print)
    for line in plan.assumptions:
        console.print(f"- {line}", style="dim")
    for line in plan.warnings:
        console.print(f"warning: {line}", style="yellow")
    console.print(plan.verdict, style="bold green" if plan.fits else "bold red")
    _show_changes(plan, console.print)


def _show_memory(plan: Plan, out: Callable[..., None]) -> None:
    from rich.table import Table

    from horma_rl.planning.hardware import GIB

    table = Table(title="memory of one process, GiB", title_justify="left")
    table.add_column("")
    for column in ("rollouts", "update"):
        table.add_column(column, justify="right")
    for row in plan.memory.rows:
        table.add_row(row.name, *(f"{size / GIB:.2f}" if size else "" for size in (row.rollout, row.update)))
    table.add_section()
    table.add_row("together", f"{plan.memory.rollout / GIB:.2f}", f"{plan.memory.update / GIB:.2f}", style="bold")
    out(table)


def _show_time(plan: Plan, out: Callable[..., None]) -> None:
    from rich.table import Table

    table = Table(title="expected time of one step", title_justify="left")
    table.add_column("")
    table.add_column("seconds", justify="right")
    table.add_column("share", justify="right")
    table.add_column("")
    for phase in plan.phases:
        table.add_row(phase.name, f"{phase.seconds:.2f}", f"{phase.seconds / plan.step_s:.0%}", phase.note)
    table.add_section()
    table.add_row("together", f"{plan.step_s:.2f}", "", "", style="bold")
    out(table)


def _show_changes(plan: Plan, out: Callable[..., None]) -> None:
    from horma_rl.planning.hardware import GIB

    for number, change in enumerate(plan.changes):
        lead = "change first" if number == 0 else "and then"
        result = "fits" if change.fits else "not enough"
        out(f"{lead}: [bold]{' '.join(change.overrides)}[/bold]  ({change.why}; {change.peak / GIB:.1f} GiB, {result})")
    if plan.changes and not plan.changes[-1].fits:
        out("no change that plan knows makes it fit: take hardware with more memory, or a smaller model")
