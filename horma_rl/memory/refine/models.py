"""The parts of a real refinement: language models behind endpoints as manager, actor, judge and analyst."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from horma_rl.answers.actor import Actor
from horma_rl.answers.contexts import Context
from horma_rl.answers.judges import JudgeError, make_judge
from horma_rl.answers.scores import scores
from horma_rl.benchmarks.types import Conversation
from horma_rl.llm.budget import Budget
from horma_rl.llm.client import Llm
from horma_rl.llm.types import LanguageModel, LlmError, Role
from horma_rl.memory.manager.config import ManagerConfig
from horma_rl.memory.manager.journal import Journal, journal_path
from horma_rl.memory.manager.manager import Writer
from horma_rl.memory.manager.progress import Tally
from horma_rl.memory.manager.run import build_one
from horma_rl.memory.refine.config import ROLES, ActorConfig, Metric, RefineConfig
from horma_rl.memory.refine.parts import Answer, Built, Parts, UnscoredError
from horma_rl.memory.refine.pool import each
from horma_rl.memory.refine.readers import SystemReader
from horma_rl.tokens import token_counter
from memory_shell.types import Task


class ModelManager:
    """The manager of `horma-rl memory build --manager llm`, conversation by conversation."""

    def __init__(self, llm: LanguageModel, model: str, config: ManagerConfig, at_once: int) -> None:
        self._llm, self._model, self._config, self._at_once = llm, model, config, at_once

    async def build(self, conversations: Sequence[Conversation], out: Path, skills: str) -> Built:
        """Build what is not built; the counts are read off the journals, so they hold for resumed builds, too."""
        writer = Writer(self._llm, self._model, self._config, skills)
        tally, counts = Tally(), {"turns": 0, "notes": 0}

        async def one(conversation: Conversation) -> None:
            report = await build_one(conversation, out / conversation.name, writer)
            counts["turns"] += report.turns
            counts["notes"] += report.notes
            tally.add_all(Journal(journal_path(out / conversation.name)).batches)

        await each(conversations, one, self._at_once)
        return Built(counts["turns"], counts["notes"], sum(tally.rejected.values()))


class ModelActor:
    """The budgeted actor of `horma-rl eval` with `kind: answers`."""

    def __init__(self, llm: LanguageModel, config: ActorConfig) -> None:
        """Raises UserError when the tokenizer cannot be read."""
        self._counter = token_counter(config.tokenizer)
        # The budget bounds its own choice of turns; here the context is cut before it comes.
        self._actor = Actor(llm, self._counter, 0, config.style, config.max_tokens)

    async def answer(self, task: Task, context: str, limit: int | None) -> Answer:
        """Answer from the beginning of `context`, `limit` tokens of it at most."""
        seen = context if limit is None else self._counter.head(context, limit)
        tokens = self._counter.count(seen)
        answer = await self._actor.answer(task.question, task.asked_at, Context(seen, tokens, ()))
        return Answer(answer.text, tokens)


class MetricScorer:
    """Token F1, or a judge's yes or no."""

    def __init__(self, metric: Metric, judge: LanguageModel) -> None:
        self._metric = metric
        self._judge = None if metric == "f1_locomo" or metric == "f1_mem0" else make_judge(metric, judge)  # noqa: PLR1714

    async def score(self, task: Task, answer: str) -> float:
        """The score. A question without an answer is right when the actor abstains, under either F1."""
        if self._judge is None:
            found = scores(task, answer)
            if not found:
                raise UnscoredError(f"{self._metric} does not apply to {task.category}")
            return found.get(self._metric, found.get("adv_abstain", 0.0))
        try:
            return float((await self._judge.judge(task, answer)).right)
        except JudgeError as error:
            if isinstance(error.__cause__, LlmError):
                raise error.__cause__ from None
            raise UnscoredError(str(error)) from None


class Ledgers:
    """What several clients have spent, by role."""

    def __init__(self, clients: Sequence[Llm]) -> None:
        self._clients = clients

    def spent(self) -> Mapping[str, Mapping[str, float]]:
        """The sums of all accounts; `tokens` is prompt, completion and lost ones together."""
        total: dict[str, dict[str, float]] = {}
        for client in self._clients:
            for role, account in client.ledger.accounts.items():
                amounts = asdict(account)
                amounts["tokens"] = account.prompt_tokens + account.completion_tokens + account.lost_tokens
                into = total.setdefault(role, {})
                for name, amount in amounts.items():
                    into[name] = into.get(name, 0) + amount
        return total


def parts_of(config: RefineConfig, models: Mapping[Role, LanguageModel], ledgers: Ledgers | None = None) -> Parts:
    """The parts around `models`, one for each role. Raises UserError when a tokenizer or retriever cannot be had."""
    manager = config.llm_of("manager")
    return Parts(
        manager=ModelManager(models["manager"], manager.model, config.manager, manager.concurrency),
        reader=SystemReader(config),
        actor=ModelActor(models["actor"], config.actor),
        scorer=MetricScorer(config.metric, models["judge"]),
        analyst=models["analyst"],
        purse=ledgers or Ledgers(()),
    )


@contextlib.asynccontextmanager
async def open_parts(config: RefineConfig) -> AsyncIterator[Parts]:
    """The parts with clients for the config's endpoints. Roles with the same settings share a client, and all share the
    budget of `llm`."""
    budget = Budget(config.llm.budget_tokens, config.llm.budget_cost)
    clients: dict[str, Llm] = {}
    models: dict[Role, LanguageModel] = {}
    async with contextlib.AsyncExitStack() as stack:
        for role in ROLES:
            settings = config.llm_of(role)
            key = settings.model_dump_json()
            if key not in clients:
                clients[key] = await stack.enter_async_context(Llm(settings, budget=budget))
            models[role] = clients[key]
        yield parts_of(config, models, Ledgers(list(clients.values())))
