"""Evaluation during training: what is held out, when it plays, and the same score for any number of processes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from horma_rl.config import validate
from horma_rl.errors import UserError
from horma_rl.retrieval.engine import EpisodeSpec
from horma_rl.retrieval.types import Trajectory, TurnRecord
from horma_rl.training.config import TrainConfig
from horma_rl.training.phases import Phases
from horma_rl.training.validation import HELD_OUT, Validation, hold_out
from memory_shell.cache import WorkspaceCache
from memory_shell.types import Stop, Task
from tests.training_parts import memory, world


def config(seed: int = 0, **evaluation: Any) -> TrainConfig:
    return validate({"name": "run", "seed": seed, "evaluation": evaluation}, TrainConfig, "here")


class Engine:
    """Plays backwards; a task's overlap is its number in the file over ten, and every fourth is not scored."""

    def __init__(self) -> None:
        self.seeds: dict[str, int] = {}

    def run(self, specs: Iterator[EpisodeSpec]) -> Iterator[Trajectory]:
        for spec in reversed(list(specs)):
            self.seeds[spec.task.id] = spec.seed
            number = [task.id for task in world().tasks()].index(spec.task.id)
            made = Trajectory(spec.task, spec.seed, [1], index=spec.index, stop=Stop.DONE)
            made.turns = [TurnRecord("", [], "", True, 3 + number, True)]
            made.reward = None if number % 4 == 3 else number / 10
            yield made


@pytest.fixture(scope="module")
def workspaces(tmp_path_factory: pytest.TempPathFactory) -> WorkspaceCache:
    return memory(tmp_path_factory.mktemp("memory"))


def trainer(process: int = 0, processes: int = 1) -> Any:
    """The parts of a trainer that are looked at; `tables` keeps what the process sent to the gather."""
    tables: list[torch.Tensor] = []

    def gather(table: torch.Tensor) -> torch.Tensor:
        tables.append(table)
        return table

    world_ = SimpleNamespace(
        process_index=process, num_processes=processes, device="cpu", gather=gather, unwrap_model=lambda model: model
    )
    return SimpleNamespace(
        accelerator=world_, model=None, use_vllm=False, is_deepspeed_enabled=False, is_fsdp_enabled=False,
        phases=Phases(), _metrics={"train": defaultdict(list)}, tables=tables,
    )  # fmt: skip


def evaluated(
    made: Any, tasks: Sequence[Task], workspaces: WorkspaceCache, engine: Any, steps: Sequence[int], **options: Any
) -> Any:
    """The trainer's state after on_step_end at each of `steps`; its `saves` are the steps that ask for a checkpoint."""
    settings = config(**{"every": 2, "during": 4, "best": True, **options})
    validation = Validation(made, tasks, lambda _: engine, workspaces, settings)
    state = SimpleNamespace(global_step=0, max_steps=7, best_metric=None, best_global_step=None, saves=[])
    for step in steps:
        state.global_step = step
        if validation.on_step_end(None, state, SimpleNamespace(should_save=False)).should_save:
            state.saves.append(step)
    return state


def test_the_sample_is_held_out_of_training() -> None:
    held = hold_out(world(), config(every=5, during=4))
    sample = held.details[HELD_OUT]
    assert len(sample) == 4
    assert not {task.id for task in sample} & {task.id for task in held.train}
    assert len(held.train) == len(world().train) - 4
    assert held.eval == world().eval
    assert hold_out(world(), config(every=9, during=4, best=True)).details[HELD_OUT] == sample
    assert hold_out(world(), config(seed=1, every=5, during=4)).details[HELD_OUT] != sample


def test_looking_at_the_evaluation_split_leaves_training_alone() -> None:
    held = hold_out(world(), config(every=5, during=99, during_split="eval"))
    assert held.train == world().train
    assert held.details[HELD_OUT] == world().eval
    assert hold_out(world(), config()) == world()


def test_a_sample_of_half_of_the_tasks_is_refused() -> None:
    with pytest.raises(UserError, match="takes half of the 14 tasks"):
        hold_out(world(), config(every=5, during=7))


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"best": True}, "set evaluation.every"), ({"best": True, "every": 5, "during_split": "eval"}, "the report is")],
)
def test_a_biased_or_empty_choice_is_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        config(**options)


def test_it_plays_when_it_is_time_and_keeps_the_first_of_the_best(workspaces: WorkspaceCache) -> None:
    made = trainer()
    state = evaluated(made, world().train[:4], workspaces, Engine(), range(1, 8))
    assert len(made.tables) == 4  # after steps 2, 4, 6 and the last
    assert made._metrics["train"]["eval/jaccard"] == [pytest.approx((0.0 + 0.1 + 0.2) / 3)] * 4
    assert made._metrics["train"]["eval/model_tokens"] == [pytest.approx((3 + 4 + 5 + 6) / 4)] * 4
    assert (state.best_global_step, state.saves) == (2, [2])
    assert evaluated(trainer(), world().train[:4], workspaces, Engine(), [2], best=False).saves == []


def test_without_a_score_nothing_is_chosen(workspaces: WorkspaceCache) -> None:
    made = trainer()
    state = evaluated(made, [world().train[3]], workspaces, Engine(), [2])
    assert "eval/jaccard" not in made._metrics["train"]
    assert state.best_global_step is None


def test_the_score_does_not_depend_on_the_number_of_processes(workspaces: WorkspaceCache) -> None:
    tasks = world().train[:7]
    alone, whole = Engine(), trainer()
    evaluated(whole, tasks, workspaces, alone, [2])
    parts: list[torch.Tensor] = []
    seeds: dict[str, int] = {}
    for process in range(3):
        engine, part = Engine(), trainer(process, 3)
        evaluated(part, tasks, workspaces, engine, [2])
        parts += part.tables
        seeds |= engine.seeds
    assert torch.equal(torch.cat(parts).sum(0), whole.tables[0][0])
    assert seeds == alone.seeds


def test_a_process_without_a_task_still_gathers(workspaces: WorkspaceCache) -> None:
    made = trainer(process=5, processes=6)
    evaluated(made, world().train[:2], workspaces, Engine(), [2])
    assert made.tables[0].shape == (1, 2, 5)
    assert not made.tables[0].any()


def test_the_engine_sees_the_weights_of_this_step(workspaces: WorkspaceCache) -> None:
    """With vLLM the weights are sent first, and TRL is told, so that it does not send them again."""
    made = trainer()
    sent: list[int] = []
    made.use_vllm, made.state = True, SimpleNamespace(global_step=2)
    made.vllm_generation = SimpleNamespace(sync_weights=lambda: sent.append(len(made.tables)))
    evaluated(made, world().train[:2], workspaces, Engine(), [2])
    assert sent == [0]
    assert made._last_loaded_step == 2
