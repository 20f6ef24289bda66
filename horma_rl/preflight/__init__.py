"""Checks of the machines that a run has got, before it starts. No torch is imported here."""
