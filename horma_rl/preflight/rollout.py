"""One batch of real episodes with the run's model, engine, prompt and limits. Run as a module, this plays them, and
prints what came of it as JSON."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

from horma_rl.config import load_config
from horma_rl.preflight.check import ChildError, Found, children
from horma_rl.training.config import TrainConfig

TASKS = 4
EPISODE_S = 30.0
"""An episode that is longer is cut here: the check is about whether the engine works, not about long episodes."""
ADVICE = "play it alone, with all it says: python -m horma_rl.preflight.rollout CONFIG"


def check_rollout(config: TrainConfig, path: Path, seconds: float) -> Found:
    """Play a few tasks of the train split from the config at `path` (`config`, resolved), in a process of its own."""
    if config.grpo.get("use_vllm") and config.grpo.get("vllm_mode") == "server":
        return _server(config)
    environment = {**os.environ, "TRL_EXPERIMENTAL_SILENCE": "1"}
    try:
        (told,) = children([(["horma_rl.preflight.rollout", str(path)], environment)], seconds)
    except ChildError as error:
        return Found("fail", str(error), ADVICE)
    figure = (
        f"{told['engine']}: {told['episodes']} episodes, {told['tokens']} tokens at {told['tokens_per_s']:,.0f}/s, "
        f"calls in {told['call_rate']:.0%} of the responses; loaded in {told['load_s']:.0f} s"
    )
    if told["errors"]:
        return Found("fail", f"{figure}; {told['errors'][0]}", ADVICE)
    if not told["call_rate"] and not config.sft.steps:
        advice = "the model never calls a tool, so every reward is 0: warm it up first (sft.steps)"
        return Found("warn", figure, advice)
    return Found("ok", figure)


def play(config: TrainConfig) -> dict[str, Any]:
    """Load the engine and play `TASKS` tasks in workspaces that are built for it. Raises UserError."""
    from horma_rl.benchmarks.registry import load_benchmark
    from horma_rl.evaluation.systems import load_engine, plan, run_policy
    from horma_rl.memory.build import build_all
    from horma_rl.retrieval.types import Sampling
    from horma_rl.training.policies import start_folder
    from memory_shell.cache import WorkspaceCache

    benchmark = load_benchmark(config.benchmark, **config.options)
    tasks = benchmark.train[:TASKS]
    names = {task.workspace for task in tasks}
    with tempfile.TemporaryDirectory(prefix="horma-preflight-") as folder:
        build_all([c for c in benchmark.conversations if c.name in names], Path(folder), config.notes)
        started = time.monotonic()
        evaluation = config.evaluation_config({"start": start_folder(config)})
        backend = "vllm" if config.grpo.get("use_vllm") else "transformers"
        policy = evaluation.policies["start"].model_copy(update={"backend": backend})
        limit = min(config.rollout.max_episode_s or EPISODE_S, EPISODE_S)
        as_in_training = {
            "rollout": replace(config.rollout, max_episode_s=limit),
            "sampling": Sampling(temperature=float(config.grpo.get("temperature", 1.0))),
        }
        engine = load_engine(policy, evaluation.model_copy(update=as_in_training))
        loaded = time.monotonic()
        jobs = plan(tasks, config.seed)
        played = list(run_policy(engine, jobs, WorkspaceCache(Path(folder)), config.shell))
    spent = max(time.monotonic() - loaded, 1e-9)
    turns = [turn for trajectory in played for turn in trajectory.turns]
    tokens = sum(turn.completion_tokens for turn in turns)
    return {
        "engine": backend, "episodes": len(played), "tokens": tokens, "tokens_per_s": tokens / spent,
        "call_rate": sum(bool(turn.calls) for turn in turns) / max(1, len(turns)), "load_s": loaded - started,
        "errors": [t.error for t in played if t.error] + ([] if tokens else ["no token was sampled"]),
    }  # fmt: skip


def _server(config: TrainConfig) -> Found:
    """TRL's vLLM server is a process of its own: is it there?"""
    given = config.grpo
    host, port = given.get("vllm_server_host", "0.0.0.0"), given.get("vllm_server_port", 8000)
    url = f"{given.get('vllm_server_base_url') or f'http://{host}:{port}'}/health/"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return Found("ok", f"TRL's vLLM server answers at {url} ({answer.status})")
    except OSError as error:
        return Found("fail", f"no vLLM server at {url}: {error}", "start it first: trl vllm-serve --model MODEL")


def main() -> int:
    """Play with the config that is named, and print the figures."""
    config = load_config(Path(sys.argv[1]), [], TrainConfig)
    if config.threads:
        import torch

        torch.set_num_threads(config.threads)
    print(json.dumps(play(config)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
