"""The config of `horma-rl eval` with `kind: agent`: tasks, memory systems, and what acts, judges and retrieves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, field_validator, model_validator

from horma_rl.agent.actor import ACTOR_VERSION, Style
from horma_rl.agent.config import SystemConfig
from horma_rl.agent.judge import JUDGE_VERSION
from horma_rl.agent.recall import known_retriever
from horma_rl.config import StrictModel
from horma_rl.errors import UserError
from horma_rl.evaluation.agents.grading import GRADER_VERSION
from horma_rl.evaluation.agents.suites import ActorKind, check_suite
from horma_rl.llm.config import LlmConfig

_SAYS_WHAT = ("base_url", "model", "temperature", "seed", "extra_body")
"""The fields of a model's config that decide what it says."""
SystemName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][\w.-]{0,63}$")]


class SuiteConfig(StrictModel):
    """The benchmark."""

    name: str = "interdependent"
    """`interdependent`, `household` or `memory_arena`."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Its options; docs/agent_evaluation.md lists them."""


class ActorConfig(StrictModel):
    """What acts: M_theta."""

    kind: ActorKind = "scripted"
    """`scripted`: a planner for `interdependent` that makes planted errors; `walkthrough`: the solution that
    `household` ships; `llm`: a language model."""
    llm: LlmConfig = Field(default_factory=LlmConfig)
    """`llm`: its endpoint; the default is what `horma-rl llm up` serves. Its budget and concurrency hold for all
    episodes together."""
    errors: int = Field(1, ge=0)
    """`scripted`: the subtasks of a task at which it makes an error, drawn with the episode's seed."""
    mark_every: int = Field(5, ge=0)
    """`walkthrough`: mark a subgoal after so many actions, where the system takes marks; 0 marks none."""
    style: Style = "text"
    """`llm`: how it is asked to answer: `text` (Thought and Action lines), or `json` (structured output)."""
    max_tokens: int = Field(384, ge=1)
    """`llm`: tokens of an answer, the thought included."""


class JudgeConfig(StrictModel):
    """What validates summaries (Maintain), and writes those that the actor does not (Compress by fallback)."""

    kind: Literal["scripted", "llm", "none"] = "scripted"
    """`scripted`: a program, for `interdependent`; `llm`: a language model; `none`: nothing validates, and a fallback
    lists the last actions."""
    llm: LlmConfig | None = None
    """`llm`: its endpoint; null is the actor's."""


class GraderConfig(StrictModel):
    """What says whether an answer is right, in MemoryArena's formal and search domains."""

    kind: Literal["text", "llm"] = "text"
    """`text`: equal but for case, spaces and LaTeX's delimiters; `llm`: a language model, as figures to report need."""
    llm: LlmConfig | None = None
    """`llm`: its endpoint; null is the judge's."""
    attempts: int = Field(3, ge=1)
    """`llm`: times that a verdict is asked for until it can be read. What stays unreadable is unfinished, not wrong."""


class AgentsConfig(StrictModel):
    """An evaluation of agents: every system plays every task with every seed."""

    kind: Literal["agent"] = "agent"
    """This kind."""
    name: str = Field("agent", pattern=r"^\w[\w.-]*$")
    """Title of the report, and the folder below `runs/eval` when `out` is not set."""
    suite: SuiteConfig = Field(default_factory=SuiteConfig)
    split: str = "test"
    """A split of the suite; an unknown one is refused with the splits there are."""
    families: list[str] | None = None
    """Keep only tasks of these families; null keeps all."""
    per_family: int | None = Field(None, ge=1)
    """Take this many tasks of each family, drawn with `seed`; null takes all."""
    limit: int | None = Field(None, ge=1)
    """Take this many tasks in all, drawn with `seed`; null takes all."""
    systems: dict[SystemName, SystemConfig] = Field(default_factory=lambda: {"full": SystemConfig()}, min_length=1)
    """Memory systems by name (`horma_rl.agent.config`). Differences are to the first."""
    actor: ActorConfig = Field(default_factory=ActorConfig)
    judge: JudgeConfig = Field(default_factory=JudgeConfig)
    grader: GraderConfig = Field(default_factory=GraderConfig)
    retriever: str | None = "bm25-3"
    """What picks C_t: the folder of an exported model, or a baseline by name. Null leaves C_t empty, where systems keep
    a workspace."""
    device: str = "auto"
    """Where an exported model runs: `auto`, `cpu`, `cuda` or a torch device name."""
    tokenizer: Path | None = None
    """The actor's own tokenizer.json, or the folder that holds it, to count and cut with; null estimates."""
    seeds: list[Annotated[int, Field(ge=0)]] = Field(default_factory=lambda: [0], min_length=1)
    """Episodes of each task: the seed of planted errors, or of a model's sampling."""
    max_moves: int | None = Field(None, ge=1)
    """Decisions of an episode; null is 10 and twice the environment's cap on steps."""
    concurrency: int = Field(8, ge=1)
    """Episodes at once."""
    keep_memory: bool = True
    """Keep each episode's tree and workspace; its steps are kept in any case."""
    trees_shown: int = Field(4, ge=0)
    """State trees that the report draws: those of the first episode of this many systems."""
    seed: int = Field(0, ge=0)
    """Draws the tasks of `limit` and `per_family`, and the resamples of intervals."""
    out: Path | None = None
    """Folder of the results; null is `runs/eval/<name>`. Episodes that are finished there are not played again."""

    @field_validator("seeds")
    @classmethod
    def _once(cls, seeds: list[int]) -> list[int]:
        return list(dict.fromkeys(seeds))

    @field_validator("retriever")
    @classmethod
    def _known_retriever(cls, name: str | None) -> str | None:
        return name if name is None else known_retriever(name)

    @model_validator(mode="after")
    def _fits_together(self) -> AgentsConfig:
        check_suite(self.suite.name, self.suite.options, self.actor.kind)
        if self.judge.kind == "llm" and self.judge.llm is None and self.actor.kind != "llm":
            raise UserError(
                "judge.llm: name an endpoint, as there is no language model that acts whose one it could be"
            )
        if self.judge.kind == "scripted" and self.suite.name != "interdependent":
            raise UserError(f"judge.kind: 'scripted' cannot judge {self.suite.name}: use llm or none")
        if self.grader.kind == "llm" and self.suite.name != "memory_arena":
            raise UserError(f"grader.kind: {self.suite.name} grades by itself: leave it at text")
        if self.grader.kind == "llm" and self.grader.llm is None and "llm" not in (self.actor.kind, self.judge.kind):
            raise UserError("grader.llm: name an endpoint")
        for name, system in self.systems.items():
            if self.actor.kind == "walkthrough" and system.mage and system.maintain and system.revise:
                raise UserError(f"systems.{name}: a walkthrough cannot go back: set maintain: false, or revise: false")
            if self.judge.kind == "none" and system.mage and system.maintain:
                raise UserError(f"systems.{name}: Maintain needs a judge: set judge.kind, or maintain: false")
        return self

    @property
    def out_dir(self) -> Path:
        """Where the results go."""
        return self.out or Path("runs/eval") / self.name

    @property
    def judge_llm(self) -> LlmConfig:
        """The endpoint of an `llm` judge."""
        return self.judge.llm or self.actor.llm

    @property
    def grader_llm(self) -> LlmConfig:
        """The endpoint of an `llm` grader."""
        return self.grader.llm or self.judge_llm

    def identity(self) -> dict[str, Any]:
        """What a finished row depends on, whatever the choice of tasks, seeds and other systems."""
        kept = {"suite", "split", "retriever", "max_moves"}
        actor: dict[str, Any] = {"kind": self.actor.kind}
        if self.actor.kind == "scripted":
            actor["errors"] = self.actor.errors
        if self.actor.kind == "walkthrough":
            actor["mark_every"] = self.actor.mark_every
        if self.actor.kind == "llm":
            actor |= self.actor.model_dump(mode="json", include={"style", "max_tokens"})
            actor |= {"version": ACTOR_VERSION, "llm": _says_what(self.actor.llm)}
        judge: dict[str, Any] = {"kind": self.judge.kind}
        if self.judge.kind == "llm":
            judge |= {"version": JUDGE_VERSION, "llm": _says_what(self.judge_llm)}
        grader: dict[str, Any] = {"kind": self.grader.kind}
        if self.grader.kind == "llm":
            grader |= {"version": GRADER_VERSION, "llm": _says_what(self.grader_llm)}
        systems = {f"system {name}": system.model_dump(mode="json") for name, system in self.systems.items()}
        return {
            **self.model_dump(mode="json", include=kept),
            "retriever weights": _weights(self.retriever),
            "tokenizer": str(self.tokenizer) if self.tokenizer else None,
            "actor": actor,
            "judge": judge,
            "grader": grader,
            **systems,
        }


def _says_what(llm: LlmConfig) -> dict[str, Any]:
    return llm.model_dump(mode="json", include=set(_SAYS_WHAT))


def _weights(retriever: str | None) -> list[list[str | int]]:
    """Size and time of an exported model's weights: one that was trained on is not taken for the old one."""
    if retriever is None:
        return []
    files = sorted(Path(retriever).glob("*.safetensors"))
    return [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in files]
