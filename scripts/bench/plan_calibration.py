"""How far `horma-rl plan` is from what runs take on this CPU: measures and predicts the same runs, in one go.

    python scripts/bench/plan_calibration.py [--steps 4] [--case NAME ...]

Each case trains for a few steps in a process of its own. Its peak memory and its seconds by phase are compared with a
plan for the episodes that it played, on this machine as measured before and after (speed of a large product, of an
activation function, of starting a small kernel). Seconds are processor time of the one thread that runs, so that other
work on the machine counts less. The first step of a case is left out. Progress goes to stdout, and the last line is one
JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

REPOSITORY = Path(__file__).resolve().parents[2]
BASE = [
    "threads=1", "evaluation.limit=1", "evaluation.baselines=[]", "grpo.save_steps=1000", "resample_zero_variance=0",
]  # fmt: skip
CASES: dict[str, tuple[str, list[str]]] = {
    "tiny, 4 x 4": ("", ["grpo.per_device_train_batch_size=4", "grpo.gradient_accumulation_steps=4"]),
    "random, 8 layers of 384": ("random", [
        "rollout.max_response_tokens=16", "grpo.per_device_train_batch_size=4", "grpo.gradient_accumulation_steps=2",
    ]),
    "tiny, long episodes": ("", [
        "shell.caps.turns=8", "rollout.max_turns=8", "shell.caps.lines=30", "rollout.max_context_tokens=3000",
        "grpo.gradient_accumulation_steps=2",
    ]),
    "tiny, 8 x 8": ("", []),
    "tiny, checkpointing": ("", ["grpo.activation_checkpointing=true", "grpo.gradient_accumulation_steps=2"]),
}  # fmt: skip
"""Name -> (model, overrides of configs/train/tiny_cpu.yaml)."""
PHASES = {"rollout": ("rollout: ",), "update": ("update",), "optimiser": ("optimiser",), "step": ("",)}
"""Measured phase -> beginnings of the names of the plan's phases that make it up."""


def machine() -> dict[str, float]:
    """This core: TFLOP/s of a large fp32 product, GB/s that an activation function reads and writes into new memory
    (new memory is most of what that costs), and microseconds of one small kernel."""
    import torch

    torch.set_num_threads(1)
    left, right = torch.randn(512, 1024), torch.randn(1024, 1024)
    source, small = torch.randn(2**22), torch.randn(16)

    def median(action: Callable[[], object]) -> float:
        seconds = []
        for _ in range(9):
            started = time.thread_time()
            action()
            seconds.append(time.thread_time() - started)
        return statistics.median(seconds[2:])

    return {
        "fp32": 2 * 512 * 1024 * 1024 / median(lambda: left @ right) / 1e12,
        "bandwidth": 2 * source.numel() * 4 / median(lambda: torch.nn.functional.silu(source)) / 1e9,
        "launch_us": median(lambda: [torch.add(small, 1.0) for _ in range(1000)]) * 1e3,
    }


def train(overrides: list[str], out: Path) -> None:
    """Run `horma-rl train` in this process with its phases timed, and write what they took to `out`."""
    import torch

    from horma_rl.cli import main as horma
    from horma_rl.training.rollouts import RolloutFunction
    from horma_rl.training.trainer import RetrieverTrainer

    speeds = [machine()]
    steps: list[dict[str, float]] = [defaultdict(float)]
    _timed(RolloutFunction, "__call__", steps, "rollout")
    _timed(RetrieverTrainer, "training_step", steps, "computed")
    _timed(torch.optim.AdamW, "step", steps, "optimiser", after=lambda: steps.append(defaultdict(float)))
    code = horma(["train", str(REPOSITORY / "configs/train/tiny_cpu.yaml"), *overrides])
    if code:
        raise SystemExit(code)
    speeds.append(machine())
    complete = [step for step in steps if "optimiser" in step][1:]
    for step in complete:
        step["update"] = step["computed"] - step["rollout"]
        step["step"] = step["computed"] + step["optimiser"]
    seconds = {phase: statistics.mean(step[phase] for step in complete) for phase in PHASES}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    speed = {key: statistics.geometric_mean(speed[key] for speed in speeds) for key in speeds[0]}
    out.write_text(json.dumps({"seconds": seconds, "peak_gib": peak, "machine": speed}), encoding="utf-8")


def _timed(
    owner: Any, name: str, steps: list[dict[str, float]], phase: str, after: Callable[[], None] | None = None
) -> None:
    original = getattr(owner, name)

    def timed(*args: Any, **kwargs: Any) -> Any:
        started = time.process_time()
        try:
            return original(*args, **kwargs)
        finally:
            steps[-1][phase] += time.process_time() - started
            if after is not None:
                after()

    setattr(owner, name, timed)


def random_model(folder: Path) -> None:
    """An untrained model of 22 million parameters with the shipped tokenizer."""
    import torch
    from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(REPOSITORY / "data/models/tiny")
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=384, intermediate_size=1024, num_hidden_layers=8, num_attention_heads=6,
        num_key_value_heads=2, head_dim=64, tie_word_embeddings=True, max_position_embeddings=4096,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def compare(name: str, steps: int, folder: Path) -> dict[str, Any]:
    """Measure one case and plan it. Errors are predicted over measured, less 1."""
    from horma_rl.config import load_config
    from horma_rl.planning.facts import facts
    from horma_rl.planning.hardware import hardware
    from horma_rl.planning.memory import memory
    from horma_rl.planning.timing import timing
    from horma_rl.planning.workload import longest_played, measured
    from horma_rl.training.config import TrainConfig

    model, changes = CASES[name]
    run = name.replace(", ", "_").replace(" ", "_")
    overrides = [*BASE, *changes, f"grpo.max_steps={steps}", f"runs={folder}", f"name={run}"]
    if model == "random":
        overrides.append(f"model={folder / 'model'}")
    out = folder / f"{run}.json"
    command = [sys.executable, __file__, "--child", str(out), *overrides]
    log = (folder / f"{run}.log").open("w", encoding="utf-8")
    if subprocess.run(command, check=False, stdout=log, stderr=log, cwd=REPOSITORY).returncode:
        raise SystemExit((folder / f"{run}.log").read_text(encoding="utf-8")[-3000:])
    taken = json.loads(out.read_text(encoding="utf-8"))
    here = replace(hardware("cpu"), **taken["machine"])
    config = load_config(REPOSITORY / "configs/train/tiny_cpu.yaml", overrides, TrainConfig)
    played = measured(folder / run, longest_played(folder / run))
    plan = facts(config, here, played)
    phases = timing(plan)
    predicted = {phase: sum(p.seconds for p in phases if p.name.startswith(starts)) for phase, starts in PHASES.items()}
    peak = memory(plan).peak / 2**30
    row = {
        "case": name,
        "machine": {key: round(value, 4) for key, value in taken["machine"].items()},
        "peak_gib": [round(peak, 2), round(taken["peak_gib"], 2)],
        "peak_error": round(peak / taken["peak_gib"] - 1, 2),
        **{phase: [round(predicted[phase], 2), round(taken["seconds"][phase], 2)] for phase in PHASES},
        **{f"{phase}_error": round(predicted[phase] / taken["seconds"][phase] - 1, 2) for phase in PHASES},
        "played": {key: value for key, value in asdict(played).items() if key != "source"},
    }  # fmt: skip
    print(json.dumps(row), flush=True)
    return row


def main() -> None:
    """Measure and plan every case."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--steps", type=int, default=4, help="optimiser steps of a case; the first is left out")
    parser.add_argument("--case", action="append", choices=CASES, help="only this case (may be repeated)")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("overrides", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        train(options.overrides, options.child)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        random_model(folder / "model")
        rows = [compare(case, options.steps, folder) for case in options.case or CASES]
    errors = {
        key: {
            "mean": round(statistics.mean(abs(row[f"{key}_error"]) for row in rows), 2),
            "worst": max((row[f"{key}_error"] for row in rows), key=abs),
        }
        for key in ("peak", *PHASES)
    }
    speed = {key: round(statistics.mean(row["machine"][key] for row in rows), 4) for key in rows[0]["machine"]}
    print(json.dumps({"machine": speed, "errors": errors}))


if __name__ == "__main__":
    main()
