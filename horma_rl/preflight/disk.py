"""The disk that the run writes to: room for the checkpoints, its speed, and whether all nodes see the same files."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path

from horma_rl.errors import UserError
from horma_rl.planning.shapes import model_shape
from horma_rl.preflight.check import Found
from horma_rl.preflight.node import Node
from horma_rl.training.config import TrainConfig

PROBE_BYTES = 64 * 2**20
STATE_BYTES = 12
"""Bytes of an optimiser's state for each trained weight: two moments and a copy of the weight, in fp32."""
LEAD_S = 120
"""Seconds between a cluster's signal and the end of the job, as scripts/submit.sh asks for."""
LOGS_BYTES = 2 * 2**30


def check_space(config: TrainConfig) -> Found:
    """Is there room for the checkpoints that are kept, the one being written, the best, and the result?"""
    config.runs.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(config.runs).free
    try:
        one, weights = checkpoint_bytes(config)
    except UserError as error:
        advice = "see that there is room for the checkpoints: weights, and 12 bytes for each trained one"
        return Found("warn", f"{_gb(free)} free in {config.runs}; {error}", advice)
    kept = int(config.grpo.get("save_total_limit") or 2)
    need = (kept + 1) * one + 2 * weights + LOGS_BYTES
    figure = f"{_gb(free)} free in {config.runs}, up to {_gb(need)} needed ({kept + 1} checkpoints of {_gb(one)})"
    if free < need:
        return Found("fail", figure, "make room, set `runs` to another disk, or lower grpo.save_total_limit")
    return Found("ok", figure)


def checkpoint_bytes(config: TrainConfig) -> tuple[int, int]:
    """The most that a checkpoint takes, and what the weights alone take. Raises UserError for an unknown model."""
    shape = model_shape(config.model)
    weights = shape.parameters * max(2, shape.stored_bytes)
    if config.lora is not None:
        trained = shape.lora_parameters(config.lora.rank)
        return trained * (4 + STATE_BYTES), weights
    return weights + shape.parameters * STATE_BYTES, weights


def check_speed(config: TrainConfig, node: Node) -> Found:
    """Write, flush, rename and read back a file as a checkpoint is written."""
    folder = _folder(config, node)
    folder.mkdir(parents=True, exist_ok=True)
    block = os.urandom(2**20)
    unfinished, path = folder / f".probe-{node.rank}.tmp", folder / f"probe-{node.rank}"
    try:
        started = time.monotonic()
        with unfinished.open("wb") as out:
            for _ in range(PROBE_BYTES // len(block)):
                out.write(block)
            out.flush()
            os.fsync(out.fileno())
        written = time.monotonic() - started
        started = time.monotonic()
        os.replace(unfinished, path)
        renamed = time.monotonic() - started
        with path.open("rb") as back:
            whole = all(back.read(len(block)) == block for _ in range(PROBE_BYTES // len(block)))
    finally:
        unfinished.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    if not whole:
        return Found("fail", f"{path} read back is not what was written", "use another disk for `runs`")
    speed = PROBE_BYTES / max(written, 1e-6)
    figure = f"{speed / 1e6:,.0f} MB/s written and flushed, renamed in {1000 * renamed:.1f} ms"
    try:
        seconds = checkpoint_bytes(config)[0] / speed
    except UserError:
        return Found("ok", figure)
    figure += f"; a checkpoint in {seconds:.0f} s"
    if seconds > LEAD_S:
        return Found("warn", figure, f"a pre-empted job has {LEAD_S} s: submit with --lead {2 * seconds:.0f}")
    return Found("ok", figure)


def check_shared(config: TrainConfig, node: Node, seconds: float) -> Found:
    """Does every node see the files of all the others? Waits up to `seconds` for the slowest."""
    if node.nodes == 1:
        return Found("skip", "one node")
    folder = _folder(config, node)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"node-{node.rank}").write_text(node.name, encoding="utf-8")
    deadline = time.monotonic() + seconds
    while (seen := sum(1 for _ in folder.glob("node-*"))) < node.nodes:
        if time.monotonic() > deadline:
            advice = f"put `runs` on a file system that all nodes share; {config.runs.absolute()} is not, or is slow"
            return Found("fail", f"{seen} of {node.nodes} nodes seen in {folder}", advice)
        time.sleep(0.2)
    return Found("ok", f"{node.nodes} nodes see each other's files")


def clean_up(config: TrainConfig, node: Node) -> None:
    """Remove this node's probe files, after all nodes have met; the last node's call removes the folder."""
    folder = _folder(config, node)
    with contextlib.suppress(OSError):
        (folder / f"node-{node.rank}").unlink(missing_ok=True)
        folder.rmdir()


def _folder(config: TrainConfig, node: Node) -> Path:
    return config.runs / f".preflight-{node.job}"


def _gb(count: float) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"
