"""A skill: one lesson about filing, in the form of the HORMA article's section 7 (identifier, title, transferable
principle, and how the manager's schema should change), with the evidence that it was drawn from."""

from __future__ import annotations

from collections.abc import Container
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from horma_rl.config import StrictModel
from horma_rl.memory.text import one_line, slug

SkillKind = Literal["exogenous", "endogenous"]
"""exogenous: raw history won, a gap to close. endogenous: managed memory won, a strength to keep."""
EvidenceKind = Literal["turn", "note", "command"]
MAX_TITLE, MAX_TEXT = 80, 600
SkillId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]


def _tidy(text: str) -> str:
    """One line without control characters: a skill becomes a line of the manager's prompt."""
    line = one_line(text)
    if not line:
        raise ValueError("is empty")
    return line


Title = Annotated[str, AfterValidator(_tidy), Field(max_length=MAX_TITLE)]
Text = Annotated[str, AfterValidator(_tidy), Field(max_length=MAX_TEXT)]


class Evidence(StrictModel):
    """Where a lesson shows: a turn, a note or a command of the trajectory of one task."""

    task: str
    """Id of the task whose two runs disagreed."""
    kind: EvidenceKind
    ref: str
    """The turn's id (`D3:12`), the note's path (`people/ana.md`), or the command line."""
    quote: str = ""
    """Words of the turn, the note or the command's output, as they stand there; may be empty."""


class Skill(StrictModel):
    """One lesson. What is rendered into a prompt is `title`, `principle` and `schema_change`."""

    id: SkillId
    title: Title
    principle: Text
    """What to do, in words that hold for any conversation."""
    schema_change: Text
    """How notes are to be written from now on, so that the lesson need not be learned again."""
    kind: SkillKind
    evidence: tuple[Evidence, ...] = ()
    round: int = Field(ge=0)
    """The round of refinement that found it; 0 for skills written by hand, which need no evidence."""
    benchmark: str
    """Where it was found."""

    @model_validator(mode="after")
    def _is_grounded(self) -> Skill:
        if self.round and not self.evidence:
            raise ValueError(f"skill '{self.id}' of round {self.round} cites no evidence")
        return self


def free_id(title: str, taken: Container[str]) -> str:
    """An identifier made of `title` that is not among `taken`."""
    base = slug(title.encode("ascii", "ignore").decode())
    candidate, number = base, 2
    while candidate in taken:
        candidate = f"{base}-{number}"
        number += 1
    return candidate
