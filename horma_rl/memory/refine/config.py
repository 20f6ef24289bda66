"""The config of `horma-rl memory refine`: one YAML file is one refinement."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from horma_rl.answers.actor import ACTOR_VERSION, Style
from horma_rl.answers.judges import JUDGE_VERSION
from horma_rl.benchmarks.types import Split
from horma_rl.config import StrictModel, validate
from horma_rl.errors import UserError
from horma_rl.evaluation.config import PolicyConfig, ShellConfig
from horma_rl.llm.config import LlmConfig
from horma_rl.llm.types import Role
from horma_rl.memory.manager.config import ManagerConfig
from horma_rl.memory.manager.prompt import MANAGER_PROMPT_VERSION
from horma_rl.memory.skills.library import THRESHOLD
from horma_rl.retrieval.engine import RolloutConfig
from horma_rl.retrieval.types import Sampling

Shows = Literal["notes", "turns"]
Metric = Literal["f1_locomo", "f1_mem0", "generous", "strict", "longmemeval"]
_SAYS_WHAT = frozenset({"base_url", "model", "temperature", "max_tokens", "seed", "reasks", "structured", "extra_body"})
"""The fields of a model's config that decide what it says."""
_NOT_DECIDING = frozenset({"name", "out", "rounds", "device", "llm"})
ROLES: tuple[Role, ...] = ("manager", "actor", "judge", "analyst")
"""Whose models a refinement asks."""


class ActorConfig(StrictModel):
    """How the actor is asked."""

    tokenizer: Path | None = None
    """Its own tokenizer.json, or the folder that holds it, to count and cut with; null estimates."""
    style: Style = "short"
    """`short`: as few words as possible; `free`: up to three sentences."""
    max_tokens: int = Field(128, ge=1)
    """Tokens of an answer."""


class SkillsConfig(StrictModel):
    """The library. How much of it the manager's prompt holds is `manager.skills_tokens`."""

    start: Path | None = None
    """A library to start from, such as data/skills/seed.json; null starts from empty, as the paper does."""
    threshold: float = Field(THRESHOLD, gt=0, le=1)
    """From which similarity on a new skill is kept as a repetition of an old one."""
    render: bool = True
    """Whether the manager sees the library. False is the control: the same run, with skills that change nothing."""


class GuardConfig(StrictModel):
    """Keep a round only if it does not lose on conversations that no skill is learned from."""

    conversations: int = Field(1, ge=1)
    """The last conversations of the split are set aside, this many; no skill is learned from them."""
    tasks: int | None = Field(None, ge=1)
    """At most this many tasks of them, drawn with `seed`; null takes all."""
    tolerance: float = Field(0.0, ge=0)
    """How far the mean score may fall before the round is refused."""


class RefineConfig(StrictModel):
    """What is refined, on which tasks, with which models, and where it goes."""

    name: str = "refine"
    """Title of the report, and the folder below `runs/refine` when `out` is not set."""
    benchmark: str = "locomo"
    """A benchmark's name."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the benchmark."""
    split: Split = "train"
    """Where tasks come from. Skills that are learned on `eval` cannot be evaluated there."""
    conversations: int | None = Field(None, ge=1)
    """Only the first conversations of the split, this many; null takes all."""
    categories: list[str] | None = None
    """Keep only tasks of these categories; null keeps what the benchmark gives."""
    tasks: int | None = Field(None, ge=1)
    """Learn from this many tasks, drawn with `seed`; null takes all."""
    rounds: int = Field(4, ge=1)
    """How often to learn and rebuild (paper: 4 on LongMemEval). May be raised later: finished rounds stay."""
    llm: LlmConfig = Field(default_factory=LlmConfig)
    """The model of every role that `roles` does not change."""
    roles: dict[Role, dict[str, Any]] = Field(default_factory=dict)
    """Other settings by role (manager, actor, judge, analyst), on top of `llm`: `actor: {model: small}`."""
    manager: ManagerConfig = Field(default_factory=ManagerConfig)
    """How the manager asks; `skills_tokens` is what the rendered library may take."""
    retriever: str = "notes-bm25-8"
    """What reads memory: a baseline's name. `notes-bm25-K` ranks the lines of the manager's notes."""
    policy: PolicyConfig | None = None
    """A checkpoint that reads memory, in place of `retriever`."""
    shell: ShellConfig = Field(default_factory=ShellConfig)
    """The policy's environment."""
    rollout: RolloutConfig = Field(default_factory=RolloutConfig)
    """Limits of the policy's episodes."""
    sampling: Sampling = Field(default_factory=lambda: Sampling(temperature=0.0))
    """How the policy's tokens are drawn."""
    device: str = "auto"
    """Where the policy runs."""
    shows: Shows = "notes"
    """What the actor reads of a selected turn: the manager's `notes` that cite it, or the raw `turns`."""
    context_tokens: int = Field(1000, ge=1)
    """The context that the actor is given from managed memory (paper: 1,000 tokens a query). Raw history has no
    limit."""
    actor: ActorConfig = Field(default_factory=ActorConfig)
    metric: Metric = "f1_locomo"
    """How answers are scored: token F1, or a judge (`generous` and `strict` for LoCoMo, `longmemeval`)."""
    margin: float = Field(0.5, gt=0, le=1)
    """By how much two scores must differ to be a disagreement."""
    writeups: int = Field(20, ge=1)
    """Disagreements of each kind that the analyst writes up in a round, the largest first."""
    skills: SkillsConfig = Field(default_factory=SkillsConfig)
    guard: GuardConfig | None = None
    """Null keeps every round."""
    seed: int = 0
    out: Path | None = None
    """Folder of the results; null is `runs/refine/<name>`. What is finished there is not run again."""

    @model_validator(mode="after")
    def _roles_are_sound(self) -> RefineConfig:
        for role in self.roles:
            if role not in ROLES:
                raise UserError(f"roles: no {role} is asked here: use {', '.join(ROLES)}")
            self.llm_of(role)
        if self.sampling.top_p != 1 or self.sampling.top_k != 0:
            raise UserError("sampling: top_p and top_k must stay 1 and 0, as in training")
        return self

    @property
    def out_dir(self) -> Path:
        """Where the results go."""
        return self.out or Path("runs/refine") / self.name

    def llm_of(self, role: Role) -> LlmConfig:
        """The model's config for `role`. Raises UserError for settings that are none."""
        return validate({**self.llm.model_dump(), **self.roles.get(role, {})}, LlmConfig, f"roles.{role}")

    def identity(self) -> dict[str, Any]:
        """What finished rounds depend on: not where they are kept, how many are wanted, and how fast or for how much
        models are asked. The prompts' versions are among it."""
        prompts = {"manager": MANAGER_PROMPT_VERSION, "actor": ACTOR_VERSION, "judge": JUDGE_VERSION}
        said = {role: self.llm_of(role).model_dump(mode="json", include=set(_SAYS_WHAT)) for role in ROLES}
        return {**self.model_dump(mode="json", exclude=set(_NOT_DECIDING)), "roles": said, "prompts": prompts}
