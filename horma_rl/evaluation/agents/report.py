"""What an evaluation of agents leaves for its readers: `summary.json`, `report.html`, and one line for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from horma_rl.agent.draw import draw_text
from horma_rl.agent.events import TREE_FILE, replay
from horma_rl.config import dump
from horma_rl.errors import UserError
from horma_rl.evaluation.agents.metrics import Summary, compare, context_by_step, summarise
from horma_rl.evaluation.agents.run import Played
from horma_rl.evaluation.agents.store import write_atomically
from horma_rl.evaluation.agents.suites import SUITES
from horma_rl.evaluation.bootstrap import Interval
from horma_rl.tokens import token_counter
from horma_rl.viewer.agents import AgentReport, render_agents
from horma_rl.viewer.report import duration

_SHORT = ("success", "progress", "steps", "tokens")
_TREE_LINES = 120


def summaries(played: Played) -> dict[str, Summary]:
    """System -> its numbers over the episodes that are finished."""
    return {name: summarise(played.rows(name), played.config.seed) for name in played.config.systems}


def differences(played: Played) -> dict[str, dict[str, Interval]]:
    """System -> its differences to the first one, which is left out itself."""
    first, *others = played.config.systems
    base = played.rows(first)
    return {name: compare(base, played.rows(name), played.config.seed) for name in others}


def suite_metrics(played: Played, system: str) -> dict[str, dict[str, float]]:
    """The suite's own metrics of a system, by group."""
    scores = [row.scores for row in played.rows(system) if row.scores]
    found = SUITES[played.config.suite.name].metrics(scores) if scores else {}
    return {group: {name: round(value, 6) for name, value in values.items()} for group, values in found.items()}


def summary_json(played: Played) -> dict[str, Any]:
    """The content of `summary.json`."""
    config, changes = played.config, differences(played)
    systems: dict[str, Any] = {}
    for name, summary in summaries(played).items():
        systems[name] = {
            **summary.as_json(),
            "errors": played.unfinished(name),
            "metrics": suite_metrics(played, name),
            "context_by_step": [round(value, 1) for value in context_by_step(played.rows(name))],
        }
        if name in changes:
            systems[name]["difference"] = {key: value.as_json() for key, value in changes[name].items()}
    return {
        "name": config.name,
        "suite": played.suite.name,
        "provenance": played.suite.provenance,
        "split": config.split,
        "actor": config.actor.kind,
        "counter": token_counter(config.tokenizer).name,
        "tasks": len(played.tasks),
        "seeds": config.seeds,
        "errors": sum(played.unfinished(name) for name in config.systems),
        "stopped": played.stopped,
        "wall_s": round(played.wall_s, 2),
        "systems": systems,
    }


def last_line(played: Played) -> dict[str, Any]:
    """The line that programs read. With several systems the numbers at the top are the first one's, and `systems` has
    them all."""
    whole = summary_json(played)
    short = {name: _short(system) for name, system in whole["systems"].items()}
    first = next(iter(short))
    line = {key: whole[key] for key in ("name", "suite", "split", "tasks", "seeds")}
    line |= {**short[first], "errors": whole["errors"], "stopped": whole["stopped"], "wall_s": whole["wall_s"]}
    if len(short) > 1:
        line |= {"system": first, "systems": short}
    if played.shard.count > 1:
        return line | {"shard": str(played.shard)}
    return line | {"report": str(played.config.out_dir / "report.html")}


def write(played: Played) -> None:
    """Write `summary.json` and `report.html`. A shard writes neither: the run that merges the shards does."""
    if played.shard.count > 1:
        return
    out = played.config.out_dir
    write_atomically(out / "summary.json", json.dumps(summary_json(played), indent=1) + "\n")
    write_atomically(out / "report.html", render_agents(report_data(played)))


def report_data(played: Played) -> AgentReport:
    """What the page shows."""
    config = played.config
    facts = [
        ("Tasks", f"{len(played.tasks)} ({played.suite.name}, {config.split})"),
        ("Seeds", ", ".join(map(str, config.seeds))),
        ("Actor", config.actor.llm.model if config.actor.kind == "llm" else config.actor.kind),
        ("Retriever", config.retriever or "none"),
        ("Tokens by", token_counter(config.tokenizer).name),
        ("Wall time of the last run", duration(played.wall_s)),
        ("Data", played.suite.provenance),
    ]
    if played.stopped:
        facts.append(("Stopped", played.stopped))
    return AgentReport(
        title=config.name,
        facts=facts,
        config_yaml=dump(config),
        systems=summaries(played),
        differences=differences(played),
        unfinished={name: played.unfinished(name) for name in config.systems},
        contexts={name: context_by_step(played.rows(name)) for name in config.systems},
        metrics={name: suite_metrics(played, name) for name in config.systems},
        trees=_trees(played),
    )


def _short(system: dict[str, Any]) -> dict[str, Any]:
    """Means, and their intervals beside them."""
    return {
        **{name: system[name]["mean"] for name in _SHORT},
        "most_context": system["most_context"]["mean"],
        **{name: system[name] for name in ("revisions", "invalid", "malformed", "errors")},
        "intervals": {name: system[name]["ci95"] for name in _SHORT},
    }


def _trees(played: Played) -> list[tuple[str, str]]:
    """Drawings of the first episode of the first systems that have a tree of it."""
    drawn: list[tuple[str, str]] = []
    for name in played.config.systems:
        rows = played.rows(name)
        path = played.store.episode(rows[0].key) / TREE_FILE if rows else Path()
        if len(drawn) == played.config.trees_shown or not path.is_file():
            continue
        try:
            lines = draw_text(replay(path)).splitlines()
        except UserError as error:  # the row counts all the same
            lines = [str(error)]
        more = [f"... {len(lines) - _TREE_LINES} more lines: horma-rl view tree {path.parent}"]
        outcome = "solved" if rows[0].success else rows[0].stop.replace("_", " ")
        text = "\n".join(lines[:_TREE_LINES] + (more if len(lines) > _TREE_LINES else []))
        drawn.append((f"{name}: {rows[0].task}, seed {rows[0].seed}, {outcome}", text))
    return drawn
