"""An all-reduce across all processes of the run: NCCL between GPUs, gloo between CPUs. Run as a module, this is one of
the processes, and prints what it measured as JSON."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from datetime import timedelta

from horma_rl.preflight.check import ChildError, Found, children
from horma_rl.preflight.node import Node

MIB = {"nccl": 256, "gloo": 16}
"""Size of the tensor that is summed: large enough that latency does not count."""
ROUNDS = 5


def check_collective(node: Node, processes: int, gpus: bool, seconds: float) -> Found:
    """Start this node's processes, let them meet those of the other nodes, and sum a tensor over all of them."""
    world = node.nodes * processes
    if world == 1:
        return Found("skip", "one process")
    arguments = ["horma_rl.preflight.collective", f"--seconds={seconds}", *(["--gpus"] if gpus else [])]
    commands = [
        (arguments, {**os.environ, "MASTER_ADDR": node.address, "MASTER_PORT": str(node.port),
                     "RANK": str(node.rank * processes + local), "LOCAL_RANK": str(local), "WORLD_SIZE": str(world)})
        for local in range(processes)
    ]  # fmt: skip
    try:
        measured = children(commands, seconds)
    except ChildError as error:
        return Found("fail", str(error), _advice(gpus, node))
    slowest = min(measured, key=lambda each: float(each["gbytes_per_s"]))
    figure = (
        f"{slowest['backend']}, {world} processes on {node.nodes} node{'s' * (node.nodes > 1)}: "
        f"{slowest['mib']} MiB at {slowest['gbytes_per_s']:.1f} GB/s each"
    )
    if not all(each["right"] for each in measured):
        return Found("fail", f"{figure}, but the sum is wrong", "run nccl-tests on these nodes, and have them checked")
    return Found("ok", figure)


def measure(backend: str, device: str, seconds: float) -> dict[str, object]:
    """Sum a tensor over the group `ROUNDS` times. The bandwidth is that of a ring: 2 (n - 1) / n of the bytes go
    through each process."""
    import torch
    import torch.distributed as dist

    dist.init_process_group(backend, timeout=timedelta(seconds=seconds))
    world, rank = dist.get_world_size(), dist.get_rank()
    ones = torch.full((MIB[backend] * 2**20 // 4,), float(rank + 1), device=device)

    def finished(tensor: torch.Tensor) -> float:
        """The first element, once it is there: a GPU computes behind the program."""
        return float(tensor[0])

    total = ones.clone()
    dist.all_reduce(total)
    right = finished(total) == world * (world + 1) / 2 and bool((total == total[0]).all())
    started = time.monotonic()
    for _ in range(ROUNDS):
        dist.all_reduce(total)
    finished(total)
    each = (time.monotonic() - started) / ROUNDS
    dist.destroy_process_group()
    moved = 2 * (world - 1) / world * MIB[backend] * 2**20
    return {"backend": backend, "mib": MIB[backend], "gbytes_per_s": moved / max(each, 1e-9) / 1e9, "right": right}


def _advice(gpus: bool, node: Node) -> str:
    between = "between the nodes (firewall? another network interface: NCCL_SOCKET_IFNAME)" if node.nodes > 1 else ""
    verbose = "NCCL_DEBUG=INFO tells where it stops" if gpus else "see that the node's name has an address"
    return f"{verbose}; processes must reach each other {between}".rstrip()


def main() -> int:
    """One process; its place is in the environment, as for torchrun."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--gpus", action="store_true")
    args = parser.parse_args()
    if args.gpus:
        import torch

        if not torch.cuda.is_available():
            sys.exit("torch sees no GPU on this node")
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    print(json.dumps(measure("nccl" if args.gpus else "gloo", "cuda" if args.gpus else "cpu", args.seconds)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
