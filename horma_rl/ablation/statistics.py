"""Intervals over tasks and seeds at once: how far a cell's mean would move with other questions and other seeds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from horma_rl.evaluation.bootstrap import RESAMPLES, Interval

Scores = Mapping[int, Mapping[str, float]]
"""Seed -> task -> score."""

_AT_ONCE = 500


def crossed_interval(scores: Scores, *, seed: int = 0, resamples: int = RESAMPLES, level: float = 0.95) -> Interval:
    """The mean over all pairs of seed and task, and its percentile interval when both are drawn anew.

    Seeds and tasks are resampled independently (the pigeonhole bootstrap: Owen, *The pigeonhole bootstrap*, Annals of
    Applied Statistics 1(2), 2007, arXiv:0712.1111), so the interval is wider than one over tasks alone where seeds
    disagree. With one seed it is the interval over tasks. Pairs that are missing have no weight. `n` counts the tasks.
    """
    tasks = sorted({task for by_task in scores.values() for task in by_task})
    if not tasks:
        return Interval(float("nan"), float("nan"), float("nan"), 0)
    values = np.array([[by_task.get(task, np.nan) for task in tasks] for by_task in scores.values()])
    present = np.isfinite(values)
    filled = np.where(present, values, 0.0)
    rng = np.random.default_rng(seed)
    means: list[float] = []
    for start in range(0, resamples, _AT_ONCE):
        size = min(_AT_ONCE, resamples - start)
        rows = rng.multinomial(len(values), np.full(len(values), 1 / len(values)), size)  # [size, seeds]
        columns = rng.multinomial(len(tasks), np.full(len(tasks), 1 / len(tasks)), size)  # [size, tasks]
        total = ((rows @ filled) * columns).sum(1)
        count = ((rows @ present) * columns).sum(1)
        means += (total[count > 0] / count[count > 0]).tolist()
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(values[present].mean()), float(low), float(high), len(tasks))


def differences(reference: Scores, cell: Scores) -> Scores:
    """`cell - reference` for every pair of seed and task that both have."""
    return {
        seed: {task: score - reference[seed][task] for task, score in by_task.items() if task in reference[seed]}
        for seed, by_task in cell.items()
        if seed in reference
    }
