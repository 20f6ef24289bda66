"""ALFWorld's household tasks as text games, behind the interactive environments' contract. No torch; the games' own
packages (extra `alfworld`) are imported when the first game is loaded."""

from household.environment import HouseholdEnv, HouseholdSuite

__all__ = ["HouseholdEnv", "HouseholdSuite"]
