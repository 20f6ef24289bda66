"""Token sequences for supervised training: expert episodes over pseudo memories, generated ones, or a benchmark's."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from horma_rl.benchmarks.types import Conversation
from horma_rl.memory import archive
from horma_rl.memory.notes import utterance
from horma_rl.memory.outline import session_notes
from horma_rl.retrieval.prompt import ChatCodec
from horma_rl.training.expert import Expert
from horma_rl.training.pseudo import WordSource, pseudo_memory, turn_tasks
from memory_shell.cache import WorkspaceCache
from memory_shell.episode import MemoryShell
from memory_shell.overview import Overview
from memory_shell.types import Caps, Task
from memory_shell.workspace import Workspace

_TASKS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Example:
    """One demonstration as ids and mask [T]: 1 where the model is to be trained."""

    ids: list[int]
    mask: list[int]


class Demonstrator:
    """Turns tasks into examples with the expert, in the format that rollouts use."""

    def __init__(
        self,
        codec: ChatCodec,
        caps: Caps,
        overview: Overview,
        rng: random.Random,
        max_tokens: int,
        cascade: float = 0.0,
    ) -> None:
        self._codec = codec
        self._caps = caps
        self._overview: Overview = overview
        self._rng = rng
        self._max_tokens = max_tokens
        self._cascade = cascade

    def examples(self, workspace: Workspace, tasks: Sequence[Task]) -> Iterator[Example]:
        """One example for each of `tasks` that the expert can show within an episode's turns and `max_tokens`."""
        shell = MemoryShell(workspace, self._caps, overview=self._overview)
        expert = Expert(shell, self._codec.format, self._rng, cascade=self._cascade)
        for task in tasks:
            episode = expert.episode(task)
            if episode is None or len(episode.turns) > self._caps.turns:
                continue
            ids, mask = self._codec.transcript(episode.first_observation, episode.turns)
            if len(ids) <= self._max_tokens:
                yield Example(ids, mask)


def compact_workspace(conversation: Conversation, folder: Path) -> Workspace:
    """A workspace with the archive and the session notes alone, for memories that are used once and thrown away."""
    archived = archive.merge(folder, conversation)
    archived.write(folder)
    for note in session_notes([utterance(record) for record in archived.records()]):
        path = folder / note.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(note.render())
    return Workspace.load(folder)


def pseudo_examples(demonstrator: Demonstrator, source: WordSource) -> Iterator[Example]:
    """Examples over fresh pseudo memories, without end."""
    number = 0
    while True:
        with tempfile.TemporaryDirectory() as folder:
            conversation, tasks = pseudo_memory(f"pseudo-{number}", source)
            workspace = compact_workspace(conversation, Path(folder))
        yield from demonstrator.examples(workspace, tasks)
        number += 1


def task_examples(
    demonstrator: Demonstrator,
    workspaces: WorkspaceCache,
    tasks: Sequence[Task],
    rng: random.Random,
    turn_share: float = 0.0,
) -> Iterator[Example]:
    """Examples of `tasks` in random order, without end: each pass draws the expert's choices anew. A share of
    `turn_share` are questions made of the words of a turn instead, over the same workspaces."""
    by_workspace: dict[str, list[Task]] = {}
    for task in tasks:
        by_workspace.setdefault(task.workspace, []).append(task)
    names, sizes = list(by_workspace), [len(group) for group in by_workspace.values()]
    while True:
        chosen = rng.choices(names, sizes)[0]
        workspace = workspaces.get(chosen)
        if rng.random() < turn_share:
            batch = turn_tasks(workspace, rng, _TASKS_AT_ONCE)
        else:
            batch = rng.sample(by_workspace[chosen], min(_TASKS_AT_ONCE, len(by_workspace[chosen])))
        yield from demonstrator.examples(workspace, batch)
