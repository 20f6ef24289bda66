"""`horma-rl train`: workspaces, warm start, GRPO, evaluation before and after, report. Each stage leaves its result in
the run's folder, and a run that was cut short goes on with the stage, or the step, that it had reached."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import random
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, ProgressCallback

from horma_rl.benchmarks.registry import load_benchmark
from horma_rl.benchmarks.types import Benchmark
from horma_rl.config import dump
from horma_rl.errors import UserError
from horma_rl.evaluation.runner import Evaluation, ensure_memory, evaluate, report_data, summarise_evaluation
from horma_rl.retrieval.backends.transformers import TransformersGenerator
from horma_rl.retrieval.engine import RolloutEngine
from horma_rl.retrieval.prompt import ChatCodec
from horma_rl.retrieval.types import Sampling
from horma_rl.training.config import TrainConfig
from horma_rl.training.grpo_config import grpo_args
from horma_rl.training.progress import Live, MetricsLog, StopOnInterrupt, read_metrics
from horma_rl.viewer.report import write_report
from memory_shell.cache import WorkspaceCache


@dataclass(frozen=True)
class Finished:
    """A finished run: its evaluation and what `summary.json` holds."""

    evaluation: Evaluation
    summary: dict[str, Any]


def train(config: TrainConfig, say: Callable[[str], None]) -> Finished:
    """Run or finish `config`'s run.

    Raises:
        UserError: something in the config, the data or the run's folder is at fault.
        KeyboardInterrupt: stopped by the user, after the state was saved.
    """
    started = time.monotonic()
    args = grpo_args(config)
    benchmark = load_benchmark(config.benchmark, **config.options)
    check(config, args, benchmark)
    run_dir = claim(config)  # after what may be at fault in the config, so that a corrected one may take the name
    if config.threads:
        torch.set_num_threads(config.threads)
    plan = config.evaluation_config({})
    say(f"memory: {plan.memory_dir}")
    ensure_memory(benchmark.conversations, plan)
    policies = {"before": start_folder(config, run_dir)}
    if config.sft.steps:
        start = policies["before"]
        policies["warm start"] = once(
            run_dir / "warm_start", lambda out: warm_start(config, benchmark, start, out, say)
        )
    last = list(policies.values())[-1]
    policies["after"] = once(run_dir / "model", lambda out: run_grpo(config, benchmark, last, out, say))
    say("evaluation: before and after, on held-out tasks")
    evaluation = evaluate(config.evaluation_config(policies), _evaluation_progress(say))
    return _write_results(config, evaluation, time.monotonic() - started)


def check(config: TrainConfig, args: Any, benchmark: Benchmark) -> None:
    """Raise UserError for what would fail, or train nothing, only after long work."""
    is_path = Path(config.model).is_absolute() or config.model.startswith((".", "data/", "runs/"))
    if is_path and not Path(config.model).is_dir():
        raise UserError(f"model: no checkpoint folder at {config.model}")
    for tracker in config.trackers:
        if importlib.util.find_spec(tracker) is None:
            raise UserError(f"trackers: {tracker} is not installed: pip install {tracker}")
    groups = args.generation_batch_size // args.num_generations
    if args.max_steps and len(benchmark.train) < groups:
        raise UserError(
            f"a step takes {groups} different tasks, but the train split has {len(benchmark.train)}: make "
            "per_device_train_batch_size or gradient_accumulation_steps smaller, or num_generations larger"
        )


def claim(config: TrainConfig) -> Path:
    """The run's folder, with the resolved config in it. Raises UserError when another run has that name."""
    run_dir = config.run_dir
    run_dir.mkdir(parents=True, exist_ok=True)
    path, text = run_dir / "config.yaml", dump(config)
    if path.exists() and path.read_text(encoding="utf-8") != text:
        raise UserError(
            f"{run_dir} holds a run with other settings ({path}): choose another name (name=...), or remove that folder"
        )
    _write(path, text)
    return run_dir


def once(folder: Path, make: Callable[[Path], None]) -> Path:
    """`folder`, made by `make` in a folder beside it and renamed when it is whole; kept when it is there already."""
    if folder.exists():
        return folder
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    make(unfinished)
    os.replace(unfinished, folder)
    return folder


def start_folder(config: TrainConfig, run_dir: Path) -> Path:
    """The folder of the starting checkpoint; a model of the hub is stored in the run's folder first."""
    if Path(config.model).is_dir():
        return Path(config.model)

    def download(out: Path) -> None:
        try:
            model = AutoModelForCausalLM.from_pretrained(config.model, dtype="auto")
            tokenizer = AutoTokenizer.from_pretrained(config.model)
        except OSError as error:
            raise UserError(f"model: cannot load '{config.model}': {' '.join(str(error).split())[:200]}") from None
        save(tokenizer, model, out)

    return once(run_dir / "start", download)


def warm_start(config: TrainConfig, benchmark: Benchmark, start: Path, out: Path, say: Callable[[str], None]) -> None:
    """Supervised training on expert episodes of the train split; the result goes to `out`."""
    from horma_rl.training.corpus import Demonstrator, task_examples
    from horma_rl.training.sft import train_sft

    tokenizer, model = load(start)
    codec = ChatCodec(tokenizer, config.prompt, config.thinking)
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


def run_grpo(config: TrainConfig, benchmark: Benchmark, start: Path, out: Path, say: Callable[[str], None]) -> None:
    """GRPO from `start`, or from the newest whole checkpoint of this run; the result goes to `out`."""
    from horma_rl.training.trainer import newest_checkpoint, step_of

    args = grpo_args(config)
    checkpoint = newest_checkpoint(config.run_dir / "checkpoints")
    if args.max_steps == 0 or (checkpoint and step_of(checkpoint) == args.max_steps):
        save(*load(checkpoint or start), out)
        return
    tokenizer, model = load(start)
    stop = StopOnInterrupt()
    trainer = make_trainer(config, args, benchmark, tokenizer, model, stop)
    if checkpoint:
        say(f"resuming from {checkpoint}")
    with stop, disk_errors(config.run_dir):
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if stop.stopped:
        raise KeyboardInterrupt
    save(tokenizer, trainer.accelerator.unwrap_model(trainer.model), out)


def make_trainer(
    config: TrainConfig, args: Any, benchmark: Benchmark, tokenizer: Any, model: Any, stop: StopOnInterrupt
) -> Any:
    """The trainer of `model` on the train split, with our rollouts and log."""
    from datasets import Dataset

    from horma_rl.training.rollouts import RolloutFunction, reward
    from horma_rl.training.trainer import RetrieverTrainer

    codec = ChatCodec(tokenizer, config.prompt, config.thinking)

    def make_engine(policy: Any) -> RolloutEngine:
        sampling = Sampling(temperature=args.temperature)
        generator = TransformersGenerator(policy, codec.eos_ids, sampling, max_rows=config.rollout.concurrency)
        return RolloutEngine(generator, codec, config.rollout)

    trainer = RetrieverTrainer(
        model=model,
        reward_funcs=[reward],
        args=args,
        train_dataset=Dataset.from_dict({"prompt": [task.id for task in benchmark.train]}),
        processing_class=tokenizer,
        rollout_func=RolloutFunction(
            make_engine=make_engine,
            tasks=benchmark.train,
            workspaces=WorkspaceCache(config.evaluation_config({}).memory_dir),
            shell=config.shell,
            seed=config.seed,
            resample=config.resample_zero_variance,
            log=config.run_dir / "trajectories.jsonl",
        ),
        callbacks=[MetricsLog(config.run_dir / "metrics.jsonl", Live()), stop],
    )
    for printer in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(printer)
    return trainer


def load(folder: Path) -> tuple[Any, Any]:
    """Tokenizer and model of a checkpoint folder, ready to train. Raises UserError when they cannot be read."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto", attn_implementation="sdpa")
    except (OSError, ValueError) as error:
        raise UserError(f"model: cannot load {folder}: {' '.join(str(error).split())[:200]}") from None
    return tokenizer, model


def save(tokenizer: Any, model: Any, out: Path) -> None:
    """Write a checkpoint folder. Raises OSError when the disk is full."""
    with disk_errors(out):
        model.save_pretrained(out)
        tokenizer.save_pretrained(out)


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Tell of a full disk by OSError, whichever library wrote: safetensors and torch raise errors of their own."""
    try:
        yield
    except (SafetensorError, RuntimeError) as error:
        if "No space left" not in str(error) and "inline_container" not in str(error):
            raise
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder)) from error


def _evaluation_progress(say: Callable[[str], None]) -> Callable[[str, int, int], None]:
    def progress(system: str, done: int, total: int) -> None:
        if done == total:
            say(f"evaluated {system}: {total} tasks")

    return progress


def _write_results(config: TrainConfig, evaluation: Evaluation, wall_s: float) -> Finished:
    metrics = read_metrics(config.run_dir / "metrics.jsonl")
    path = config.run_dir / "summary.json"
    unit = 2**20 if sys.platform == "darwin" else 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    spent = {"wall_s": round(wall_s, 1), "peak_rss_mb": round(peak, 1)}
    summary = {
        **summarise_evaluation(evaluation),
        "steps": metrics[-1]["step"] if metrics else 0,
        **(_spent_before(path) or spent),
        "model": str(config.run_dir / "model"),
        "report": str(config.run_dir / "report.html"),
    }
    data = replace(report_data(evaluation), metrics=metrics, config_yaml=dump(config), wall_s=summary["wall_s"])
    write_report(config.run_dir / "report.html", data)
    _write(path, json.dumps(summary, indent=1) + "\n")
    return Finished(evaluation, summary)


def _spent_before(path: Path) -> dict[str, float]:
    """What a finished run took, so that starting it again, which does nothing, changes nothing."""
    if not path.is_file():
        return {}
    summary = json.loads(path.read_text(encoding="utf-8"))
    return {name: summary[name] for name in ("wall_s", "peak_rss_mb")}


def _write(path: Path, text: str) -> None:
    unfinished = path.with_name(f".{path.name}.tmp")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)
