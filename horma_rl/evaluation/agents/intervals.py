"""Bootstrap intervals over tasks and the seeds of each task.

The seeds of one task are no independent tasks: resampling happens on both levels, tasks first and then, within each
drawn task, its seeds (Davison and Hinkley, *Bootstrap Methods and their Application* (1997), section 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from horma_rl.evaluation.bootstrap import Interval, bootstrap_mean

RESAMPLES = 2_000
_DRAWS_AT_ONCE = 2_000_000


def over_tasks(values: Mapping[str, Sequence[float]], *, seed: int = 0, resamples: int = RESAMPLES) -> Interval:
    """The mean over tasks of each task's mean over its seeds, with a 95% percentile interval.

    `values`: task id -> a number for each of its seeds; tasks without one are left out. `n` counts tasks. The same
    values with the same seed give the same interval, in whatever order they come.

    Raises:
        ValueError: a value is NaN or infinite.
    """
    groups = sorted(tuple(sorted(group)) for group in values.values() if group)
    if all(len(group) == 1 for group in groups):
        return bootstrap_mean([group[0] for group in groups], seed=seed, resamples=resamples)
    counts = np.asarray([len(group) for group in groups])
    table = np.zeros((len(groups), counts.max()))
    for row, group in zip(table, groups, strict=True):
        row[: len(group)] = group
    if not np.isfinite(table).all():
        raise ValueError("a value is not a finite number; leave unfinished episodes out and count them apart")
    means = _resampled(table, counts, np.random.default_rng(seed), resamples)
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(np.mean(table.sum(axis=1) / counts)), float(low), float(high), len(groups))


def difference(
    base: Mapping[str, Mapping[int, float]], other: Mapping[str, Mapping[int, float]], *, seed: int = 0
) -> Interval:
    """The mean of `other - base` over the tasks and seeds that both have, with its interval.

    Both: task id -> seed -> value.
    """
    pairs = {
        task: [found[number] - base[task][number] for number in sorted(found.keys() & base[task].keys())]
        for task, found in other.items()
        if task in base
    }
    return over_tasks(pairs, seed=seed)


def _resampled(
    table: npt.NDArray[np.float64], counts: npt.NDArray[np.int_], rng: np.random.Generator, resamples: int
) -> npt.NDArray[np.float64]:
    """Means of `resamples` resamples [resamples] of `table` [tasks, seeds], of whose rows the first `counts` are."""
    tasks, most = table.shape
    block = max(1, _DRAWS_AT_ONCE // table.size)
    means = np.empty(resamples)
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        drawn = rng.integers(tasks, size=(size, tasks))
        number = counts[drawn][..., None]
        picks = (rng.random((size, tasks, most)) * number).astype(np.int64)
        kept = np.arange(most) < number
        sums = np.where(kept, table[drawn[..., None], picks], 0.0).sum(axis=2)
        means[start : start + size] = (sums / number[..., 0]).mean(axis=1)
    return means
