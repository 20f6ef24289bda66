"""`horma-rl eval` with `kind: answers`: retrieve, let the actor answer from what was retrieved, judge, report.

The retrieval evaluation of the same systems runs first (or is found finished), and its selections are the contexts.
Answers and verdicts are kept as they come, so a run that is stopped, killed or out of budget goes on where it was.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from horma_rl.answers.actor import Actor
from horma_rl.answers.config import AnswersConfig
from horma_rl.answers.contexts import GIVEN, Context, Whole, retrieved_context, whole_context
from horma_rl.answers.judges import Judge, JudgeError, make_judge
from horma_rl.answers.scores import scores
from horma_rl.answers.store import AnswerRow, AnswerStore
from horma_rl.config import dump
from horma_rl.errors import UserError
from horma_rl.evaluation.runner import Evaluation, evaluate
from horma_rl.llm.types import BudgetSpent, LanguageModel, LlmError, RefusedError
from horma_rl.tokens import token_counter
from memory_shell.types import Task

Progress = Callable[[str, int, int], None]
"""Called with a system's name, its finished tasks, and all of its tasks."""
_HOPELESS = (401, 403, 404)
"""Refusals that every request would meet: no key, no right, no such model."""
_AHEAD = 2
"""Tasks prepared for each request that may be in flight."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A task that has no answer, or no verdict, for now. Running the evaluation again tries it again."""

    system: str
    task: str
    stage: str
    """`actor`, or the judge's name."""
    reason: str


@dataclass(frozen=True)
class Source:
    """A named supply of contexts: a system's selections by task, or a kind of whole history."""

    name: str
    given: str
    selected: Mapping[str, Sequence[str]]
    whole: Whole | None = None


@dataclass
class Answered:
    """An evaluation of answers, finished or not. `stopped` says why it ended before all was asked."""

    config: AnswersConfig
    evaluation: Evaluation
    sources: list[Source]
    store: AnswerStore
    counter: str
    """The tokenizer that counted."""
    failures: list[Failure] = field(default_factory=list)
    stopped: str | None = None
    wall_s: float = 0.0

    @property
    def tasks(self) -> list[Task]:
        """The tasks, in order."""
        return self.evaluation.tasks


async def answer_all(
    config: AnswersConfig,
    actor_model: LanguageModel,
    judge_model: LanguageModel | None = None,
    progress: Progress = lambda system, done, total: None,
) -> Answered:
    """Retrieve, answer and judge what is not finished yet. `judge_model` is the actor's when not given.

    Raises:
        UserError: something in the config, the data or the output folder is at fault.
    """
    begin = time.monotonic()
    counter = token_counter(config.actor.tokenizer)
    store = AnswerStore(config.out_dir, config.answer_identity())
    (config.out_dir / "config.yaml").write_text(dump(config), encoding="utf-8")
    evaluation = evaluate(config.retrieval())
    answered = Answered(config, evaluation, _sources(config, evaluation), store, counter.name)
    settings = config.actor
    actor = Actor(actor_model, counter, settings.budget, settings.style, settings.max_tokens)
    attempts = config.judge.attempts
    judges = [make_judge(name, judge_model or actor_model, attempts) for name in dict.fromkeys(config.judge.names)]
    await _Run(answered, actor, judges, progress).all()
    answered.wall_s = time.monotonic() - begin
    return answered


@dataclass
class _Run:
    """Answers and judges every task of every source, a bounded number at a time."""

    answered: Answered
    actor: Actor
    judges: Sequence[Judge]
    progress: Progress

    async def all(self) -> None:
        llm = self.answered.config.actor.llm
        gate = asyncio.Semaphore(_AHEAD * llm.concurrency)
        for source in self.answered.sources:
            total = len(self.answered.tasks)
            done = 0
            self.progress(source.name, done, total)

            async def one(task: Task, source: Source = source) -> None:
                async with gate:
                    if self.answered.stopped is None:
                        await self._task(source, task)

            for finished in asyncio.as_completed([one(task) for task in self.answered.tasks]):
                await finished
                done += 1
                self.progress(source.name, done, total)

    async def _task(self, source: Source, task: Task) -> None:
        stage = "actor"
        try:
            row = self.answered.store.answer(source.name, task.id) or await self._answer(source, task)
            known = self.answered.store.verdicts(source.name, task.id)
            for judge in self.judges:
                if judge.name in known:
                    continue
                stage = judge.name
                verdict = await judge.judge(task, row.answer)
                self.answered.store.add_verdict(row, judge.name, verdict.right, verdict.reply, verdict.tokens)
        except BudgetSpent as error:
            self.answered.stopped = str(error)
        except (LlmError, JudgeError) as error:
            self.answered.failures.append(Failure(source.name, task.id, stage, str(error)))
            if isinstance(error, RefusedError) and error.status in _HOPELESS:
                self.answered.stopped = str(error)

    async def _answer(self, source: Source, task: Task) -> AnswerRow:
        context = self._context(source, task)
        answer = await self.actor.answer(task.question, task.asked_at, context)
        row = AnswerRow(
            system=source.name,
            task=task.id,
            workspace=task.workspace,
            category=task.category,
            answer=answer.text,
            asked=answer.asked,
            turns_shown=len(context.shown),
            left_out=context.left_out,
            cut=context.cut,
            context_tokens=context.tokens,
            input_tokens=answer.input_tokens,
            usage_tokens=answer.usage_tokens,
            scores=scores(task, answer.text),
        )
        self.answered.store.add_answer(row)
        return row

    def _context(self, source: Source, task: Task) -> Context:
        turns = self.answered.evaluation.workspaces.get(task.workspace).turns
        room = self.actor.room(task.question, task.asked_at)
        if room == 0 and source.whole != "full-history":
            raise UserError(f"actor.budget: {self.actor.budget} tokens leave no room for a context: raise it")
        if source.whole is not None:
            return whole_context(source.whole, turns, self.actor.counter, room)
        return retrieved_context(source.selected.get(task.id, ()), turns, self.actor.counter, room)


def _sources(config: AnswersConfig, evaluation: Evaluation) -> list[Source]:
    retrieved = [
        Source(system.name, system.given, {row.task: row.selected for row in system.rows})
        for system in evaluation.systems
    ]
    return [*retrieved, *(Source(kind, GIVEN[kind], {}, kind) for kind in dict.fromkeys(config.histories))]


def unfinished(answered: Answered) -> int:
    """Tasks, over all systems, that lack an answer or a verdict."""
    wanted = set(answered.config.judge.names)
    return sum(
        answered.store.answer(source.name, task.id) is None
        or not wanted <= answered.store.verdicts(source.name, task.id).keys()
        for source in answered.sources
        for task in answered.tasks
    )


def write_failures(answered: Answered) -> None:
    """`failures.json`: what this run could not finish, and why."""
    rows = [{"system": f.system, "task": f.task, "stage": f.stage, "reason": f.reason} for f in answered.failures]
    text = json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
    (answered.config.out_dir / "failures.json").write_text(text, encoding="utf-8")
