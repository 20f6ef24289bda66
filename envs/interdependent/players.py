"""The player for an instruction."""

from __future__ import annotations

from functools import lru_cache

from interdependent import bundle_rules, schedule_rules
from interdependent.bundle_player import BundlePlayer
from interdependent.player import Player
from interdependent.schedule_player import SchedulePlayer


@lru_cache(maxsize=256)
def read_player(instruction: str) -> Player:
    """A player by the rules that `instruction` states. Raises ValueError when it is no task of this family."""
    if bundle := bundle_rules.read_rules(instruction):
        return BundlePlayer(bundle)
    if schedule := schedule_rules.read_rules(instruction):
        return SchedulePlayer(schedule)
    raise ValueError("this is no instruction of the interdependent family, the only one that players are for")
