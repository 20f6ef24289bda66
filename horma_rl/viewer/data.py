"""What a report shows, and which episodes it shows in full."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from horma_rl.evaluation.rows import EpisodeRow

Episode = Mapping[str, Any]
"""A trajectory as `Trajectory.as_json` writes it."""


@dataclass(frozen=True, slots=True)
class SystemRows:
    """One compared system: its name, what it is given, and its row for each task."""

    name: str
    given: str
    rows: Sequence[EpisodeRow]


@dataclass(frozen=True, slots=True)
class Pair:
    """One task's episodes, before and after; one of them may be missing. `why` says how the task was chosen."""

    before: Episode | None
    after: Episode | None
    why: str = ""

    @property
    def change(self) -> float | None:
        """Reward after minus reward before; None unless both were scored."""
        before, after = _reward(self.before), _reward(self.after)
        return None if before is None or after is None else after - before


@dataclass(frozen=True, slots=True)
class ReportData:
    """Everything on the page.

    `before` and `after` are the two systems of the main table; leave `before` None to report one system. `metrics`
    has one mapping a training step with `step`, `reward` and optionally `reward_std`; every other number in it gets a
    small chart. `texts` (workspace -> turn id -> text) lets the page show evidence in words.
    """

    title: str
    given: str
    config_yaml: str
    seed: int
    wall_s: float
    before: SystemRows | None = None
    after: SystemRows | None = None
    baselines: Sequence[SystemRows] = ()
    metrics: Sequence[Mapping[str, Any]] = ()
    pairs: Sequence[Pair] = ()
    pair_labels: tuple[str, str] = ("before", "after")
    texts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    facts: Sequence[tuple[str, str]] = ()
    """More lines for the header: (name, value)."""


def choose_pairs(before: Sequence[Episode], after: Sequence[Episode], count: int = 10, seed: int = 0) -> list[Pair]:
    """At most `count` tasks to read in full, so chosen that failures show as well as successes.

    Four tenths are the largest gains, three tenths the largest losses, the rest drawn at random among the others. A
    task with several episodes shows its first.
    """
    firsts, seconds = _first_by_task(before), _first_by_task(after)
    pairs = {task: Pair(firsts.get(task), seconds.get(task)) for task in seconds or firsts}
    changes = {task: pair.change or 0.0 for task, pair in pairs.items()}
    ranked = sorted(pairs, key=lambda task: changes[task])
    gains = [task for task in reversed(ranked) if changes[task] > 0][: count * 4 // 10]
    losses = [task for task in ranked if changes[task] < 0][: count * 3 // 10]
    others = [task for task in pairs if task not in gains and task not in losses]
    drawn = random.Random(seed).sample(others, min(len(others), max(0, count - len(gains) - len(losses))))
    chosen = [(gains, "among the largest gains"), (losses, "among the largest losses"), (drawn, "drawn at random")]
    return [Pair(pairs[task].before, pairs[task].after, why) for group, why in chosen for task in group]


def _first_by_task(episodes: Sequence[Episode]) -> dict[str, Episode]:
    found: dict[str, Episode] = {}
    for episode in episodes:
        found.setdefault(str(episode["task"]), episode)
    return found


def _reward(episode: Episode | None) -> float | None:
    return None if episode is None or episode.get("reward") is None else float(episode["reward"])
