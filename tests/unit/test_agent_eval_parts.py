"""What plays an evaluation of agents: language models, the suites' own metrics, and where errors are planted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from horma_rl.agent.actor import LlmActor
from horma_rl.config import validate
from horma_rl.evaluation.agents import report
from horma_rl.evaluation.agents.config import AgentsConfig
from horma_rl.evaluation.agents.parts import open_parts, planted_errors
from horma_rl.evaluation.agents.run import Played, play_all
from horma_rl.evaluation.agents.suites import load_suite
from horma_rl.llm.client import Llm
from horma_rl.llm.types import BudgetSpent, RefusedError, Reply, Role, Usage
from horma_rl.viewer.agents import render_agents
from interactive_env.types import EnvTask
from tests.door_parts import BARE


def config(out: Path, **values: Any) -> AgentsConfig:
    return validate({"out": str(out), **values}, AgentsConfig, "test")


class Saying(Llm):
    """A model that says nothing of use, then always the same."""

    said = 0

    async def complete(self, messages: Any, **_: Any) -> Reply:
        """Every third answer is empty."""
        Saying.said += 1
        text = "" if Saying.said % 3 == 0 else "Thought: a guess\nAction: answer[1]"
        return Reply(text, Usage(100, 10), cached=False, finish="stop")


async def play_with_a_model(settings: AgentsConfig) -> Played:
    async with open_parts(settings) as make_parts:
        suite = load_suite(settings.suite.name, settings.suite.options, make_parts.grader())
        return await play_all(settings, suite, make_parts)


def test_a_model_plays_and_the_suites_own_metrics_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("horma_rl.evaluation.agents.parts.Llm", Saying)
    settings = config(
        tmp_path, suite={"name": "memory_arena", "options": {"domains": ["formal_reasoning_math"], "count": 2}},
        split="all", actor={"kind": "llm", "llm": {"cache": None}}, judge={"kind": "llm"}, seeds=[0],
        systems={"full": {"prompt_tokens": 900}}, retriever="bm25-3",
    )  # fmt: skip
    played = asyncio.run(play_with_a_model(settings))
    assert played.failures == []
    rows = played.rows("full")
    assert all(row.tokens >= 110 * row.moves for row in rows)
    assert sum(row.malformed for row in rows) > 0
    assert max(row.most_context for row in rows) <= 900
    metrics = report.summary_json(played)["systems"]["full"]["metrics"]["formal_reasoning_math"]
    assert metrics["rows"] == 2
    assert metrics["ps"] == pytest.approx(sum(row.progress for row in rows) / 2, abs=1e-6)
    assert "formal_reasoning_math" in render_agents(report.report_data(played))


class Grading(Llm):
    """A model that answers 7 to everything, and has one thing to say about answers."""

    verdict: str | Exception

    async def complete(self, messages: Any, *, role: Role, **_: Any) -> Reply:
        """An answer to hand in, or the verdict."""
        if role == "actor":
            return Reply("Action: answer[7]", Usage(100, 10), cached=False, finish="stop")
        if isinstance(Grading.verdict, Exception):
            raise Grading.verdict
        assert "Agent's answer: 7" in messages[0]["content"]
        return Reply(Grading.verdict, Usage(50, 1), cached=False, finish="stop")


@pytest.mark.parametrize(
    ("verdict", "success", "failures", "stopped"),
    [
        ("Yes.", [1.0, 1.0], 0, None),
        ("no", [0.0, 0.0], 0, None),
        ("perhaps", [], 2, None),
        (BudgetSpent("all is spent"), [], 0, "all is spent"),
        (RefusedError("no such key", 401), [], 1, "no such key"),
    ],
)
def test_a_language_model_grades_answers_and_is_never_a_zero(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    verdict: str | Exception,
    success: list[float],
    failures: int,
    stopped: str | None,
) -> None:
    monkeypatch.setattr("horma_rl.evaluation.agents.parts.Llm", Grading)
    monkeypatch.setattr(Grading, "verdict", verdict, raising=False)
    settings = config(
        tmp_path, suite={"name": "memory_arena", "options": {"domains": ["formal_reasoning_phys"], "count": 2}},
        split="all", actor={"kind": "llm", "llm": {"cache": None}}, judge={"kind": "none"}, grader={"kind": "llm"},
        systems={"full": {"maintain": False}}, concurrency=1,
    )  # fmt: skip
    played = asyncio.run(play_with_a_model(settings))
    assert [float(row.success) for row in played.rows("full")] == success
    assert (len(played.failures), played.stopped) == (failures, stopped)


def test_episodes_of_other_seeds_ask_otherwise_from_one_budget(tmp_path: Path) -> None:
    settings = config(tmp_path, actor={"kind": "llm", "llm": {"cache": None, "budget_tokens": 9, "seed": 5}})
    task = EnvTask("t", data={"size": 3})

    async def clients() -> list[Llm]:
        async with open_parts(settings) as make:
            actors = [make(BARE, task, seed).actor for seed in (0, 0, 2)]
        return [actor.model for actor in actors if isinstance(actor, LlmActor) and isinstance(actor.model, Llm)]

    first, same, other = asyncio.run(clients())
    assert first is same
    assert (first.config.seed, other.config.seed) == (5, 7)
    assert first.budget is other.budget


def test_planted_errors_depend_on_task_and_seed_alone() -> None:
    tasks = [EnvTask(f"t{n}", data={"size": 6}) for n in range(20)]
    drawn = [tuple(planted_errors(task, 2, seed)) for task in tasks for seed in range(3)]
    assert drawn == [tuple(planted_errors(task, 2, seed)) for task in tasks for seed in range(3)]
    assert all(len(set(errors)) == 2 and 1 <= min(errors) <= max(errors) <= 6 for errors in drawn)
    assert len(set(drawn)) > 5
    assert planted_errors(tasks[0], 9, 0) == [1, 2, 3, 4, 5, 6]
