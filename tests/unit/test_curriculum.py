"""The curriculum: pools by difficulty, draws by recent overlap, and a state that makes a resumed run draw the same."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from horma_rl.config import load_config
from horma_rl.errors import UserError
from horma_rl.training.config import TrainConfig
from horma_rl.training.curriculum import Curriculum, CurriculumConfig, difficulties, pools
from memory_shell.types import Task
from tests.conftest import REPOSITORY
from tests.training_parts import world

TASKS = world().train


def curriculum(seed: int = 0, **options: Any) -> Curriculum:
    return Curriculum(CurriculumConfig(**options), world(), seed)


def ids(tasks: list[Task]) -> list[str]:
    return [task.id for task in tasks]


def test_pools_run_from_easy_to_hard_and_hold_every_task_once() -> None:
    config = CurriculumConfig(order="evidence", pools=3)
    made = pools(config, world(), seed=0)
    assert sorted(ids([task for pool in made for task in pool])) == sorted(ids(list(TASKS)))
    assert max(map(len, made)) - min(map(len, made)) <= 1
    hard = difficulties(config, world())
    order = [hard[task.id] for pool in made for task in pool]
    assert order == sorted(order)
    assert len(set(order)) > 1
    assert order[-1] == 1e9  # nothing to find: every selection is wrong


def test_difficulty_by_memory_category_and_rate(tmp_path: Path) -> None:
    sizes = difficulties(CurriculumConfig(order="memory"), world())
    turns = {conversation.name: len(list(conversation.turns())) for conversation in world().conversations}
    assert all(sizes[task.id] == turns[task.workspace] for task in TASKS)

    names = sorted({task.category for task in TASKS}, reverse=True)
    places = difficulties(CurriculumConfig(order="category", categories=names[:1]), world())
    assert {places[task.id] for task in TASKS if task.category == names[0]} == {0.0}
    assert {places[task.id] for task in TASKS if task.category != names[0]} == {1.0}

    rows = [{"system": "start", "task": task.id, "reward": n / 20} for n, task in enumerate(TASKS)]
    unscored = {"system": "start", "task": TASKS[0].id, "reward": None}
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in [*rows, rows[3], unscored]) + "\n")
    rates = difficulties(CurriculumConfig(order="rate", rates=path), world())
    assert sorted(TASKS, key=lambda task: rates[task.id])[0] == TASKS[-1]
    assert rates[TASKS[3].id] == -3 / 20


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"task": "x"}', "is not the rows"),
        ("no json", "is not the rows"),
        ('{"system": "a", "task": "x", "reward": 1}', "has no row of task"),
        ('{"system": "a", "task": "x", "reward": 1}\n{"system": "b", "task": "x", "reward": 1}', "rows of 2 systems"),
    ],
)
def test_rates_that_cannot_be_used_are_refused(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(text)
    with pytest.raises(UserError, match=reason):
        curriculum(order="rate", rates=path)


def test_pools_open_one_after_another() -> None:
    made = curriculum(order="evidence", pools=3, steps=10)
    easy = ids(pools(CurriculumConfig(order="evidence", pools=3), world(), 0)[0])
    assert {name for step in range(5) for name in ids(made.draw(step, 4))} == set(easy)
    assert [round(made.measures(step)["tasks_open"] * 3) for step in (0, 4, 5, 9, 10, 99)] == [1, 1, 2, 2, 3, 3]
    assert {name for step in range(10, 60) for name in ids(made.draw(step, 4))} == set(ids(list(TASKS)))


def test_a_step_draws_different_tasks_and_the_easiest_closed_ones_where_too_few_are_open() -> None:
    made = curriculum(order="evidence", pools=7, steps=10)
    sets = pools(CurriculumConfig(order="evidence", pools=7), world(), 0)
    drawn = made.draw(0, 5)
    assert len(set(ids(drawn))) == 5
    assert set(ids(sets[0])) <= set(ids(drawn)) <= set(ids(sets[0] + sets[1] + sets[2]))


def test_tasks_that_are_learned_or_too_hard_are_drawn_less_often() -> None:
    made = curriculum(window=2, outside=0.05)
    learned, hopeless, between = TASKS[0].id, TASKS[1].id, TASKS[2].id
    for _ in range(2):
        made.learn({learned: 1.0, hopeless: 0.0, between: 0.5})
    counts = Counter(name for step in range(400) for name in ids(made.draw(step, 4)))
    assert counts[learned] < counts[between] / 4
    assert counts[hopeless] < counts[between] / 4
    assert abs(counts[between] - counts[TASKS[5].id]) < counts[between] / 3  # one not seen yet weighs as much
    assert made.measures(0) == {"tasks_open": 1.0, "tasks_outside": 2 / len(TASKS)}


def test_a_task_comes_back_when_it_is_no_longer_learned() -> None:
    made = curriculum(window=2)
    for mean in (1.0, 1.0):
        made.learn({TASKS[0].id: mean})
    assert made.measures(0)["tasks_outside"] > 0
    made.learn({TASKS[0].id: 0.4})
    assert made.measures(0)["tasks_outside"] == 0


def test_draws_depend_on_seed_step_and_state_alone() -> None:
    def draws(made: Curriculum) -> list[list[str]]:
        return [[*ids(made.draw(step, 4)), made.other(TASKS[0], step, 1).id] for step in range(6)]

    options: dict[str, Any] = {"order": "evidence", "window": 3, "steps": 4}
    one, two = curriculum(**options), curriculum(**options)
    for step in range(3):
        one.draw(step, 9)
        one.learn({TASKS[step].id: 1.0, TASKS[9].id: 0.0})
    assert draws(one) != draws(two)
    two.load_state_dict(json.loads(json.dumps(one.state_dict())))
    assert draws(one) == draws(two)
    assert draws(curriculum(seed=1, **options)) != draws(curriculum(**options))


def test_the_state_is_a_copy() -> None:
    made = curriculum(window=2)
    made.learn({TASKS[0].id: 1.0})
    state = made.state_dict()
    made.load_state_dict(state)
    made.learn({TASKS[0].id: 0.0})
    assert state == {"recent": {TASKS[0].id: [1.0]}}


def test_another_task_is_open_and_never_the_same() -> None:
    made = curriculum(order="evidence", pools=7, steps=1000)
    opened = ids(pools(CurriculumConfig(order="evidence", pools=7), world(), 0)[0])
    one = next(task for task in TASKS if task.id == opened[0])
    assert {made.other(one, step, 1).id for step in range(30)} == set(opened[1:])
    alone = Curriculum(CurriculumConfig(window=1), replace(world(), train=(one,)), 0)
    assert alone.other(one, 0, 1) == one


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["order=category"], "categories goes with"),
        (["categories=[single]"], "categories goes with"),
        (["order=rate"], "rates goes with"),
        (["low=0.9", "high=0.1"], "must be below"),
        (["order=hardness"], "curriculum.order"),
        (["outside=0"], "curriculum.outside"),
    ],
)
def test_unsound_options_are_refused_when_the_config_is_read(overrides: list[str], reason: str) -> None:
    given = [f"curriculum.{override}" for override in overrides]
    with pytest.raises(UserError, match=reason):
        load_config(REPOSITORY / "configs/train/tiny_cpu.yaml", given, TrainConfig)


def test_options_that_do_not_fit_the_tasks_are_refused() -> None:
    with pytest.raises(UserError, match="use fewer"):
        curriculum(order="evidence", pools=15)
    with pytest.raises(UserError, match="no task has category 'trivia'"):
        curriculum(order="category", categories=["trivia"])
