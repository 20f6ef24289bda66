"""The supervised warm start: expert episodes of a run's train split, then ordinary training on them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from horma_rl.benchmarks.types import Benchmark
from horma_rl.retrieval.prompt import ChatCodec
from horma_rl.training.config import TrainConfig
from horma_rl.training.corpus import Demonstrator, task_examples
from horma_rl.training.policies import load, save
from horma_rl.training.sft import train_sft
from memory_shell.cache import WorkspaceCache


def warm_start(config: TrainConfig, benchmark: Benchmark, start: Path, out: Path, say: Callable[[str], None]) -> None:
    """Supervised training on expert episodes of the train split; the result goes to `out`."""
    tokenizer, model = load(start)
    codec = ChatCodec(tokenizer, config.prompt, config.thinking, config.tools)
    rng = random.Random(config.seed)
    demonstrator = Demonstrator(
        codec, config.shell.caps, config.shell.overview, rng, config.sft.max_tokens, config.sft.cascade
    )
    workspaces = WorkspaceCache(config.evaluation_config({}).memory_dir)
    examples = task_examples(demonstrator, workspaces, benchmark.train, rng, config.sft.turn_share)
    log = config.run_dir / "sft.jsonl"
    log.unlink(missing_ok=True)  # of a warm start that was cut short: this one begins anew
    train_sft(model, tokenizer, examples, config.sft, seed=config.seed, log=log, report=say)
    save(tokenizer, model, out)
