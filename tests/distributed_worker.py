"""One process of the tests of several processes: `python -m tests.distributed_worker WORLD OUT ENGINE STAGE`.

WORLD has a checkpoint and the workspaces; each process writes OUT/rank<N>.json, the first one the gradients beside it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch.distributed as dist
from safetensors.torch import save_file

from horma_rl.training.launch_config import Engine
from memory_shell.cache import WorkspaceCache
from tests.distributed_parts import LOSSES, SHARDED_LOSSES, kept_whole, moved, resumed, uneven
from tests.nan_parts import nan_on_one
from tests.training_parts import tiny_model


def main(world: Path, out: Path, asked: Engine) -> None:
    """Run what `asked` is tested with."""
    checkpoint, workspaces = world / "model", WorkspaceCache(world / "memory")
    process: dict[str, Any] = {"ddp_backend": "gloo", "use_cpu": asked.kind == "DDP"}
    cases = [(loss, False) for loss in (LOSSES if asked.kind == "DDP" else SHARDED_LOSSES)] + [("dapo", True)]
    norms = {}
    for loss, one_by_one in cases:
        name = f"{loss}{' one by one' if one_by_one else ''}"
        gradient, norms[name] = moved(checkpoint, workspaces, out, 2, loss, one_by_one, **process)
        if dist.get_rank() == 0:
            save_file({key: tensor.contiguous() for key, tensor in gradient.items()}, out / f"{name}.safetensors")
    rank = dist.get_rank()
    found = {"norms": norms, **uneven(checkpoint, workspaces, out, rank, asked, **process)}
    found["nan"] = nan_on_one(checkpoint, workspaces, out, rank, **process)
    if asked.kind == "DDP":
        found["fsdp"] = kept_whole(tiny_model, rank)
    else:
        found["resumed"] = resumed(checkpoint, workspaces, out, **process)
    (out / f"rank{rank}.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Engine(sys.argv[3], int(sys.argv[4]), 2))
