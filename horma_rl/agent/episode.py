"""One episode: the loop in which an actor, Mage's tree, HORMA's workspace and an environment meet.

A move is asked for with the view of the moment: task, S, C_t, the latest observation. An action is done and archived; a
mark compresses, files the summary and has it checked; a fault found, or the actor's wish, takes the tree and, as far as
it can, the environment back. docs/agent.md tells who does what, and what became of everything that can fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from horma_rl.agent.config import SystemConfig
from horma_rl.agent.events import TREE_FILE
from horma_rl.agent.judge import UnreadError
from horma_rl.agent.memories import Memories
from horma_rl.agent.prompt import Prompt, Prompter
from horma_rl.agent.records import End, EpisodeResult, Kind, Spent, StepRow
from horma_rl.agent.tree import Node, NothingToCompressError
from horma_rl.agent.types import (
    Act,
    Actor,
    Decision,
    GoBack,
    Judge,
    Malformed,
    Mark,
    MemoryMove,
    Prefaced,
    Recall,
    Recaller,
    Summariser,
    View,
)
from horma_rl.errors import UserError
from horma_rl.llm.types import NoValidAnswer, Role, Usage
from horma_rl.memory.text import slug
from horma_rl.tokens import TokenCounter
from interactive_env.rewind import rewind
from interactive_env.types import EnvTask, InteractiveEnv, Outcome

__all__ = ["EpisodeResult", "Parts", "StepRow", "play"]

REPEATS_TOLD = 3
"""The same move with the same outcome, this often in a row, is pointed out to the actor."""
REPEATS_STUCK = 10
"""And this often ends the episode."""
MEMORY = "memory"
"""The folder of the workspace below that of the episode."""
_WORLD_STAYS = "The environment does not go back: what was done in it still holds."
_ValueT = TypeVar("_ValueT")


@dataclass(frozen=True)
class Parts:
    """What plays an episode. `judge` may be None where the system does not Maintain, `recaller` where nothing is to be
    retrieved. `counter` measures every bound of the system in tokens."""

    actor: Actor
    counter: TokenCounter
    judge: Judge | None
    summariser: Summariser
    recaller: Recaller | None


async def play(
    env: InteractiveEnv,
    task: EnvTask,
    system: SystemConfig,
    parts: Parts,
    folder: Path,
    log: Callable[[StepRow], None],
    *,
    max_moves: int | None = None,
) -> EpisodeResult:
    """Play `task` to its end in `env`, which is closed then. `max_moves` defaults to 10 and twice the step cap.

    `folder` gets the tree's log and, with HORMA, the workspace; what an earlier attempt left of them is removed. The
    environment runs in a thread of its own, one call at a time.

    Raises:
        UserError: the system Maintains and there is no judge.
        LlmError: the actor, the summariser or the judge cannot be had. The episode is unfinished then, not failed.
        Exception: whatever the environment or the recaller raises.
    """
    if system.mage and system.maintain and parts.judge is None:
        raise UserError("a system with `maintain: true` needs a judge; name one, or set `maintain: false`")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TREE_FILE).unlink(missing_ok=True)
    workspace = folder / MEMORY / slug(task.id)
    memories = Memories(system, parts.counter, parts.recaller, folder / TREE_FILE, workspace)
    thread = ThreadPoolExecutor(1, thread_name_prefix="env")
    episode = _Episode(env, task, system, parts, memories, log, thread)
    try:
        with closing(memories):
            return await episode.run(max_moves)
    finally:
        await episode.in_env(env.close)
        thread.shutdown(wait=False)


@dataclass(frozen=True)
class _Done:
    """A move that was no action, and why it was refused, if it was."""

    kind: Kind
    text: str
    refusal: str | None

    @property
    def ok(self) -> bool:
        return self.refusal is None


class _Episode:
    def __init__(
        self,
        env: InteractiveEnv,
        task: EnvTask,
        system: SystemConfig,
        parts: Parts,
        memories: Memories,
        log: Callable[[StepRow], None],
        thread: ThreadPoolExecutor,
    ) -> None:
        self.env, self.task, self.system, self.parts = env, task, system, parts
        self.memories, self.log, self.thread = memories, log, thread
        self.tree = memories.tree
        self.result = EpisodeResult()
        self.snapshots: dict[int, object] = {}
        """The environment's state at the boundaries of the active path."""
        self.asked = False
        """Whether the last move was a question, whose answer is to be shown."""
        self.notices: list[str] = []
        self.last: object = None
        self.in_a_row = 0

    async def in_env(self, call: Callable[..., _ValueT], *arguments: object) -> _ValueT:
        """Do `call` in the environment's thread."""
        return await asyncio.get_running_loop().run_in_executor(self.thread, call, *arguments)

    async def run(self, max_moves: int | None) -> EpisodeResult:
        start = await self.in_env(self.env.reset, self.task)
        self.instruction, self.observation, self.first = start.instruction, start.observation, start.observation
        self.able = self.env.capabilities
        self.moves = self._moves()
        actor = self.parts.actor
        preamble = actor.preamble(self.able.actions, self.moves) if isinstance(actor, Prefaced) else ""
        self.prompter = Prompter(self.parts.counter, self.system, self.instruction, preamble)
        await self._keep_snapshot()
        most = 2 * self.able.max_steps + 10 if max_moves is None else max_moves
        end: End | None = None
        while end is None:
            end = await self._turn(most)
        self.result.stop = end
        self.result.success, self.result.progress = await self.in_env(lambda: (self.env.success, self.env.progress))
        return self.result

    def _moves(self) -> tuple[MemoryMove, ...]:
        moves: list[MemoryMove] = ["compress"] if self.system.mage else []
        if self.system.mage and self.system.revise:
            moves.append("revise")
        if self.memories.can_recall:
            moves.append("recall")
        return tuple(moves)

    # One move ------------------------------------------------------------------------------------------------------

    async def _turn(self, most: int) -> End | None:
        if self.result.steps >= self.able.max_steps:
            return "step_cap"
        if self.result.moves >= most:
            return "move_cap"
        if not self.asked and self._recall_is_due():
            await self._retrieve("")
        self.asked = False
        state, memories = self.memories.state(), self.memories
        notice, self.notices = " ".join(self.notices), []
        prompt = self.prompter.prompt(state, memories.remembered, memories.seen(state), self.observation, notice)
        self.result.most_context_tokens = max(self.result.most_context_tokens, prompt.tokens)
        self.result.over_budget += prompt.over
        view = View(
            self.instruction, self.able.actions, state, prompt.context.text, self.observation, notice,
            prompt.text, prompt.tokens, self.moves,
        )  # fmt: skip
        decision = await self.parts.actor.act(view)
        self.result.moves += 1
        return await self._do(decision, self._spend("actor", decision.usage), prompt)

    def _recall_is_due(self) -> bool:
        return self.system.recall == "step" or (self.memories.due and self.system.recall == "boundary")

    async def _do(self, decision: Decision, usage: Spent, prompt: Prompt) -> End | None:
        match decision.move:
            case Act(action):
                return await self._act(action, decision, usage, prompt)
            case Mark(summary):
                move = _Done("mark", summary, await self._mark(summary))
            case GoBack(step, reason):
                move = _Done("revise", f"{step}: {reason}", await self._go_back(step, reason))
            case Recall(asked):
                move = _Done("recall", asked, await self._recall(asked))
            case Malformed(text, why):
                move = _Done("malformed", text, f"Your last answer was no move: {why}")
        self._count(move)
        shown = {"recall": self.memories.context(), "revise": self.observation}.get(move.kind, "") if move.ok else ""
        self._row(move.kind, move.text, usage, prompt, decision.thought, shown, move.ok)
        if move.kind == "mark" and move.ok:
            await self._maintain()
        return "stuck" if self.in_a_row >= REPEATS_STUCK else None

    async def _act(self, action: str, decision: Decision, usage: Spent, prompt: Prompt) -> End | None:
        outcome = await self.in_env(self.env.step, action)
        self.result.steps += 1
        self.result.invalid += not outcome.valid
        self.memories.grow(action, outcome.observation)
        self.observation = outcome.observation
        self._repeat(("act", action, outcome.observation if outcome.valid else None))
        if outcome.subtask:
            self.memories.due = True
            if self.system.mage:
                self.notices.append("A part of the task has ended: if your subgoal is complete, compress it.")
        self._row("act", action, usage, prompt, decision.thought, outcome.observation, outcome.valid)
        if outcome.terminated or outcome.truncated:
            return await self._ended(outcome)
        if self.in_a_row >= REPEATS_STUCK:
            return "stuck"
        await self._compress_if_long()
        return None

    async def _ended(self, outcome: Outcome) -> End:
        if await self.in_env(lambda: self.env.success):
            return "success"
        return "failed" if outcome.terminated else "step_cap"

    async def _mark(self, summary: str) -> str | None:
        """Compress by the actor's mark. Returns the refusal, if it is one."""
        if "compress" not in self.moves:
            return "Nothing can be compressed here: act."
        try:
            await self._compress(summary)
        except NothingToCompressError:
            return "There is nothing to compress, as no action was done since the last time: act first."
        self.result.compressions += 1
        return None

    async def _go_back(self, step: int, reason: str) -> str | None:
        if "revise" not in self.moves:
            return "You cannot go back here: go on from where you are."
        if self.result.revisions >= self.system.revisions:
            return f"You have gone back {self.result.revisions} times, which is all there is: go on from here."
        known = self.tree.boundaries
        if step not in known:
            there = f"you can go back to {', '.join(map(str, known))}" if known else "no subgoal is compressed yet"
            return f"There is no way back to step {step}: {there}."
        await self._revise(reason, step)
        return None

    async def _recall(self, asked: str) -> str | None:
        if "recall" not in self.moves:
            return "There is no memory to ask here: act."
        await self._retrieve(asked)
        self.asked = True
        self.notices.append(
            "What memory holds about your question stands above."
            if self.memories.context()
            else "Memory holds nothing about your question beyond what you see."
        )
        return None

    # Operations on the memories and the environment ----------------------------------------------------------------

    async def _compress(self, summary: str) -> None:
        """Raises NothingToCompressError."""
        self.memories.compress(summary)
        await self._keep_snapshot()

    async def _retrieve(self, asked: str) -> None:
        self.result.recalls += await self.memories.retrieve(asked, self.instruction, self.observation)

    async def _compress_if_long(self) -> None:
        """Compress by fallback, when the raw trace is too long and the actor has not marked a subgoal."""
        if not self.memories.overflows:
            return
        said = await self.parts.summariser.summarise(self.instruction, self.tree.state.raw)
        await self._compress(said.text)
        self.result.compressions_fallback += 1
        self._row("compress", said.text, self._spend("manager", said.usage))
        await self._maintain()

    async def _maintain(self) -> None:
        """Have the last summary checked; on a fault go back to where it began, or only tell."""
        judge = self.parts.judge
        if not self.system.maintain or judge is None:
            return
        try:
            verdict = await judge.validate(self.instruction, self.tree.covered, self.tree.p_t.text)
        except NoValidAnswer as error:
            self.result.maintain_unread += 1
            spent = error.usage if isinstance(error, UnreadError) else Usage()
            self._row("maintain", f"unread: {error}", self._spend("judge", spent), valid=False)
            return
        usage = self._spend("judge", verdict.usage)
        self._row("maintain", verdict.feedback, usage, valid=verdict.passed)
        if verdict.passed:
            self.result.maintain_passed += 1
            return
        self.result.maintain_failed += 1
        target = self.memories.fail(verdict.feedback)
        if self.system.revise and self.result.revisions < self.system.revisions:
            await self._revise(verdict.feedback, target)
            self._row("revise", f"{target}: {verdict.feedback}", observation=self.observation)
            return
        self.notices.append(f"A check found your last subgoal wrong: {verdict.feedback}")

    async def _revise(self, feedback: str, target: int) -> None:
        """Take the tree, the workspace and, as far as it goes, the environment back to boundary `target`."""
        revised = self.memories.revise(feedback, target, _WORLD_STAYS if self.able.rewind == "none" else "")
        for node in revised.steps:
            self.snapshots.pop(node.id, None)
        self.result.revisions += 1
        await self._rewind(revised.boundary)

    async def _rewind(self, boundary: Node) -> None:
        path = self.memories.path
        actions, expected = [pair.action for pair in path], [pair.observation for pair in path]
        snapshot = self.snapshots.get(boundary.id)
        went = await self.in_env(rewind, self.env, self.task, snapshot, actions, expected)
        self.result.rewinds[went.how] = self.result.rewinds.get(went.how, 0) + 1
        self.result.replayed_steps += went.steps
        if went.how == "not":
            self.notices.append(f"You begin again after step {boundary.id}. {_WORLD_STAYS}")
            return
        if went.how == "replayed" and went.steps < len(actions):
            raise RuntimeError(f"{self.task.id}: the replay of {len(actions)} actions ended after {went.steps}")
        self.observation = expected[-1] if expected else self.first
        self.notices.append(f"You are back after step {boundary.id}, and so is the environment.")
        if went.drift is not None:
            self.result.drifts += 1
            self.notices.append(f"But it answered otherwise than before from step {path[went.drift].id} on.")

    async def _keep_snapshot(self) -> None:
        if self.able.rewind == "restore":
            self.snapshots[self.tree.p_b.id] = await self.in_env(self.env.snapshot)

    # Accounts ------------------------------------------------------------------------------------------------------

    def _count(self, move: _Done) -> None:
        self.result.malformed += move.kind == "malformed"
        self.result.refused += move.kind != "malformed" and not move.ok
        if move.refusal:
            self.notices.append(move.refusal)
        self._repeat((move.kind, None if move.kind == "malformed" else move.refusal or move.text))

    def _repeat(self, move: object) -> None:
        """Count `move`, of which equal ones are the same thing once more, and warn."""
        self.in_a_row = self.in_a_row + 1 if move == self.last else 1
        self.last = move
        self.result.repeated += self.in_a_row > 1
        if self.in_a_row >= REPEATS_TOLD:
            self.notices.append(f"The same happened {self.in_a_row} times in a row: do something else.")

    def _spend(self, role: Role, usage: Usage) -> Spent:
        self.result.spend(role, usage)
        return {role: usage} if usage.total else {}

    def _row(
        self,
        kind: Kind,
        text: str,
        usage: Spent | None = None,
        prompt: Prompt | None = None,
        thought: str = "",
        observation: str = "",
        valid: bool = True,
    ) -> None:
        self.log(
            StepRow(
                move=self.result.moves,
                step=self.result.steps,
                kind=kind,
                text=text,
                thought=thought,
                observation=observation,
                valid=valid,
                prompt_tokens=prompt.tokens if prompt else 0,
                state_tokens=prompt.state_tokens if prompt else 0,
                context_tokens=prompt.context.tokens if prompt else 0,
                usage=usage or {},
                p_b=self.tree.p_b.id,
                p_t=self.tree.p_t.id,
                notice=" ".join(self.notices),
            )
        )
