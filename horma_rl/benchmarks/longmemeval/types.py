"""What a LongMemEval file holds: questions, each with dated sessions of its own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

TYPES: tuple[str, ...] = (
    "single-session-user",
    "single-session-preference",
    "single-session-assistant",
    "multi-session",
    "temporal-reasoning",
    "knowledge-update",
)
PAPER_TYPES: tuple[str, ...] = tuple(name for name in TYPES if name != "multi-session")
"""The 367 questions: the only selection of whole types with that size that keeps all temporal questions."""
ABSTENTION = "_abs"
"""Where this stands in a question's id, the question has no answer in the history."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """One message. `has_answer`: it is annotated as evidence."""

    role: str
    text: str
    has_answer: bool = False


@dataclass(frozen=True, slots=True)
class Sitting:
    """One dated session of a haystack. `id` is the file's own; None where the file has none."""

    time: datetime
    turns: tuple[Utterance, ...]
    id: str | None = None

    @property
    def is_evidence(self) -> bool:
        """Whether any of its turns is annotated."""
        return any(turn.has_answer for turn in self.turns)


@dataclass(frozen=True, slots=True)
class Item:
    """One question. `sittings` is its haystack as the file has it, or its evidence alone (`complete` is False then)."""

    id: str
    type: str
    question: str
    answer: str
    asked_at: datetime
    sittings: tuple[Sitting, ...]
    answer_session_ids: tuple[str, ...]
    complete: bool
    integer_answer: bool = False

    @property
    def abstention(self) -> bool:
        """Whether the right answer is that there is none: decided by the id, as the official evaluation does."""
        return ABSTENTION in self.id

    @property
    def root(self) -> str:
        """The id that a question shares with the unanswerable variant made from it."""
        return self.id.replace(ABSTENTION, "")
