"""`horma-rl export --check`: does the exported model play as the training checkpoint does, token for token?"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from horma_rl.benchmarks.registry import load_benchmark
from horma_rl.errors import UserError
from horma_rl.evaluation.config import EvalConfig, PolicyConfig
from horma_rl.evaluation.runner import ensure_memory, load_workspaces
from horma_rl.evaluation.systems import load_engine, plan, run_policy
from horma_rl.retrieval.engine import RolloutEngine, in_order
from horma_rl.retrieval.prompt import ChatCodec
from horma_rl.retrieval.types import Sampling, Trajectory
from horma_rl.serving.source import Checkpoint, load_model, load_tokenizer
from horma_rl.training.config import TrainConfig
from memory_shell.types import Task

EPISODES = 20


@dataclass(frozen=True)
class Parting:
    """The first token at which two episodes differ. `turn` counts responses from 1, `position` the tokens of that
    response from 0; a token is empty where an episode had ended.

    `margin_trained`, `margin_exported`: by how much each model prefers the checkpoint's token to the other one, as a
    difference of logits after the same ids.
    """

    task: str
    turn: int
    position: int
    token_trained: str
    token_exported: str
    margin_trained: float | None
    margin_exported: float | None

    def __str__(self) -> str:
        margins = (
            f"; the logits prefer the first by {self.margin_trained:+.4g} there and by {self.margin_exported:+.4g} here"
            if self.margin_trained is not None and self.margin_exported is not None
            else ""
        )
        return (
            f"{self.task}: turn {self.turn}, token {self.position}: the checkpoint says {self.token_trained!r}, the "
            f"export {self.token_exported!r}{margins}"
        )


@dataclass(frozen=True)
class Checked:
    """The result of a check. `tokens`: sampled by the checkpoint in all episodes."""

    episodes: int
    tokens: int
    partings: list[Parting]

    @property
    def same(self) -> bool:
        """Whether every episode is the same to the last token."""
        return not self.partings

    def as_json(self) -> dict[str, Any]:
        """A plain mapping."""
        same = self.episodes - len(self.partings)
        return {
            "episodes": self.episodes,
            "same": same,
            "tokens": self.tokens,
            "parted": list(map(asdict, self.partings)),
        }


def check(
    config: TrainConfig, checkpoint: Checkpoint, folder: Path, say: Callable[[str], None], episodes: int = EPISODES
) -> Checked:
    """Replay up to `episodes` greedy episodes with `checkpoint` and with the export in `folder`.

    The tasks are those of the held-out split, filled up from the training split where these are few. Raises UserError
    when either model, or the data of the run, cannot be used, or when an episode fails: one that never ran is not the
    same as another.
    """
    plans = _greedy(config.evaluation_config({}))
    benchmark = load_benchmark(config.benchmark, **config.options)
    tasks = choose(benchmark.eval, benchmark.train, episodes, config.seed)
    ensure_memory(benchmark.conversations_of(tasks), plans)
    workspaces = load_workspaces(plans.memory_dir, tasks)
    jobs = plan(tasks, config.seed)

    def play(engine: RolloutEngine) -> list[Trajectory]:
        played = in_order(run_policy(engine, jobs, workspaces, plans.shell))
        for trajectory in played:
            if trajectory.error is not None:
                raise UserError(f"check: the episode of {trajectory.task.id} failed: {trajectory.error}")
        return played

    say(f"check: {len(tasks)} episodes with {checkpoint.folder}")
    trained = _trained_engine(config, checkpoint, plans)
    expected = play(trained)
    say(f"check: {len(tasks)} episodes with {folder}")
    exported = load_engine(PolicyConfig(model=folder), plans)
    pairs = zip(jobs, expected, play(exported), strict=True)
    partings = [parting for (task, _), a, b in pairs if (parting := _compare(task, a, b, trained, exported))]
    return Checked(len(jobs), sum(sum(t.mask) for t in expected), partings)


def choose(held_out: Sequence[Task], training: Sequence[Task], count: int, seed: int) -> list[Task]:
    """`count` tasks drawn with `seed`, the held-out ones first."""
    rng = random.Random(seed)
    some = [rng.sample(list(tasks), min(count, len(tasks))) for tasks in (held_out, training)]
    return (some[0] + some[1])[:count]


def _greedy(config: EvalConfig) -> EvalConfig:
    """The most likely token each time, and no limit of time: that would end episodes by how busy the machine is."""
    rollout = replace(config.rollout, max_episode_s=None)
    return config.model_copy(update={"sampling": Sampling(temperature=0.0), "rollout": rollout})


def _trained_engine(config: TrainConfig, checkpoint: Checkpoint, plans: EvalConfig) -> RolloutEngine:
    import torch

    from horma_rl.retrieval.backends.transformers import TransformersGenerator

    codec = ChatCodec(load_tokenizer(checkpoint), config.prompt, config.thinking, config.tools)
    model = load_model(checkpoint).to("cuda" if torch.cuda.is_available() else "cpu").eval()
    generator = TransformersGenerator(model, codec.eos_ids, plans.sampling, max_rows=plans.rollout.concurrency)
    return RolloutEngine(generator, codec, plans.rollout)


def _compare(
    task: Task, a: Trajectory, b: Trajectory, trained: RolloutEngine, exported: RolloutEngine
) -> Parting | None:
    first, second = [*a.prompt_ids, *a.completion_ids], [*b.prompt_ids, *b.completion_ids]
    if first == second:
        return None
    place = next(
        (i for i, (x, y) in enumerate(zip(first, second, strict=False)) if x != y), min(len(first), len(second))
    )
    turn, position = _within_turns(a, place - len(a.prompt_ids))
    ids = [sequence[place] if place < len(sequence) else None for sequence in (first, second)]
    margins = [_margin(engine, first[:place], ids) for engine in (trained, exported)]
    texts = ["" if i is None else str(trained.codec.tokenizer.decode([i])) for i in ids]
    return Parting(task.id, turn, position, texts[0], texts[1], margins[0], margins[1])


def _within_turns(trajectory: Trajectory, place: int) -> tuple[int, int]:
    """The response (from 1) that the `place`th id after the prompt belongs to, and its position in it."""
    turn, start, previous = 0, 0, 0
    for index, mask in enumerate(trajectory.mask[: place + 1]):
        if mask and not previous:
            turn, start = turn + 1, index
        previous = mask
    return turn, place - start


def _margin(engine: RolloutEngine, prefix: list[int], ids: Sequence[int | None]) -> float | None:
    """By how much the logits after `prefix` prefer the first of two ids to the second."""
    first, second = ids
    if first is None or second is None or not prefix:
        return None
    import torch

    from horma_rl.retrieval.backends.transformers import TransformersGenerator

    assert isinstance(engine.generator, TransformersGenerator)
    model = engine.generator.model
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([prefix], device=next(model.parameters()).device)).logits[0, -1].float()
    return float(logits[first] - logits[second])
