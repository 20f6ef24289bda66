"""The config of `horma-rl ablate`: one YAML file is one question, asked of several runs. No torch is imported here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, model_validator

from horma_rl.config import StrictModel, load_config
from horma_rl.errors import UserError, nearest
from horma_rl.training.config import TrainConfig

NAME = r"\w[\w.-]*"


class AblationConfig(StrictModel):
    """A base run, the cells that change something in it, and the seeds with which each cell is run."""

    name: str = Field(pattern=f"^{NAME}$")
    """Name of the ablation: its runs are `<runs>/<name>-<cell>-s<seed>`, its table is in `<runs>/ablations/<name>`."""
    question: str
    """What the table answers, in a sentence; it is the table's title."""
    base: Path
    """The train config that all cells start from, as seen from the current folder."""
    common: dict[str, Any] = Field(default_factory=dict)
    """Overrides for every cell, before the cell's own: sections of a train config, or keys with dots."""
    reference: str
    """The cell that the others are compared with."""
    cells: dict[str, dict[str, Any]] = Field(min_length=1)
    """Overrides by the cell's name, as in `common`; `{}` is the base itself."""
    seeds: list[int] = Field(default_factory=lambda: [0], min_length=1)
    """Every cell is run once with each."""

    @model_validator(mode="after")
    def _sound(self) -> AblationConfig:
        if self.reference not in self.cells:
            raise UserError(f"{self.name}: no cell is named '{self.reference}'{nearest(self.reference, self.cells)}")
        if len(set(self.seeds)) < len(self.seeds):
            raise UserError(f"{self.name}: the same seed stands twice in 'seeds'")
        for cell, changes in [("common", self.common), *self.cells.items()]:
            if not re.fullmatch(NAME, cell):
                raise UserError(f"{self.name}: '{cell}' cannot be part of a folder's name: rename the cell")
            taken = {"name", "seed", "runs" if changes is not self.common else ""} & changes.keys()
            if taken:
                raise UserError(
                    f"{self.name}: '{taken.pop()}' may not be set in '{cell}': it is the same for all cells"
                )
        return self


@dataclass(frozen=True, slots=True)
class CellRun:
    """One cell with one seed: an ordinary run of `horma-rl train base overrides...`."""

    cell: str
    seed: int
    base: Path
    overrides: tuple[str, ...]

    @property
    def command(self) -> list[str]:
        """The arguments of `horma-rl` that do this run."""
        return ["train", str(self.base), *self.overrides]

    def config(self) -> TrainConfig:
        """The run's config. Raises UserError as `load_config`, naming the cell."""
        try:
            return load_config(self.base, self.overrides, TrainConfig)
        except UserError as error:
            raise UserError(f"cell '{self.cell}': {error}") from None


def cell_runs(config: AblationConfig) -> list[CellRun]:
    """Every run of the ablation, by cell and then by seed: the place in this list is the run's index."""
    return [
        CellRun(
            cell,
            seed,
            config.base,
            (
                *flattened(config.common),
                *flattened(changes),
                f"name={config.name}-{cell}-s{seed}",
                f"seed={seed}",
            ),
        )
        for cell, changes in config.cells.items()
        for seed in config.seeds
    ]


def flattened(changes: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Nested overrides as the command line takes them: `{"grpo": {"beta": 0.1}}` is `grpo.beta=0.1`."""
    for key, value in changes.items():
        if isinstance(value, Mapping) and value:
            yield from flattened(value, f"{prefix}{key}.")
        else:
            plain = isinstance(value, str) and re.fullmatch(r"[\w./-]+", value) and yaml.safe_load(value) == value
            yield f"{prefix}{key}={value if plain else json.dumps(value)}"


def folder_of(config: AblationConfig) -> Path:
    """Where the table and the logs of the runs go."""
    return cell_runs(config)[0].config().runs / "ablations" / config.name
