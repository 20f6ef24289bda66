"""`horma-rl eval CONFIG` for configs of `kind: answers`."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from horma_rl.answers.config import AnswersConfig
    from horma_rl.answers.run import Answered


def run_answers(config: AnswersConfig, console: Console) -> int:
    """Answer and judge. The table goes to standard error, one JSON object is the last line on standard output.

    Exit code 1 when something stayed unfinished: the same command goes on from there.
    """
    from horma_rl.answers.report import headline, write

    answered, spent = asyncio.run(_answered(config, console))
    summary = {**write(answered), "spent": spent}
    console.print(results_table(answered))
    for failure in answered.failures[:5]:
        console.print(f"{failure.system}, {failure.task}, {failure.stage}: {failure.reason}", markup=False)
    short = {key: value for key, value in summary.items() if key != "systems"}
    short["tokens"] = {name: system["tokens"] for name, system in summary["systems"].items()}
    short |= {"scores": headline(answered), "report": str(config.out_dir / "report.md")}
    print(json.dumps(short))
    return 1 if summary["unfinished"] else 0


async def _answered(config: AnswersConfig, console: Console) -> tuple[Answered, dict[str, Any]]:
    """The evaluation, and what this run spent by model and role."""
    from horma_rl.answers.run import answer_all
    from horma_rl.commands.eval import progress_bars
    from horma_rl.llm.client import Llm

    with progress_bars(console) as progress:
        async with Llm(config.actor.llm) as actor:
            if config.judge.llm is None:
                return await answer_all(config, actor, None, progress), {"actor": actor.ledger.as_json()}
            async with Llm(config.judge.llm) as judge:
                answered = await answer_all(config, actor, judge, progress)
                return answered, {"actor": actor.ledger.as_json(), "judge": judge.ledger.as_json()}


def results_table(answered: Answered) -> Table:
    """Every system with the means of its metrics over all tasks."""
    from rich.markup import escape
    from rich.table import Table

    from horma_rl.answers.report import headline, summarise

    means = headline(answered)
    tokens = {name: system["tokens"] for name, system in summarise(answered)["systems"].items()}
    names = list(dict.fromkeys(metric for part in means.values() for metric in part))
    table = Table(title=escape(f"{answered.config.name}: {len(answered.tasks)} questions"))
    table.add_column("system", no_wrap=True)
    for name in (*names, "request tokens"):
        table.add_column(escape(name), justify="right")
    for system, part in means.items():
        cells = [f"{part[name]:.3f}" if name in part else "" for name in names]
        size = tokens[system]["input"]
        table.add_row(escape(system), *cells, "" if size is None else f"{size:,.0f}")
    return table
