"""SR, PS and their relatives, over rows that were played to an end. All are shares, from 0 to 1.

Two rows serve as the example in each docstring. Row A has 4 subtasks: passed, passed, failed, not answered. Row B has
2: failed, passed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_arena.domain import Decides, Score
from memory_arena.rows import SEARCH, TRAVEL


@dataclass(frozen=True, slots=True)
class RowResult:
    """How one row came out: a score for each subtask, in order."""

    id: str
    domain: str
    decides: Decides
    scores: tuple[Score, ...]

    @property
    def subtasks(self) -> int:
        """How many there are."""
        return len(self.scores)

    @property
    def solved(self) -> bool:
        """Whether every subtask passed, or, where the last one decides, that one."""
        return self.scores[-1].passed if self.decides == "last" else all(score.passed for score in self.scores)

    @property
    def passed(self) -> int:
        """Subtasks passed."""
        return sum(score.passed for score in self.scores)

    @property
    def answered(self) -> int:
        """Subtasks in which something was handed in."""
        return sum(score.answered for score in self.scores)

    def as_json(self) -> dict[str, Any]:
        """For a results file; `from_json` reads it."""
        scores = [{"passed": one.passed, "answered": one.answered, "figures": dict(one.figures)} for one in self.scores]
        return {"id": self.id, "domain": self.domain, "decides": self.decides, "scores": scores}

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> RowResult:
        """The result that `as_json` wrote."""
        scores = tuple(Score(one["passed"], one["answered"], one["figures"]) for one in raw["scores"])
        return RowResult(raw["id"], raw["domain"], raw["decides"], scores)


def success_rate(results: Sequence[RowResult]) -> float:
    """SR: rows solved / rows. Example: where the last subtask decides, A is not solved and B is: 1/2. Where all
    have to pass, neither is: 0."""
    return _mean([float(result.solved) for result in results])


def progress(results: Sequence[RowResult]) -> float:
    """PS of the paper: mean over rows of subtasks passed / subtasks. Unanswered ones count as failed. Example:
    (2/4 + 1/2) / 2 = 1/2."""
    return _mean([result.passed / result.subtasks for result in results])


def progress_micro(results: Sequence[RowResult]) -> float:
    """PS as the travel scorer takes it: subtasks passed / subtasks, over all rows together (persons passed / persons).
    Example: (2 + 1) / (4 + 2) = 1/2. With a third row of one failed subtask it is 3/7, and `progress` is 1/3."""
    subtasks = sum(result.subtasks for result in results)
    return sum(result.passed for result in results) / subtasks if subtasks else 0.0


def progress_answered(results: Sequence[RowResult]) -> float:
    """PS as the search scorer takes it: mean over rows of subtasks passed / subtasks answered, 0 where none was.
    What was not answered is skipped, which raises it: report `progress` beside it. Example: (2/3 + 1/2) / 2 = 7/12."""
    return _mean([result.passed / result.answered if result.answered else 0.0 for result in results])


def soft_progress(results: Sequence[RowResult]) -> float:
    """SPS of travel: mean over groups of the mean over persons of slots passed / slots, among the slots in which a
    person's gold plan differs from the base person's. Persons without such a slot, and groups without such a person,
    are left out. Example: a group with persons at 1/2 and 3/4 and one without such slots, and a group with a
    person at 1: (5/8 + 1) / 2 = 13/16."""
    return _mean([_mean(shares) for shares in map(_shares, results) if shares])


def summarise(results: Sequence[RowResult]) -> dict[str, dict[str, float]]:
    """By domain: `rows`, `subtasks`, `sr`, `ps`, `ps_micro`; for travel `sps`, for search `ps_answered`."""
    found: dict[str, dict[str, float]] = {}
    for domain in dict.fromkeys(result.domain for result in results):
        rows = [result for result in results if result.domain == domain]
        found[domain] = {
            "rows": len(rows),
            "subtasks": sum(result.subtasks for result in rows),
            "sr": success_rate(rows),
            "ps": progress(rows),
            "ps_micro": progress_micro(rows),
        }
        if domain == TRAVEL:
            found[domain]["sps"] = soft_progress(rows)
        if domain == SEARCH:
            found[domain]["ps_answered"] = progress_answered(rows)
    return found


def _shares(result: RowResult) -> list[float]:
    """Per person who has them: the share of changed slots passed."""
    figures = [score.figures for score in result.scores]
    return [one["changed_passed"] / one["changed_total"] for one in figures if one["changed_total"]]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
