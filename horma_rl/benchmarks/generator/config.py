"""What one can ask of the generator."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator

from horma_rl.benchmarks.generator.vocabulary import Part
from horma_rl.errors import nearest

Kind = Literal["single", "several", "time", "order", "changed", "comparison", "absent", "trap", "caption", "near-name"]
KINDS: tuple[Kind, ...] = get_args(Kind)

MIX: dict[str, float] = {
    "single": 4, "time": 2, "trap": 1.5, "changed": 1.2, "several": 1, "caption": 1, "near-name": 1, "absent": 0.8,
    "order": 0.8, "comparison": 0.7,
}  # fmt: skip
"""Default weights: about seven questions in ten have one turn of evidence, one in seventeen has none."""


class GeneratorConfig(BaseModel):
    """Sizes and mix of what is generated. The same values give the same memories on every machine."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int = Field(0, description="First ingredient of every random draw.")
    part: Part = Field("train", description="Vocabulary to draw from; train and eval share no name and no object.")
    memories: int = Field(8, ge=1, le=1_000_000, description="Conversations to make.")
    people: int = Field(2, ge=2, le=4, description="Speakers in each conversation.")
    sessions: int = Field(8, ge=2, le=200, description="Dated sittings in each conversation.")
    turns: int = Field(14, ge=6, le=60, description="Turns in each session.")
    facts: int = Field(4, ge=1, le=20, description="Turns of a session that tell a fact (at most a third of them).")
    decoys: int = Field(1, ge=0, le=10, description="Turns of a session that look like facts and are nobody's.")
    questions: int = Field(14, ge=1, le=200, description="Questions about each memory; fewer when its facts run out.")
    lookalikes: float = Field(0.25, ge=0, le=1, description="How often a new object shares a word with an earlier one.")
    captions: float = Field(0.35, ge=0, le=1, description="How often a fact's turn carries a picture that fits it.")
    snapshots: float = Field(0.06, ge=0, le=1, description="How often a turn of small talk carries a picture.")
    mix: dict[str, float] = Field(
        default_factory=lambda: dict(MIX), description="Weight of each question kind; a kind left out is not asked."
    )

    @field_validator("mix")
    @classmethod
    def _known_kinds(cls, mix: dict[str, float]) -> dict[str, float]:
        for kind, weight in mix.items():
            if kind not in KINDS:
                raise ValueError(f"unknown question kind '{kind}'{nearest(kind, KINDS)}: use {', '.join(KINDS)}")
            if weight < 0:
                raise ValueError(f"the weight of '{kind}' is negative")
        if not any(mix.values()):
            raise ValueError("every weight is zero")
        return mix
