"""What plays the episodes of an evaluation, made from its config: actors, judges, summarisers and the retriever."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from horma_rl.agent.actor import LlmActor
from horma_rl.agent.config import SystemConfig
from horma_rl.agent.episode import Parts
from horma_rl.agent.judge import LlmJudge, LlmSummariser, listed
from horma_rl.agent.recall import make_recaller
from horma_rl.agent.types import Actor, Judge, Pair, Recaller, Summarised, Summariser
from horma_rl.evaluation.agents.config import AgentsConfig
from horma_rl.evaluation.agents.grading import LlmGrader
from horma_rl.evaluation.agents.suites import Grader
from horma_rl.llm.budget import Budget
from horma_rl.llm.client import Llm
from horma_rl.llm.config import LlmConfig
from horma_rl.tokens import TokenCounter, token_counter
from interactive_env.types import EnvTask


@contextlib.asynccontextmanager
async def open_parts(config: AgentsConfig) -> AsyncIterator[PartsMaker]:
    """What makes the parts of an episode, and the suite's grader; its clients are closed at the end.

    Raises:
        UserError: a package, a tokenizer or a retriever's model is missing or wrong.
    """
    counter = token_counter(config.tokenizer)
    needed = config.retriever is not None and any(system.horma for system in config.systems.values())
    recaller = make_recaller(config.retriever, config.device) if config.retriever is not None and needed else None
    async with contextlib.AsyncExitStack() as stack:
        yield PartsMaker(config, counter, recaller, _Clients(stack))


class _Clients:
    """Clients by endpoint and seed. Those of one endpoint spend from one budget."""

    def __init__(self, stack: contextlib.AsyncExitStack) -> None:
        self._stack = stack
        self._known: dict[str, Llm] = {}
        self._budgets: dict[str, Budget] = {}

    def get(self, llm: LlmConfig, seed: int) -> Llm:
        """The client whose requests carry `seed` on top of the config's, so that episodes of other seeds differ."""
        seeded = llm if llm.seed is None else llm.model_copy(update={"seed": llm.seed + seed})
        key, account = seeded.model_dump_json(), llm.model_dump_json()
        if key not in self._known:
            budget = self._budgets.setdefault(account, Budget(llm.budget_tokens, llm.budget_cost))
            client = Llm(seeded, budget=budget)
            self._stack.push_async_callback(client.aclose)
            self._known[key] = client
        return self._known[key]


@dataclass(frozen=True)
class PartsMaker:
    """Makes the parts of an episode: a `MakeParts`."""

    config: AgentsConfig
    counter: TokenCounter
    recaller: Recaller | None
    clients: _Clients

    def __call__(self, system: SystemConfig, task: EnvTask, seed: int) -> Parts:
        judge, summariser = self._judge(seed)
        return Parts(self._actor(task, seed), self.counter, judge, summariser, self.recaller)

    def grader(self) -> Grader | None:
        """The language model that grades answers, for the running event loop; None where a suite grades by itself."""
        if self.config.grader.kind == "text":
            return None
        client = self.clients.get(self.config.grader_llm, seed=0)
        return LlmGrader(client, asyncio.get_running_loop(), self.config.grader.attempts)

    def _actor(self, task: EnvTask, seed: int) -> Actor:
        actor = self.config.actor
        if actor.kind == "llm":
            return LlmActor(self.clients.get(actor.llm, seed), actor.style, actor.max_tokens)
        if actor.kind == "walkthrough":
            from horma_rl.agent.walkthrough import WalkthroughActor

            return WalkthroughActor(task.data["walkthrough"], actor.mark_every)
        from horma_rl.agent.scripted import ScriptedActor

        return ScriptedActor(planted_errors(task, actor.errors, seed))

    def _judge(self, seed: int) -> tuple[Judge | None, Summariser]:
        kind = self.config.judge.kind
        if kind == "llm":
            client = self.clients.get(self.config.judge_llm, seed)
            return LlmJudge(client, self.counter), LlmSummariser(client, self.counter)
        if kind == "none":
            return None, Lister()
        from horma_rl.agent.scripted import ScriptedJudge, ScriptedSummariser

        return ScriptedJudge(), ScriptedSummariser()


class Lister:
    """Summaries by fallback without a model: the last actions, and the last observation."""

    async def summarise(self, instruction: str, trace: Sequence[Pair]) -> Summarised:
        """See Summariser."""
        return Summarised(listed(trace))


def planted_errors(task: EnvTask, count: int, seed: int) -> list[int]:
    """`count` of a generated task's subtasks (from 1), all when it has no more: the same ones for every system."""
    size = int(task.data["size"])
    return sorted(random.Random(f"{seed}/{task.id}").sample(range(1, size + 1), min(count, size)))
