"""Rollouts: our engine with the transformers backend against TRL's own `environment_factory` loop, in one run.

    python scripts/bench/rollout.py [--model DIR] [--episodes 64] [--rounds 3]

Both sides play the same tasks in the same memory with the same model object, prompt ids, sampling, turn cap and
response cap, as one batch of concurrent episodes; they take turns, and medians are compared. TRL's side is timed around
its generation and tool loop alone (environments are made before the clock starts); ours with everything. TRL goes on
after `done` and reads the whole history again at each turn: that is what its loop does. Progress goes to stdout, and
the last line is one JSON object.
"""

from __future__ import annotations

import argparse
import copy
import functools
import json
import os
import statistics
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from horma_rl.benchmarks.storage import load_conversations, load_tasks
from horma_rl.memory.build import build_all
from horma_rl.retrieval.backends.transformers import TransformersGenerator
from horma_rl.retrieval.engine import EpisodeSpec, RolloutConfig, RolloutEngine
from horma_rl.retrieval.prompt import ChatCodec
from horma_rl.retrieval.types import Trajectory
from memory_shell.adapters.trl import MemoryShellEnvironment
from memory_shell.episode import MemoryShell
from memory_shell.types import Caps, Task
from memory_shell.workspace import Workspace

REPOSITORY = Path(__file__).resolve().parents[2]
GROUP = 8
"""Rollouts of one task, as in GRPO."""


@dataclass
class Bench:
    """What both sides play with."""

    model: Any
    codec: ChatCodec
    tasks: list[Task]
    memory: Path
    turns: int
    response: int
    context: int
    caps: Caps

    @functools.cached_property
    def workspaces(self) -> dict[str, Workspace]:
        return {name: Workspace.load(self.memory / name) for name in {task.workspace for task in self.tasks}}

    def shell(self, task: Task) -> MemoryShell:
        return MemoryShell(self.workspaces[task.workspace], self.caps, overview="terms")


@dataclass
class Measured:
    """One batch of episodes: seconds, the turns and the sampled tokens of all of them, and the first prompt's ids."""

    seconds: float
    turns: int
    tokens: int
    prompt: list[int]


def ours(bench: Bench, seed: int) -> Measured:
    """The batch through our engine."""
    started = time.perf_counter()
    generator = TransformersGenerator(bench.model, bench.codec.eos_ids, max_rows=len(bench.tasks))
    config = RolloutConfig(
        max_turns=bench.turns, max_response_tokens=bench.response, max_context_tokens=bench.context,
        concurrency=len(bench.tasks),
    )  # fmt: skip
    engine = RolloutEngine(generator, bench.codec, config)
    specs = [
        EpisodeSpec(task, functools.partial(bench.shell, task), seed * 10_000 + place, place)
        for place, task in enumerate(bench.tasks)
    ]
    done: list[Trajectory] = list(engine.run(specs))
    seconds = time.perf_counter() - started
    first = next(trajectory for trajectory in done if trajectory.index == 0)
    turns = sum(len(trajectory.turns) for trajectory in done)
    return Measured(seconds, turns, sum(sum(trajectory.mask) for trajectory in done), first.prompt_ids)


class _MeasuredError(Exception):
    """Leaves TRL's step once the rollouts are there."""


class Stock:
    """TRL's trainer, stopped after its rollouts."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        from datasets import Dataset
        from trl import GRPOConfig, GRPOTrainer, chat_template_utils

        tokenizer = copy.deepcopy(bench.codec.tokenizer)
        if getattr(tokenizer, "response_template", None) is None:
            tokenizer.response_template = chat_template_utils.qwen3_template
        self.rows = [self._row(task) for task in bench.tasks]
        args = GRPOConfig(
            output_dir=str(folder), use_cpu=not torch.cuda.is_available(), bf16=False, report_to=[],
            per_device_train_batch_size=len(self.rows), num_generations=GROUP,
            max_completion_length=bench.context, max_tool_calling_iterations=bench.turns - 1,
            generation_kwargs={"max_new_tokens": bench.response}, temperature=1.0,
            chat_template_kwargs={"enable_thinking": False}, disable_tqdm=True,
        )  # fmt: skip
        self.trainer = GRPOTrainer(
            model=bench.model,
            args=args,
            train_dataset=Dataset.from_list(self.rows),
            processing_class=tokenizer,
            environment_factory=functools.partial(
                MemoryShellEnvironment, str(bench.memory), caps=bench.caps, overview="terms"
            ),
        )
        self._generate = self.trainer._generate
        self.trainer._generate = self._timed

    def run(self) -> Measured:
        """The batch through TRL's loop."""
        try:
            self.trainer._generate_and_score_completions(copy.deepcopy(self.rows))
        except _MeasuredError:
            return self._measured
        raise RuntimeError("TRL's step ended without rollouts")

    def _timed(self, prompts: Any) -> None:
        started = time.perf_counter()
        prompt_ids, _, mask, completions, *_ = self._generate(prompts)
        seconds = time.perf_counter() - started
        turns = sum(message["role"] == "assistant" for episode in completions for message in episode)
        self._measured = Measured(seconds, turns, sum(map(sum, mask)), list(prompt_ids[0]))
        raise _MeasuredError

    @staticmethod
    def _row(task: Task) -> dict[str, Any]:
        return {
            "prompt": [{"role": "user", "content": ""}], "question": task.question, "workspace": task.workspace,
            "evidence": list(task.evidence), "asked_at": task.asked_at,
        }  # fmt: skip


def prepare(options: argparse.Namespace, folder: Path) -> Bench:
    """Build the memory of the shipped sample and load the model."""
    sample = REPOSITORY / "data" / "sample"
    memory = folder / "memory"
    build_all(load_conversations(sample / "conversations.jsonl"), memory)
    tasks = [task for task in load_tasks(sample / "tasks.jsonl") if task.evidence]
    step = max(1, len(tasks) // (options.episodes // GROUP))
    batch = [task for task in tasks[::step][: options.episodes // GROUP] for _ in range(GROUP)]
    caps = Caps(turns=options.turns, lines=10)
    print(f"model: {options.model}", flush=True)
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32)
    codec = ChatCodec(AutoTokenizer.from_pretrained(options.model), "compact")
    return Bench(model, codec, batch, memory, options.turns, options.response, options.context, caps)


def main() -> None:
    """Measure both sides in turn and print the medians."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--model", type=Path, default=REPOSITORY / "data" / "models" / "tiny", help="a model folder")
    parser.add_argument("--episodes", type=int, default=64, help=f"concurrent episodes, a multiple of {GROUP}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--response", type=int, default=256, help="tokens of one response")
    parser.add_argument("--context", type=int, default=4096, help="tokens of an episode")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    with tempfile.TemporaryDirectory() as folder:
        bench = prepare(options, Path(folder))
        stock = Stock(bench, Path(folder))
        rounds: list[tuple[Measured, Measured]] = []
        for number in range(options.rounds):
            pair = (ours(bench, number), stock.run())
            assert pair[0].prompt == pair[1].prompt, "both sides must see the same prompt"
            rounds.append(pair)
            for name, side in zip(("ours", "TRL "), pair, strict=True):
                print(
                    f"round {number + 1}: {name} {len(bench.tasks)} episodes in {side.seconds:6.1f} s, "
                    f"{side.turns / len(bench.tasks):.1f} turns each, {side.tokens / side.seconds:6.0f} tokens/s",
                    flush=True,
                )
    report(len(bench.tasks), rounds)


def report(episodes: int, rounds: list[tuple[Measured, Measured]]) -> None:
    """The last line: one JSON object with the medians."""
    speed = [statistics.median(episodes / pair[side].seconds for pair in rounds) for side in (0, 1)]
    tokens = [statistics.median(pair[side].tokens / pair[side].seconds for pair in rounds) for side in (0, 1)]
    turns = [statistics.mean(pair[side].turns / episodes for pair in rounds) for side in (0, 1)]
    found = {
        "episodes_per_s": speed[0], "trl_episodes_per_s": speed[1], "ratio": speed[0] / speed[1],
        "tokens_per_s": tokens[0], "trl_tokens_per_s": tokens[1], "token_ratio": tokens[0] / tokens[1],
        "turns": turns[0], "trl_turns": turns[1],
    }  # fmt: skip
    rounded = {key: round(value, 3) for key, value in found.items()}
    print(json.dumps({**rounded, "episodes": episodes, "rounds": len(rounds)}))


if __name__ == "__main__":
    main()
