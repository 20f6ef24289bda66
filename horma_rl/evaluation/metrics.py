"""Rows to numbers: means with intervals, overall and by category, and paired differences between two systems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from horma_rl.evaluation.bootstrap import RESAMPLES, Interval, bootstrap_mean, paired_bootstrap
from horma_rl.evaluation.rows import EpisodeRow

OVERALL = "all"
"""The name under which tables keep all categories together."""


@dataclass(frozen=True, slots=True)
class Summary:
    """One system over one set of tasks.

    `jaccard` is the mean reward over scored tasks (several episodes of one task are averaged first). The other means
    are over scored episodes. `unscored` episodes have no reward and enter no mean.
    """

    jaccard: Interval
    precision: float
    recall: float
    f1: float
    exact: float
    turns: float
    commands: float
    invalid_rate: float
    """Refused or failed commands, and unreadable calls, over all commands; 0 when there were none."""
    context_tokens: float
    model_tokens: float
    stops: Mapping[str, int]
    calls: Mapping[str, int]
    episodes: int
    unscored: int

    def as_json(self) -> dict[str, Any]:
        """A plain mapping; `jaccard` is `{"mean", "ci95", "n"}`."""
        means = {name: _rounded(getattr(self, name)) for name in _MEANS}
        return {
            "jaccard": self.jaccard.as_json(), **means, "stops": dict(self.stops), "calls": dict(self.calls),
            "episodes": self.episodes, "unscored": self.unscored,
        }  # fmt: skip


_MEANS = (
    "precision", "recall", "f1", "exact", "turns", "commands", "invalid_rate", "context_tokens", "model_tokens",
)  # fmt: skip


def summarise(rows: Sequence[EpisodeRow], seed: int = 0, resamples: int = RESAMPLES) -> Summary:
    """One `Summary` of `rows`, which should be of one system."""
    scored = [row for row in rows if row.reward is not None]
    commands = sum(row.commands for row in scored)
    return Summary(
        jaccard=bootstrap_mean(list(rewards_by_task(rows).values()), seed=seed, resamples=resamples),
        precision=_mean(scored, lambda row: row.precision),
        recall=_mean(scored, lambda row: row.recall),
        f1=_mean(scored, lambda row: row.f1),
        exact=_mean(scored, lambda row: float(row.exact)),
        turns=_mean(scored, lambda row: row.turns),
        commands=_mean(scored, lambda row: row.commands),
        invalid_rate=sum(row.invalid for row in scored) / commands if commands else 0.0,
        context_tokens=_mean(scored, lambda row: row.context_tokens),
        model_tokens=_mean(scored, lambda row: row.model_tokens),
        stops=Counter(row.stop for row in rows),
        calls=_total_calls(scored),
        episodes=len(rows),
        unscored=len(rows) - len(scored),
    )


def by_category(rows: Sequence[EpisodeRow], seed: int = 0, resamples: int = RESAMPLES) -> dict[str, Summary]:
    """`summarise` for OVERALL and then for each category, in alphabetical order."""
    groups = {OVERALL: list(rows), **_grouped(rows)}
    return {name: summarise(group, seed, resamples) for name, group in groups.items()}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two systems on the tasks both were scored on. `unpaired` tasks were scored on one side only, and left out."""

    before: float
    after: float
    delta: Interval
    unpaired: int

    def as_json(self) -> dict[str, Any]:
        """`{"before", "after", "delta", "ci95", "n", "unpaired"}`: the shape `summary.json` has at its top."""
        delta = self.delta.as_json()
        return {
            "before": _rounded(self.before), "after": _rounded(self.after), "delta": delta["mean"],
            "ci95": delta["ci95"], "n": delta["n"], "unpaired": self.unpaired,
        }  # fmt: skip


def compare(
    before: Sequence[EpisodeRow], after: Sequence[EpisodeRow], seed: int = 0, resamples: int = RESAMPLES
) -> Comparison:
    """The mean difference `after - before` over the tasks scored on both sides, with a paired bootstrap interval."""
    left, right = rewards_by_task(before), rewards_by_task(after)
    shared = [task for task in left if task in right]
    lows, highs = [left[task] for task in shared], [right[task] for task in shared]
    delta = paired_bootstrap(lows, highs, seed=seed, resamples=resamples)
    nan = float("nan")
    return Comparison(
        before=float(np.mean(lows)) if shared else nan,
        after=float(np.mean(highs)) if shared else nan,
        delta=delta,
        unpaired=len(left.keys() ^ right.keys()),
    )


def compare_by_category(
    before: Sequence[EpisodeRow], after: Sequence[EpisodeRow], seed: int = 0, resamples: int = RESAMPLES
) -> dict[str, Comparison]:
    """`compare` for OVERALL and then for each category that either side has."""
    left, right = _grouped(before), _grouped(after)
    result = {OVERALL: compare(before, after, seed, resamples)}
    for name in sorted(left.keys() | right.keys()):
        result[name] = compare(left.get(name, []), right.get(name, []), seed, resamples)
    return result


def rewards_by_task(rows: Iterable[EpisodeRow]) -> dict[str, float]:
    """Task id -> mean reward of its scored episodes, in order of appearance. Tasks never scored are absent."""
    gathered: dict[str, list[float]] = {}
    for row in rows:
        if row.reward is not None:
            gathered.setdefault(row.task, []).append(row.reward)
    return {task: float(np.mean(rewards)) for task, rewards in gathered.items()}


def _grouped(rows: Iterable[EpisodeRow]) -> dict[str, list[EpisodeRow]]:
    groups: dict[str, list[EpisodeRow]] = {}
    for row in rows:
        groups.setdefault(row.category or "uncategorised", []).append(row)
    return dict(sorted(groups.items()))


def _mean(rows: Sequence[EpisodeRow], value: Callable[[EpisodeRow], float]) -> float:
    return float(np.mean([value(row) for row in rows])) if rows else float("nan")


def _rounded(value: float) -> float | None:
    return None if np.isnan(value) else round(value, 6)


def _total_calls(rows: Iterable[EpisodeRow]) -> Counter[str]:
    total: Counter[str] = Counter()
    for row in rows:
        total.update(row.calls)
    return total
