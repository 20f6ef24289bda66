"""The parts of scripts/compare_notes.py: which workspaces count, what a build's last line tells, and the table."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from horma_rl.errors import UserError
from horma_rl.evaluation.runner import load_workspaces
from horma_rl.memory.build import build
from memory_shell.types import Task
from tests.manager_parts import manage, writer
from tests.memory_conversation import conversation


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("compare_notes", "scripts/compare_notes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(seconds: float, prompt: int) -> str:
    tokens = {"prompt": prompt, "completion": 10, "lost": 3}
    return json.dumps({"wall_s": seconds, "tokens": tokens, "operations_accepted": 4, "operations_rejected": 1})


def test_the_last_lines_of_several_runs_are_added_up(script: Any, tmp_path: Path) -> None:
    (tmp_path / "one").write_text(f"a warning\n{run(1.5, 100)}\n")
    (tmp_path / "two").write_text(f"{run(2.0, 200)}\n")
    assert script.told([tmp_path / "one", tmp_path / "two"]) == {
        "build_s": 3.5, "tokens": 320, "accepted": 8, "rejected": 2,
    }  # fmt: skip
    assert script.told([])["tokens"] is None


@pytest.mark.parametrize("text", ["", "done\n", "{}\n", "[1]\n", '{"tokens": 1, "wall_s": 2}\n'])
def test_what_is_no_output_of_a_build_is_refused(script: Any, tmp_path: Path, text: str) -> None:
    (tmp_path / "log").write_text(text)
    with pytest.raises(UserError, match="does not end in the JSON line"):
        script.told([tmp_path / "log"])
    with pytest.raises(UserError, match="does not end in the JSON line"):
        script.told([tmp_path / "missing"])


def test_only_whole_workspaces_with_llm_notes_count(script: Any, tmp_path: Path) -> None:
    names = ("whole", "short", "outline", "missing")
    talks = {name: conversation(2, name) for name in names}
    manage(talks["whole"], tmp_path / "whole", writer())
    manage(conversation(1, "short"), tmp_path / "short", writer())
    build(talks["outline"], tmp_path / "outline")
    assert script.finished(tmp_path, list(talks.values())) == [talks["whole"]]


def test_sizes_scores_and_the_table(script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build(conversation(2), tmp_path / "conv")
    task = Task("q-0", "How is the marathon?", ("D2:2",), "conv")
    workspaces = load_workspaces(tmp_path, [task])
    size = script.size(["conv"], workspaces)
    assert size["turns"] == 8
    assert size["bytes"] == sum(path.stat().st_size for path in (tmp_path / "conv").rglob("*.md"))
    scores = script.measured(["oracle", "random"], [task], workspaces)
    assert scores["oracle"] == {"mean": 1.0, "ci95": [1.0, 1.0], "n": 1}
    script.show({"outline": {**size, "build_s": 1.0, "tokens": None, "jaccard": scores}}, ["oracle"])
    head, _, row = capsys.readouterr().out.splitlines()
    assert head == "| notes by | notes | bytes | build s | tokens | oracle |"
    assert row.startswith(f"| outline | {size['notes']:,} | {size['bytes']:,} | 1.0 | ? | 1.000 [1.000, 1.000] |")
