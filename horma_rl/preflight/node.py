"""Where a preflight runs: one node of a Slurm job, or this machine alone."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Node:
    """This node among those of its job. `address`, `port`: where the processes of all nodes meet."""

    rank: int
    nodes: int
    name: str
    job: str
    address: str
    port: int

    @classmethod
    def here(cls, environment: Mapping[str, str] = os.environ) -> Node:
        """As the job step's environment says; without Slurm, one node."""
        in_step = "SLURM_NODEID" in environment
        nodes = int(environment.get("SLURM_STEP_NUM_NODES", "1")) if in_step else 1
        job = environment.get("SLURM_JOB_ID", "") if in_step else ""
        started = environment.get("SLURM_RESTART_COUNT", "0")
        return cls(
            rank=int(environment.get("SLURM_NODEID", "0")) if nodes > 1 else 0,
            nodes=nodes,
            name=environment.get("SLURMD_NODENAME", socket.gethostname()),
            job=f"{job}-{started}" if job else str(os.getpid()),
            address=environment.get("MASTER_ADDR", "127.0.0.1") if nodes > 1 else "127.0.0.1",
            port=int(environment["MASTER_PORT"]) if nodes > 1 and "MASTER_PORT" in environment else _free_port(),
        )


def _free_port() -> int:
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return int(each.getsockname()[1])
