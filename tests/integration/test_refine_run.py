"""Refinement with the real manager, actor, scorer and analyst around a scripted model, and as a command."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from refine_parts import TITLE, KilledError, ScriptedModel

from horma_rl.cli import main
from horma_rl.memory.refine.config import ROLES, RefineConfig
from horma_rl.memory.refine.data import load_data
from horma_rl.memory.refine.models import parts_of
from horma_rl.memory.refine.run import refine
from horma_rl.memory.skills import load_library
from memory_shell.workspace import Workspace

CONFIG = Path(__file__).parents[2] / "configs/refine/chains_embedded.yaml"


def config(out: Path, **changes: Any) -> RefineConfig:
    return RefineConfig.model_validate(
        {
            "benchmark": "chains",
            "options": {"train": 2, "eval": 0, "generator": {"questions": 5}},
            "rounds": 2,
            "retriever": "notes-bm25-16",
            **changes,
            "out": out,
        }
    )


def run(settings: RefineConfig, model: ScriptedModel) -> dict[str, Any]:
    parts = dataclasses.replace(parts_of(settings, dict.fromkeys(ROLES, model)), purse=model)
    return asyncio.run(refine(settings, load_data(settings), parts))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], ScriptedModel]:
    out, model = tmp_path_factory.mktemp("refine") / "out", ScriptedModel(lies=1)
    return out, run(config(out), model), model


def test_the_exogenous_fault_is_learned_and_the_next_score_rises(
    finished: tuple[Path, dict[str, Any], ScriptedModel],
) -> None:
    out, result, _ = finished
    before, after, last = result["scores"]
    assert before < 0.1
    assert after == last == result["control"] == 1
    summary = json.loads((out / "round_01/round.json").read_text())
    assert summary["pairs"]["exogenous"] == 10
    assert summary["scores"]["change"]["ci95"][0] > 0
    assert summary["writeups"]["sent_back"] == 1
    skills = load_library(Path(result["library"]))
    assert [skill.title for skill in skills.active] == [TITLE]
    tasks = {task.id: task for task in load_data(config(out)).tasks}
    cited = [(cite, tasks[cite.task].workspace) for skill in skills.skills for cite in skill.evidence]
    assert {cite.kind for cite, _ in cited} == {"turn", "note"}
    for cite, name in cited:
        workspace = Workspace.load(out / "round_00/memory" / name)
        found = workspace.turns[cite.ref].text if cite.kind == "turn" else workspace.files[cite.ref].data.decode()
        assert cite.quote in found


def test_spending_is_counted_by_role(finished: tuple[Path, dict[str, Any], ScriptedModel]) -> None:
    _, result, model = finished
    assert result["tokens_by_role"] == {role: int(account["tokens"]) for role, account in model.spent().items()}
    assert set(result["tokens_by_role"]) == {"manager", "actor", "analyst"}
    assert result["tokens"] == sum(result["tokens_by_role"].values())
    assert result["turns"] == 60


def test_without_rendering_the_score_stays(tmp_path: Path) -> None:
    result = run(config(tmp_path / "out", rounds=1, skills={"render": False}), ScriptedModel())
    assert len(set(result["scores"])) == 1
    assert result["scores"][0] < result["control"]
    assert result["skills"] == 1


@pytest.mark.parametrize("requests", [3, 15, 25, 40])
def test_killed_anywhere_it_goes_on_and_asks_nothing_twice(
    finished: tuple[Path, dict[str, Any], ScriptedModel], tmp_path: Path, requests: int
) -> None:
    settings, first, second = config(tmp_path / "out"), ScriptedModel(dies_after=requests), ScriptedModel()
    with pytest.raises(KilledError):
        run(settings, first)
    result = run(settings, second)
    assert result["scores"] == finished[1]["scores"]
    # A request that was answered while another one died may be asked again; here at most one batch of each worker is.
    whole = len(finished[2].calls) - 1  # the answer that was sent back
    assert whole <= len(first.calls) + len(second.calls) <= whole + 8


def test_the_shipped_config_reads_and_a_missing_server_ends_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["memory", "refine", str(CONFIG), "--dry-run"]) == 0
    assert "retriever: notes-bm25-8" in capsys.readouterr().out
    command = ["memory", "refine", str(CONFIG), f"out={tmp_path}/out", "llm.base_url=http://127.0.0.1:9/v1"]
    assert main([*command, "llm.retries=0", f"llm.cache={tmp_path}/cache.sqlite"]) == 1
    assert "the same command goes on from here" in capsys.readouterr().err


def test_faults_of_the_config_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", "refine", str(CONFIG), "roles={retriever: {model: x}}"]) == 2
    assert "no retriever is asked here" in capsys.readouterr().err
    assert main(["memory", "refine", str(CONFIG), "roles={actor: {modle: x}}"]) == 2
    assert "roles.actor: unknown key 'modle' (did you mean 'model'?)" in capsys.readouterr().err
    assert main(["memory", "refine", str(CONFIG), "metric=f1"]) == 2
    assert "'metric' is 'f1'" in capsys.readouterr().err
