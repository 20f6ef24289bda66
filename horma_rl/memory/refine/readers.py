"""The retriever of a refinement: any baseline or checkpoint that `horma-rl eval` knows, and what it hands on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from horma_rl.baselines.notes import NoteLine, distinct_lines
from horma_rl.baselines.registry import make_retriever
from horma_rl.evaluation.config import EvalConfig
from horma_rl.evaluation.rows import turn_text
from horma_rl.evaluation.runner import load_workspaces
from horma_rl.evaluation.systems import load_engine, plan, run_baseline, run_policy
from horma_rl.evaluation.trained import as_trained
from horma_rl.memory.refine.config import RefineConfig, Shows
from horma_rl.memory.refine.parts import Context
from horma_rl.memory.text import one_line
from horma_rl.retrieval.types import Trajectory
from memory_shell.cache import WorkspaceCache
from memory_shell.types import Task, Turn
from memory_shell.workspace import Workspace


class SystemReader:
    """Plays the config's policy, or runs its retriever, over workspaces on disk."""

    def __init__(self, config: RefineConfig) -> None:
        """Raises UserError for a retriever that does not exist."""
        self._config = config
        if config.policy is None:
            make_retriever(config.retriever)

    def read(self, tasks: Sequence[Task], memory: Path) -> Iterator[tuple[Task, Context]]:
        """The context of each task. Raises UserError when a workspace or the policy cannot be loaded."""
        workspaces = load_workspaces(memory, tasks)
        for trajectory in self._trajectories(tasks, workspaces):
            workspace = workspaces.get(trajectory.task.workspace)
            yield trajectory.task, context_of(trajectory, workspace, self._config.shows)

    def _trajectories(self, tasks: Sequence[Task], workspaces: WorkspaceCache) -> Iterator[Trajectory]:
        config = self._config
        jobs = plan(tasks, config.seed)
        if config.policy is None:
            return run_baseline(make_retriever(config.retriever), jobs, workspaces, config.shell.unit)
        settings = as_trained(
            EvalConfig(
                policies={"reader": config.policy}, baselines=[], shell=config.shell, rollout=config.rollout,
                sampling=config.sampling, device=config.device, seed=config.seed,
            )
        )  # fmt: skip
        engine = load_engine(settings.policies["reader"], settings)
        return run_policy(engine, jobs, workspaces, settings.shell)


def context_of(trajectory: Trajectory, workspace: Workspace, shows: Shows) -> Context:
    """What the actor reads of a trajectory's selection. `notes`: the lines of the manager's notes that cite a selected
    turn, note by note, in the order of the selection. `turns`: the selected turns as they were said."""
    selected = tuple(trajectory.selected)
    commands = tuple(
        (f"{call.get('name', '')} {call.get('args', '')}".strip(), record.observation)
        for record in trajectory.turns
        for call in record.calls[:1]
    )
    if shows == "turns":
        told = [_told(turn) for ident in selected if (turn := workspace.turns.get(ident)) is not None]
        return Context("\n".join(told), selected, (), commands)
    place = {ident: index for index, ident in enumerate(selected)}
    notes: dict[str, list[NoteLine]] = {}
    cited = [line for line in distinct_lines(workspace) if any(ident in place for ident in line.sources)]
    for line in sorted(cited, key=lambda line: min(place.get(ident, len(place)) for ident in line.sources)):
        notes.setdefault(line.path, []).append(line)
    text = "\n\n".join(_note_text(workspace, path, lines) for path, lines in notes.items())
    return Context(text, selected, tuple(notes), commands)


def _told(turn: Turn) -> str:
    return f"[{(turn.time or 'no date').replace('T', ' ')[:16]}] {one_line(turn_text(turn))}"


def _note_text(workspace: Workspace, path: str, lines: Sequence[NoteLine]) -> str:
    note = workspace.notes[path]
    replaced = f", superseded by {note.superseded_by}" if note.superseded_by else ""
    head = f"# {note.title} ({path}, {note.timestamp or 'no date'}{replaced})"
    ordered = sorted(lines, key=lambda line: line.number)
    return "\n".join([head, *(f"[{_when(workspace, line)}] {line.text}" for line in ordered)])


def _when(workspace: Workspace, line: NoteLine) -> str:
    """When the line's first turn was said."""
    return (workspace.turns[line.sources[0]].time or "no date").replace("T", " ")[:16]
