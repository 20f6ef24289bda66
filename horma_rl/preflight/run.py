"""All checks of a preflight, one after the other, within a limit of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from horma_rl.preflight.check import Check, Found, bounded
from horma_rl.preflight.collective import check_collective
from horma_rl.preflight.disk import check_shared, check_space, check_speed, clean_up
from horma_rl.preflight.gpus import check_gpus
from horma_rl.preflight.model import check_model
from horma_rl.preflight.node import Node
from horma_rl.preflight.rollout import check_rollout
from horma_rl.preflight.versions import check_versions
from horma_rl.slurm import gpus_asked
from horma_rl.training.config import TrainConfig

LIMIT_S = 115.0
"""Seconds for all checks together."""
DISK = "see that the file system of `runs` is mounted and answers: df, ls, touch"


def preflight(config: TrainConfig, path: Path, limit: float = LIMIT_S) -> Iterator[Check]:
    """Check this node for the run of `config`, whose resolved YAML is at `path`. Every check ends by itself; those
    for which no time is left fail. In a Slurm job step every node calls this."""
    node, gpus, deadline = Node.here(), gpus_asked(config), time.monotonic() + limit

    def left(seconds: float) -> float:
        return max(1.0, min(seconds, deadline - time.monotonic()))

    def check(name: str, seconds: float, look: Callable[[float], Found], advice: str) -> Check:
        allowed = left(seconds)
        # A check that knows its limit ends by itself, and says more than a thread that does not come back.
        return bounded(name, allowed + 1, lambda: look(allowed), advice)

    try:
        yield check("GPUs", 15, lambda _: check_gpus(gpus), "nvidia-smi must answer on this node: have it checked")
        yield check("versions", 15, lambda _: check_versions(config), "bash scripts/setup.sh")
        yield check(
            "model", 20, lambda _: check_model(config), "copy the checkpoint again, and see that it can be read"
        )
        yield check("disk space", 15, lambda _: check_space(config), DISK)
        yield check("disk speed", 20, lambda _: check_speed(config, node), DISK)
        yield check("shared disk", 30, lambda s: check_shared(config, node, s), DISK)
        processes = config.launch.processes
        yield check("all-reduce", 60, lambda s: check_collective(node, processes, gpus > 0, s), "NCCL_DEBUG=INFO")
        if node.rank == 0:
            yield check("rollout", limit, lambda s: check_rollout(config, path, s), "see the message")
    finally:
        clean_up(config, node)
