"""Which metrics an answer gets, and their means with intervals by category."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from horma_rl.answers.metrics import adv_abstain, adv_trap, f1_locomo, f1_mem0
from horma_rl.answers.store import AnswerRow
from horma_rl.benchmarks.longmemeval.types import TYPES
from horma_rl.evaluation.bootstrap import Interval, bootstrap_mean
from horma_rl.evaluation.metrics import OVERALL
from memory_shell.types import Task

_FREE_FORM = "single-session-preference"


def scores(task: Task, answer: str) -> dict[str, float]:
    """The metrics without a model that apply to `task`, by name.

    LoCoMo's adversarial questions, and others without an answer, get `adv_abstain` (which is also their `f1_locomo`)
    and, with a trap, `adv_trap`. LongMemEval is scored by its judge; `f1_mem0` is there as a cheap second opinion,
    except for preferences, whose gold is a rubric, and for questions that have no answer.
    """
    if task.category in TYPES:
        comparable = task.answer and task.category != _FREE_FORM and "_abs" not in task.id
        return {"f1_mem0": f1_mem0(answer, task.answer or "")} if comparable else {}
    if task.category == "adversarial" or task.answer is None:
        refused = adv_abstain(answer)
        trap = task.meta.get("adversarial_answer")
        found = {"f1_locomo": refused, "adv_abstain": refused}
        return {**found, "adv_trap": adv_trap(answer, str(trap))} if trap is not None else found
    return {"f1_locomo": f1_locomo(answer, task.answer, task.category), "f1_mem0": f1_mem0(answer, task.answer)}


def values(row: AnswerRow, verdicts: Mapping[str, bool]) -> dict[str, float]:
    """All that is known of one answer: its metrics and its verdicts (`judge_<name>`, 1 or 0)."""
    return {**row.scores, **{f"judge_{name}": float(right) for name, right in verdicts.items()}}


def tables(known: Sequence[tuple[AnswerRow, Mapping[str, float]]], seed: int = 0) -> dict[str, dict[str, Interval]]:
    """OVERALL and each category -> metric -> mean with its bootstrap interval over tasks.

    Tasks without a value are left out of a mean and show in its `n`; they are never taken for 0.
    """
    groups: dict[str, list[Mapping[str, float]]] = {OVERALL: [found for _, found in known]}
    for name in sorted({row.category for row, _ in known}):
        groups[name] = [found for row, found in known if row.category == name]
    return {name: _means(group, seed) for name, group in groups.items()}


def longmemeval_summary(
    known: Sequence[tuple[AnswerRow, Mapping[str, float]]], by_category: Mapping[str, Mapping[str, Interval]], seed: int
) -> dict[str, Any]:
    """What the official evaluation reports beside the types: the mean over types, and the accuracy on `_abs`."""
    metric = "judge_longmemeval"
    types = [parts[metric].mean for name, parts in by_category.items() if name != OVERALL and metric in parts]
    refusals = [found[metric] for row, found in known if "_abs" in row.task and metric in found]
    return {
        "task_averaged": round(sum(types) / len(types), 6) if types else None,
        "abstention": bootstrap_mean(refusals, seed=seed).as_json(),
    }


def metric_names(parts: Iterable[Mapping[str, Interval]]) -> list[str]:
    """Every metric that occurs, judges first."""
    found = dict.fromkeys(name for part in parts for name in part)
    return sorted(found, key=lambda name: (not name.startswith("judge_"), name))


def _means(group: Sequence[Mapping[str, float]], seed: int) -> dict[str, Interval]:
    names = dict.fromkeys(name for found in group for name in found)
    return {
        name: bootstrap_mean([found[name] for found in group if name in found], seed=seed) for name in sorted(names)
    }
