"""Parts that the training tests share: a small world of generated memories, its tokenizer, and a model for it."""

from __future__ import annotations

import functools
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors.torch import load_file
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from horma_rl.benchmarks.registry import load_benchmark
from horma_rl.benchmarks.types import Benchmark
from horma_rl.retrieval.prompt import ChatCodec
from horma_rl.training.corpus import Demonstrator, Example, compact_workspace, task_examples
from horma_rl.training.sft import train_sft
from horma_rl.training.sft_config import SftConfig
from horma_rl.training.tiny_model import TinyModelConfig, build_tiny_model
from horma_rl.training.tiny_tokenizer import build_tokenizer
from memory_shell.cache import WorkspaceCache
from memory_shell.terms import tokenise
from memory_shell.types import Caps

torch.set_num_threads(1)  # several contend with each other on models this small, and with other processes

OPTIONS = {
    "seed": 3, "train": 2, "eval": 1,
    "generator": {"sessions": 4, "turns": 8, "facts": 2, "questions": 7, "mix": {"single": 4, "time": 2, "absent": 1}},
}  # fmt: skip
CAPS = Caps(turns=4, lines=6)
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@functools.cache
def world() -> Benchmark:
    """Two memories to train on and one to evaluate on, with at most seven questions each."""
    return load_benchmark("generated", **OPTIONS)


@functools.cache
def words() -> tuple[str, ...]:
    """The words of the world and of its questions, most frequent first."""
    counts: Counter[str] = Counter()
    for conversation in world().conversations:
        for turn in conversation.turns():
            counts.update(tokenise(f"{turn.speaker} {turn.text} {turn.caption or ''}"))
    for task in world().tasks():
        counts.update(tokenise(task.question))
    return tuple(sorted((w for w in counts if w.isalpha() and w.isascii()), key=lambda w: (-counts[w], w)))


@functools.cache
def tokenizer() -> PreTrainedTokenizerFast:
    """The tiny model's tokenizer over those words."""
    return build_tokenizer(words(), [*LETTERS, "ed", "ing", "er", "es", "ly"])


@functools.cache
def codec() -> ChatCodec:
    """The compact prompt over that tokenizer."""
    return ChatCodec(tokenizer(), "compact")


def tiny_model(width: int = 32, layers: int = 2, seed: int = 0) -> Qwen3ForCausalLM:
    """A fresh tiny model over that tokenizer."""
    shape = TinyModelConfig(hidden_size=width, layers=layers, intermediate_size=2 * width)
    return build_tiny_model(shape, tokenizer(), seed)


def memory(folder: Path) -> WorkspaceCache:
    """The world's workspaces, built below `folder`."""
    for conversation in world().conversations:
        compact_workspace(conversation, folder / conversation.name)
    return WorkspaceCache(folder)


def examples(workspaces: WorkspaceCache, count: int, seed: int = 0) -> list[Example]:
    """Demonstrations of the world's training tasks."""
    rng = random.Random(seed)
    demonstrator = Demonstrator(codec(), CAPS, "terms", rng, 900)
    stream = task_examples(demonstrator, workspaces, world().train, rng)
    return [next(stream) for _ in range(count)]


def partly_trained(folder: Path, workspaces: WorkspaceCache, steps: int = 110) -> Path:
    """A checkpoint folder whose model half knows the format: its rollouts end in different ways, so GRPO moves it."""
    model = tiny_model(width=64)
    config = SftConfig(steps=steps, tokens_per_step=1500, learning_rate=4e-3, warmup_steps=5, fixed_weight=1.0)
    stream = iter(examples(workspaces, 12) * 1000)
    train_sft(model, tokenizer(), stream, config, seed=0, log=folder / "log.jsonl")
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def run_config(folder: Path, model: Path, **changes: Any) -> Path:
    """A train config of seconds: GRPO steps of 2 tasks x 4 rollouts on the world; `changes` replace top-level keys,
    and those of `grpo` are merged into it."""
    grpo = {
        "max_steps": 2, "learning_rate": 1e-3, "lr_scheduler_type": "linear", "num_generations": 4,
        "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "save_steps": 2,
        **changes.pop("grpo", {}),
    }  # fmt: skip
    config = {
        "name": "run", "model": str(model), "prompt": "compact", "benchmark": "generated", "options": OPTIONS,
        "shell": {"overview": "terms", "caps": {"turns": CAPS.turns, "lines": CAPS.lines}},
        "rollout": {"max_turns": 4, "max_response_tokens": 24, "max_context_tokens": 500, "concurrency": 16},
        "grpo": grpo, "evaluation": {"limit": 3, "episodes_shown": 1}, "threads": 1, "seed": 5,
        "runs": str(folder / "runs"), **changes,
    }  # fmt: skip
    path = folder / "train.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def environment(**more: str) -> dict[str, str]:
    """The environment of a child process: one thread, no network."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", **more}


def spans(mask: Sequence[int]) -> list[tuple[int, int]]:
    """The [start, end) ranges in which a mask is 1."""
    edges = [i for i, (a, b) in enumerate(zip([0, *mask], [*mask, 0], strict=True)) if a != b]
    return list(zip(edges[::2], edges[1::2], strict=True))


SIGNALLED_AT = """
import os, sys
number, event, part, count = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])

def hook(name, args):
    global count
    if name == event and part in str(args[0]):
        count -= 1
        if count == 0:
            os.kill(os.getpid(), number)

sys.addaudithook(hook)
from horma_rl.cli import main
sys.exit(main(sys.argv[5:]))
"""


def train_signalled(config: Path, number: int, event: str, part: str, count: int) -> subprocess.CompletedProcess[str]:
    """`horma-rl train CONFIG` in a process of its own, which sends itself signal `number` just before its operation
    `event` (an audit event, such as `open`) on a path that contains `part` for the `count`th time."""
    command = [sys.executable, "-c", SIGNALLED_AT, str(number), event, part, str(count), "train", str(config)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300, check=False)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """The tensors of a checkpoint folder."""
    return dict(load_file(folder / "model.safetensors"))


def same_weights(first: Path, second: Path) -> bool:
    """Whether two checkpoint folders hold the same tensors, bit for bit."""
    a, b = weights(first), weights(second)
    return a.keys() == b.keys() and all(torch.equal(tensor, b[name]) for name, tensor in a.items())


CLOCKS = ("time", "step_s", "seconds", "tokens_per_s")
"""What the names of metrics begin with that are times, or speeds."""


def untimed(row: Mapping[str, Any]) -> dict[str, Any]:
    """A line of `metrics.jsonl` without what a clock measured."""
    return {key: value for key, value in row.items() if not key.startswith(CLOCKS)}
