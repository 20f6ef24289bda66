"""The table of an ablation: what every cell reaches on the held-out tasks, and how it differs from the reference."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from horma_rl.ablation.config import AblationConfig, CellRun, cell_runs, flattened, folder_of
from horma_rl.ablation.runs import is_finished
from horma_rl.ablation.statistics import Scores, crossed_interval, differences
from horma_rl.evaluation.bootstrap import Interval
from horma_rl.evaluation.metrics import summarise
from horma_rl.evaluation.rows import EpisodeRow, row_from_json
from horma_rl.evaluation.store import ROWS
from memory_shell.reward import jaccard

SYSTEM = "after"
"""The name of a run's trained policy in its evaluation."""


@dataclass(frozen=True, slots=True)
class CellResult:
    """One cell over its finished runs. `jaccard` compares turn ids, whatever the cell's own reward counts, so that
    cells can be compared; `reward` is the cell's own. `difference` is None for the reference and without it."""

    cell: str
    seeds: list[int]
    jaccard: Interval
    reward: float
    precision: float
    recall: float
    turns: float
    tokens: float
    """Tokens that the model wrote, a mean per episode."""
    invalid_rate: float
    difference: Interval | None
    wall_s: float
    """Seconds of a run from its start to its report, a mean over seeds."""

    def as_json(self) -> dict[str, Any]:
        """A plain mapping with null for what is not there."""
        means = {name: round(getattr(self, name), 6) for name in _MEANS}
        difference = self.difference.as_json() if self.difference else None
        return {"cell": self.cell, "seeds": self.seeds, "jaccard": self.jaccard.as_json(), **means,
                "difference": difference}  # fmt: skip


_MEANS = ("reward", "precision", "recall", "turns", "tokens", "invalid_rate", "wall_s")


@dataclass(frozen=True, slots=True)
class Table:
    """The cells that have results, in the config's order, and the runs that have none."""

    config: AblationConfig
    cells: list[CellResult]
    missing: list[str]

    def rows(self) -> list[list[str]]:
        """The header and one line a cell, as text."""
        header = ["cell", "seeds", "jaccard", "95% interval", "difference", "95% interval", "reward", "precision",
                  "recall", "turns", "tokens", "invalid", "wall s"]  # fmt: skip
        return [header, *(_texts(cell) for cell in self.cells)]

    def as_json(self) -> dict[str, Any]:
        """What the command prints last."""
        return {
            "ablation": self.config.name, "reference": self.config.reference, "missing": self.missing,
            "cells": [cell.as_json() for cell in self.cells],
        }  # fmt: skip


def read_table(config: AblationConfig) -> Table:
    """The table of the runs that are finished.

    Raises:
        UserError: a run's folder holds a run with other settings, or rows that cannot be read.
    """
    found: dict[str, dict[int, _Run]] = {name: {} for name in config.cells}
    missing = []
    for run in cell_runs(config):
        if is_finished(run.config()):
            found[run.cell][run.seed] = _read(run)
        else:
            missing.append(run.config().name)
    reference = _scores(found[config.reference])
    cells = [
        _result(name, runs, None if name == config.reference else reference) for name, runs in found.items() if runs
    ]
    return Table(config, cells, missing)


def write_table(table: Table) -> Path:
    """Write `table.md`, `table.csv` and `table.json` to the ablation's folder, each whole or not at all."""
    folder = folder_of(table.config)
    folder.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(table.rows())
    _write(folder / "table.csv", text.getvalue())
    _write(folder / "table.md", markdown(table))
    _write(folder / "table.json", json.dumps(table.as_json(), indent=1) + "\n")
    return folder


def aligned(table: Table) -> str:
    """The table in columns, for a terminal."""
    rows = table.rows()
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [[row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows]
    return "\n".join("  ".join(line) for line in lines)


def markdown(table: Table) -> str:
    """The table with its question, and what each cell changes."""
    header, *body = table.rows()
    lines = [_line(header), _line(["---"] * len(header)), *(_line(row) for row in body)]
    changes = [f"- {name}: {_changes(cell)}" for name, cell in table.config.cells.items()]
    missing = [f"\nWithout results: {', '.join(table.missing)}."] if table.missing else []
    config = table.config
    base = f"Base: `{config.base}`{f', with {_changes(config.common)}' if config.common else ''}."
    return "\n".join([f"# {config.question}", "", *lines, "", base, "", *changes, *missing]) + "\n"


@dataclass(frozen=True, slots=True)
class _Run:
    rows: list[EpisodeRow]
    wall_s: float


def _read(run: CellRun) -> _Run:
    folder = run.config().run_dir
    path = folder / "evaluation" / ROWS
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [row_from_json(json.loads(line), f"{path}, line {number}") for number, line in enumerate(lines, 1)]
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return _Run([row for row in rows if row.system == SYSTEM], float(summary["wall_s"]))


def _result(name: str, runs: dict[int, _Run], reference: Scores | None) -> CellResult:
    rows = [row for run in runs.values() for row in run.rows]
    scores, summary = _scores(runs), summarise(rows, resamples=1)
    return CellResult(
        cell=name,
        seeds=list(runs),
        jaccard=crossed_interval(scores),
        reward=summary.jaccard.mean,
        precision=summary.precision,
        recall=summary.recall,
        turns=summary.turns,
        tokens=summary.model_tokens,
        invalid_rate=summary.invalid_rate,
        difference=crossed_interval(differences(reference, scores)) if reference else None,
        wall_s=fmean(run.wall_s for run in runs.values()),
    )


def _scores(runs: dict[int, _Run]) -> Scores:
    return {seed: _by_task(run.rows) for seed, run in runs.items()}


def _by_task(rows: Iterable[EpisodeRow]) -> dict[str, float]:
    """Task -> mean Jaccard on turn ids of its scored episodes."""
    gathered: dict[str, list[float]] = {}
    for row in rows:
        if row.reward is not None:
            gathered.setdefault(row.task, []).append(jaccard(row.selected, row.evidence))
    return {task: fmean(values) for task, values in gathered.items()}


def _texts(cell: CellResult) -> list[str]:
    difference = cell.difference if cell.difference and cell.difference.n else None
    return [
        cell.cell, " ".join(map(str, cell.seeds)), f"{cell.jaccard.mean:.3f}", _bounds(cell.jaccard),
        f"{difference.mean:+.3f}" if difference else "", _bounds(difference, "+") if difference else "",
        f"{cell.reward:.3f}", f"{cell.precision:.3f}", f"{cell.recall:.3f}", f"{cell.turns:.2f}",
        f"{cell.tokens:.0f}", f"{cell.invalid_rate:.1%}", f"{cell.wall_s:.0f}",
    ]  # fmt: skip


def _bounds(interval: Interval, sign: str = "") -> str:
    return f"{interval.low:{sign}.3f} to {interval.high:{sign}.3f}"


def _changes(cell: dict[str, Any]) -> str:
    return ", ".join(f"`{change}`" for change in flattened(cell)) or "the base as it is"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _write(path: Path, text: str) -> None:
    unfinished = path.with_name(f".{path.name}.tmp")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)
