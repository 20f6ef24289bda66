"""Training steps: ours against TRL's stock loop with its own generation, tool loop and loss, in one run.

    python scripts/bench/train_step.py [--config FILE] [--steps 2] [--rounds 3] [key=value ...]

Both sides are whole `trainer.train()` loops on copies of the same model, with the same tasks in the same order, memory,
prompt ids, sampling, caps, group size and micro-batches; they take turns, and medians of the steps are compared. The
learning rate is 0: an update costs the same, and both sides go on playing with the same policy. What differs is the
work: TRL's loop goes on after `done` until the turns are used up or a response has no call, reads the whole history
again at each turn, and computes the softmax of observations too. As it therefore samples other numbers of tokens, the
ratio is given per step and per sampled token. A step ends after the optimiser's; saving, logging and the first step of
each side (warm-up) are not counted. Progress goes to stdout, and the last line is one JSON object.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer, chat_template_utils

from horma_rl.benchmarks.registry import load_benchmark
from horma_rl.benchmarks.types import Benchmark
from horma_rl.config import load_config
from horma_rl.evaluation.runner import ensure_memory
from horma_rl.training.config import TrainConfig
from horma_rl.training.grpo import make_trainer
from horma_rl.training.grpo_config import grpo_args
from horma_rl.training.phases import PARTS, PHASES, Phases
from horma_rl.training.policies import load
from memory_shell.adapters.trl import MemoryShellEnvironment
from memory_shell.types import Task

REPOSITORY = Path(__file__).resolve().parents[2]
SHOWN = ("rollout", "environment", "logprobs", "update", "other")


class Watch(TrainerCallback):
    """Times each step, from its first batch to its optimiser's step, and takes its phases from the log."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.cpu: list[float] = []
        """Seconds of a step by the clock, and of the processor: other work on the machine adds to the first alone."""
        self.phases: list[dict[str, float]] = []
        self.tokens: list[int] = []
        self.turns: list[float] = []
        """Tokens sampled in a step, and model responses of an episode."""

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The clock starts."""
        self._began = time.perf_counter(), time.process_time()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The clock stops."""
        self.seconds.append(time.perf_counter() - self._began[0])
        self.cpu.append(time.process_time() - self._began[1])

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """The phases of the step."""
        if logs and "time/rollout_s" in logs and "reward" in logs:
            self.phases.append({name: logs[f"time/{name}_s"] for name in (*PHASES, *PARTS)})


def ours(config: TrainConfig, args: Any, benchmark: Benchmark) -> tuple[Any, Watch]:
    """Our trainer, as `horma-rl train` makes it, with what it measures for the alarms."""
    start = Path(config.model)
    tokenizer, model = load(start)
    watch = Watch()
    measured = config.alarms.kl.action != "off"
    trainer = make_trainer(
        config, args, benchmark, tokenizer, model, [watch], (lambda: load(start)[1]) if measured else None
    )
    play = trainer.rollout_func

    def counted(prompts: Sequence[str], trainer: Any) -> Any:
        played = play(prompts, trainer)
        watch.tokens.append(sum(map(sum, played["env_mask"])))
        watch.turns.append(trainer._metrics["train"]["rollout/turns"][-1])
        return played

    trainer.rollout_func = counted
    return trainer, watch


class Stock(GRPOTrainer):
    """TRL's trainer, with the same stopwatch around its own methods; none of them is changed."""

    def __init__(self, watch: Watch, *args: Any, **others: Any) -> None:
        self.phases = Phases()
        self.watch = watch
        super().__init__(*args, callbacks=[watch, self.phases], **others)

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        with self.phases("other"):
            return super()._prepare_inputs(generation_batch)

    def _generate(self, prompts: Any) -> Any:
        with self.phases("rollout"):
            generated = super()._generate(prompts)
        completions = generated[3]
        responses = sum(message["role"] == "assistant" for episode in completions for message in episode)
        self.watch.tokens.append(sum(map(sum, generated[2])))
        self.watch.turns.append(responses / len(completions))
        return generated

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """TRL's metrics, and the phases."""
        super().log(logs | self.phases.take(self.state.global_step), start_time)


class Timed(MemoryShellEnvironment):
    """The adapter, whose commands are counted as `environment`."""

    def __init__(self, phases: list[Phases], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._phases = phases

    def _run(self, verb: str, args: str) -> str:
        started = time.perf_counter()
        shown = super()._run(verb, args)
        self._phases[0].add("environment", time.perf_counter() - started)
        return shown


def stock(config: TrainConfig, args: Any, benchmark: Benchmark, folder: Path) -> tuple[Any, Watch]:
    """TRL's trainer on the same tasks, with the same limits."""
    tokenizer, model = load(Path(config.model))
    tokenizer = copy.deepcopy(tokenizer)
    if getattr(tokenizer, "response_template", None) is None:
        tokenizer.response_template = chat_template_utils.qwen3_template
    limits = {
        "max_completion_length": config.rollout.max_context_tokens,
        "max_tool_calling_iterations": config.rollout.max_turns - 1,  # it makes one response more than it says
        "generation_kwargs": {"max_new_tokens": config.rollout.max_response_tokens},
        "chat_template_kwargs": {"enable_thinking": config.thinking},
    }
    same = (
        "per_device_train_batch_size", "gradient_accumulation_steps", "num_generations", "temperature", "max_steps",
        "learning_rate", "lr_scheduler_type", "max_grad_norm", "seed", "save_strategy", "logging_steps", "use_cpu",
        "bf16", "shuffle_dataset", "activation_checkpointing", "loss_type", "disable_tqdm",
    )  # fmt: skip
    chosen = GRPOConfig(
        output_dir=str(folder), report_to="none", **{name: getattr(args, name) for name in same}, **limits
    )
    watch, phases = Watch(), []
    environment = functools.partial(
        Timed, phases, str(config.evaluation_config({}).memory_dir), caps=config.shell.caps, unit=config.shell.unit,
        overview=config.shell.overview, zero_on_cap=config.shell.zero_on_cap,
    )  # fmt: skip
    trainer = Stock(
        watch,
        model=model,
        args=chosen,
        train_dataset=Dataset.from_list([row(task) for task in benchmark.train]),
        processing_class=tokenizer,
        environment_factory=environment,
    )
    phases.append(trainer.phases)
    trainer.remove_callback(PrinterCallback)
    return trainer, watch


def row(task: Task) -> dict[str, Any]:
    """A task as TRL's dataset carries it."""
    return {
        "prompt": [{"role": "user", "content": ""}], "question": task.question, "workspace": task.workspace,
        "evidence": list(task.evidence), "asked_at": task.asked_at,
    }  # fmt: skip


def main() -> None:
    """Measure both sides in turn and print the medians."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--config", type=Path, default=REPOSITORY / "configs/train/tiny_cpu.yaml")
    parser.add_argument("overrides", nargs="*", default=[], metavar="key=value", help="override a field of the config")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2, help="steps of each side in a round")
    options = parser.parse_intermixed_args()
    warnings.filterwarnings("ignore")
    with tempfile.TemporaryDirectory() as folder:
        config = load_config(
            options.config,
            [
                *options.overrides, f"runs={folder}", "resample_zero_variance=0", "grpo.learning_rate=0.0",
                f"grpo.max_steps={options.steps}", "grpo.shuffle_dataset=false",
                "options.train=8",
            ],
            TrainConfig,
        )  # fmt: skip
        if config.threads:
            torch.set_num_threads(config.threads)
        benchmark = load_benchmark(config.benchmark, **config.options)
        ensure_memory(benchmark.conversations, config.evaluation_config({}))
        args = grpo_args(config)
        args.save_strategy = "no"
        config.run_dir.mkdir(parents=True, exist_ok=True)
        sides = {"ours": ours(config, args, benchmark), "TRL": stock(config, args, benchmark, Path(folder) / "stock")}
        for trainer, watch in sides.values():
            _run(trainer, 1)
            for values in (watch.seconds, watch.cpu, watch.phases, watch.tokens, watch.turns):
                values.clear()
        for number in range(options.rounds):
            for name, (trainer, watch) in sides.items():
                _run(trainer, options.steps)
                _progress(number, name, watch, options.steps)
    _report(args, {name: watch for name, (_, watch) in sides.items()}, options)


def _run(trainer: Any, steps: int) -> None:
    """Train from the start of the data, with the weights as they are."""
    trainer.args.max_steps = steps
    trainer._step = 0
    trainer._buffered_inputs = None
    trainer.train()


def _progress(number: int, name: str, watch: Watch, steps: int) -> None:
    seconds, tokens = statistics.mean(watch.seconds[-steps:]), statistics.mean(watch.tokens[-steps:])
    phases = "  ".join(f"{p} {statistics.mean(row[p] for row in watch.phases[-steps:]):.2f}" for p in SHOWN)
    print(
        f"round {number + 1}: {name:<4} {seconds:6.2f} s a step ({statistics.mean(watch.cpu[-steps:]):.2f} s of CPU), "
        f"{tokens:6.0f} tokens, "
        f"{tokens / seconds:5.0f} tokens/s, {statistics.mean(watch.turns[-steps:]):.1f} turns; {phases}",
        flush=True,
    )


def _report(args: Any, watches: dict[str, Watch], options: argparse.Namespace) -> None:
    """The last line: one JSON object with the medians."""
    episodes = args.per_device_train_batch_size * args.gradient_accumulation_steps
    found: dict[str, Any] = {"episodes": episodes, "rounds": options.rounds, "steps": options.steps}
    for name, watch in watches.items():
        seconds = statistics.median(watch.seconds)
        per_token = [1000 * s / t for s, t in zip(watch.seconds, watch.tokens, strict=True)]
        found[name] = {
            "step_s": round(seconds, 3),
            "step_cpu_s": round(statistics.median(watch.cpu), 3),
            "ms_per_sampled_token": round(statistics.median(per_token), 3),
            "tokens_per_s": round(statistics.median(1000 / value for value in per_token), 1),
            "sampled_tokens": round(statistics.median(watch.tokens)),
            "turns": round(statistics.mean(watch.turns), 2),
            "phases_s": {p: round(statistics.median(phases[p] for phases in watch.phases), 3) for p in SHOWN},
        }
    found["ratio"] = round(found["TRL"]["step_s"] / found["ours"]["step_s"], 2)
    found["ratio_cpu"] = round(found["TRL"]["step_cpu_s"] / found["ours"]["step_cpu_s"], 2)
    found["ratio_per_token"] = round(found["TRL"]["ms_per_sampled_token"] / found["ours"]["ms_per_sampled_token"], 2)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
