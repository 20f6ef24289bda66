"""Running one system over tasks: every system, trained or not, gives trajectories."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from horma_rl.baselines.base import Retrieved, Retriever
from horma_rl.errors import UserError
from horma_rl.evaluation.config import EvalConfig, PolicyConfig, ShellConfig
from horma_rl.evaluation.trained import settle
from horma_rl.retrieval.manifest import Manifest
from horma_rl.retrieval.seeds import rollout_seed
from horma_rl.retrieval.types import Trajectory
from memory_shell.cache import WorkspaceCache
from memory_shell.episode import MemoryShell
from memory_shell.reward import episode_reward
from memory_shell.types import Task, Unit

if TYPE_CHECKING:
    from horma_rl.retrieval.engine import EpisodeSpec, RolloutEngine

Job = tuple[Task, int]
"""A task and the seed of one episode of it."""


def plan(tasks: Sequence[Task], seed: int, samples: int = 1) -> list[Job]:
    """The episodes to run, in order. A job's seed depends on the task and the sample only, so a resumed evaluation
    runs exactly what is missing."""
    return [(task, rollout_seed(seed, 0, task.id, sample)) for task in tasks for sample in range(samples)]


def run_baseline(
    retriever: Retriever, jobs: Iterable[Job], workspaces: WorkspaceCache, unit: Unit = "turn"
) -> Iterator[Trajectory]:
    """One trajectory a job, in order. Raises UserError when the retriever's packages are not installed."""
    for task, seed in jobs:
        workspace = workspaces.get(task.workspace)
        begin = time.monotonic()
        # Salted with the name: two random baselines must not draw the same numbers.
        found = retriever.retrieve(task, workspace, random.Random(f"{seed}/{retriever.name}"))
        trajectory = _as_trajectory(task, seed, found)
        trajectory.reward = episode_reward(found.selected, task.evidence, unit, workspace)
        trajectory.wall_s = time.monotonic() - begin
        yield trajectory


def run_policy(
    engine: RolloutEngine, jobs: Iterable[Job], workspaces: WorkspaceCache, shell: ShellConfig
) -> Iterator[Trajectory]:
    """One trajectory a job, in the order in which they end."""
    return engine.run(_specs(jobs, workspaces, shell))


def load_engine(policy: PolicyConfig, config: EvalConfig) -> RolloutEngine:
    """The rollout engine around a checkpoint. Imports torch.

    Raises:
        UserError: there is no checkpoint, or its tokenizer or model, or the server, cannot be used.
    """
    if not any((policy.model / name).is_file() for name in ("config.json", "adapter_config.json")):
        raise UserError(f"{policy.model} is no checkpoint folder: config.json is missing")
    policy, manifest = settle(policy, config), Manifest.read(policy.model)
    if manifest is not None:
        manifest.check_files(policy.model)
    from transformers import AutoTokenizer

    from horma_rl.retrieval.backends import make_generator
    from horma_rl.retrieval.engine import RolloutEngine
    from horma_rl.retrieval.prompt import ChatCodec

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(policy.model)
    except (OSError, ValueError) as error:
        raise UserError(f"{policy.model} cannot be loaded: {' '.join(str(error).split())[:300]}") from None
    codec = ChatCodec(tokenizer, policy.prompt, policy.thinking, policy.tools)
    if manifest is not None:
        manifest.check_prompt(codec, policy.model)
    generator = make_generator(
        policy.backend, policy.model, codec.eos_ids, config.sampling, config.rollout,
        device=config.device, server=policy.server,
    )  # fmt: skip
    return RolloutEngine(generator, codec, config.rollout)


def describe_given(config: EvalConfig, policy: PolicyConfig) -> str:
    """What a policy is given, in one line for the tables."""
    overview = {
        "none": "the question alone",
        "tree": "the question and an overview of the memory's folders",
        "terms": "the question and the number of note lines that hold each of its words",
    }[config.shell.overview]
    prompt = "instructions and tool schemas" if policy.prompt == "full" else "no instructions"
    caps = config.shell.caps
    notes = f"{config.notes} notes"
    tools = "six shell verbs" if policy.tools == "six" else "one shell tool"
    return f"{overview}; {prompt}; {tools} over {notes}, {caps.turns} turns, {caps.lines} lines a command"


def _specs(jobs: Iterable[Job], workspaces: WorkspaceCache, shell: ShellConfig) -> Iterator[EpisodeSpec]:
    from horma_rl.retrieval.engine import EpisodeSpec

    for index, (task, seed) in enumerate(jobs):
        workspace = workspaces.get(task.workspace)
        yield EpisodeSpec(
            task, MemoryShell(workspace, shell.caps, shell.unit, shell.overview, shell.zero_on_cap), seed, index
        )


def _as_trajectory(task: Task, seed: int, found: Retrieved) -> Trajectory:
    return Trajectory(
        task=task,
        seed=seed,
        prompt_ids=[],
        selected=list(found.selected),
        turns=list(found.turns),
        stop=found.stop,
        commands=found.commands,
        invalid=found.invalid,
        first_observation=found.first_observation,
    )
