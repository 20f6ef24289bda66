"""Whether a run survives: trains CONFIG undisturbed, then again with `kill -9` at random moments, and compares.

    python scripts/check_resume.py CONFIG [key=value ...] [--kills 5] [--seed N]

The second run is killed up to a step's time after randomly chosen steps, each time another one, and started again.
After the last kill its newest checkpoint is cut in half as well, so that it has to go back to the one before. Both are
runs of their own, `<name>_whole` and `<name>_killed`. All are forks of this process, which imports once. The last line
on standard output is one JSON object; exit code 0 when both models are equal bit for bit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import horma_rl.training.grpo
import horma_rl.training.run  # noqa: F401  the slow imports, once for all runs
from horma_rl.cli import main
from horma_rl.config import load_config
from horma_rl.training.checkpoints import MARKER, step_of
from horma_rl.training.config import TrainConfig
from horma_rl.training.progress import read_metrics


def start(arguments: list[str]) -> int:
    """The process id of `horma-rl train ARGUMENTS`, a fork of this process that writes to standard error only."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    os.dup2(2, 1)
    try:
        os._exit(main(["train", *arguments]))
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def finish(arguments: list[str]) -> float:
    """Seconds of a run to its end. Raises RuntimeError when it fails."""
    began = time.monotonic()
    code = os.waitstatus_to_exitcode(os.waitpid(start(arguments), 0)[1])
    if code:
        raise RuntimeError(f"the run ended with exit code {code}")
    return round(time.monotonic() - began, 1)


def kill_after(step: int, arguments: list[str], run: Path, rng: random.Random) -> dict[str, Any]:
    """Start the run, and kill it at a random moment after it has logged `step`. Raises RuntimeError when it ended."""
    log, child = run / "metrics.jsonl", start(arguments)
    before = lines(log)
    while lines(log) <= before or (row := read_metrics(log)[-1])["step"] < step:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            raise RuntimeError(f"the run ended with exit code {os.waitstatus_to_exitcode(status)} before its kill")
        time.sleep(0.02)
    delay = rng.uniform(0, float(row["step_s"]))
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code != -signal.SIGKILL:
        raise RuntimeError(f"the run ended with exit code {code} before its kill")
    killed = {"after_step": step, "and_s": round(delay, 2), "whole": [step_of(path) for path in finished(run)]}
    print(f"kill -9: {killed}", file=sys.stderr, flush=True)
    return killed


def lines(log: Path) -> int:
    """Lines of `metrics.jsonl`, those of steps that were done again included."""
    return log.read_bytes().count(b"\n") if log.is_file() else 0


def finished(run: Path) -> list[Path]:
    """The checkpoints of a run that have a marker, oldest first."""
    found = [path.parent for path in (run / "checkpoints").glob(f"checkpoint-*/{MARKER}")]
    return sorted((path for path in found if path.name.rpartition("-")[2].isdigit()), key=step_of)


def cut_newest(run: Path) -> str | None:
    """Cut the optimiser's file of the newest checkpoint in half, and give the checkpoint's name; None where there is no
    other to go back to."""
    there = finished(run)
    if len(there) < 2:
        return None
    path = there[-1] / "optimizer.pt"
    os.truncate(path, path.stat().st_size // 2)
    return there[-1].name


def sha256(run: Path) -> str:
    """Of the model that a run ended with."""
    return hashlib.sha256((run / "model" / "model.safetensors").read_bytes()).hexdigest()


def check(config: str, overrides: list[str], kills: int, seed: int) -> dict[str, Any]:
    """Both runs and their comparison."""
    given = load_config(Path(config), overrides, TrainConfig)
    arguments = {kind: [config, *overrides, f"name={given.name}_{kind}"] for kind in ("whole", "killed")}
    runs = {kind: given.runs / f"{given.name}_{kind}" for kind in arguments}
    steps = int(given.grpo["max_steps"])
    rng = random.Random(seed)
    seconds = finish(arguments["whole"])
    points = sorted(rng.sample(range(1, steps - 1), kills))
    moments = [kill_after(step, arguments["killed"], runs["killed"], rng) for step in points]
    cut = cut_newest(runs["killed"])
    finish(arguments["killed"])
    sums = {kind: sha256(run) for kind, run in runs.items()}
    return {
        "seed": seed, "steps": steps, "whole_s": seconds, "kills": moments, "cut": cut, "sha256": sums,
        "steps_done": {kind: lines(run / "metrics.jsonl") for kind, run in runs.items()},
        "equal": sums["whole"] == sums["killed"],
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, help="of the moments; default: a new one")
    args = parser.parse_intermixed_args()
    chosen = random.SystemRandom().randrange(10**6) if args.seed is None else args.seed
    print(f"seed of the moments: {chosen}", file=sys.stderr, flush=True)
    result = check(args.config, args.overrides, args.kills, chosen)
    print(json.dumps(result))
    sys.exit(0 if result["equal"] else 1)
