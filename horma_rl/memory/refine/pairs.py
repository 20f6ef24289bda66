"""Sort tasks by which side did better: raw history (exogenous faults) or managed memory (endogenous strengths)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from horma_rl.memory.refine.measure import Row
from horma_rl.memory.skills.skill import SkillKind
from memory_shell.types import Task


@dataclass(frozen=True, slots=True)
class Pair:
    """One task run twice, with scores that differ."""

    task: Task
    kind: SkillKind
    control: Row
    memory: Row

    @property
    def gap(self) -> float:
        """How far the scores are apart."""
        return abs((self.control.score or 0.0) - (self.memory.score or 0.0))

    def as_json(self) -> dict[str, Any]:
        """What `pairs.jsonl` holds of it."""
        sides = {"control": self.control, "memory": self.memory}
        return {
            "task": self.task.id,
            "kind": self.kind,
            "gap": round(self.gap, 6),
            "question": self.task.question,
            "gold": self.task.answer,
            "evidence": list(self.task.evidence),
            **{
                name: {"answer": row.answer, "score": row.score, "context_tokens": row.context_tokens}
                for name, row in sides.items()
            },
        }


@dataclass(frozen=True, slots=True)
class Pairs:
    """The disagreements, exogenous ones first, larger gaps before smaller ones; and how many of all tasks are not
    among them. `left_out` is over the number that is written up in a round."""

    chosen: tuple[Pair, ...]
    agreed: int
    unscored: int
    left_out: int

    def count(self, kind: SkillKind) -> int:
        """How many of `chosen` are of `kind`."""
        return sum(pair.kind == kind for pair in self.chosen)

    def as_json(self) -> dict[str, int]:
        """Counts for the round's summary."""
        return {
            "exogenous": self.count("exogenous"),
            "endogenous": self.count("endogenous"),
            "agreed": self.agreed,
            "unscored": self.unscored,
            "left_out": self.left_out,
        }


def sort_pairs(
    tasks: Sequence[Task], control: Mapping[str, Row], memory: Mapping[str, Row], margin: float, most: int
) -> Pairs:
    """The pairs whose scores differ by at least `margin`; at most `most` of each kind. Ties stay in task order."""
    found: dict[SkillKind, list[Pair]] = {"exogenous": [], "endogenous": []}
    agreed = unscored = 0
    for task in tasks:
        raw, managed = control[task.id], memory[task.id]
        if raw.score is None or managed.score is None:
            unscored += 1
        elif abs(raw.score - managed.score) < margin:
            agreed += 1
        else:
            kind: SkillKind = "exogenous" if raw.score > managed.score else "endogenous"
            found[kind].append(Pair(task, kind, raw, managed))
    ranked = {kind: sorted(pairs, key=lambda pair: -pair.gap) for kind, pairs in found.items()}
    chosen = tuple(pair for pairs in ranked.values() for pair in pairs[:most])
    return Pairs(chosen, agreed, unscored, sum(map(len, found.values())) - len(chosen))
