"""Generated tasks in which each decision limits the next ones, with a known optimal policy. Standard library only."""

from interdependent.players import read_player
from interdependent.suite import InterdependentSuite, optimal

__all__ = ["InterdependentSuite", "optimal", "read_player"]
