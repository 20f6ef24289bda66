"""`horma-rl eval CONFIG` for configs of `kind: agent`."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from horma_rl.evaluation.agents.config import AgentsConfig
    from horma_rl.evaluation.agents.run import Played
    from horma_rl.evaluation.agents.store import Shard

_FAILURES_TOLD = 5
_WIDE = 110


def run_agents(config: AgentsConfig, console: Console, shard: str | None) -> int:
    """Play. The table goes to standard error, one JSON object is the last line on standard output.

    Exit code 1 when something stayed unfinished: the same command goes on from there.
    """
    from horma_rl.evaluation.agents.report import last_line, write
    from horma_rl.evaluation.agents.run import write_failures
    from horma_rl.evaluation.agents.store import WHOLE, Shard

    played = asyncio.run(_played(config, console, WHOLE if shard is None else Shard.parse(shard)))
    write_failures(played)
    write(played)
    line = last_line(played)
    console.print(results_table(played, console.width))
    for failure in played.failures[:_FAILURES_TOLD]:
        text = f"{failure.system}, {failure.task}, seed {failure.seed}: {failure.reason}"
        console.print(text, markup=False)
    if len(played.failures) > _FAILURES_TOLD:
        console.print(f"and {len(played.failures) - _FAILURES_TOLD} more, in {config.out_dir / played.failures_file}")
    print(json.dumps(line))
    return 1 if line["errors"] else 0


async def _played(config: AgentsConfig, console: Console, shard: Shard) -> Played:
    from horma_rl.collector import rare_collections
    from horma_rl.commands.eval import progress_bars
    from horma_rl.evaluation.agents.parts import open_parts
    from horma_rl.evaluation.agents.run import play_all
    from horma_rl.evaluation.agents.suites import load_suite

    async with open_parts(config) as make_parts:
        suite = load_suite(config.suite.name, config.suite.options, make_parts.grader())
        with progress_bars(console) as progress, rare_collections():
            return await play_all(config, suite, make_parts, progress, shard)


def results_table(played: Played, width: int) -> Table:
    """Every system in the config's order: its means, and, where there is room, the interval of success and what went
    wrong."""
    from rich.markup import escape
    from rich.table import Table

    from horma_rl.evaluation.agents.report import summaries
    from horma_rl.viewer.tables import interval_text, number

    seeds = len(played.config.seeds)
    table = Table(title=escape(f"{played.config.name}: {len(played.tasks)} tasks, {seeds} seed{'s' * (seeds > 1)}"))
    table.add_column("system", no_wrap=True)
    wide = width >= _WIDE
    counts = ("revisions", "invalid", "malformed") if wide else ()
    interval = ("95% interval",) if wide else ()
    for name in ("success", *interval, "progress", "steps", "tokens", "most context", *counts, "errors"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, summary in summaries(played).items():
        means = summary.means
        cells = [number(means["success"].mean), *([interval_text(means["success"])] if wide else [])]
        for key, digits in (("progress", 3), ("steps", 1), ("tokens", 0), ("most_context", 0)):
            cells.append(number(means[key].mean, digits))
        cells += [number(summary.counts[key], 2) for key in counts]
        table.add_row(escape(name), *cells, str(played.unfinished(name)))
    return table
