"""What the rollout function does with a training reward and a curriculum."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from horma_rl.evaluation.config import ShellConfig
from horma_rl.retrieval.engine import EpisodeSpec
from horma_rl.retrieval.types import Trajectory
from horma_rl.training.curriculum import Curriculum, CurriculumConfig
from horma_rl.training.phases import Phases
from horma_rl.training.rollouts import RolloutFunction
from memory_shell.cache import WorkspaceCache
from memory_shell.types import Stop, Task
from tests.training_parts import lines_of, memory, world

SIZE = 2
TASKS = world().train


class Engine:
    """Episodes whose overlap `score` decides."""

    def __init__(self, score: Callable[[EpisodeSpec], float | None]) -> None:
        self.score = score
        self.environment_s, self.sampled_tokens = 0.0, 0

    def run(self, specs: Sequence[EpisodeSpec], until: float | None = None) -> Iterator[Trajectory]:
        for spec in specs:
            made = Trajectory(spec.task, spec.seed, [1], [3], [1], [-0.1], index=spec.index, stop=Stop.DONE)
            made.reward = self.score(spec)
            yield made


@pytest.fixture(scope="module")
def workspaces(tmp_path_factory: pytest.TempPathFactory) -> WorkspaceCache:
    return memory(tmp_path_factory.mktemp("memory"))


def trainer(step: int = 0, process: int = 0, processes: int = 1) -> Any:
    alone = SimpleNamespace(
        unwrap_model=lambda model: model, gather=lambda tensor: tensor, device="cpu",
        process_index=process, num_processes=processes,
    )  # fmt: skip
    return SimpleNamespace(
        accelerator=alone, model=None, num_generations=SIZE, is_deepspeed_enabled=False, is_fsdp_enabled=False,
        state=SimpleNamespace(global_step=step), _metrics={"train": defaultdict(list)},
        processing_class=SimpleNamespace(eos_token_id=9), phases=Phases(),
    )  # fmt: skip


def function(
    workspaces: WorkspaceCache, log: Path, score: Callable[[EpisodeSpec], float | None], **options: Any
) -> RolloutFunction:
    given = {"tasks": TASKS, "resample": 0, **options}
    engine: Any = Engine(score)
    return RolloutFunction(
        make_engine=lambda _: engine, workspaces=workspaces, shell=ShellConfig(), seed=7, log=log, **given
    )


def prompts(*tasks: Task) -> list[str]:
    return [task.id for task in tasks for _ in range(SIZE)]


def varied(spec: EpisodeSpec) -> float:
    return float(spec.index % SIZE)


def test_the_update_gets_the_training_reward_and_the_log_both(workspaces: WorkspaceCache, tmp_path: Path) -> None:
    def halved(trajectory: Trajectory) -> float | None:
        return None if trajectory.reward is None else trajectory.reward / 2

    seen = trainer()
    out = function(workspaces, tmp_path / "log", varied, training_reward=halved)(prompts(*TASKS[:2]), seen)
    assert out["reward"] == [0.0, 0.5, 0.0, 0.5]
    assert seen._metrics["train"]["rollout/reward"] == [0.5]
    rows = lines_of(tmp_path / "log")
    assert [row["reward"] for row in rows] == [0.0, 1.0, 0.0, 1.0]
    assert [row.get("training_reward") for row in rows] == [None, 0.5, None, 0.5]


def test_groups_are_flat_by_the_overlap_not_by_the_costs(workspaces: WorkspaceCache, tmp_path: Path) -> None:
    """A cost tells the episodes of a group apart, but it teaches nothing about where things are."""
    seen = trainer()
    costs = function(
        workspaces, tmp_path / "log", lambda spec: 1.0 if spec.task == TASKS[0] else varied(spec),
        training_reward=lambda t: None if t.reward is None else t.reward - t.index / 100, resample=1,
    )  # fmt: skip
    costs(prompts(TASKS[0]), seen)
    assert {row["task"] for row in lines_of(tmp_path / "log")} != {TASKS[0].id}
    assert seen._metrics["train"]["rollout/flat_groups"] == [1.0]


def played(log: Path) -> list[str]:
    return [row["task"] for row in lines_of(log)][::SIZE]


def test_the_curriculum_draws_the_same_tasks_for_any_number_of_processes(
    workspaces: WorkspaceCache, tmp_path: Path
) -> None:
    def drawn(name: str, process: int, processes: int, groups: int) -> list[str]:
        chosen = Curriculum(CurriculumConfig(order="evidence", steps=4), world(), 0)
        log = tmp_path / name
        rollouts = function(workspaces, log, varied, curriculum=chosen)
        rollouts(prompts(*TASKS[:groups]), trainer(3, process, processes))
        return played(log)

    whole = drawn("whole", 0, 1, 4)
    assert drawn("first", 0, 2, 2) + drawn("second", 1, 2, 2) == whole
    assert whole != [task.id for task in TASKS[:4]]
    assert len(set(whole)) == 4


def test_the_curriculum_learns_the_overlaps_and_replaces_by_its_own(workspaces: WorkspaceCache, tmp_path: Path) -> None:
    """Every group that was played counts: those drawn first, and those that replaced flat ones."""
    chosen, seen = Curriculum(CurriculumConfig(window=3), world(), 0), trainer()
    flat: list[str] = []

    def score(spec: EpisodeSpec) -> float | None:
        flat[:] = flat or [spec.task.id]
        return 0.25 if spec.task.id in flat else varied(spec)

    function(workspaces, tmp_path / "log", score, curriculum=chosen, resample=1)(prompts(*TASKS[:2]), seen)
    kept = played(tmp_path / "log")
    first = chosen.draw(0, 2)[0].id
    assert flat == [first]
    state = chosen.state_dict()["recent"]
    assert state[first] == [0.25]
    assert {name: means for name, means in state.items() if name != first} == {name: [0.5] for name in kept}
    assert seen._metrics["train"]["rollout/tasks_open"] == [1.0]


def test_episodes_without_a_score_teach_the_curriculum_nothing(workspaces: WorkspaceCache, tmp_path: Path) -> None:
    chosen = Curriculum(CurriculumConfig(window=3), world(), 0)
    function(workspaces, tmp_path / "log", lambda _: None, curriculum=chosen)(prompts(TASKS[0]), trainer())
    assert chosen.state_dict() == {"recent": {}}
