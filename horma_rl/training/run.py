"""`horma-rl train`: workspaces, warm start, GRPO, evaluation before and after, report. Each stage leaves its result in
the run's folder, and a run that was cut short goes on with the stage, or the step, that it had reached."""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from horma_rl.benchmarks.registry import load_benchmark
from horma_rl.benchmarks.types import Benchmark
from horma_rl.config import dump
from horma_rl.errors import UserError
from horma_rl.evaluation.runner import Evaluation, ensure_memory, evaluate, report_data, summarise_evaluation
from horma_rl.evaluation.trained import as_trained
from horma_rl.memory.files import locked
from horma_rl.retrieval.manifest import Manifest
from horma_rl.training.config import TrainConfig
from horma_rl.training.curriculum import Curriculum
from horma_rl.training.generators import check_vllm
from horma_rl.training.grpo_config import grpo_args
from horma_rl.training.identity import same_run
from horma_rl.training.policies import check_model_path, once, start_folder
from horma_rl.training.progress import read_metrics
from horma_rl.training.trackers import check_trackers, report_to_trackers
from horma_rl.training.validation import chosen_checkpoint, hold_out
from horma_rl.viewer.report import write_report

Say = Callable[[str], None]
Stage = Literal["all", "prepare", "grpo", "evaluate"]


@dataclass(frozen=True)
class Finished:
    """A finished run: its evaluation and what `summary.json` holds."""

    evaluation: Evaluation
    summary: dict[str, Any]


def train(config: TrainConfig, say: Say, stage: Stage = "all") -> Finished | None:
    """Run or finish `config`'s run: `begin`, then the stages `prepare`, `learn` and `conclude`, or `stage` alone. None
    when the evaluation is not among them.

    Raises:
        UserError: something in the config, the data or the run's folder is at fault.
        KeyboardInterrupt: stopped by the user, after the state was saved.
    """
    started = time.monotonic()
    if stage == "all" and config.launch.nodes > 1:
        raise UserError("launch.nodes: run --stage prepare once, --stage grpo on every node, --stage evaluate once")
    if stage in ("all", "grpo") and config.launch.world_size > 1:
        from horma_rl.training.launch import check_machine

        check_machine(config.launch)
    benchmark = begin(config)
    # Several nodes share the folder: there the batch script sees to it that a run is not started twice.
    with locked(config.run_dir) if config.launch.nodes == 1 else nullcontext():
        if stage in ("all", "prepare"):
            prepare(config, benchmark, say)
        if stage in ("all", "grpo"):
            learn(config, benchmark, say)
        return conclude(config, say, started) if stage in ("all", "evaluate") else None


def begin(config: TrainConfig) -> Benchmark:
    """Check the config, take the run's folder, and read the benchmark. Raises UserError."""
    args = grpo_args(config)
    benchmark = hold_out(load_benchmark(config.benchmark, **config.options), config)
    check(config, args, benchmark)
    claim(config)  # after what may be at fault in the config, so that a corrected one may take the name
    if config.threads:
        torch.set_num_threads(config.threads)
    return benchmark


def prepare(config: TrainConfig, benchmark: Benchmark, say: Say) -> None:
    """The workspaces, the starting checkpoint, and the warm start."""
    plan = config.evaluation_config({})
    say(f"memory: {plan.memory_dir}")
    ensure_memory(benchmark.conversations, plan)
    start = start_folder(config)
    if config.sft.steps:
        from horma_rl.training.warm_start import warm_start

        once(config.run_dir / "warm_start", lambda out: warm_start(config, benchmark, start, out, say))


def learn(config: TrainConfig, benchmark: Benchmark, say: Say) -> None:
    """GRPO, from what `prepare` left to the folder `model`: in this process, or in several that are started here. Of
    several nodes the first makes the folder."""
    if (config.run_dir / "model").exists():
        return
    from horma_rl.training.grpo import save_trained

    require(list(starts(config).values())[-1], "prepare")
    require(config.evaluation_config({}).memory_dir, "prepare")
    args = grpo_args(config)
    if args.max_steps != 0 and config.launch.world_size == 1:
        train_here(config, say, benchmark)
    elif args.max_steps != 0:
        from horma_rl.training.launch import launch

        if launch(config, args.bf16, say) > 0:
            return
    once(config.run_dir / "model", lambda out: save_trained(config, list(starts(config).values())[-1], out))


def train_here(config: TrainConfig, say: Say, benchmark: Benchmark | None = None) -> None:
    """This process's part of GRPO, until the checkpoint of the last step is there."""
    from horma_rl.training.grpo import run_grpo

    if config.threads:
        torch.set_num_threads(config.threads)
    known = benchmark or hold_out(load_benchmark(config.benchmark, **config.options), config)
    run_grpo(config, known, list(starts(config).values())[-1], say)


def conclude(config: TrainConfig, say: Say, started: float) -> Finished:
    """The evaluation of every checkpoint that the run made, and the report. `started`: monotonic seconds."""
    require(config.run_dir / "model", "grpo")
    say("evaluation: before and after, on held-out tasks")
    policies = {**starts(config), "after": config.run_dir / "model"}
    evaluation = evaluate(config.evaluation_config(policies), _evaluation_progress(say))
    return _write_results(config, evaluation, time.monotonic() - started)


def starts(config: TrainConfig) -> dict[str, Path]:
    """The checkpoints before GRPO by name, in the order in which they are made."""
    warm = {"warm start": config.run_dir / "warm_start"} if config.sft.steps else {}
    return {"before": start_folder(config), **warm}


def require(folder: Path, stage: Stage) -> None:
    """Raise UserError when `folder`, which `stage` makes, is not there."""
    if not folder.is_dir():
        raise UserError(f"{folder} is missing: run `horma-rl train` with --stage {stage} first")


def check(config: TrainConfig, args: Any, benchmark: Benchmark) -> None:
    """Raise UserError for what would fail, or train nothing, only after long work."""
    check_model_path(config)
    as_trained(config.evaluation_config({"before": Path(config.model)}))
    if manifest := Manifest.read(Path(config.model)):
        manifest.check_files(Path(config.model))
    check_vllm(config, args)
    if config.lora and importlib.util.find_spec("peft") is None:
        raise UserError("lora: peft is not installed: pip install 'horma-rl[lora]'")
    check_trackers(config)
    groups = args.generation_batch_size * config.launch.world_size // args.num_generations
    if args.max_steps and len(benchmark.train) < groups:
        raise UserError(
            f"a step takes {groups} different tasks, but the train split has {len(benchmark.train)}: make "
            "per_device_train_batch_size or gradient_accumulation_steps smaller, or num_generations larger"
        )
    Curriculum(config.curriculum, benchmark, config.seed)


def claim(config: TrainConfig) -> Path:
    """The run's folder, with the resolved config in it. Raises UserError when another run has that name."""
    run_dir = config.run_dir
    run_dir.mkdir(parents=True, exist_ok=True)
    path, text = run_dir / "config.yaml", dump(config)
    held = path.read_text(encoding="utf-8", errors="replace") if path.exists() else None
    if held is not None and not same_run(held, text):
        raise UserError(
            f"{run_dir} holds a run with other settings, or {path.name} there cannot be read: choose another name "
            "(name=...), or remove that folder"
        )
    if held != text:  # of several nodes only the first one writes
        _write(path, text)
    return run_dir


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
    chosen = chosen_checkpoint(config)
    spent = {"wall_s": round(wall_s, 1), "peak_rss_mb": round(peak, 1)}
    summary = {
        **summarise_evaluation(evaluation),
        "steps": metrics[-1]["step"] if metrics else 0,
        **({"chosen": {"step": chosen.step, "jaccard": chosen.jaccard}} if chosen else {}),
        **(_spent_before(path) or spent),
        "model": str(config.run_dir / "model"),
        "report": str(config.run_dir / "report.html"),
    }
    made = report_data(evaluation)
    facts = [*made.facts, *([("Model", chosen.told(config))] if chosen else [])]
    data = replace(made, facts=facts, metrics=metrics, config_yaml=dump(config), wall_s=summary["wall_s"])
    write_report(config.run_dir / "report.html", data)
    if not path.is_file():  # a run that was finished before has told them
        report_to_trackers(config, summary, config.run_dir / "report.html", summary["steps"])
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
