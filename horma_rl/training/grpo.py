"""GRPO in one process: the trainer on a run's tasks, with our rollouts, from a start folder or a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PrinterCallback, ProgressCallback

from horma_rl.benchmarks.types import Benchmark
from horma_rl.retrieval.engine import RolloutEngine
from horma_rl.retrieval.prompt import ChatCodec
from horma_rl.retrieval.types import Sampling
from horma_rl.training.alarms import AlarmError, Alarms
from horma_rl.training.checkpoints import mark_complete, newest_checkpoint, step_of
from horma_rl.training.config import TrainConfig
from horma_rl.training.curriculum import Curriculum
from horma_rl.training.engines import EngineCheck
from horma_rl.training.generators import engine_options, generation_notes, rollout_generator, wait_after_sync
from horma_rl.training.grpo_config import grpo_args
from horma_rl.training.guard import from_main
from horma_rl.training.launch_config import engine_asked
from horma_rl.training.policies import disk_errors, load, save, stored_dtype
from horma_rl.training.progress import Live, MetricsLog, StopOnInterrupt
from horma_rl.training.rewards import TrainingReward
from horma_rl.training.rollouts import RolloutFunction, reward, trajectory_log
from horma_rl.training.trackers import Trackers
from horma_rl.training.trainer import RetrieverTrainer
from horma_rl.training.validation import HELD_OUT, Validation, chosen_checkpoint
from memory_shell.cache import WorkspaceCache


def run_grpo(config: TrainConfig, benchmark: Benchmark, start: Path, say: Callable[[str], None]) -> None:
    """One process's part of GRPO from `start`, or from the newest whole checkpoint of this run, to that of the last
    step. Raises UserError when the engine that was asked for is not in force."""
    args = grpo_args(config)
    checkpoint = from_main(lambda: newest_checkpoint(config.run_dir / "checkpoints", say))
    if checkpoint and step_of(checkpoint) == args.max_steps:
        return
    dtype = training_dtype(config, args)
    tokenizer, model = load(start, dtype)
    stop, alarms = StopOnInterrupt(), Alarms(config.alarms)
    trackers = Trackers(config, Live())
    log = MetricsLog(config.run_dir / "metrics.jsonl", trackers, alarms)
    measured = config.alarms.kl.action != "off"
    trainer = make_trainer(
        config, args, benchmark, tokenizer, model, [log, stop], (lambda: load(start, dtype)[1]) if measured else None
    )
    trainer.keep("alarms", alarms)
    trainer.add_callback(EngineCheck(trainer, engine_asked(config.launch), say))
    for line in [*generation_notes(trainer), *split_notes(args)]:
        say(line)
    if checkpoint:
        say(f"resuming from {checkpoint}")
    with stop, trackers, disk_errors(config.run_dir):
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if stop.stopped:
        raise stop.reason()
    if log.stopped_by:
        raise AlarmError(log.stopped_by)


def training_dtype(config: TrainConfig, args: Any) -> str:
    """The number format of the weights that are loaded. A bf16 weight is too coarse for updates of 1e-6 of its size,
    so they are kept in fp32; DeepSpeed keeps fp32 copies by itself, and under LoRA only the adapters change."""
    keeps_copies = engine_asked(config.launch).kind == "ZeRO" and args.bf16
    return "auto" if keeps_copies or config.lora else "float32"


def split_notes(args: Any) -> list[str]:
    """What makes the gradient depend on how a step is cut into processes and micro-batches: lines for the start."""
    if args.world_size * args.gradient_accumulation_steps == 1:
        return []
    averaged = "an average over each process's micro-batch, so it depends on how a step is cut into these"
    fields = {"entropy_coef": args.entropy_coef != 0, "top_entropy_quantile": args.top_entropy_quantile < 1}
    return [f"note: grpo.{name} is {averaged}" for name, used in fields.items() if used]


def save_trained(config: TrainConfig, start: Path, out: Path) -> None:
    """Write the model of a run whose GRPO is over, in the number format of `start`, adapters merged: that of the best
    checkpoint where the config asks for it, else of the last. Without GRPO it is `start` itself."""
    chosen = chosen_checkpoint(config)
    checkpoint = chosen.folder if chosen else newest_checkpoint(config.run_dir / "checkpoints")
    if config.lora and checkpoint:
        from horma_rl.training.adapters import merged

        save(*merged(start, checkpoint), out)
    else:
        save(*load(checkpoint or start, stored_dtype(start)), out)
    mark_complete(out)


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

    def make_engine(policy: Any, temperature: float = args.temperature) -> RolloutEngine:
        sampling = Sampling(temperature=temperature)
        generator = rollout_generator(trainer, policy, codec.eos_ids, sampling, config.rollout)
        return RolloutEngine(generator, codec, config.rollout)

    workspaces = WorkspaceCache(config.evaluation_config({}).memory_dir)
    curriculum = Curriculum(config.curriculum, benchmark, config.seed) if config.curriculum.draws else None
    rollouts = RolloutFunction(
        make_engine=make_engine,
        tasks=benchmark.train,
        workspaces=workspaces,
        shell=config.shell,
        seed=config.seed,
        resample=config.resample_zero_variance,
        log=trajectory_log(config.run_dir, args.process_index),
        step_s=config.rollout_step_s,
        training_reward=TrainingReward.of(config.reward, config.rollout, config.shell),
        curriculum=curriculum,
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
            peft_config=_adapters(config),
            start_model=start_model,
        )
    wait_after_sync(trainer)
    if curriculum:
        trainer.keep("curriculum", curriculum)
    if config.evaluation.every:
        decode = partial(make_engine, temperature=config.evaluation.temperature)
        trainer.add_callback(Validation(trainer, benchmark.details[HELD_OUT], decode, workspaces, config))
    for printer in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(printer)
    return trainer


def _adapters(config: TrainConfig) -> Any:
    if config.lora is None:
        return None
    from horma_rl.training.adapters import adapter_config

    return adapter_config(config.lora)
