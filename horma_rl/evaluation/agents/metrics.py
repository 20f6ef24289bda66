"""Rows of agents to numbers: means with intervals, differences between systems, and the length of contexts by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from horma_rl.evaluation.agents.intervals import difference, over_tasks
from horma_rl.evaluation.agents.store import AgentRow
from horma_rl.evaluation.bootstrap import Interval

_MEANS: Mapping[str, Callable[[AgentRow], float]] = {
    "success": lambda row: float(row.success),
    "progress": lambda row: row.progress,
    "steps": lambda row: row.steps,
    "tokens": lambda row: row.tokens,
    "most_context": lambda row: row.most_context,
}
"""What has an interval."""
_COUNTS: Mapping[str, Callable[[AgentRow], float]] = {
    "moves": lambda row: row.moves,
    "compressions": lambda row: row.compressions,
    "faults": lambda row: row.faults,
    "revisions": lambda row: row.revisions,
    "recalls": lambda row: row.recalls,
    "malformed": lambda row: row.malformed,
    "invalid": lambda row: row.invalid,
    "refused": lambda row: row.refused,
    "unvalidated": lambda row: row.unvalidated,
    "not_rewound": lambda row: row.not_rewound,
    "over_budget": lambda row: row.over_budget,
    "seconds": lambda row: row.wall_s,
}
_COMPARED = ("success", "progress", "tokens")


@dataclass(frozen=True, slots=True)
class Summary:
    """One system over its finished episodes. `means` are over tasks, each the mean over its seeds; `counts` are means
    over episodes, and NaN without one."""

    episodes: int
    means: Mapping[str, Interval]
    counts: Mapping[str, float]
    stops: Mapping[str, int]
    families: Mapping[str, Mapping[str, float]]
    """Family -> mean success and progress, and its number of episodes."""

    def as_json(self) -> dict[str, Any]:
        """A plain mapping; an interval is `{"mean", "ci95", "n"}`."""
        return {
            "episodes": self.episodes,
            **{name: value.as_json() for name, value in self.means.items()},
            **{name: round(value, 4) if self.episodes else None for name, value in self.counts.items()},
            "stops": dict(self.stops),
            "families": {name: dict(values) for name, values in self.families.items()},
        }


def summarise(rows: Sequence[AgentRow], seed: int = 0) -> Summary:
    """One `Summary` of `rows`, which should be of one system."""
    stops: dict[str, int] = {}
    families: dict[str, list[AgentRow]] = {}
    for row in rows:
        stops[row.stop] = stops.get(row.stop, 0) + 1
        families.setdefault(row.family, []).append(row)
    return Summary(
        episodes=len(rows),
        means={name: over_tasks(_by_task(rows, value), seed=seed) for name, value in _MEANS.items()},
        counts={name: _mean([value(row) for row in rows]) for name, value in _COUNTS.items()},
        stops=dict(sorted(stops.items())),
        families={
            name: {
                "success": round(_mean([float(row.success) for row in group]), 6),
                "progress": round(_mean([row.progress for row in group]), 6),
                "episodes": len(group),
            }
            for name, group in sorted(families.items())
            if name
        },
    )


def compare(base: Sequence[AgentRow], other: Sequence[AgentRow], seed: int = 0) -> dict[str, Interval]:
    """The differences `other - base` on the tasks and seeds that both have finished."""
    return {
        name: difference(_by_seed(base, _MEANS[name]), _by_seed(other, _MEANS[name]), seed=seed) for name in _COMPARED
    }


def context_by_step(rows: Sequence[AgentRow]) -> list[float]:
    """Entry i is the mean length of the prompt at move i + 1, in tokens, over the episodes that came so far."""
    longest = max((len(row.contexts) for row in rows), default=0)
    return [_mean([row.contexts[index] for row in rows if index < len(row.contexts)]) for index in range(longest)]


def _by_task(rows: Sequence[AgentRow], value: Callable[[AgentRow], float]) -> dict[str, list[float]]:
    return {task: list(values.values()) for task, values in _by_seed(rows, value).items()}


def _by_seed(rows: Sequence[AgentRow], value: Callable[[AgentRow], float]) -> dict[str, dict[int, float]]:
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        found.setdefault(row.task, {})[row.seed] = value(row)
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")
