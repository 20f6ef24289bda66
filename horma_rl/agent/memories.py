"""The two memories of an agent, and their division of labour.

Mage's tree holds the active path: what is so now. HORMA's workspace holds everything that was, and is asked for what
the path no longer shows. Every operation on the tree is told to the workspace here, and nowhere else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from horma_rl.agent.config import SystemConfig
from horma_rl.agent.events import EventLog
from horma_rl.agent.recall import QUESTION, Remembered, question
from horma_rl.agent.store import EpisodeStore
from horma_rl.agent.tree import Node, Revised, StateTree
from horma_rl.agent.types import Pair, Recaller, State
from horma_rl.tokens import TokenCounter


class Memories:
    """What the agent of one episode remembers. Where the system has no workspace, `store` is None.

    `path` is the active path, kept beside the tree so that a step costs O(1). `raw_tokens`: of the trace since the last
    boundary. `due`: a boundary has passed since the last retrieval.
    """

    def __init__(
        self, system: SystemConfig, counter: TokenCounter, recaller: Recaller | None, log: Path, workspace: Path
    ) -> None:
        self.tree = StateTree()
        self.store = EpisodeStore(workspace) if system.horma else None
        self.remembered = Remembered(counter, self.store.diagnosis if self.store else lambda node: None)
        self.path: list[Pair] = []
        self.raw_tokens = 0
        self.due = False
        self._system, self._counter = system, counter
        self._recaller = recaller if system.horma and system.context_tokens else None
        self._events = EventLog(log)

    @property
    def can_recall(self) -> bool:
        """Whether there is anything to ask, and anything to ask it with."""
        return self._recaller is not None

    @property
    def overflows(self) -> bool:
        """Whether the raw trace is so long that it is to be compressed by fallback."""
        system = self._system
        return system.mage and system.compress and self.raw_tokens > system.compress_tokens

    def grow(self, action: str, observation: str) -> None:
        """Grow the tree, and archive the step."""
        node = self.tree.grow(action, observation)
        self._events.record(self.tree)
        if self.store:
            self.store.grow(node)
        self.path.append(node.pair)
        self.raw_tokens += self._counter.count(f"{action}\n{observation}\n")

    def compress(self, summary: str) -> Node:
        """Compress, and file the summary. Raises NothingToCompressError."""
        node = self.tree.compress(summary)
        self._events.record(self.tree)
        if self.store:
            self.store.compress(node)
        self.raw_tokens, self.due = 0, True
        return node

    def fail(self, feedback: str) -> int:
        """Note what is wrong with the last summary, in both memories. Returns the target for Revise."""
        target = self.tree.fail(feedback)
        self._events.record(self.tree)
        if self.store:
            self.store.compress(self.tree.p_t, feedback)
        return target

    def revise(self, feedback: str, target: int, remark: str = "") -> Revised:
        """Go back to boundary `target`, and mark what was left behind as abandoned. `remark` is for the actor, beside
        `feedback`, and is not filed. Raises NoSuchBoundaryError."""
        revised = self.tree.revise(f"{feedback} {remark}".strip(), target)
        self._events.record(self.tree)
        if self.store:
            self.store.revise(revised, feedback)
        del self.path[len(self.path) - len(revised.steps) :]
        self.raw_tokens, self.due = 0, True
        return revised

    def state(self) -> State:
        """What the system shows of the active path."""
        if self._system.state == "full":
            return State((), tuple(self.path), ())
        if self._system.state == "recent":
            return State((), tuple(self.path[max(len(self.path) - self._system.recent_steps, 0) :]), ())
        state = self.tree.state
        return state if self._system.compress else replace(state, raw=tuple(self.path))

    def seen(self, state: State) -> Collection[int]:
        """The bottom nodes that `state` shows, which C_t need not repeat."""
        return frozenset(pair.id for pair in state.raw) if self.store else ()

    def context(self) -> str:
        """C_t as it would be shown now."""
        return self.remembered.context(self.seen(self.state()), self._system.context_tokens).text

    async def retrieve(self, asked: str, instruction: str, observation: str) -> bool:
        """Ask the workspace: the actor's question, or, where that is empty, one made from the step. Not where all that
        it holds is in S anyway. Returns whether it was asked.

        Raises WorkspaceError when the workspace has outgrown what can be read, and what the recaller raises.
        """
        self.due = False
        if self.store is None or self._recaller is None:
            return False
        state = self.state()
        if self.store.steps <= len(state.raw):
            self.remembered.put(())
            return False
        about = asked or question(instruction, state, observation)
        workspace = await asyncio.to_thread(self.store.workspace)
        self.remembered.put(await self._recaller.recall(workspace, about[:QUESTION]))
        return True

    def close(self) -> None:
        """Close the tree's log, and make the workspace whole on disk."""
        try:
            self._events.close()
        finally:
            if self.store:
                self.store.close()
