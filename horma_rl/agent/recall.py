"""M_r: picking C_t from the workspace of the episode, with a baseline or with a trained retriever, and showing it.

What a retriever is asked when the actor did not ask itself: the task, what was done last, and the latest observation,
each cut, as one line. The same question is asked of every retriever.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from horma_rl.agent.store import node_id
from horma_rl.agent.types import Recaller, State
from horma_rl.baselines.base import Retriever
from horma_rl.baselines.registry import check_retriever, make_retriever
from horma_rl.errors import UserError
from horma_rl.memory.text import one_line
from horma_rl.serving.retrieve import Answer, Question
from horma_rl.serving.retrieve import Retriever as Exported
from horma_rl.tokens import TokenCounter
from memory_shell.text import neutralise
from memory_shell.types import Task, Turn
from memory_shell.workspace import Workspace

QUESTION = 600
"""Characters of a question, the actor's own ones included."""
_PART = 200
_SMALLEST = 16
"""Tokens that a cut turn must keep to be shown."""
_CURRENT = "Earlier steps, from memory:"
_ABANDONED = "Tried before and abandoned (not part of the current state), from memory:"


@dataclass(frozen=True)
class BaselineRecaller:
    """A retriever that is compared with, over the episode's workspace. The same question has the same answer."""

    retriever: Retriever

    async def recall(self, workspace: Workspace, question: str) -> Sequence[Turn]:
        """The turns it selects, best first, found in a thread."""
        task = Task("recall", question, (), workspace.name)
        rng = random.Random(f"{self.retriever.name}/{question}")
        found = await asyncio.to_thread(self.retriever.retrieve, task, workspace, rng)
        return [workspace.turns[ident] for ident in found.selected if ident in workspace.turns]


class PolicyRecaller:
    """A trained retriever, which walks the workspace as it was trained to.

    It plays in rounds: questions that come during one are gathered, and asked together in the next. A round has no
    bound of its own, as the engine plays `rollout.concurrency` episodes at once and the others after them.
    """

    def __init__(self, model: Exported) -> None:
        self._model = model
        self._waiting: list[tuple[Question, asyncio.Future[Answer]]] = []
        self._playing: asyncio.Task[None] | None = None

    async def recall(self, workspace: Workspace, question: str) -> Sequence[Turn]:
        """The turns it selects, in its order, found in a thread.

        Raises UserError for a question that is empty or too long for the model, RuntimeError when its episode failed,
        and what ended the whole round.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((Question(workspace, question), answer))
        if self._playing is None or self._playing.done() or self._playing.get_loop().is_closed():
            # A task of its own: who asked may be cancelled, and the others of the round are answered all the same.
            self._playing = asyncio.create_task(self._play())
        return (await answer).turns

    async def _play(self) -> None:
        """Rounds, until nobody waits. Nobody is asked for who has been cancelled meanwhile, or whose loop is closed."""
        asked: list[tuple[Question, asyncio.Future[Answer]]] = []
        try:
            while self._waiting:
                asked = [one for one in self._waiting if not (one[1].done() or one[1].get_loop().is_closed())]
                self._waiting.clear()
                found = await self._ask([question for question, _ in asked])
                for (_, answer), one in zip(asked, found, strict=True):
                    _settle(answer, one)
        except asyncio.CancelledError:
            for _, answer in (*asked, *self._waiting):
                answer.cancel()  # nobody waits for what does not come
            self._waiting.clear()
            raise

    async def _ask(self, questions: Sequence[Question]) -> Sequence[Answer | Exception]:
        """A round: an outcome for each question, the same one for all when the round failed as a whole."""
        try:
            return await asyncio.to_thread(self._model.ask_all, questions)
        except Exception as error:
            return [error] * len(questions)


def _settle(answer: asyncio.Future[Answer], found: Answer | Exception) -> None:
    """Hand out an outcome, unless who asked has been cancelled."""
    if answer.done():
        return
    if isinstance(found, Exception):
        answer.set_exception(found)
    else:
        answer.set_result(found)


def make_recaller(name: str, device: str = "auto") -> Recaller:
    """The recaller called `name`: the folder of an exported model, or a baseline (`bm25-3`, `notes-bm25-8`, ...).

    Raises UserError when it is neither, or for `oracle`: an episode has no annotated evidence.
    """
    if not Path(known_retriever(name)).is_dir():
        return BaselineRecaller(make_retriever(name))
    return PolicyRecaller(Exported.load(Path(name), device))


def known_retriever(name: str) -> str:
    """`name`, if it is a folder or a baseline that needs no annotation; nothing is loaded. Raises UserError."""
    if Path(name).is_dir():
        return name
    if "/" in name:
        raise UserError(f"retriever: there is no folder {name}: name an exported model's, or a baseline such as bm25-3")
    if name == "oracle":
        raise UserError("retriever: an episode has no annotated evidence, so there is no oracle: use bm25-3")
    return check_retriever(name)


def question(instruction: str, state: State, observation: str) -> str:
    """What long-term memory is asked at a step: the task, the subgoal (what the last Revise was told, else what the
    last summary says), and the latest observation."""
    subgoal = state.feedback or (state.compressed[-1].text if state.compressed else "")
    parts = [one_line(part)[:_PART].strip() for part in (instruction, subgoal, observation)]
    return " ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Context:
    """C_t: its text, its tokens, and how many of the turns it was to hold it does not."""

    text: str = ""
    tokens: int = 0
    left_out: int = 0


class Remembered:
    """The turns that the last retrieval gave, shown anew at each step: which of them the actor sees already, and which
    of them are abandoned, can change in between. A turn's tokens are counted once."""

    def __init__(self, counter: TokenCounter, diagnosis: Callable[[int], str | None]) -> None:
        self._counter = counter
        self._diagnosis = diagnosis
        self._turns: tuple[Turn, ...] = ()
        self._sizes: dict[str, int] = {}

    def put(self, turns: Sequence[Turn]) -> None:
        """Take `turns`, best first, in the place of what was there."""
        self._turns = tuple(turns)
        self._sizes.clear()

    def context(self, seen: Collection[int], budget: int) -> Context:
        """The turns but those of nodes `seen`, best first as far as they fit into `budget` tokens, those of the active
        path apart from the abandoned ones, each in the order of their steps."""
        blocks: dict[str, list[tuple[int, str]]] = {_CURRENT: [], _ABANDONED: []}
        meant = [turn for turn in self._turns if node_id(turn.id) not in seen]
        left, shown = budget, 0
        for turn in meant:
            node, reason = node_id(turn.id), self._diagnosis(node_id(turn.id))
            block = _CURRENT if reason is None else _ABANDONED
            line = _line(node, turn.text, reason)
            left -= 0 if blocks[block] else self._size(block)
            if self._size(line) > left:
                if left > _SMALLEST:
                    blocks[block].append((node, self._counter.head(line, left - 1)))
                break
            blocks[block].append((node, line))
            left -= self._size(line)
            shown += 1
        lines = [
            text for head, found in blocks.items() if found for text in (head, *(line for _, line in sorted(found)))
        ]
        return Context("\n".join(lines), sum(self._size(line) for line in lines), len(meant) - shown)

    def _size(self, line: str) -> int:
        """Tokens of a line and its end."""
        if line not in self._sizes:
            self._sizes[line] = self._counter.count(f"{line}\n")
        return self._sizes[line]


def _line(node: int, text: str, reason: str | None) -> str:
    status = "" if reason is None else f", abandoned: {reason}"
    return neutralise(f"[step {node}{status}] {' '.join(text.split())}")
