"""`horma-rl memory refine`: the whole loop, from the starting library to the last round's scores."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from horma_rl.config import dump
from horma_rl.errors import UserError
from horma_rl.memory.files import locked
from horma_rl.memory.refine.account import Account, Spending, add
from horma_rl.memory.refine.config import RefineConfig
from horma_rl.memory.refine.files import read_json, write_json, write_text
from horma_rl.memory.refine.measure import Measure
from horma_rl.memory.refine.parts import Parts
from horma_rl.memory.refine.report import render_report
from horma_rl.memory.refine.rounds import LIBRARY, SPENT, Data, Rounds
from horma_rl.memory.skills import Library, load_library

IDENTITY, SUMMARY, REPORT = "identity.json", "summary.json", "report.txt"
Say = Callable[[str], None]


async def refine(config: RefineConfig, data: Data, parts: Parts, say: Say = lambda line: None) -> dict[str, Any]:
    """Run what is not finished, and give the summary, which is also in `summary.json`; the table is in `report.txt`.

    Raises:
        UserError: the folder holds another refinement, or is in use.
        LlmError: a model cannot be reached, or the budget is spent. The same call goes on from there.
    """
    begin, out = time.monotonic(), config.out_dir
    with locked(out):
        _check_identity(out, config)
        library = load_library(config.skills.start) if config.skills.start else Library()
        say(f"raw history: {len(data.tasks)} tasks")
        account = Account(out / "control" / SPENT, parts.purse)
        measure = Measure(parts, config.context_tokens, config.llm_of("actor").concurrency)
        control = await measure.control(out / "control", data.learning, data.tasks, account)
        account.save()
        raw_spent = account.total()
        rounds = Rounds(config, data, parts, control)
        say("round 0: memory before anything is learned")
        state, first = await rounds.first(library)
        done = [first]
        for number in range(1, config.rounds + 1):
            say(f"round {number} of {config.rounds}: memory scored {_score(done[-1])}")
            state, summary = await rounds.next(number, state)
            done.append(summary)
        result = _summary(config, done, raw_spent, time.monotonic() - begin)
        write_json(out / SUMMARY, {**result, "rounds": done})
        write_text(out / REPORT, render_report(config.name, done))
    return result


def load_rounds(out: Path) -> list[dict[str, Any]]:
    """The rounds of a finished refinement, for its table. Raises UserError when there is none."""
    summary = read_json(out / SUMMARY)
    if summary is None:
        raise UserError(f"{out} holds no finished refinement")
    return list(summary["rounds"])


def _check_identity(out: Path, config: RefineConfig) -> None:
    known, identity = read_json(out / IDENTITY), config.identity()
    changed = [key for key, value in identity.items() if known is not None and known.get(key) != value]
    if changed:
        raise UserError(f"{out} holds a refinement with another '{changed[0]}': set out=<another folder>, or delete it")
    write_json(out / IDENTITY, identity)
    write_text(out / "config.yaml", dump(config))


def _summary(
    config: RefineConfig, done: list[dict[str, Any]], raw_spent: Mapping[str, Mapping[str, float]], wall_s: float
) -> dict[str, Any]:
    last = done[-1]
    spent: Spending = add({}, raw_spent)
    for summary in done:
        spent = add(spent, summary["spent"])
    totals = {name: sum(role.get(name, 0) for role in spent.values()) for name in ("tokens", "cost")}
    return {
        "name": config.name,
        "out": str(config.out_dir),
        "turns": last["memory"]["turns"],
        "notes": last["memory"]["notes"],
        "rejected": sum(summary["memory"]["rejected"] for summary in done if summary["kept"]),
        "skills": last["skills"]["active"],
        "library": str(config.out_dir / f"round_{last['round']:02d}" / LIBRARY),
        "scores": [summary["scores"]["memory"]["mean"] for summary in done],
        "control": last["scores"]["control"]["mean"],
        "kept": [summary["kept"] for summary in done],
        "tokens": int(totals["tokens"]),
        "cost": round(totals["cost"], 6),
        "tokens_by_role": {role: int(amounts.get("tokens", 0)) for role, amounts in spent.items()},
        "wall_s": round(wall_s, 2),
        "complete": True,
    }


def _score(summary: Mapping[str, Any]) -> str:
    mean = summary["scores"]["memory"]["mean"]
    return "nothing" if mean is None else f"{mean:.3f}"
