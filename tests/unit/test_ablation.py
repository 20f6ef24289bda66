"""Ablations: their configs, their intervals, their table, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from horma_rl.ablation.config import AblationConfig, cell_runs, flattened
from horma_rl.ablation.statistics import crossed_interval, differences
from horma_rl.ablation.table import markdown, read_table
from horma_rl.cli import main
from horma_rl.config import dump, load_config, validate
from horma_rl.errors import UserError
from horma_rl.evaluation.bootstrap import bootstrap_mean
from horma_rl.evaluation.rows import EpisodeRow
from tests.conftest import REPOSITORY

SHIPPED = sorted(REPOSITORY.glob("configs/ablations/*.yaml"))
PAPER = "configs/train/qwen3_5_4b_4xh200.yaml"
TINY = "configs/train/tiny_cpu.yaml"


def ablation(tmp_path: Path, **changes: Any) -> AblationConfig:
    """Two cells with two seeds each, whose runs are below `tmp_path`."""
    data = {
        "name": "trial", "question": "Does it matter?", "base": str(REPOSITORY / TINY), "reference": "plain",
        "common": {"runs": str(tmp_path), "grpo.max_steps": 1}, "seeds": [0, 1],
        "cells": {"plain": {}, "short": {"shell": {"caps": {"turns": 2}}}}, **changes,
    }  # fmt: skip
    return validate(data, AblationConfig, "trial.yaml")


def test_there_is_a_config_for_every_question() -> None:
    names = {path.stem for path in SHIPPED}
    assert names >= {
        "rl", "overlap_unit", "turn_cap", "token_cap", "group_size", "reward", "prompt", "tools", "overview",
    }  # fmt: skip


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
@pytest.mark.parametrize("base", [None, TINY, PAPER], ids=["own", "tiny", "paper"])
def test_every_cell_is_a_run_that_parses_and_differs(
    path: Path, base: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    config = load_config(path, [f"base={base}"] if base else [], AblationConfig)
    assert config.name == path.stem
    runs = cell_runs(config)
    assert len({run.config().name for run in runs}) == len(runs) == len(config.cells) * len(config.seeds)
    first = config.seeds[0]
    settings = {run.cell: dump(run.config().model_copy(update={"name": "same"})) for run in runs if run.seed == first}
    assert len(set(settings.values())) == len(config.cells), "two cells are the same run"


def test_nested_and_dotted_overrides_are_the_command_line_s() -> None:
    changes = {"shell": {"caps": {"turns": 2}, "unit": "note"}, "grpo.beta": 1e-6, "memory": None, "name": "yes"}
    assert list(flattened(changes)) == [
        "shell.caps.turns=2", "shell.unit=note", "grpo.beta=1e-06", "memory=null", 'name="yes"',
    ]  # fmt: skip


def test_cells_come_on_top_of_what_is_common(tmp_path: Path) -> None:
    runs = cell_runs(ablation(tmp_path, common={"runs": str(tmp_path), "shell": {"caps": {"turns": 3, "lines": 9}}}))
    assert [(run.cell, run.seed) for run in runs] == [("plain", 0), ("plain", 1), ("short", 0), ("short", 1)]
    short = runs[3].config()
    assert (short.name, short.seed, short.shell.caps.turns, short.shell.caps.lines) == ("trial-short-s1", 1, 2, 9)
    assert runs[0].config().shell.caps.turns == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reference": "plian"}, "no cell is named 'plian' (did you mean 'plain'?)"),
        ({"seeds": [1, 1]}, "the same seed stands twice"),
        ({"cells": {"plain": {"seed": 3}}}, "'seed' may not be set in 'plain'"),
        ({"cells": {"plain": {"runs": "elsewhere"}}}, "'runs' may not be set in 'plain'"),
        ({"cells": {"plain": {}, "a/b": {}}}, "'a/b' cannot be part of a folder's name"),
        ({"cels": {}}, "unknown key 'cels' (did you mean 'cells'?)"),
    ],
)
def test_an_unsound_ablation_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        ablation(tmp_path, **changes)
    assert message in str(error.value)


def test_a_fault_in_a_cell_names_the_cell(tmp_path: Path) -> None:
    config = ablation(tmp_path, cells={"plain": {}, "odd": {"shell": {"cap": 3}}})
    with pytest.raises(UserError, match=r"cell 'odd': .*unknown key 'shell\.cap'"):
        cell_runs(config)[2].config()


def test_with_one_seed_the_interval_is_the_one_over_tasks() -> None:
    values = [0.0, 0.5, 1.0, 1.0, 0.25, 0.0, 1.0, 0.5]
    crossed = crossed_interval({3: {f"t{i}": value for i, value in enumerate(values)}})
    plain = bootstrap_mean(values)
    assert crossed.mean == pytest.approx(plain.mean)
    assert (crossed.low, crossed.high) == (pytest.approx(plain.low, abs=0.02), pytest.approx(plain.high, abs=0.02))
    assert crossed.n == 8


def test_seeds_that_disagree_widen_the_interval() -> None:
    tasks = {f"t{i}": float(i % 2) for i in range(40)}
    agreeing = crossed_interval({seed: tasks for seed in range(3)})
    shifted = crossed_interval({seed: {t: v + 0.3 * (seed - 1) for t, v in tasks.items()} for seed in range(3)})
    assert shifted.mean == pytest.approx(agreeing.mean)
    assert shifted.high - shifted.low > 1.5 * (agreeing.high - agreeing.low)


def test_pairs_that_are_missing_have_no_weight() -> None:
    assert crossed_interval({0: {"a": 1.0, "b": 1.0}, 1: {"b": 1.0}}).mean == 1.0
    assert crossed_interval({}).n == 0
    found = differences({0: {"a": 0.5, "b": 0.5}, 1: {"a": 0.5}}, {0: {"b": 1.0, "c": 1.0}, 2: {"a": 1.0}})
    assert found == {0: {"b": 0.5}}


def finish(config: AblationConfig, score: dict[str, float]) -> None:
    """Write the results of every run: `score`, by cell, is the share of four tasks whose evidence was selected."""
    for run in cell_runs(config):
        made = run.config()
        folder = made.run_dir / "evaluation"
        folder.mkdir(parents=True)
        (made.run_dir / "config.yaml").write_text(dump(made), encoding="utf-8")
        (made.run_dir / "summary.json").write_text(json.dumps({"wall_s": 10.0 + run.seed}), encoding="utf-8")
        rows = [episode(system, place, score[run.cell]) for system in ("before", "after") for place in range(4)]
        text = "".join(json.dumps(row.as_json()) + "\n" for row in rows)
        (folder / "rows.jsonl").write_text(text, encoding="utf-8")


def episode(system: str, place: int, score: float) -> EpisodeRow:
    hit = system == "after" and place < 4 * score
    selected = ("D1:1",) if hit else ("D9:9",)
    return EpisodeRow(
        system=system, task=f"t{place}", workspace="w", category="c", seed=0, selected=selected, evidence=("D1:1",),
        reward=0.0, precision=float(hit), recall=float(hit), f1=float(hit), exact=hit, turns=2, commands=4, calls={},
        invalid=1, stop="done", context_tokens=5, model_tokens=30, wall_s=0.1,
    )  # fmt: skip


def test_the_table_compares_cells_on_turns_whatever_their_reward(tmp_path: Path) -> None:
    config = ablation(tmp_path)
    finish(config, {"plain": 0.25, "short": 0.75})
    table = read_table(config)
    plain, short = table.cells
    assert (plain.jaccard.mean, short.jaccard.mean, short.reward) == (0.25, 0.75, 0.0)
    assert plain.difference is None
    assert short.difference is not None
    assert (short.difference.mean, short.difference.n) == (0.5, 4)
    assert (short.seeds, short.turns, short.tokens, short.invalid_rate, short.wall_s) == ([0, 1], 2.0, 30.0, 0.25, 10.5)
    assert not table.missing
    text = markdown(table)
    assert "| short | 0 1 | 0.750 |" in text
    assert "+0.500" in text
    assert "- short: `shell.caps.turns=2`" in text


def test_what_is_not_finished_is_named(tmp_path: Path) -> None:
    config = ablation(tmp_path)
    assert read_table(config).cells == []
    assert read_table(config).missing == [f"trial-{cell}-s{seed}" for cell in ("plain", "short") for seed in (0, 1)]


def test_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    config = ablation(tmp_path)
    finish(config, {"plain": 0.25, "short": 0.75})
    with pytest.raises(UserError, match="give the ablation another name"):
        read_table(ablation(tmp_path, common={"runs": str(tmp_path), "grpo.max_steps": 7}))


def test_a_table_without_a_finished_run_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trial.yaml"
    path.write_text(yaml.safe_dump(ablation(tmp_path).model_dump(mode="json")), encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    assert main(["ablate", str(path), "--table", "name=nothing"]) == 1
    said = capsys.readouterr()
    assert said.err == "horma-rl: no run of 'nothing' is finished: there is nothing to show\n"
    assert not said.out
    assert sorted(tmp_path.rglob("*")) == before


def test_list_table_and_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = ablation(tmp_path)
    finish(config, {"plain": 0.25, "short": 0.75})
    path = tmp_path / "trial.yaml"
    path.write_text(yaml.safe_dump(config.model_dump(mode="json")), encoding="utf-8")
    assert main(["ablate", str(path), "--list"]) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["index"] for row in listed] == [0, 1, 2, 3]
    assert all(row["finished"] for row in listed)
    assert listed[2]["command"].startswith("horma-rl train ")
    assert main(["ablate", str(path), "--table"]) == 0
    said = capsys.readouterr()
    last = json.loads(said.out.splitlines()[-1])
    assert [cell["difference"] and cell["difference"]["mean"] for cell in last["cells"]] == [None, 0.5]
    assert {p.name for p in Path(last["folder"]).iterdir()} == {"table.md", "table.csv", "table.json"}
    assert main(["ablate", str(path), "--index", "4"]) == 2
    assert "the ablation has the runs 0 to 3" in capsys.readouterr().err
