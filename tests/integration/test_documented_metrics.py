"""docs/training.md explains every number that a run logs, and no other."""

from __future__ import annotations

import re

from horma_rl.retrieval.types import Trajectory
from horma_rl.training.progress import RENAMED
from horma_rl.training.rollout_metrics import means, totals
from memory_shell.types import Task
from tests.conftest import REPOSITORY


def test_every_metric_is_documented() -> None:
    text = (REPOSITORY / "docs/training.md").read_text(encoding="utf-8")
    table = text.partition("### `metrics.jsonl`")[2].partition("\n### ")[0]
    first_cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    documented = {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}
    one = Trajectory(Task("t", "?", (), "w"), 0, [], reward=0.0)
    logged = {name.removeprefix("rollout/") for name in means(totals([[one]], [one], 1.0))}
    assert documented == logged | set(RENAMED.values()) | {"time"}
