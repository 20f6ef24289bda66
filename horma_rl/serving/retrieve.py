"""Retrieval with an exported model: a question about one workspace in, the selected turns out.

The model runs as it was trained, by its `horma.json`: same prompt, tools, limits and overview, most likely tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from horma_rl.errors import UserError
from horma_rl.evaluation.config import EvalConfig, PolicyConfig, ShellConfig
from horma_rl.evaluation.systems import load_engine
from horma_rl.memory.build import MANIFEST, read_manifest
from horma_rl.retrieval import manifest as horma
from horma_rl.retrieval.engine import EpisodeSpec, RolloutEngine
from horma_rl.retrieval.manifest import Manifest
from horma_rl.retrieval.types import Sampling, Trajectory
from memory_shell.cache import is_workspace, workspace_names
from memory_shell.episode import MemoryShell
from memory_shell.types import Stop, Task, Turn
from memory_shell.workspace import Workspace, WorkspaceError


class QuestionError(UserError):
    """A question that cannot be asked."""


@dataclass(frozen=True)
class Question:
    """What is asked of which workspace. `asked_at`: its date, ISO 8601, for questions like "last week"."""

    workspace: Workspace
    text: str
    asked_at: str | None = None


@dataclass(frozen=True)
class Answer:
    """What one question brought. `looked_at` and `left` are files of the workspace: read or searched, and neither."""

    question: str
    turns: list[Turn]
    looked_at: list[str]
    left: list[str]
    trajectory: Trajectory

    @property
    def stopped(self) -> bool:
        """Whether the model said that it was done, and was not cut off."""
        return self.trajectory.stop is Stop.DONE

    def as_json(self, trace: bool = False) -> dict[str, Any]:
        """A plain mapping; with `trace`, also the model's responses and what they were answered."""
        fields = ("id", "time", "speaker", "text", "caption", "path", "line")
        result: dict[str, Any] = {
            "question": self.question,
            "selected": [{name: getattr(turn, name) for name in fields} for turn in self.turns],
            "stop": self.trajectory.stop.value,
            "commands": self.trajectory.commands,
            "coverage": {"looked_at": self.looked_at, "not_looked_at": self.left},
            "seconds": round(self.trajectory.wall_s, 3),
        }
        logged = self.trajectory.as_json()
        return result | ({"trace": {k: logged[k] for k in ("first_observation", "turns")}} if trace else {})


class Retriever:
    """An exported model, loaded. It may be asked any number of times, over any workspaces, by one thread at a time."""

    def __init__(self, engine: RolloutEngine, manifest: Manifest) -> None:
        self.engine = engine
        self.manifest = manifest

    @classmethod
    def load(cls, folder: Path, device: str = "auto", **policy: Any) -> Retriever:
        """The model of an export. `policy`: other fields of PolicyConfig, such as its backend.

        Raises UserError for a folder that is none, or that is not as it was exported.
        """
        manifest = read_model(folder)
        shell = ShellConfig.model_validate(manifest.shell.model_dump())
        config = EvalConfig(shell=shell, rollout=manifest.rollout, sampling=Sampling(temperature=0.0), device=device)
        return cls(load_engine(PolicyConfig(model=folder, **policy), config), manifest)

    def ask(self, workspace: Workspace, question: str, asked_at: str | None = None) -> Answer:
        """Play one episode. `asked_at`: the date of the question, ISO 8601, for questions like "last week".

        Raises QuestionError for an empty question or one that is longer than the model's context, UserError for what is
        no date, RuntimeError when the episode failed.
        """
        (found,) = self.ask_all([Question(workspace, question, asked_at)])
        if isinstance(found, Exception):
            raise found
        return found

    def ask_all(self, questions: Sequence[Question]) -> list[Answer | Exception]:
        """Play an episode for each question, as many at once as `rollout.concurrency` says.

        Returns, in the order of the questions, an answer or what `ask` would raise for that question alone. Raises
        UserError when none can be answered: the server that decodes is gone.
        """
        found: dict[int, Answer | Exception] = {}
        specs: list[EpisodeSpec] = []
        for index, question in enumerate(questions):
            try:
                specs.append(self._spec(index, question))
            except UserError as error:
                found[index] = error
        for trajectory in self.engine.run(specs):
            found[trajectory.index] = self._found(questions[trajectory.index].workspace, trajectory)
        return [found[index] for index in range(len(questions))]

    def _spec(self, index: int, question: Question) -> EpisodeSpec:
        text = question.text.strip()
        if not text:
            raise QuestionError("the question is empty")
        check_date(question.asked_at)
        task = Task("question", text, (), question.workspace.name, asked_at=question.asked_at)
        trained = self.manifest.shell
        shell = partial(MemoryShell, question.workspace, trained.caps, trained.unit, trained.overview)
        return EpisodeSpec(task, shell, seed=0, index=index)

    def _found(self, workspace: Workspace, trajectory: Trajectory) -> Answer | Exception:
        if trajectory.stop is Stop.ERROR:
            return RuntimeError(f"the episode failed: {trajectory.error}")
        if trajectory.stop is Stop.CONTEXT_FULL and not trajectory.turns:
            return QuestionError(
                f"the question is too long: its prompt takes {len(trajectory.prompt_ids):,} tokens, and the model's "
                f"context, answer included, {self.manifest.rollout.max_context_tokens:,}"
            )
        coverage = trajectory.coverage
        seen = dict.fromkeys((*coverage.searched, *coverage.opened)) if coverage else {}
        return Answer(
            question=trajectory.task.question,
            turns=[workspace.turns[turn_id] for turn_id in trajectory.selected],
            looked_at=list(seen),
            left=[path for path in workspace.files if path not in seen and path != MANIFEST],
            trajectory=trajectory,
        )


def check_date(asked_at: str | None) -> None:
    """Raise UserError for a date or date-time that is not ISO 8601."""
    try:
        if asked_at is not None:
            datetime.fromisoformat(asked_at)
    except ValueError:
        raise UserError(f"--asked-at: '{asked_at}' is no date: write 2024-05-31 or 2024-05-31T18:30") from None


def read_model(folder: Path) -> Manifest:
    """The manifest of an exported model. Raises UserError when there is none, or when it does not fit this program."""
    if not folder.is_dir():
        raise UserError(f"--model: there is no folder {folder}")
    manifest = Manifest.read(folder)
    if manifest is None:
        raise UserError(
            f"{folder} has no {horma.FILE}, so its prompt is not known: make it with `horma-rl export RUN --to DIR`"
        )
    return manifest


def open_memory(path: Path, manifest: Manifest | None = None) -> Workspace:
    """The workspace at `path`, or the only one below it, of the format that a model was trained on.

    Raises UserError when there is none, when it was not built to its end, or when its format is another.
    """
    if not path.is_dir():
        raise UserError(f"--memory: there is no folder {path}; build a workspace with `horma-rl memory build`")
    if not is_workspace(path):
        names = workspace_names(path)
        if len(names) != 1:
            found = f"it holds {len(names)} of them, name one: {', '.join(names)}" if names else "it has no raw_logs/"
            raise UserError(f"--memory: {path} is no workspace: {found}")
        path = path / names[0]
    built = read_manifest(path)
    if manifest is not None and built["format"] != manifest.memory.format:
        raise UserError(
            f"{path / MANIFEST}: workspace format {built['format']}, the model was trained on "
            f"{manifest.memory.format}: build the workspace again"
        )
    try:
        return Workspace.load(path)
    except WorkspaceError as error:
        raise UserError(str(error)) from None
