"""The outcome of an evaluation of answers: `summary.json`, and `report.md` with a table by type."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from horma_rl.answers.actor import ACTOR_VERSION
from horma_rl.answers.judges import JUDGE_VERSION
from horma_rl.answers.run import Answered, Source, unfinished, write_failures
from horma_rl.answers.scores import longmemeval_summary, metric_names, tables, values
from horma_rl.answers.store import AnswerRow
from horma_rl.evaluation.bootstrap import Interval
from horma_rl.evaluation.metrics import OVERALL

Tables = Mapping[str, Mapping[str, Interval]]


def write(answered: Answered) -> dict[str, Any]:
    """Write the files to the output folder, and give the summary."""
    out = answered.config.out_dir
    summary = summarise(answered)
    (out / "summary.json").write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / "report.md").write_text(report(answered), encoding="utf-8")
    write_failures(answered)
    return summary


def summarise(answered: Answered) -> dict[str, Any]:
    """The content of `summary.json`."""
    config = answered.config
    judge = config.judge.llm or config.actor.llm
    return {
        "name": config.name,
        "kind": "answers",
        "benchmark": answered.evaluation.benchmark.name,
        "provenance": answered.evaluation.benchmark.provenance,
        "split": config.split,
        "notes": config.notes,
        "tasks": len(answered.tasks),
        "budget": config.actor.budget,
        "counted_by": answered.counter,
        "actor": {"model": config.actor.llm.model, "version": ACTOR_VERSION, "style": config.actor.style},
        "judge": {"model": judge.model, "version": JUDGE_VERSION, "names": config.judge.names},
        "unfinished": unfinished(answered),
        "failures": len(answered.failures),
        "stopped": answered.stopped,
        "seed": config.seed,
        "wall_s": round(answered.wall_s, 2),
        "systems": {source.name: _system(answered, source) for source in answered.sources},
    }


def results(answered: Answered, source: Source) -> list[tuple[AnswerRow, dict[str, float]]]:
    """The finished answers of a source, in the order of the tasks, each with all its values."""
    rows = [answered.store.answer(source.name, task.id) for task in answered.tasks]
    return [(row, values(row, answered.store.verdicts(source.name, row.task))) for row in rows if row is not None]


def _system(answered: Answered, source: Source) -> dict[str, Any]:
    known = results(answered, source)
    seed = answered.config.seed
    parts = tables(known, seed)
    summary: dict[str, Any] = {
        "given": source.given,
        "answers": len(known),
        "tokens": _tokens([row for row, _ in known]),
        **{name: {metric: value.as_json() for metric, value in part.items()} for name, part in parts.items()},
    }
    if "longmemeval" in answered.config.judge.names:
        summary["longmemeval"] = longmemeval_summary(known, parts, seed)
    return summary


def _tokens(rows: Sequence[AnswerRow]) -> dict[str, float | None]:
    """Means over answers; `by_server` over those that were asked for."""
    asked = [row for row in rows if row.asked]
    return {
        "context": round(mean(row.context_tokens for row in rows), 1) if rows else None,
        "input": round(mean(row.input_tokens for row in rows), 1) if rows else None,
        "by_server": round(mean(row.usage_tokens for row in asked), 1) if asked else None,
        "not_asked": len(rows) - len(asked),
        "cut_or_left_out": sum(row.cut or row.left_out > 0 for row in rows),
    }


def report(answered: Answered) -> str:
    """Markdown: what was run, then a table of every system by category, with intervals and tokens."""
    summary = summarise(answered)
    lines = [
        f"# {summary['name']}",
        "",
        f"{summary['tasks']} questions of {summary['benchmark']}, split {summary['split']}, {summary['notes']} notes. "
        f"{summary['provenance']}.",
        "",
        f"Actor: {summary['actor']['model']} ({ACTOR_VERSION}, {summary['actor']['style']} answers), at most "
        f"{summary['budget']:,} tokens a request, counted by: {summary['counted_by']}. " + _judged(summary["judge"]),
        "",
        "Means with 95% bootstrap intervals over questions; in brackets the questions they are over.",
        "",
    ]
    if summary["unfinished"]:
        reason = f" ({summary['stopped']})" if summary["stopped"] else ""
        lines += [f"**Unfinished: {summary['unfinished']} tasks lack an answer or a verdict{reason}.**", ""]
    for source in answered.sources:
        lines += _section(answered, source, summary["systems"][source.name])
    return "\n".join(lines)


def _judged(judge: Mapping[str, Any]) -> str:
    return f"Judge: {judge['model']} ({JUDGE_VERSION}; {', '.join(judge['names'])})." if judge["names"] else "No judge."


def _section(answered: Answered, source: Source, system: Mapping[str, Any]) -> list[str]:
    parts = tables(results(answered, source), answered.config.seed)
    names = metric_names(parts.values())
    tokens = system["tokens"]
    lines = [
        f"## {source.name}",
        "",
        f"Given: {source.given}. Tokens a question: context {_number(tokens['context'])}, request "
        f"{_number(tokens['input'])}, by the server's count {_number(tokens['by_server'])}; {tokens['not_asked']} "
        f"without a context, {tokens['cut_or_left_out']} cut to the budget.",
        "",
        f"| type | {' | '.join(names)} |",
        f"|---{'|---:' * len(names)}|",
    ]
    lines += [f"| {name} | {' | '.join(_cell(part.get(metric)) for metric in names)} |" for name, part in parts.items()]
    if "longmemeval" in system:
        official = system["longmemeval"]
        abstention = official["abstention"]
        lines += [
            "",
            f"Task-averaged: {official['task_averaged']}; abstention: {abstention['mean']} ({abstention['n']}).",
        ]
    return [*lines, ""]


def _cell(value: Interval | None) -> str:
    return "" if value is None else f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}] ({value.n})"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:,.0f}"


def headline(answered: Answered) -> dict[str, dict[str, float]]:
    """System -> metric -> mean over all tasks that have it."""
    seed = answered.config.seed
    return {
        source.name: {
            metric: round(value.mean, 4) for metric, value in tables(results(answered, source), seed)[OVERALL].items()
        }
        for source in answered.sources
    }
