"""The evidence an episode has selected: turn ids in order, each once, with what selected it."""

from __future__ import annotations

from collections.abc import Iterable


class Selection:
    """`provenance`: selected turn id -> the target, as typed, that selected it first."""

    def __init__(self) -> None:
        self.provenance: dict[str, str] = {}

    def take(self, evidence: Iterable[tuple[str, tuple[str, ...]]]) -> str:
        """Add what each target (the text as typed, the turn ids it stands for) holds; returns the observation.

        What is selected already stays as it is, with a notice. The observation is short: a small model pays for each
        token it reads.
        """
        before = len(self.provenance)
        again = 0
        for text, ids in evidence:
            for turn_id in ids:
                if turn_id in self.provenance:
                    again += 1
                else:
                    self.provenance[turn_id] = text
        return self._message(len(self.provenance) - before, again)

    def _message(self, new: int, again: int) -> str:
        parts = [f"selected {new}"] if new else []
        if again:
            parts.append(f"{again} already selected" if new else "already selected")
        return f"{', '.join(parts)} (total {len(self.provenance)})"
