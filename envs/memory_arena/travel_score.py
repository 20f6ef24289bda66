"""How a person's plan is scored against the gold one: slot by slot, by similarity of texts. Deterministic.

The rules are those of the benchmark's scorer, their weak points included: a text is compared as far as the shorter of
the two goes, so a gold text's first letter alone passes; days beyond the gold ones are not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from memory_arena.rows import EMPTY, SLOTS, Day, Plan

PASS = 0.7
"""A slot passes from this similarity on."""

_HEURISTIC_FROM = 200
"""From this length on difflib takes frequent letters for junk, and a text may be unlike itself."""

Slot = tuple[int, str]
"""Number of a day, and a name of `rows.SLOTS`."""


@dataclass(frozen=True, slots=True)
class PlanScore:
    """What of a gold plan was met.

    `slots`: similarity of each gold slot, from 0 to 1. `changed`: those in which the gold plan differs from the base
    person's, which is what the person asked for.
    """

    slots: Mapping[Slot, float]
    changed: frozenset[Slot]

    @property
    def passed(self) -> bool:
        """Whether the person passes: every slot of every day does."""
        return all(value >= PASS for value in self.slots.values())

    @property
    def changed_passed(self) -> int:
        """How many of the changed slots pass."""
        return sum(self.slots[slot] >= PASS for slot in self.changed)


def similarity(expected: Any, actual: Any) -> float:
    """Ratio of difflib's SequenceMatcher on both texts in lower case, cut to the shorter one's length.

    Nothing at all (null, an empty text) is like nothing; two `-` are the same.
    """
    if not expected or not actual:
        return 0.0
    first, second = str(expected).strip().lower(), str(actual).strip().lower()
    if first == second == EMPTY:
        return 1.0
    length = min(len(first), len(second))
    first, second = first[:length], second[:length]
    if first == second and 0 < length < _HEURISTIC_FROM:
        return 1.0  # what the ratio would be, only sooner: most slots are
    return SequenceMatcher(None, first, second).ratio() if length else 0.0


def score_plan(gold: Plan, plan: Sequence[Any], base: Plan) -> PlanScore:
    """Score `plan`, a list of days as a policy handed it in, whatever is in it.

    A day is found by its number (`days`); the first one counts. A slot that a day does not name is `-`; of a day that
    is missing, no slot passes. An empty gold plan has nothing to pass, and is refused with ValueError.
    """
    if not gold:
        raise ValueError("the gold plan has no day")
    slots = {(day.days, name): _slot(day, _handed_in(plan, day.days), name) for day in gold for name in SLOTS}
    return PlanScore(slots, changed_slots(gold, base))


def changed_slots(gold: Plan, base: Plan) -> frozenset[Slot]:
    """Slots in which the gold plan differs from the base plan: their similarity does not pass. Days that the base plan
    lacks are left out."""
    found: set[Slot] = set()
    for day in gold:
        other = next((candidate for candidate in base if candidate.days == day.days), None)
        if other is not None:
            found |= {(day.days, name) for name in SLOTS if similarity(other.slot(name), day.slot(name)) < PASS}
    return frozenset(found)


def _handed_in(plan: Sequence[Any], number: int) -> Mapping[str, Any] | None:
    return next((day for day in plan if isinstance(day, dict) and day.get("days") == number), None)


def _slot(day: Day, handed_in: Mapping[str, Any] | None, name: str) -> float:
    if handed_in is None:
        return 0.0
    return similarity(day.slot(name), handed_in.get(name, EMPTY))
