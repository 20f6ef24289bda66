"""A trained retriever that many agents ask: one question at a time against questions that are gathered, in one run.

    .venv/bin/python scripts/bench/recall.py [--model DIR] [--questions 16] [--rounds 3]

The questions of the shipped sample over its memories, through the agent's own `PolicyRecaller`; the two sides take
turns, and medians are compared. The last line is one JSON object: seconds of each side, their ratio, and how many
answers (the turns, in their order) of the last round were the same on both sides.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from horma_rl.agent.recall import PolicyRecaller
from horma_rl.benchmarks.storage import load_conversations, load_tasks
from horma_rl.evaluation.config import EvalConfig, PolicyConfig, ShellConfig
from horma_rl.evaluation.systems import load_engine
from horma_rl.memory.build import build_all
from horma_rl.retrieval.engine import RolloutConfig
from horma_rl.serving.retrieve import Retriever
from memory_shell.types import Caps, Turn
from memory_shell.workspace import Workspace

DATA = Path(__file__).resolve().parents[2] / "data"


def load(model: Path) -> PolicyRecaller:
    """The recaller of a checkpoint that need not be exported, under the limits of configs/eval/retriever.yaml."""
    shell, limits = ShellConfig(caps=Caps(turns=5, lines=12), zero_on_cap=True), RolloutConfig(5, 64, 2400)
    config = EvalConfig(shell=shell, rollout=limits)
    engine = load_engine(PolicyConfig(model=model, prompt="compact"), config)
    manifest: Any = SimpleNamespace(shell=shell, rollout=limits)
    return PolicyRecaller(Retriever(engine, manifest))


async def measure(recaller: PolicyRecaller, asked: Sequence[tuple[Workspace, str]], rounds: int) -> dict[str, float]:
    """Both sides in turn, `rounds` times. The first question warms up."""
    await recaller.recall(*asked[0])
    taken: dict[str, list[float]] = {"alone": [], "gathered": []}
    for number in range(rounds):
        started = time.perf_counter()
        alone: list[Sequence[Turn]] = [await recaller.recall(*one) for one in asked]
        middle = time.perf_counter()
        gathered = await asyncio.gather(*(recaller.recall(*one) for one in asked))
        taken["gathered"].append(time.perf_counter() - middle)
        taken["alone"].append(middle - started)
        print(f"round {number + 1}: alone {taken['alone'][-1]:.2f} s, gathered {taken['gathered'][-1]:.2f} s")
    one, many = (round(statistics.median(seconds), 3) for seconds in taken.values())
    same = sum(a == b for a, b in zip(alone, gathered, strict=True))
    return {"alone_s": one, "gathered_s": many, "ratio": round(one / many, 2), "same": same}


def main() -> None:
    """Measure and print; the last line is JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, default=DATA / "models" / "tiny", help="a checkpoint")
    parser.add_argument("--questions", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        build_all(load_conversations(DATA / "sample" / "conversations.jsonl"), Path(folder))
        tasks = load_tasks(DATA / "sample" / "tasks.jsonl")[: args.questions]
        known = {name: Workspace.load(Path(folder) / name) for name in {task.workspace for task in tasks}}
        asked = [(known[task.workspace], task.question) for task in tasks]
        found = asyncio.run(measure(load(args.model), asked, args.rounds))
    print(json.dumps({"questions": len(asked), **found}))


if __name__ == "__main__":
    main()
