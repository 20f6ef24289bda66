"""Run tasks on one memory, or on raw history, and score the answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from horma_rl.benchmarks.types import Conversation
from horma_rl.llm.types import NoValidAnswer, RefusedError
from horma_rl.memory.refine.account import Account
from horma_rl.memory.refine.files import Lines, read_json, write_json
from horma_rl.memory.refine.parts import Built, Context, Parts, UnscoredError
from horma_rl.memory.refine.pool import each
from memory_shell.types import Task

TOO_LARGE = frozenset({400, 413, 422})
"""Statuses with which a server refuses one request and not all: above all, a history longer than its context."""
MEMORY, ANSWERS, BUILT = "memory", "answers.jsonl", "built.json"


@dataclass(frozen=True, slots=True)
class Row:
    """How one side did on one task, with its trajectory. `score` is None when there is none (`error` says why): such a
    row is counted and never averaged. Raw history leaves `context` and what follows it empty: it was given all."""

    task: str
    answer: str | None
    score: float | None
    context_tokens: int
    error: str | None = None
    context: str = ""
    selected: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    commands: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Row:
        """A row as it was written."""
        commands = tuple((str(line), str(output)) for line, output in data["commands"])
        return cls(**{**data, "selected": tuple(data["selected"]), "notes": tuple(data["notes"]), "commands": commands})


@dataclass(frozen=True)
class Measurement:
    """One memory and its answers, by task id."""

    built: Built
    memory: Path
    rows: Mapping[str, Row]


class Measure:
    """Runs and scores tasks; everything finished is on disk at once."""

    def __init__(self, parts: Parts, context_tokens: int, at_once: int) -> None:
        self._parts, self._limit, self._at_once = parts, context_tokens, at_once

    async def memory(
        self,
        folder: Path,
        conversations: Sequence[Conversation],
        tasks: Sequence[Task],
        skills: str,
        account: Account,
    ) -> Measurement:
        """Build memory with `skills` in the manager's prompt, read it, answer, score."""
        built = await self._build(folder, conversations, skills)
        account.save()
        lines = Lines(folder / ANSWERS)
        todo = [task for task in tasks if task.id not in lines.rows]
        found = self._parts.reader.read(todo, folder / MEMORY) if todo else iter(())
        await self._answer(found, self._limit, lines, account)
        return Measurement(built, folder / MEMORY, _rows(lines, tasks))

    async def control(
        self, folder: Path, conversations: Sequence[Conversation], tasks: Sequence[Task], account: Account
    ) -> dict[str, Row]:
        """Answer from the whole raw history, without limit. It does not depend on memory: once is enough."""
        lines = Lines(folder / ANSWERS)
        texts = {conversation.name: transcript(conversation) for conversation in conversations}
        todo = [task for task in tasks if task.id not in lines.rows]
        found = ((task, Context(texts[task.workspace], ())) for task in todo)
        await self._answer(found, None, lines, account)
        return _rows(lines, tasks)

    async def _build(self, folder: Path, conversations: Sequence[Conversation], skills: str) -> Built:
        known = read_json(folder / BUILT)
        if known is not None:
            return Built(**known)
        built = await self._parts.manager.build(conversations, folder / MEMORY, skills)
        write_json(folder / BUILT, asdict(built))
        return built

    async def _answer(
        self, found: Iterator[tuple[Task, Context]], limit: int | None, lines: Lines, account: Account
    ) -> None:
        async def one(item: tuple[Task, Context]) -> None:
            task, context = item
            lines.add(asdict(await self._row(task, context, limit)))
            account.save()

        await each(found, one, self._at_once)

    async def _row(self, task: Task, context: Context, limit: int | None) -> Row:
        kept = Context("", ()) if limit is None else context
        trajectory = (kept.text, kept.selected, kept.notes, kept.commands)
        try:
            answer = await self._parts.actor.answer(task, context.text, limit)
        except (RefusedError, NoValidAnswer) as error:
            if isinstance(error, RefusedError) and error.status not in TOO_LARGE:
                raise
            return Row(task.id, None, None, 0, str(error), *trajectory)
        try:
            score: float | None = await self._parts.scorer.score(task, answer.text)
            fault = None
        except UnscoredError as error:
            score, fault = None, str(error)
        return Row(task.id, answer.text, score, answer.context_tokens, fault, *trajectory)


def transcript(conversation: Conversation) -> str:
    """The raw history as text: every turn with its time, speaker, words and picture."""
    lines = [
        f"[{session.time:%Y-%m-%d %H:%M}] {turn.speaker}: {turn.text}"
        + (f" (shares {turn.caption})" if turn.caption else "")
        for session in conversation.sessions
        for turn in session.turns
    ]
    return "\n".join(lines)


def _rows(lines: Lines, tasks: Sequence[Task]) -> dict[str, Row]:
    return {task.id: Row.from_json(lines.rows[task.id]) for task in tasks}
