from __future__ import annotations

import subprocess
import sys

from horma_rl.retrieval.seeds import rollout_seed, turn_seed


def test_seeds_are_the_same_in_every_process() -> None:
    code = "from horma_rl.retrieval.seeds import rollout_seed; print(rollout_seed(1, 2, 'conv-26/qa-12', 3))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(other.stdout) == rollout_seed(1, 2, "conv-26/qa-12", 3) == 8320103718201870225


def test_every_part_counts() -> None:
    base = rollout_seed(1, 2, "a", 3)
    others = [
        rollout_seed(0, 2, "a", 3),
        rollout_seed(1, 0, "a", 3),
        rollout_seed(1, 2, "b", 3),
        rollout_seed(1, 2, "a", 0),
    ]
    assert len({base, *others}) == 5
    assert len({turn_seed(base, turn) for turn in range(100)}) == 100
    assert all(0 <= seed < 2**63 for seed in others)
