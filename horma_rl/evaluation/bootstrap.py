"""Percentile bootstrap intervals over tasks: how far a mean would move had other questions been asked.

Efron and Tibshirani, *An Introduction to the Bootstrap* (1993), chapter 13: resample the tasks with replacement, take
the mean of each resample, and read the interval off the quantiles. Two systems on the same tasks are compared by
resampling their per-task differences, so that the difficulty of a task cancels out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

RESAMPLES = 10_000
_DRAWS_AT_ONCE = 2_000_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over `n` tasks and the bounds of its interval. With no tasks all three are NaN."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside the interval: for a difference, whether it is more than noise."""
        return self.low > 0 or self.high < 0

    def as_json(self) -> dict[str, float | int | list[float | None] | None]:
        """`{"mean", "ci95": [low, high], "n"}`, with null where there is nothing to average."""
        if self.n == 0:
            return {"mean": None, "ci95": [None, None], "n": 0}
        return {"mean": round(self.mean, 6), "ci95": [round(self.low, 6), round(self.high, 6)], "n": self.n}


def bootstrap_mean(
    values: Sequence[float], *, seed: int = 0, resamples: int = RESAMPLES, level: float = 0.95
) -> Interval:
    """The mean of `values` [n] with its percentile interval.

    The same values with the same seed give the same interval, in whatever order they come.

    Raises:
        ValueError: `level` is not between 0 and 1, `resamples` is below 1, or a value is NaN or infinite.
    """
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; it must lie between 0 and 1")
    if resamples < 1:
        raise ValueError(f"resamples is {resamples}; at least 1 is needed")
    data = np.asarray(values, dtype=np.float64)
    if not np.isfinite(data).all():
        raise ValueError("a value is not a finite number; leave unscored tasks out and count them apart")
    if data.size == 0:
        return Interval(float("nan"), float("nan"), float("nan"), 0)
    means = _resampled_means(data, seed, resamples)
    tail = (1 - level) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Interval(float(data.mean()), float(low), float(high), int(data.size))


def paired_bootstrap(
    before: Sequence[float],
    after: Sequence[float],
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> Interval:
    """The mean of `after - before` with its interval; entry i of both is the same task.

    Raises:
        ValueError: the two differ in length, or as for `bootstrap_mean`.
    """
    if len(before) != len(after):
        raise ValueError(f"a paired comparison needs the same tasks on both sides, got {len(before)} and {len(after)}")
    difference = np.asarray(after, dtype=np.float64) - np.asarray(before, dtype=np.float64)
    return bootstrap_mean(difference.tolist(), seed=seed, resamples=resamples, level=level)


def _resampled_means(data: npt.NDArray[np.float64], seed: int, resamples: int) -> npt.NDArray[np.float64]:
    """Means of `resamples` resamples [resamples].

    How often each distinct value turns up in a resample is multinomial, and overlaps take few distinct values, so this
    draws those counts. In blocks, so that memory stays small where there are many.
    """
    rng = np.random.default_rng(seed)
    values, counts = np.unique(data, return_counts=True)
    block = max(1, _DRAWS_AT_ONCE // values.size)
    means = np.empty(resamples)
    for start in range(0, resamples, block):
        stop = min(start + block, resamples)
        draws = rng.multinomial(data.size, counts / data.size, size=stop - start)
        means[start:stop] = draws @ values / data.size
    return means
