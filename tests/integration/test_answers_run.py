"""`horma-rl eval` with `kind: answers`, from config to report: real retrieval, a model that is a function."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from horma_rl.answers.config import AnswersConfig
from horma_rl.answers.report import summarise, write
from horma_rl.answers.run import Answered, answer_all, unfinished
from horma_rl.cli import main
from horma_rl.config import load_config
from horma_rl.errors import UserError
from horma_rl.llm.types import BudgetSpent, LlmError, Message, RefusedError, Role, UnreachableError
from tests.answer_parts import ScriptedModel
from tests.faulty_server import FaultyServer

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "eval"
SYSTEMS = ("oracle", "random", "truncation", "full-history")


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Workspaces that the tests of this file build once and share."""
    return tmp_path_factory.mktemp("memory")


@pytest.fixture
def config_file(tmp_path: Path, memory: Path) -> Path:
    path = tmp_path / "answers.yaml"
    lines = [
        "kind: answers", "name: small", "benchmark: generated", "options: {train: 0, eval: 2}", f"memory: {memory}",
        "baselines: [oracle, random]", "histories: [truncation, full-history]", f"out: {tmp_path / 'out'}",
        "limit: 10", "actor: {budget: 400, llm: {cache: null}}", "judge: {names: [generous, strict]}",
    ]  # fmt: skip
    path.write_text("\n".join(lines) + "\n")
    return path


def config_of(path: Path, *overrides: str) -> AnswersConfig:
    return load_config(path, overrides, AnswersConfig)


def copying(messages: Sequence[Message], role: Role) -> str | LlmError:
    """An actor that repeats its excerpts, and a judge that says yes when the gold answer is in the answer."""
    text = messages[-1]["content"]
    if role == "actor":
        return text.partition("\n\n")[0].removeprefix("Excerpts:\n")
    gold = re.search(r"(?:Gold|Wrong) answer: (.*)\n\nModel's answer: ((?s:.*))\n\nYes or no", text)
    assert gold
    return "Yes" if gold[1].lower() in gold[2].lower() else "No."


def answered(path: Path, model: ScriptedModel, *overrides: str) -> Answered:
    return asyncio.run(answer_all(config_of(path, *overrides), model))


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_answers_judges_and_reports(config_file: Path) -> None:
    model = ScriptedModel(copying)
    result = answered(config_file, model)
    summary = write(result)
    out = config_file.parent / "out"
    assert set(summary["systems"]) == set(SYSTEMS)
    assert (summary["unfinished"], summary["failures"], summary["stopped"]) == (0, 0, None)
    assert len(lines_of(out / "answers.jsonl")) == 10 * len(SYSTEMS)
    assert len(lines_of(out / "verdicts.jsonl")) == 20 * len(SYSTEMS)
    oracle, random = summary["systems"]["oracle"], summary["systems"]["random"]
    assert oracle["all"]["judge_strict"]["mean"] > random["all"]["judge_strict"]["mean"]
    assert oracle["tokens"]["input"] <= 400 < summary["systems"]["full-history"]["tokens"]["input"]
    assert summary["systems"]["truncation"]["tokens"]["cut_or_left_out"] == 10
    assert (out / "retrieval" / "summary.json").is_file()
    report = (out / "report.md").read_text()
    assert all(f"## {name}" in report for name in SYSTEMS)
    assert "counted by: estimate, 4 characters a token" in report


def test_the_actor_is_told_question_day_and_context_whatever_the_task(config_file: Path) -> None:
    model = ScriptedModel(copying)
    result = answered(config_file, model, "histories=[]", "baselines=[oracle]")
    prompts = [messages for role, messages in model.requests if role == "actor"]
    assert len({task.category for task in result.tasks}) > 2
    assert len({messages[0]["content"] for messages in prompts}) == 1
    asked = {messages[1]["content"].partition("\n\n")[2] for messages in prompts}
    days = {task.id: f"Today is {task.asked_at.replace('T', ' ')}.\n" if task.asked_at else "" for task in result.tasks}
    assert asked <= {f"{days[task.id]}Question: {task.question}\nAnswer:" for task in result.tasks}


def test_a_run_goes_on_where_it_was_killed(config_file: Path) -> None:
    first = answered(config_file, ScriptedModel(copying))
    whole = summarise(first)
    out = config_file.parent / "out"
    kept = (out / "answers.jsonl").read_text().splitlines(keepends=True)
    (out / "answers.jsonl").write_text("".join(kept[:15]) + kept[15][:40])
    verdicts = (out / "verdicts.jsonl").read_text().splitlines(keepends=True)
    (out / "verdicts.jsonl").write_text("".join(verdicts[:25]) + verdicts[25][:10])
    model = ScriptedModel(copying)
    again = summarise(answered(config_file, model))
    assert {**again, "wall_s": 0} == {**whole, "wall_s": 0}
    roles = [role for role, _ in model.requests]
    asked = sum(row["asked"] for row in lines_of(out / "answers.jsonl")[15:])
    assert (roles.count("actor"), roles.count("judge")) == (asked, 80 - 25)


def test_failures_are_unfinished_and_never_zero(config_file: Path) -> None:
    broken = True

    def say(messages: Sequence[Message], role: Role) -> str | LlmError:
        if broken and role == "judge" and "Be strict" in messages[0]["content"]:
            return "hm"
        if broken and role == "actor" and len(model.requests) % 3 == 0:
            return UnreachableError("no answer in all tries")
        return copying(messages, role)

    model = ScriptedModel(say)
    first = answered(config_file, model)
    assert unfinished(first) > 0
    stages = {failure.stage for failure in first.failures}
    assert stages == {"actor", "strict"}
    for system in summarise(first)["systems"].values():
        assert "judge_strict" not in system["all"] or system["all"]["judge_strict"]["n"] < 10
        assert system["all"]["judge_generous"]["n"] == system["answers"]
    broken = False
    assert unfinished(answered(config_file, ScriptedModel(copying))) == 0


@pytest.mark.parametrize("error", [BudgetSpent("the budget is spent"), RefusedError("no such key", 401)])
def test_a_spent_budget_or_a_refusal_stops_cleanly(config_file: Path, error: LlmError) -> None:
    model = ScriptedModel(lambda messages, role: copying(messages, role) if len(model.requests) <= 12 else error)
    first = answered(config_file, model, "actor.llm.concurrency=1")
    assert first.stopped == str(error)
    assert len(model.requests) < 20
    assert unfinished(first) > 0
    assert "Unfinished" in (write(first), (config_file.parent / "out" / "report.md").read_text())[1]
    assert unfinished(answered(config_file, ScriptedModel(copying), "actor.llm.concurrency=1")) == 0


def test_another_actor_does_not_mix_with_finished_answers(config_file: Path) -> None:
    answered(config_file, ScriptedModel(copying))
    with pytest.raises(UserError, match="another 'actor'"):
        answered(config_file, ScriptedModel(copying), "actor.llm.model=other")


def test_a_budget_without_room_is_refused(config_file: Path) -> None:
    with pytest.raises(UserError, match="no room for a context"):
        answered(config_file, ScriptedModel(copying), "actor.budget=20")


def test_judges_have_to_fit_the_benchmark(config_file: Path) -> None:
    with pytest.raises(UserError, match="generous or strict"):
        config_of(config_file, "judge.names=[longmemeval]")
    with pytest.raises(UserError, match="one episode a task"):
        config_of(config_file, "samples=2")


@pytest.mark.parametrize(("name", "budget"), [("locomo_answers", 10_000), ("longmemeval_answers", 50_000)])
def test_shipped_configs_load(name: str, budget: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(CONFIGS / f"{name}.yaml"), "--dry-run"]) == 0
    assert f"budget: {budget}" in capsys.readouterr().out


def test_the_command_over_a_server_with_faults_ends_in_one_json_line(
    config_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(body: dict[str, Any]) -> str:
        role: Role = "actor" if body["messages"][0]["role"] == "system" else "judge"
        return str(copying(body["messages"], role))

    with FaultyServer(answer, share=0.2, faults=("429", "500", "cut", "malformed_body")) as server:
        llm = f"actor.llm={{base_url: '{server.url}', cache: null, backoff_s: 0.01, retries: 20}}"
        assert main(["eval", str(config_file), llm, "limit=4"]) == 0
    last = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert (last["kind"], last["tasks"], last["unfinished"]) == ("answers", 4, 0)
    assert set(last["scores"]) == set(SYSTEMS)
    assert last["tokens"]["oracle"]["by_server"] > 0
    assert sum(server.injected[fault] for fault in server.faults) > 0
    roles = last["spent"]["actor"]["roles"]
    assert (roles["judge"]["requests"], roles["judge"]["failed"]) == (2 * 4 * len(SYSTEMS), 0)
