"""`horma-rl eval CONFIG [key=value ...]`: evaluate retrievers, answers or agents, print the table, write the report."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel

from horma_rl.baselines.registry import STANDARD
from horma_rl.errors import UserError
from horma_rl.quiet import quieten_deepspeed

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from horma_rl.evaluation.agents.config import AgentsConfig
    from horma_rl.evaluation.config import EvalConfig
    from horma_rl.evaluation.runner import Evaluation
    from horma_rl.viewer.data import SystemRows


_WIDE = 120


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A config and overrides."""
    parser.add_argument("config", type=Path, help="a YAML file, for example configs/eval/locomo_baselines.yaml")
    parser.add_argument(
        "overrides", nargs="*", default=[], metavar="key=value", help="override a field: limit=50 shell.caps.turns=5"
    )
    parser.add_argument("--dry-run", action="store_true", help="check the config, print it whole, and stop")
    parser.add_argument(
        "--shard", metavar="I/N", help="agents: play every N-th task only, from the I-th; the shards share their folder"
    )
    parser.epilog = (
        f"baselines: {', '.join(STANDARD)}; and for any K: bm25[-stems][-nocaption]-K, notes-bm25-K, dense-K."
    )


class _Kind(BaseModel):
    """What a config is a config of; its other keys are read by the model of that kind."""

    kind: Literal["retrieval", "answers", "agent"] = "retrieval"


def run(args: argparse.Namespace) -> int:
    """Evaluate. Tables go to standard error; the last line on standard output is one JSON object.

    Returns 1 when all episodes of a system failed, so that it has no figure.
    """
    from rich.console import Console

    from horma_rl.answers.config import AnswersConfig
    from horma_rl.config import dump
    from horma_rl.evaluation.agents.config import AgentsConfig

    config = read_config(args.config, args.overrides)
    if args.shard is not None and not isinstance(config, AgentsConfig):
        raise UserError("--shard is for evaluations of agents (kind: agent)")
    if args.dry_run:
        print(dump(config), end="")
        return 0
    quieten_deepspeed()
    console = Console(stderr=True)
    if isinstance(config, AgentsConfig):
        from horma_rl.commands.agents import run_agents

        return run_agents(config, console, args.shard)
    if isinstance(config, AnswersConfig):
        from horma_rl.commands.answers import run_answers

        return run_answers(config, console)
    evaluation = _evaluate(config, console)
    console.print(results_table(evaluation, console.width))
    _print_result(evaluation)
    return int(tell_failures(evaluation.systems))


def read_config(path: Path, overrides: Sequence[str]) -> EvalConfig | AgentsConfig:
    """The config at `path`, of the kind that it says it is: an `AnswersConfig` for `kind: answers`, an `AgentsConfig`
    for `kind: agent`.

    Raises:
        UserError: as `load_config` does.
    """
    from horma_rl.answers.config import AnswersConfig
    from horma_rl.config import load_config
    from horma_rl.evaluation.agents.config import AgentsConfig
    from horma_rl.evaluation.config import EvalConfig

    kind = load_config(path, overrides, _Kind).kind
    if kind == "agent":
        return load_config(path, overrides, AgentsConfig)
    return load_config(path, overrides, AnswersConfig if kind == "answers" else EvalConfig)


def _evaluate(config: EvalConfig, console: Console) -> Evaluation:
    from horma_rl.evaluation.runner import evaluate

    with progress_bars(console) as progress:
        return evaluate(config, progress)


@contextlib.contextmanager
def progress_bars(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """A bar a system, for calls with its name, its finished tasks and all of its tasks."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        ids: dict[str, TaskID] = {}

        def progress(system: str, done: int, total: int) -> None:
            if system not in ids:
                ids[system] = bars.add_task(system, total=total)
            bars.update(ids[system], completed=done)

        yield progress


def _print_result(evaluation: Evaluation) -> None:
    from horma_rl.evaluation.runner import summarise_evaluation

    summary = summarise_evaluation(evaluation)
    short = {key: value for key, value in summary.items() if key not in ("systems", "change_by_category")}
    short["jaccard"] = {name: system["all"]["jaccard"]["mean"] for name, system in summary["systems"].items()}
    short["report"] = str(evaluation.config.out_dir / "report.html")
    print(json.dumps(short))


def tell_failures(systems: Sequence[SystemRows]) -> bool:
    """Print a line for each system with failed episodes. Returns whether one of them has no scored episode at all."""
    from horma_rl.evaluation.rows import failures

    for system in systems:
        if line := failures(system.name, system.rows):
            print(f"horma-rl: {line}", file=sys.stderr)
    return any(all(row.reward is None for row in system.rows) for system in systems)


def results_table(evaluation: Evaluation, width: int) -> Table:
    """Every system, best first, with its categories where there is room for them."""
    from rich.markup import escape
    from rich.table import Table

    from horma_rl.evaluation.metrics import OVERALL, by_category
    from horma_rl.viewer.tables import interval_text, number, sort_key

    scored = [(system.name, by_category(system.rows, evaluation.config.seed)) for system in evaluation.systems]
    scored.sort(key=lambda item: sort_key(item[1][OVERALL]), reverse=True)
    categories = sorted({name for _, parts in scored for name in parts if name != OVERALL})
    if width < _WIDE:
        categories = []
    table = Table(title=escape(f"{evaluation.config.name}: mean Jaccard over {len(evaluation.tasks)} tasks"))
    table.add_column("system", no_wrap=True)
    for name in ("jaccard", "95% interval", *categories, "recall", "exact", "commands"):
        table.add_column(escape(name), justify="right", no_wrap=True)
    for name, parts in scored:
        total = parts[OVERALL]
        by_name = [number(parts[category].jaccard.mean) if category in parts else "" for category in categories]
        rest = (number(total.recall), number(total.exact), number(total.commands, 1))
        table.add_row(escape(name), number(total.jaccard.mean), interval_text(total.jaccard), *by_name, *rest)
    return table
