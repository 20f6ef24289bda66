"""Surrogate haystacks of 115,000 tokens: built into workspaces, read whole, and retrieved from."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from horma_rl.baselines.registry import make_retriever
from horma_rl.benchmarks.registry import load_benchmark
from horma_rl.benchmarks.types import Benchmark
from horma_rl.cli import main
from horma_rl.memory.build import build_all, read_manifest
from memory_shell.episode import MemoryShell
from memory_shell.types import Caps
from memory_shell.workspace import Limits, Workspace, WorkspaceError

QUESTIONS = ("e47becba", "gpt4_2655b836", "gpt4_70e84552_abs")


@pytest.fixture(scope="module")
def benchmark(horma_data: Path) -> Benchmark:
    if not (horma_data / "longmemeval").is_dir():
        pytest.skip(f"no LongMemEval in {horma_data}")
    return load_benchmark("longmemeval", only=QUESTIONS)


@pytest.fixture(scope="module")
def memory(benchmark: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("memory")
    build_all(benchmark.conversations, folder)
    return folder


def test_nothing_of_a_surrogate_is_skipped(benchmark: Benchmark, memory: Path) -> None:
    limits = Limits()
    for task in benchmark.eval:
        folder = memory / task.workspace
        assert "surrogate" in read_manifest(folder)["conversation"]
        workspace = Workspace.load(folder)
        on_disk = {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
        assert {path: len(file.data) for path, file in workspace.files.items()} == on_disk
        assert max(on_disk.values()) < limits.file_bytes
        assert not workspace.problems()
        shell = MemoryShell(workspace, Caps(turns=2))
        asked = shell.reset(task).text
        assert f"Asked on: {task.asked_at}" in asked
        shell.run("grep -r -l a .")
        coverage = shell.coverage()
        assert set(coverage.searched) == {path for path in on_disk if not path.startswith(".")}
        assert (coverage.skipped, coverage.unvisited) == ((), ())


def test_a_file_over_the_cap_is_refused_by_name(memory: Path, benchmark: Benchmark) -> None:
    folder = memory / benchmark.eval[0].workspace
    largest = max(folder.rglob("*"), key=lambda path: path.stat().st_size if path.is_file() else 0)
    with pytest.raises(WorkspaceError, match=largest.name):
        Workspace.load(folder, Limits(file_bytes=largest.stat().st_size - 1))


def test_retrievers_find_evidence_in_surrogates(benchmark: Benchmark, memory: Path) -> None:
    for name in ("bm25-3", "script-narrow"):
        hits = 0
        for task in benchmark.eval:
            found = make_retriever(name).retrieve(task, Workspace.load(memory / task.workspace), random.Random(0))
            hits += bool(set(found.selected) & set(task.evidence))
        assert hits >= 2, name


def test_stats_are_one_json_object(horma_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if not (horma_data / "longmemeval").is_dir():
        pytest.skip(f"no LongMemEval in {horma_data}")
    assert main(["data", "stats", "longmemeval", "--json", "--set", "tokens=5000"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["questions"], report["paper_subset"], report["surrogate"]["tokens_asked"]) == (500, 367, 5000)
