"""The config of `horma-rl eval`: one YAML file is one evaluation."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from horma_rl.baselines.registry import STANDARD, check_retriever
from horma_rl.benchmarks.types import Split
from horma_rl.config import StrictModel
from horma_rl.errors import UserError
from horma_rl.memory.build import NotesKind
from horma_rl.retrieval.backends import Backend
from horma_rl.retrieval.backends.checks import check_url
from horma_rl.retrieval.engine import RolloutConfig
from horma_rl.retrieval.prompt import PromptStyle
from horma_rl.retrieval.types import Sampling
from memory_shell.overview import Overview
from memory_shell.tools import Surface
from memory_shell.types import Caps, Unit


class PolicyConfig(StrictModel):
    """A model that plays the shell. For an exported model, `prompt`, `thinking` and `tools` come from its `horma.json`:
    leave them out."""

    model: Path
    """A checkpoint folder as `save_pretrained` writes it, with its tokenizer."""
    prompt: PromptStyle = "full"
    """`full`: instructions and tool schemas; `compact`: the first observation only, for models trained on it."""
    thinking: bool = False
    """Let the model think before it calls, in the way of its chat template."""
    tools: Surface = "six"
    """How the model calls: `six` tools, one a verb, or one `shell` that takes a command line."""
    backend: Backend = "transformers"
    """What decodes: `transformers`, `vllm` (in this process), or `server` (`vllm serve`, OpenAI-compatible)."""
    server: str | None = None
    """URL of the server for `backend: server`, as in `http://127.0.0.1:8000`. It serves the same checkpoint as `model`,
    whose tokenizer is read here; its token is taken from the environment (HORMA_SERVER_TOKEN)."""
    other_limits: bool = False
    """Run an exported model under other limits, or another overview, than it was trained with."""

    @model_validator(mode="after")
    def _server_is_named(self) -> PolicyConfig:
        if (self.backend == "server") != (self.server is not None):
            raise UserError("backend: server needs the key server (a URL), and no other backend takes it")
        if self.server is not None:
            check_url(self.server)
        return self


class ShellConfig(StrictModel):
    """The environment, the same for every policy. Baselines bring their own settings, which tables name."""

    overview: Overview = "terms"
    """What the first observation tells of the memory: `none`, `tree`, or `terms` (lines with each word)."""
    caps: Caps = Field(default_factory=Caps)
    """Turns of an episode, and lines and bytes that a command may print. `rollout.max_turns` holds as well."""
    unit: Unit = "turn"
    """What the reward counts: `turn`, `session` or `note`."""
    zero_on_cap: bool = False
    """Score 0 when the turns run out before `done`; by default what was selected counts."""

    @model_validator(mode="after")
    def _playable(self) -> ShellConfig:
        for cap in fields(self.caps):
            if getattr(self.caps, cap.name) < 1:
                raise UserError(f"shell.caps.{cap.name} must be at least 1, not {getattr(self.caps, cap.name)}")
        return self


class EvalConfig(StrictModel):
    """What is evaluated, on which tasks, and where the results go."""

    kind: Literal["retrieval", "answers"] = "retrieval"
    """`retrieval` compares selected turns with the evidence; `answers` also has a model answer from them, and takes
    further sections (`horma_rl.answers.config`)."""
    name: str = "eval"
    """Title of the report, and the folder below `runs/eval` when `out` is not set."""
    benchmark: str = "locomo"
    """A benchmark's name: `locomo`, `longmemeval` or `generated`."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the benchmark, such as `path` or `categories` (locomo), `seed` or `eval` (generated)."""
    split: Split = "eval"
    """`train`, `eval` (held out) or `all`."""
    categories: list[str] | None = None
    """Keep only tasks of these categories; null keeps what the benchmark gives."""
    limit: int | None = Field(None, ge=1)
    """Evaluate on this many tasks, drawn with `seed`; null takes all."""
    memory: Path | None = None
    """Folder of built workspaces; null is `memory/<benchmark>-<notes>`. What is missing there is built."""
    notes: NotesKind = "outline"
    """How missing workspaces are written: `outline`, or `observations` (the benchmark's own annotations). `llm` takes
    those that `horma-rl memory build --manager llm` has written: they are not built here."""
    policies: dict[str, PolicyConfig] = Field(default_factory=dict)
    """Checkpoints by name. The first is the report's "before" and the last its "after" when there are two or more."""
    baselines: list[Annotated[str, AfterValidator(check_retriever)]] = Field(default_factory=lambda: list(STANDARD))
    """Retrievers to compare with, by name."""
    shell: ShellConfig = Field(default_factory=ShellConfig)
    rollout: RolloutConfig = Field(default_factory=RolloutConfig)
    """Limits of a policy's episodes."""
    sampling: Sampling = Field(default_factory=lambda: Sampling(temperature=0.0))
    """How a policy's tokens are drawn; temperature 0 takes the most likely one."""
    samples: int = Field(1, ge=1)
    """Episodes of each task for every policy; they are averaged by task."""
    device: str = "auto"
    """`auto`, `cpu`, `cuda` or a torch device name."""
    seed: int = 0
    episodes_shown: int = Field(10, ge=0)
    """Episodes that the report shows in full."""
    out: Path | None = None
    """Folder of the results; null is `runs/eval/<name>`. Tasks that are finished there are not run again."""

    @property
    def out_dir(self) -> Path:
        """Where the results go."""
        return self.out or Path("runs/eval") / self.name

    @property
    def memory_dir(self) -> Path:
        """Where the workspaces are."""
        return self.memory or Path("memory") / f"{self.benchmark}-{self.notes}"

    def identity(self) -> dict[str, Any]:
        """The part of the config that a finished row depends on, whatever its system and the choice of tasks."""
        kept = {"benchmark", "options", "memory", "notes", "shell", "rollout", "sampling", "seed"}
        return self.model_dump(mode="json", include=kept)
