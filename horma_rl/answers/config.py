"""The config of `horma-rl eval` with `kind: answers`: what retrieves, what answers, what judges."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from horma_rl.answers.actor import ACTOR_VERSION, Style
from horma_rl.answers.contexts import Whole
from horma_rl.answers.judges import JUDGE_VERSION, JudgeName
from horma_rl.config import StrictModel
from horma_rl.errors import UserError
from horma_rl.evaluation.config import EvalConfig
from horma_rl.llm.config import LlmConfig

_SAYS_WHAT = ("base_url", "model", "temperature", "seed", "extra_body")
"""The fields of a model's config that decide what it says."""


class ActorConfig(StrictModel):
    """The model that answers."""

    llm: LlmConfig = Field(default_factory=LlmConfig)
    """Its endpoint; the default is what `horma-rl llm up` serves."""
    tokenizer: Path | None = None
    """Its own tokenizer.json, or the folder that holds it, to count and cut with; null estimates, and tables say so."""
    budget: int = Field(10_000, ge=1)
    """Tokens of one request: instructions, question and context (papers: 10,000 on LoCoMo, 50,000 on LongMemEval)."""
    style: Style = "short"
    """`short`: as few words as possible; `free`: up to three sentences, as LongMemEval's questions want."""
    max_tokens: int = Field(128, ge=1)
    """Tokens of an answer."""


class JudgeConfig(StrictModel):
    """The models that judge."""

    names: list[JudgeName] = Field(default_factory=list)
    """`longmemeval`, or `generous` and `strict`; none leaves the metrics that need no model."""
    llm: LlmConfig | None = None
    """Its endpoint; null is the actor's."""
    attempts: int = Field(3, ge=1)
    """Times that one verdict is asked for until it can be read. What stays unreadable is unfinished, not wrong."""


class AnswersConfig(EvalConfig):
    """An evaluation of answers. Policies and baselines supply the contexts, with the fields that they have in any
    evaluation."""

    kind: Literal["answers"] = "answers"
    """This kind."""
    baselines: list[str] = Field(default_factory=lambda: ["oracle", "bm25-5", "script-reply"])
    """Retrievers whose selection the actor is shown, by name."""
    histories: list[Whole] = Field(default_factory=list)
    """Contexts without retrieval: `full-history` (no budget), `truncation` (its head), `sliding-window` (its tail)."""
    actor: ActorConfig = Field(default_factory=ActorConfig)
    judge: JudgeConfig = Field(default_factory=JudgeConfig)

    @model_validator(mode="after")
    def _judges_fit(self) -> AnswersConfig:
        for name in self.judge.names:
            if (name == "longmemeval") != (self.benchmark == "longmemeval"):
                raise UserError(
                    f"judge.names: '{name}' does not judge {self.benchmark}: use "
                    + ("longmemeval" if self.benchmark == "longmemeval" else "generous or strict")
                )
        if self.samples != 1:
            raise UserError("samples: an evaluation of answers takes one episode a task: leave it at 1")
        return self

    def retrieval(self) -> EvalConfig:
        """The evaluation of the same systems by evidence, which comes first, in the folder `retrieval` of `out_dir`."""
        fields = {name: getattr(self, name) for name in EvalConfig.model_fields}
        return EvalConfig(**{**fields, "kind": "retrieval", "out": self.out_dir / "retrieval"})

    def answer_identity(self) -> dict[str, Any]:
        """What a finished answer or verdict depends on, beside its context."""
        judge = self.judge.llm or self.actor.llm
        return {
            **self.identity(),
            "actor": {
                "version": ACTOR_VERSION,
                "llm": self.actor.llm.model_dump(mode="json", include=set(_SAYS_WHAT)),
                **self.actor.model_dump(mode="json", exclude={"llm"}),
            },
            "judge": {"version": JUDGE_VERSION, "llm": judge.model_dump(mode="json", include=set(_SAYS_WHAT))},
        }
