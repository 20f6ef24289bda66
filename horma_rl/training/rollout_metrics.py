"""The numbers of one step's episodes: counted in each process, added up over all, and made into means once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from horma_rl.retrieval.types import Trajectory
from memory_shell.types import Stop

Group = list[Trajectory]


def totals(drawn: Sequence[Group], trajectories: Sequence[Trajectory], seconds: float) -> dict[str, float]:
    """The counts of one process, under the same names in the same order whatever was played.

    `drawn`: the groups before flat ones were replaced. The reward is taken from these: it is the policy's expected
    reward on the training tasks, which the groups that are kept would misstate. `seconds`: of this process's rollouts.
    """
    scored = [t.reward for group in drawn for t in group if t.reward is not None]
    return {
        "groups": len(drawn),
        "flat_groups": sum(not varies(group) for group in drawn),
        "scored": len(scored),
        "reward": sum(scored),
        "episodes": len(trajectories),
        "turns": sum(len(t.turns) for t in trajectories),
        "calls": sum(bool(turn.calls) for t in trajectories for turn in t.turns),
        "commands": sum(t.commands for t in trajectories),
        "invalid": sum(t.invalid for t in trajectories),
        "selected": sum(len(t.selected) for t in trajectories),
        "tokens": sum(sum(t.mask) for t in trajectories),
        "unscored": sum(t.reward is None for t in trajectories),
        "dropped": sum(t.reward is None and t.stop is Stop.TIME_CAP for t in trajectories),
        **{f"stop_{stop.value}": sum(t.stop is stop for t in trajectories) for stop in Stop},
        "seconds": seconds,
    }


def add_up(counts: Mapping[str, float], accelerator: Any) -> dict[str, float]:
    """The counts of all processes together; `seconds` is the slowest one's. One gather: all processes must call it."""
    row = torch.tensor([list(counts.values())], dtype=torch.float64, device=accelerator.device)
    table = accelerator.gather(row)  # [N, K]
    added = dict(zip(counts, table.sum(0).tolist(), strict=True))
    added["seconds"] = float(table[:, list(counts).index("seconds")].max())
    return added


def task_means(groups: Sequence[Group], names: Sequence[str], accelerator: Any) -> dict[str, float]:
    """The mean reward of the groups of each task that any process played, by the task's name; `names`: of all tasks, in
    the same order in every process. One gather: all processes must call it."""
    places = {name: place for place, name in enumerate(names)}
    table = torch.zeros(len(names), 2, dtype=torch.float64)
    for group in groups:
        scored = [t.reward for t in group if t.reward is not None]
        if scored:
            table[places[group[0].task.id]] += torch.tensor([sum(scored) / len(scored), 1.0], dtype=torch.float64)
    added = accelerator.gather(table[None].to(accelerator.device)).sum(0).tolist()  # [N, tasks, 2] -> [tasks, 2]
    return {name: total / count for name, (total, count) in zip(names, added, strict=True) if count}


def means(counts: Mapping[str, float]) -> dict[str, float]:
    """The metrics of a step, for the log. There is no `reward` where no episode was scored."""
    n = max(1.0, counts["episodes"])
    per_episode = ["turns", "commands", "selected", "unscored", "dropped", *(f"stop_{stop.value}" for stop in Stop)]
    found = {name: counts[name] / n for name in per_episode} | {
        "flat_groups": counts["flat_groups"] / max(1.0, counts["groups"]),
        "invalid_rate": counts["invalid"] / max(1.0, counts["commands"]),
        "call_rate": counts["calls"] / max(1.0, counts["turns"]),
        "seconds": counts["seconds"],
        "tokens_per_s": counts["tokens"] / max(counts["seconds"], 1e-9),
    }
    if counts["scored"]:
        found["reward"] = counts["reward"] / counts["scored"]
    return {f"rollout/{name}": value for name, value in found.items()}


def varies(group: Group) -> bool:
    """Whether the scored episodes of a group differ in reward."""
    return len({t.reward for t in group if t.reward is not None}) > 1
