"""The config of `horma-rl train`: one YAML file is one run. No torch is imported here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from horma_rl.baselines.registry import check_retriever
from horma_rl.config import StrictModel
from horma_rl.errors import UserError
from horma_rl.evaluation.config import EvalConfig, PolicyConfig, ShellConfig
from horma_rl.memory.build import NotesKind
from horma_rl.retrieval.engine import RolloutConfig
from horma_rl.retrieval.prompt import PromptStyle
from horma_rl.retrieval.types import Sampling
from horma_rl.training.alarms import AlarmConfig
from horma_rl.training.curriculum import CurriculumConfig
from horma_rl.training.grpo_rules import check_grpo
from horma_rl.training.launch_config import LaunchConfig, LoraConfig
from horma_rl.training.rewards import RewardConfig
from horma_rl.training.sft_config import SftConfig
from memory_shell.tools import Surface

LEAST_CONTEXT = 64
"""Tokens below which no episode has room for its prompt and a response."""


class EvaluationConfig(StrictModel):
    """The evaluation before and after training, on the benchmark's held-out split."""

    limit: int | None = Field(default=None, ge=1)
    """Evaluate on this many held-out tasks, drawn with the run's seed; null takes all."""
    baselines: list[Annotated[str, AfterValidator(check_retriever)]] = Field(default_factory=list)
    """Retrievers to compare with, by name; see `horma-rl eval --help`."""
    temperature: float = Field(0.0, ge=0.0, le=100.0)
    """How tokens are drawn: 0 takes the most likely one; the temperature of training measures the very policy that GRPO
    improves."""
    episodes_shown: int = Field(default=10, ge=0)
    """Episodes that the report shows in full, before and after side by side."""
    every: int = Field(default=0, ge=0)
    """Evaluate during GRPO too, after every so many steps and after the last; 0: only before and after."""
    during: int = Field(default=32, ge=1)
    """Tasks of that evaluation: a fixed sample, drawn with the run's seed."""
    during_split: Literal["train", "eval"] = "train"
    """Where they are from: `train` holds them out from training; `eval` looks at the tasks that the report is about."""
    best: bool = False
    """Take the checkpoint that did best on them as the run's model, not the last one."""

    @model_validator(mode="after")
    def _sound_choice(self) -> EvaluationConfig:
        if self.best and not self.every:
            raise UserError("evaluation.best chooses by the evaluation during training: set evaluation.every as well")
        if self.best and self.during_split == "eval":
            raise UserError(
                "evaluation.best with during_split=eval would choose by the tasks that the report is about: leave "
                "during_split at train"
            )
        return self


class TrainConfig(StrictModel):
    """What is trained, on what, how, and where the results go."""

    name: str = Field(pattern=r"^\w[\w.-]*$")
    """Name of the run: its folder is `runs/<name>`. A run that was cut short goes on when started again."""
    model: str = "data/models/tiny"
    """Where the policy starts: a checkpoint folder, or a model id of the hub."""
    prompt: PromptStyle = "full"
    """`full`: instructions and tool schemas; `compact`: the first observation only, for models trained on it."""
    thinking: bool = False
    """Let the model think before it calls, in the way of its chat template."""
    tools: Surface = "six"
    """How the model calls: `six` tools, one a verb, or one `shell` that takes a command line."""
    benchmark: str = "generated"
    """A benchmark's name: `locomo` or `generated`. Its train split trains, its eval split evaluates."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the benchmark, such as `path` (locomo) or `seed`, `train`, `eval` (generated)."""
    memory: Path | None = None
    """Folder of built workspaces; null is `runs/<name>/memory`. What is missing there is built."""
    notes: NotesKind = "outline"
    """How workspaces are written: `outline`, or `observations` (the benchmark's own annotations). `llm` takes those
    that `horma-rl memory build --manager llm` has written: they are not built here."""
    shell: ShellConfig = Field(default_factory=ShellConfig)
    rollout: RolloutConfig = Field(default_factory=RolloutConfig)
    sft: SftConfig = Field(default_factory=SftConfig)
    """Supervised warm start before GRPO; `sft.steps: 0` (the default) skips it."""
    grpo: dict[str, Any] = Field(default_factory=dict)
    """Fields of TRL's GRPOConfig, as documented there. `max_steps: 0` skips GRPO."""
    launch: LaunchConfig = Field(default_factory=LaunchConfig)
    """Processes and machines of GRPO, and how they share the model."""
    lora: LoraConfig | None = None
    """Train low-rank adapters in GRPO instead of all weights; null trains all."""
    rollout_step_s: float | None = Field(default=None, gt=0)
    """Seconds for all episodes of a step; those not finished then are dropped unscored. null: no limit."""
    reward: RewardConfig = Field(default_factory=RewardConfig)
    """What training adds to the overlap, or takes from it; nothing by default."""
    curriculum: CurriculumConfig = Field(default_factory=CurriculumConfig)
    """Which tasks a step draws; by default each pass draws every task once."""
    resample_zero_variance: int = Field(default=0, ge=0)
    """How often a group whose rollouts all scored the same is tried again on another task before it is kept."""
    alarms: AlarmConfig = Field(default_factory=AlarmConfig)
    """Signs of a run that learns nothing, and what to do then: see docs/surviving.md."""
    evaluation: EvaluationConfig = Field(default_factory=EvaluationConfig)
    trackers: list[Literal["tensorboard", "wandb"]] = Field(default_factory=list)
    """Where curves go besides `metrics.jsonl`: `tensorboard`, `wandb` (WANDB_MODE=offline works)."""
    threads: int | None = Field(default=None, ge=1, le=1024)
    """CPU threads of torch; null leaves torch's default. The same number repeats a run bit for bit."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Seed of data order, rollouts, warm start and evaluation."""
    runs: Path = Path("runs")
    """Folder of all runs."""

    @model_validator(mode="after")
    def _learnable(self) -> TrainConfig:
        check_grpo(self.grpo)
        if self.rollout.max_context_tokens < LEAST_CONTEXT:
            raise UserError(
                f"rollout.max_context_tokens must be at least {LEAST_CONTEXT}, not {self.rollout.max_context_tokens}: "
                "it counts prompt, responses and observations together"
            )
        if len(set(self.trackers)) < len(self.trackers):
            raise UserError(f"trackers: {', '.join(self.trackers)}: the same one stands twice")
        return self

    @property
    def run_dir(self) -> Path:
        """The run's folder."""
        return self.runs / self.name

    def evaluation_config(self, policies: dict[str, Path]) -> EvalConfig:
        """The evaluation of `policies` (name -> checkpoint folder) in this run's environment."""
        return EvalConfig(
            name=self.name,
            benchmark=self.benchmark,
            options=self.options,
            split="eval",
            limit=self.evaluation.limit,
            memory=self.memory or self.run_dir / "memory",
            notes=self.notes,
            policies={
                name: PolicyConfig(
                    model=path, prompt=self.prompt, thinking=self.thinking, tools=self.tools, other_limits=True
                )
                for name, path in policies.items()
            },
            baselines=self.evaluation.baselines,
            shell=self.shell,
            rollout=self.rollout,
            sampling=Sampling(temperature=self.evaluation.temperature),
            seed=self.seed,
            episodes_shown=self.evaluation.episodes_shown,
            out=self.run_dir / "evaluation",
        )
