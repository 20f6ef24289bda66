"""What a round has cost, over all the processes that worked on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from horma_rl.memory.refine.files import read_json, write_json
from horma_rl.memory.refine.parts import Purse

Spending = dict[str, dict[str, float]]
"""Role -> counter -> amount."""


class Account:
    """The running account of one round: what earlier processes wrote down, and what this one has spent since it began.

    Saved after every finished step; a killed process loses the count of the requests in flight, nothing else.
    """

    def __init__(self, path: Path, purse: Purse) -> None:
        self._path, self._purse = path, purse
        self._before: Spending = read_json(path) or {}
        self._mark = purse.spent()

    def total(self) -> Spending:
        """Everything so far."""
        now = self._purse.spent()
        return add(self._before, subtract(now, self._mark))

    def save(self) -> None:
        """Write it down."""
        write_json(self._path, self.total())


def add(one: Mapping[str, Mapping[str, float]], other: Mapping[str, Mapping[str, float]]) -> Spending:
    """The sums, counter by counter. Roles that spent nothing are left out."""
    return _combine(one, other, 1)


def subtract(one: Mapping[str, Mapping[str, float]], other: Mapping[str, Mapping[str, float]]) -> Spending:
    """The differences, counter by counter. Roles that spent nothing are left out."""
    return _combine(one, other, -1)


def _combine(one: Mapping[str, Mapping[str, float]], other: Mapping[str, Mapping[str, float]], sign: int) -> Spending:
    result: Spending = {}
    for role in (*one, *(role for role in other if role not in one)):
        mine, theirs = one.get(role, {}), other.get(role, {})
        amounts = {name: mine.get(name, 0) + sign * theirs.get(name, 0) for name in (*mine, *theirs)}
        if any(amounts.values()):
            result[role] = {name: round(amount, 9) for name, amount in amounts.items()}
    return result
