"""Refinement with rules for models: a fault is found, cited, learned; rounds resume; the guard refuses."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from refine_parts import TITLE, ExactScorer, KilledError, PlainActor, PlainManager, ScriptedModel

from horma_rl.benchmarks.types import Conversation
from horma_rl.errors import UserError
from horma_rl.llm.types import RefusedError
from horma_rl.memory.refine.config import RefineConfig
from horma_rl.memory.refine.data import load_data
from horma_rl.memory.refine.parts import Answer, Built, Parts
from horma_rl.memory.refine.readers import SystemReader
from horma_rl.memory.refine.run import refine
from horma_rl.memory.skills import Skill, load_library
from memory_shell.types import Task
from memory_shell.workspace import Workspace

SETTINGS: dict[str, Any] = {
    "benchmark": "chains",
    "options": {"train": 3, "eval": 0, "generator": {"questions": 4}},
    "retriever": "notes-bm25-16",
    "rounds": 2,
    "writeups": 3,
}


def settings(out: Path, **changes: Any) -> RefineConfig:
    return RefineConfig.model_validate({**SETTINGS, **changes, "out": out})


def parts(config: RefineConfig, model: ScriptedModel, **changes: Any) -> Parts:
    whole = Parts(PlainManager(), SystemReader(config), PlainActor(), ExactScorer(), model, model)
    return dataclasses.replace(whole, **changes)


def run(config: RefineConfig, model: ScriptedModel | None = None, **changes: Any) -> dict[str, Any]:
    return asyncio.run(refine(config, load_data(config), parts(config, model or ScriptedModel(), **changes)))


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below `folder`, but for what tells time and counts requests."""
    skipped = {"summary.json", "round.json", "spent.json", "report.txt"}
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in skipped
    }


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("refine") / "out"
    return out, run(settings(out), ScriptedModel(lies=1))


def test_a_lost_identity_is_found_and_the_next_memory_keeps_it(finished: tuple[Path, dict[str, Any]]) -> None:
    out, result = finished
    before, after, last = result["scores"]
    assert before == 0
    assert after == last == result["control"] == 1
    assert result["skills"] == 1
    library = load_library(Path(result["library"]))
    assert [skill.title for skill in library.active] == [TITLE]
    assert library.active[0].kind == "exogenous"
    assert "Preserve Object Identity" not in (out / "round_00/skills.txt").read_text()
    assert "Preserve Object Identity" in (out / "round_01/skills.txt").read_text()


def test_skills_cite_turns_and_notes_that_exist(finished: tuple[Path, dict[str, Any]]) -> None:
    out, result = finished
    skills: Sequence[Skill] = load_library(Path(result["library"])).skills
    tasks = {task.id: task for task in load_data(settings(out)).tasks}
    assert len(skills) == 3, "one for each write-up, of which two are repetitions"
    for skill in skills:
        assert {cite.kind for cite in skill.evidence} == {"turn", "note"}
        for cite in skill.evidence:
            workspace = Workspace.load(out / "round_00/memory" / tasks[cite.task].workspace)
            if cite.kind == "turn":
                assert cite.quote in workspace.turns[cite.ref].text
            else:
                assert cite.quote in workspace.files[cite.ref].data.decode()


def test_a_round_leaves_pairs_writeups_diff_scores_and_spending(finished: tuple[Path, dict[str, Any]]) -> None:
    out, result = finished
    folder = out / "round_01"
    summary = json.loads((folder / "round.json").read_text())
    assert summary["pairs"] == {"exogenous": 3, "endogenous": 0, "agreed": 0, "unscored": 0, "left_out": 9}
    assert [pair["kind"] for pair in read_lines(folder / "pairs.jsonl")] == ["exogenous"] * 3
    written = read_lines(folder / "writeups.jsonl")
    assert [one["status"] for one in written] == ["written"] * 3
    assert sum(len(one["sent_back"]) for one in written) == summary["writeups"]["sent_back"] == 1
    assert any("D99:1" in reason for one in written for reason in one["sent_back"])
    diff = json.loads((folder / "library_diff.json").read_text())
    assert (diff["version"], len(diff["added"]), len(diff["merged"])) == ([0, 1], 3, 2)
    assert summary["scores"]["change"]["ci95"][0] > 0
    assert summary["spent"]["analyst"]["requests"] == 4
    last = json.loads((out / "round_02/round.json").read_text())
    assert last["pairs"]["agreed"] == 12
    assert (
        result["tokens"]
        == result["tokens_by_role"]["analyst"]
        == sum(one["spent"]["analyst"]["tokens"] for one in (summary, last) if one["spent"])
    )
    assert "round 0" in (out / "report.txt").read_text()


def test_skills_that_are_not_rendered_change_nothing(tmp_path: Path) -> None:
    result = run(settings(tmp_path / "out", skills={"render": False}))
    assert result["scores"] == [0, 0, 0]
    assert result["skills"] == 1
    assert (tmp_path / "out/round_01/skills.txt").read_text() == ""


def test_raw_history_is_unlimited_and_memory_is_not(tmp_path: Path) -> None:
    actor = PlainActor()
    run(settings(tmp_path / "out", rounds=1, context_tokens=77), actor=actor)
    assert actor.limits == [None] * 12 + [77] * 24


def test_a_finished_run_is_not_run_again(finished: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    out, result = finished
    model, manager, before = ScriptedModel(), PlainManager(), tree(out)
    again = run(settings(out), model, manager=manager)
    assert model.calls == []
    assert manager.built == []
    assert tree(out) == before
    assert {**again, "wall_s": 0} == {**result, "wall_s": 0}


@pytest.mark.parametrize("requests", range(4))
def test_killed_at_any_request_it_goes_on_to_the_same_end(
    finished: tuple[Path, dict[str, Any]], tmp_path: Path, requests: int
) -> None:
    out = tmp_path / "out"
    with pytest.raises(KilledError):
        run(settings(out), ScriptedModel(lies=1, dies_after=requests))
    survivor = ScriptedModel(lies=1 if requests == 0 else 0)
    result = run(settings(out), survivor)
    assert result["scores"] == finished[1]["scores"]
    whole, resumed = tree(finished[0]), tree(out)
    assert {name: data for name, data in whole.items() if name not in ("config.yaml", "round_01/writeups.jsonl")} == {
        name: data for name, data in resumed.items() if name not in ("config.yaml", "round_01/writeups.jsonl")
    }


class DyingActor(PlainActor):
    """Is killed at the `n`-th answer."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self._left = n

    async def answer(self, task: Task, context: str, limit: int | None) -> Answer:
        self._left -= 1
        if self._left < 0:
            raise KilledError
        return await super().answer(task, context, limit)


@pytest.mark.parametrize("answers", [0, 5, 12, 30])
def test_killed_at_any_answer_no_task_is_run_twice(
    finished: tuple[Path, dict[str, Any]], tmp_path: Path, answers: int
) -> None:
    out, second = tmp_path / "out", PlainActor()
    with pytest.raises(KilledError):
        run(settings(out), actor=DyingActor(answers))
    result = run(settings(out), actor=second)
    assert result["scores"] == finished[1]["scores"]
    assert len(second.limits) == 48 - answers


class FlippingManager(PlainManager):
    """Files well without skills and badly with them."""

    async def build(self, conversations: Sequence[Conversation], out: Path, skills: str) -> Built:
        return await super().build(conversations, out, "" if skills else TITLE)


class BlindActor(PlainActor):
    """Finds nothing in the raw history of one conversation's memory: memory wins there."""

    async def answer(self, task: Task, context: str, limit: int | None) -> Answer:
        return Answer("lost in the middle", 0) if limit is None else await super().answer(task, context, limit)


def test_a_guard_refuses_a_round_that_loses_and_keeps_its_skills_on_record(tmp_path: Path) -> None:
    out = tmp_path / "out"
    config = settings(out, rounds=1, guard={"conversations": 1})
    actor, model = BlindActor(), EagerAnalyst()
    result = run(config, model, manager=FlippingManager(), actor=actor)
    assert result["kept"] == [True, False]
    assert result["scores"] == [1, 1], "the kept memory's score stands"
    assert result["skills"] == 0
    library = load_library(out / "round_01/library.json")
    assert library.skills
    assert set(library.withheld) == {skill.id for skill in library.skills}
    assert {skill.kind for skill in library.skills} == {"endogenous"}
    verdict = json.loads((out / "round_01/round.json").read_text())["validation"]
    assert (verdict["before"]["mean"], verdict["after"]["mean"]) == (1, 0)
    assert not (out / "round_01/memory").exists(), "a refused round costs no second memory"


class EagerAnalyst(ScriptedModel):
    """Proposes its skill whatever the exhibits show."""

    def _analyse(self, prompt: str) -> str:
        answer = json.loads(super()._analyse(prompt))
        answer["skill"] = {"title": "Endless lists", "principle": "List more things.", "schema_change": "Add lists."}
        return json.dumps(answer)


def test_the_guard_learns_nothing_from_its_own_conversations(tmp_path: Path) -> None:
    config = settings(tmp_path, guard={"conversations": 1, "tasks": 2})
    data = load_data(config)
    assert not {task.workspace for task in data.tasks} & {task.workspace for task in data.guard_tasks}
    assert len(data.guard_tasks) == 2
    with pytest.raises(UserError, match="none is left"):
        load_data(settings(tmp_path, guard={"conversations": 3}))


class Stubborn(ScriptedModel):
    """Cites what does not exist, always."""

    def _analyse(self, prompt: str) -> str:
        self._lies = 5
        return super()._analyse(prompt)


def test_a_write_up_that_never_cites_what_exists_is_dropped_and_counted(tmp_path: Path) -> None:
    model = Stubborn()
    result = run(settings(tmp_path / "out", rounds=1), model)
    summary = json.loads((tmp_path / "out/round_01/round.json").read_text())
    assert summary["writeups"] == {"written": 0, "dropped": 3, "sent_back": 9, "without_skill": 0}
    assert model.count("analyst") == 9, "three tries each"
    assert result["skills"] == 0


class TooLong(PlainActor):
    """Refuses raw history, as a server does with a prompt over its context."""

    async def answer(self, task: Task, context: str, limit: int | None) -> Answer:
        if limit is None:
            raise RefusedError("prompt is too long", 400)
        return await super().answer(task, context, limit)


def test_a_side_without_a_score_makes_no_pair_and_is_counted(tmp_path: Path) -> None:
    result = run(settings(tmp_path / "out", rounds=1), actor=TooLong())
    summary = json.loads((tmp_path / "out/round_01/round.json").read_text())
    assert summary["pairs"]["unscored"] == 12
    assert result["control"] is None
    assert result["scores"] == [0, 0]
    assert read_lines(tmp_path / "out/control/answers.jsonl")[0]["error"] == "prompt is too long"


def test_another_config_does_not_write_into_the_same_folder(finished: tuple[Path, dict[str, Any]]) -> None:
    out, _ = finished
    with pytest.raises(UserError, match="another 'margin'"):
        run(settings(out, margin=0.25))


def test_more_rounds_go_on_from_the_last(tmp_path: Path) -> None:
    out, manager = tmp_path / "out", PlainManager()
    run(settings(out, rounds=1), manager=manager)
    result = run(settings(out, rounds=3), manager=manager)
    assert result["scores"] == [0, 1, 1, 1]
    assert len(manager.built) == 3 * 4
