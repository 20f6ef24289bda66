"""`horma-rl eval` from config to report: generated memories, real shells, tiny models, kills and wrong input."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from horma_rl.cli import main
from horma_rl.config import load_config
from horma_rl.evaluation import runner
from horma_rl.evaluation.config import EvalConfig
from horma_rl.evaluation.runner import evaluate, summarise_evaluation
from horma_rl.evaluation.systems import run_baseline
from horma_rl.retrieval.types import Trajectory
from memory_shell.types import Stop
from tests.rollout_parts import tiny_qwen3, tokenizer

SYSTEMS = ("oracle", "script-narrow", "bm25-1", "random")
CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "eval"


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Workspaces that the tests of this file build once and share."""
    return tmp_path_factory.mktemp("memory")


@pytest.fixture
def config(tmp_path: Path, memory: Path) -> Path:
    """A small evaluation of baselines on generated memories."""
    path = tmp_path / "eval.yaml"
    lines = [
        "name: small", "benchmark: generated", "options: {train: 0, eval: 2}", f"memory: {memory}",
        f"baselines: [{', '.join(SYSTEMS)}]", f"out: {tmp_path / 'out'}", "limit: 12",
    ]  # fmt: skip
    path.write_text("\n".join(lines) + "\n")
    return path


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def lasting(summary: dict[str, Any]) -> dict[str, Any]:
    """A summary without what differs between runs of the same thing."""
    return {key: value for key, value in summary.items() if key not in ("wall_s", "peak_rss_mb")}


def run(config: Path, *overrides: str) -> dict[str, Any]:
    return lasting(summarise_evaluation(evaluate(load_config(config, overrides, EvalConfig))))


def test_command_ends_in_one_json_line_and_leaves_its_files(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(config)]) == 0
    last = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert last["tasks"] == 12
    assert set(last["jaccard"]) == set(SYSTEMS)
    assert last["jaccard"]["oracle"] == 1.0
    assert last["jaccard"]["random"] < last["jaccard"]["script-narrow"] < 1.0
    out = config.parent / "out"
    assert len(lines_of(out / "rows.jsonl")) == 12 * len(SYSTEMS)
    assert {row["system"] for row in lines_of(out / "trajectories.jsonl")} == {"script-narrow"}
    assert json.loads((out / "summary.json").read_text())["systems"]["oracle"]["all"]["exact"] == 1.0
    assert "<article" in (out / "report.html").read_text()
    assert load_config(out / "config.yaml", [], EvalConfig).limit == 12


def test_an_interrupted_run_goes_on_where_it_was(config: Path, tmp_path: Path) -> None:
    whole = run(config, f"out={tmp_path / 'whole'}")
    finished: list[str] = []

    def stop(system: str, done: int, total: int) -> None:
        finished.append(system)
        if len(finished) == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(load_config(config, [], EvalConfig), stop)
    rows = tmp_path / "out" / "rows.jsonl"
    before = rows.read_text()
    rows.write_text(before + '{"system": "script-narrow", "ta')
    assert run(config) == whole
    assert rows.read_text().startswith(before)
    assert len(lines_of(rows)) == 12 * len(SYSTEMS)


def test_failed_episodes_are_played_again(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(config, "baselines=[bm25-1]", f"out={tmp_path / 'whole'}")
    with monkeypatch.context() as broken:
        broken.setattr(runner, "run_baseline", _failing)
        failed = run(config, "baselines=[bm25-1]")
        assert failed["systems"]["bm25-1"]["all"]["unscored"] == 12
    assert run(config, "baselines=[bm25-1]") == whole
    assert len(lines_of(tmp_path / "out" / "rows.jsonl")) == 24


def _failing(*given: Any) -> Iterator[Trajectory]:
    for trajectory in run_baseline(*given):
        yield replace(trajectory, reward=None, stop=Stop.ERROR, error="out of order")


def test_more_tasks_and_systems_may_be_added_later(config: Path, tmp_path: Path) -> None:
    run(config, "limit=4", "baselines=[random]")
    rows = tmp_path / "out" / "rows.jsonl"
    first = lines_of(rows)
    more = run(config, "limit=null", "baselines=[random, oracle]")
    assert more == run(config, "limit=null", "baselines=[random, oracle]", f"out={tmp_path / 'fresh'}")
    assert lines_of(rows)[: len(first)] == first
    keys = [(row["system"], row["task"]) for row in lines_of(rows)]
    assert len(keys) == len(set(keys)) == 2 * more["tasks"]
    assert run(config, "limit=4", "baselines=[random]")["systems"]["random"]["all"]["episodes"] == 4


def test_results_of_other_settings_are_not_mixed(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(config, "limit=2", "baselines=[random]")
    assert main(["eval", str(config), "seed=9"]) == 2
    assert "results with another 'seed'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("baselines=[bm25-1, orcale]", "did you mean 'oracle'"),
        ("categories=[nosuch]", "no task of split 'eval' has category 'nosuch'"),
        ("split=train", "has no task in split 'train'"),
        ("benchmark=locomoo", "did you mean 'locomo'"),
        ("policies.after.model=/nowhere", "is no checkpoint folder"),
        ("shell.caps.lins=3", "lins"),
        ("basline=[]", "did you mean 'baselines'"),
        ("notes=observations", "has outline notes"),
    ],
)
def test_wrong_input_is_one_clear_line(
    override: str, message: str, config: Path, memory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if override.startswith("notes"):
        run(config, "limit=1", "baselines=[oracle]", f"out={config.parent / 'other'}")
    assert main(["eval", str(config), override]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error


def test_two_checkpoints_are_compared_as_before_and_after(config: Path, tmp_path: Path) -> None:
    overrides = ["baselines=[oracle]", "limit=3", "shell.caps.turns=2", "rollout.max_response_tokens=24", "samples=2"]
    for name, seed in (("before", 0), ("after", 1)):
        tiny_qwen3(seed=seed).save_pretrained(tmp_path / name)
        tokenizer("simple").save_pretrained(tmp_path / name)
        overrides += [f"policies.{name}.model={tmp_path / name}", f"policies.{name}.prompt=compact"]
    summary = run(config, *overrides, "sampling.temperature=1.0")
    # Random weights never select, which is right where nothing is to be found.
    rows = [row for row in lines_of(tmp_path / "out" / "rows.jsonl") if row["system"] == "oracle"]
    absent = sum(not row["evidence"] for row in rows) / 3
    assert (summary["n"], summary["delta"]) == (3, 0.0)
    assert summary["before"] == summary["after"] == pytest.approx(absent, abs=1e-6)
    assert summary["ci95"] == [0.0, 0.0]
    assert summary["systems"]["after"]["all"]["episodes"] == 6
    assert summary["systems"]["after"]["all"]["stops"] == {"turn_cap": 6}
    assert summary["systems"]["after"]["all"]["model_tokens"] > 24
    logged = lines_of(tmp_path / "out" / "trajectories.jsonl")
    assert sorted({row["system"] for row in logged}) == ["after", "before"]
    assert len({(row["system"], row["task"], row["seed"]) for row in logged}) == 12
    assert run(config, *overrides, "sampling.temperature=1.0") == summary


@pytest.mark.parametrize("name", ["locomo_baselines.yaml", "retriever.yaml"])
def test_shipped_configs_are_valid(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(CONFIGS / name), "--dry-run"]) == 0
    assert "benchmark: locomo" in capsys.readouterr().out


def test_published_anchors_on_locomo(locomo_file: Path, tmp_path: Path) -> None:
    """Figures measured independently on the 519 held-out questions; see `horma_rl.baselines.bm25` for the variants."""
    names = ("bm25-1", "bm25-2", "bm25-3", "bm25-5", "bm25-stems-1", "script-rarest", "script-three-speaker", "oracle")
    overrides = [
        f"options.path={locomo_file}", f"memory={tmp_path / 'memory'}", f"out={tmp_path / 'out'}",
        f"baselines=[{', '.join(names)}]",
    ]  # fmt: skip
    config = load_config(CONFIGS / "locomo_baselines.yaml", overrides, EvalConfig)
    summary = summarise_evaluation(evaluate(config))
    found = {name: system["all"]["jaccard"]["mean"] for name, system in summary["systems"].items()}
    assert summary["tasks"] == 519
    for name, expected in (("bm25-1", 0.302), ("bm25-2", 0.214), ("bm25-3", 0.159), ("bm25-5", 0.110)):
        assert found[name] == pytest.approx(expected, abs=0.003)
    assert found["bm25-stems-1"] == pytest.approx(0.353, abs=0.003)
    assert 0.34 < found["script-rarest"] < 0.38
    assert 0.42 < found["script-three-speaker"] < 0.45
    assert found["oracle"] == 1.0
