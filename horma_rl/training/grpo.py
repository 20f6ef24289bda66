"""GRPO in one process: the trainer on a run's tasks, with our rollouts, from a start folder or a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PrinterCallback, ProgressCallback

from horma_rl.benchmarks.types import Benchmark
from horma_rl.retrieval.engine import RolloutEngine
from horma_rl.retrieval.prompt import ChatCodec
from horma_rl.retrieval.types import Sampling
from horma_rl.training.alarms import AlarmError, Alarms
from horma_rl.training.checkpoints import newest_checkpoint, step_of
from horma_rl.training.config import TrainConfig
from horma_rl.training.generators import engine_options, generation_notes, rollout_generator, wait_after_sync
from horma_rl.training.grpo_config import grpo_args
from horma_rl.training.guard import from_main
from horma_rl.training.policies import disk_errors, load, save
from horma_rl.training.progress import Live, MetricsLog, StopOnInterrupt
from horma_rl.training.rollouts import RolloutFunction, reward
from horma_rl.training.trainer import RetrieverTrainer
from memory_shell.cache import WorkspaceCache


def run_grpo(config: TrainConfig, benchmark: Benchmark, start: Path, out: Path, say: Callable[[str], None]) -> None:
    """GRPO from `start`, or from the newest whole checkpoint of this run; the result goes to `out`."""
    args = grpo_args(config)
    checkpoint = from_main(lambda: newest_checkpoint(config.run_dir / "checkpoints", say))
    if args.max_steps == 0 or (checkpoint and step_of(checkpoint) == args.max_steps):
        save(*load(checkpoint or start), out)
        return
    tokenizer, model = load(start)
    stop, alarms = StopOnInterrupt(), Alarms(config.alarms)
    log = MetricsLog(config.run_dir / "metrics.jsonl", Live(), alarms)
    measured = config.alarms.kl.action != "off"
    trainer = make_trainer(
        config, args, benchmark, tokenizer, model, [log, stop], (lambda: load(start)[1]) if measured else None
    )
    trainer.keep("alarms", alarms)
    for line in generation_notes(trainer):
        say(line)
    if checkpoint:
        say(f"resuming from {checkpoint}")
    with stop, disk_errors(config.run_dir):
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if stop.stopped:
        raise stop.reason()
    if log.stopped_by:
        raise AlarmError(log.stopped_by)
    save(tokenizer, trainer.accelerator.unwrap_model(trainer.model), out)


def make_trainer(
    config: TrainConfig,
    args: Any,
    benchmark: Benchmark,
    tokenizer: Any,
    model: Any,
    callbacks: list[Any],
    start_model: Callable[[], Any] | None = None,
) -> Any:
    """The trainer of `model` on the train split, with our rollouts. `start_model`: see RetrieverTrainer."""
    codec = ChatCodec(tokenizer, config.prompt, config.thinking, config.tools)

    def make_engine(policy: Any) -> RolloutEngine:
        sampling = Sampling(temperature=args.temperature)
        generator = rollout_generator(trainer, policy, codec.eos_ids, sampling, config.rollout)
        return RolloutEngine(generator, codec, config.rollout)

    rollouts = RolloutFunction(
        make_engine=make_engine,
        tasks=benchmark.train,
        workspaces=WorkspaceCache(config.evaluation_config({}).memory_dir),
        shell=config.shell,
        seed=config.seed,
        resample=config.resample_zero_variance,
        log=config.run_dir / "trajectories.jsonl",
    )
    with engine_options(args, model):
        trainer = RetrieverTrainer(
            model=model,
            reward_funcs=[reward],
            args=args,
            train_dataset=Dataset.from_dict({"prompt": [task.id for task in benchmark.train]}),
            processing_class=tokenizer,
            rollout_func=rollouts,
            callbacks=callbacks,
            start_model=start_model,
        )
    wait_after_sync(trainer)
    for printer in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(printer)
    return trainer
