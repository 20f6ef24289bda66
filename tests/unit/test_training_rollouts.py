"""What the rollout function hands to the trainer: rows, seeds, groups tried again, metrics and the log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import isnan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from horma_rl.evaluation.config import ShellConfig
from horma_rl.retrieval.backends.scripted import ScriptedGenerator
from horma_rl.retrieval.engine import EpisodeSpec, RolloutEngine
from horma_rl.retrieval.seeds import rollout_seed
from horma_rl.retrieval.types import Request, Trajectory, TurnRecord
from horma_rl.training.phases import Phases
from horma_rl.training.rollout_metrics import means, totals
from horma_rl.training.rollouts import RolloutFunction, reward, rows, trajectory_log
from memory_shell.cache import WorkspaceCache
from memory_shell.types import Stop, Task, ToolCall
from tests.training_parts import codec, lines_of, memory, world

SIZE = 3
TASKS = world().train


class Engine:
    """Gives episodes whose reward `score` decides, last one first, and remembers what it was asked for."""

    def __init__(self, score: Callable[[EpisodeSpec], float | None]) -> None:
        self.score = score
        self.asked: list[EpisodeSpec] = []
        self.environment_s, self.sampled_tokens = 0.0, 0

    def run(self, specs: Sequence[EpisodeSpec], until: float | None = None) -> Iterator[Trajectory]:
        self.asked += specs
        for spec in reversed(specs):
            made = Trajectory(spec.task, spec.seed, [1, 2], [3, 4, 5], [1, 0, 1], [-0.1, 0.0, -0.2], index=spec.index)
            made.reward, made.stop = self.score(spec), Stop.DONE
            yield made


@pytest.fixture(scope="module")
def workspaces(tmp_path_factory: pytest.TempPathFactory) -> WorkspaceCache:
    return memory(tmp_path_factory.mktemp("memory"))


def trainer(step: int = 0) -> Any:
    """The parts of a trainer that the function looks at."""
    alone = SimpleNamespace(unwrap_model=lambda model: model, gather=lambda tensor: tensor, device="cpu")
    return SimpleNamespace(
        accelerator=alone, model=None, num_generations=SIZE, is_deepspeed_enabled=False, is_fsdp_enabled=False,
        state=SimpleNamespace(global_step=step), _metrics={"train": defaultdict(list)},
        processing_class=SimpleNamespace(eos_token_id=9), phases=Phases(),
    )  # fmt: skip


def function(
    workspaces: WorkspaceCache,
    engine: Any,
    log: Path,
    resample: int = 0,
    tasks: Sequence[Task] = TASKS,
    step_s: float | None = None,
) -> RolloutFunction:
    return RolloutFunction(
        make_engine=lambda _: engine, tasks=tasks, workspaces=workspaces, shell=ShellConfig(), seed=7,
        resample=resample, log=log, step_s=step_s,
    )  # fmt: skip


def prompts(*tasks: Task) -> list[str]:
    return [task.id for task in tasks for _ in range(SIZE)]


def varied(spec: EpisodeSpec) -> float:
    return float(spec.index % SIZE)


def test_rows_come_in_the_order_of_the_prompts(workspaces: WorkspaceCache, tmp_path: Path) -> None:
    engine = Engine(varied)
    out = function(workspaces, engine, tmp_path / "log")(prompts(TASKS[4], TASKS[1]), trainer())
    assert [spec.task.id for spec in engine.asked] == prompts(TASKS[4], TASKS[1])
    assert out["reward"] == [0.0, 1.0, 2.0] * 2
    assert out["prompt_ids"] == [[1, 2]] * 6
    assert out["completion_ids"] == [[3, 4, 5]] * 6
    assert out["env_mask"] == [[1, 0, 1]] * 6
    assert out["logprobs"] == [[-0.1, 0.0, -0.2]] * 6
    assert reward(prompts=[], reward=out["reward"], completions=[]) == out["reward"]


def test_seeds_differ_by_step_task_and_place_and_repeat(workspaces: WorkspaceCache, tmp_path: Path) -> None:
    def seeds(step: int) -> list[int]:
        engine = Engine(varied)
        function(workspaces, engine, tmp_path / "log")(prompts(TASKS[0], TASKS[1]), trainer(step))
        return [spec.seed for spec in engine.asked]

    assert len({*seeds(0), *seeds(1)}) == 12
    assert seeds(1) == seeds(1)
    assert seeds(1)[4] == rollout_seed(7, 1, f"{TASKS[1].id}/0", 1)


def test_a_group_without_variance_is_another_tasks_group(workspaces: WorkspaceCache, tmp_path: Path) -> None:
    flat = {TASKS[0].id, TASKS[2].id}
    engine, seen = Engine(lambda spec: 0.5 if spec.task.id in flat else varied(spec)), trainer()
    out = function(workspaces, engine, tmp_path / "log", resample=5)(prompts(*TASKS[:3]), seen)
    assert out["reward"] == [0.0, 1.0, 2.0] * 3
    logged = [row["task"] for row in lines_of(tmp_path / "log")]
    assert logged[3:6] == prompts(TASKS[1])
    assert not {logged[0], logged[6]} & flat
    assert logged == [name for name in logged[::3] for _ in range(SIZE)]
    assert seen._metrics["train"]["rollout/flat_groups"] == [2 / 3]
    drawn = [0.5] * 6 + [0.0, 1.0, 2.0]  # the reward that is logged is of the groups as drawn, flat ones included
    assert seen._metrics["train"]["rollout/reward"] == [pytest.approx(sum(drawn) / 9)]


def test_what_is_played_does_not_depend_on_how_the_step_is_shared(workspaces: WorkspaceCache, tmp_path: Path) -> None:
    """Four groups in one process, or two in each of two: the same episodes, replacements included, in every slice."""

    def played(*slices: Sequence[Task]) -> list[tuple[str, int]]:
        found = []
        for tasks in slices:
            engine = Engine(lambda _: 1.0)
            function(workspaces, engine, tmp_path / "log", resample=2)(prompts(*tasks), trainer(4))
            found += [(spec.task.id, spec.seed) for spec in engine.asked]
        return sorted(found)

    assert played(TASKS[:4]) == played(TASKS[:2], TASKS[2:4]) == played(*([task] for task in TASKS[3::-1]))
    assert len(set(played(TASKS[:4]))) == 3 * 4 * SIZE


def test_groups_that_drew_the_same_other_task_play_different_episodes(
    workspaces: WorkspaceCache, tmp_path: Path
) -> None:
    engine = Engine(lambda _: 1.0)
    function(workspaces, engine, tmp_path / "log", 1, TASKS[:3])(prompts(*TASKS[:3]), trainer())
    again = [(spec.task.id, spec.seed) for spec in engine.asked[3 * SIZE :]]
    assert len(set(again)) == 3 * SIZE
    for place, task in enumerate(TASKS[:3]):
        assert again[place * SIZE][0] != task.id


def test_a_step_whose_time_is_over_replaces_nothing(workspaces: WorkspaceCache, tmp_path: Path) -> None:
    """The first episode takes a second; the others of both groups are dropped, and the trainer goes on with that."""
    made, task = codec(), TASKS[0]
    answer = [*made.tokenizer.encode(made.format.render([ToolCall("done")]), add_special_tokens=False), made.end_id]
    clock = iter([0.0, 0.5, *[9.0] * 1000])
    engine = RolloutEngine(ScriptedGenerator(lambda *_: answer, made.eos_ids), made, clock=lambda: next(clock))
    engine.config = replace(engine.config, concurrency=1)
    seen = trainer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("horma_rl.training.rollouts.time", SimpleNamespace(monotonic=lambda: 0.0))
        out = function(workspaces, engine, tmp_path / "log", 3, step_s=5.0)(prompts(task), seen)
    assert out["reward"][1:] == [None, None]
    assert [sum(mask) > 0 for mask in out["env_mask"]] == [out["reward"][0] is not None, False, False]
    assert seen._metrics["train"]["rollout/dropped"][0] >= 2 / 3


def test_it_stops_trying_after_so_many_times(workspaces: WorkspaceCache, tmp_path: Path) -> None:
    engine, seen = Engine(lambda _: 1.0), trainer()
    out = function(workspaces, engine, tmp_path / "log", resample=2)(prompts(*TASKS[:2]), seen)
    assert len(engine.asked) == 3 * 2 * SIZE
    assert out["reward"] == [1.0] * 6
    assert len({spec.seed for spec in engine.asked}) == len(engine.asked)
    assert seen._metrics["train"]["rollout/flat_groups"] == [1.0]
    assert len(lines_of(tmp_path / "log")) == 6


def test_the_same_step_tries_the_same_tasks_again(workspaces: WorkspaceCache, tmp_path: Path) -> None:
    def asked(step: int) -> list[tuple[str, int]]:
        engine = Engine(lambda _: 1.0)
        function(workspaces, engine, tmp_path / "log", resample=1)(prompts(*TASKS[:3]), trainer(step))
        return [(spec.task.id, spec.seed) for spec in engine.asked]

    assert asked(4) == asked(4)
    assert [name for name, _ in asked(4)] != [name for name, _ in asked(5)]


def test_where_there_is_no_other_task_it_plays_the_same_one_again(workspaces: WorkspaceCache, tmp_path: Path) -> None:
    engine = Engine(lambda _: 0.0)
    out = function(workspaces, engine, tmp_path / "log", 1, TASKS[:1])(prompts(TASKS[0]), trainer())
    assert out["reward"] == [0.0] * 3
    assert len({spec.seed for spec in engine.asked}) == 6


@pytest.mark.parametrize("scores", [[None, None, None], [1.0, None, 1.0]])
def test_failed_episodes_make_no_variance(
    scores: list[float | None], workspaces: WorkspaceCache, tmp_path: Path
) -> None:
    engine = Engine(lambda spec: scores[spec.index % SIZE] if spec.task.id == TASKS[0].id else varied(spec))
    out = function(workspaces, engine, tmp_path / "log", resample=1)(prompts(TASKS[0]), trainer())
    assert out["reward"] == [0.0, 1.0, 2.0]


def test_failed_and_empty_episodes_are_masked_rows() -> None:
    def made(ids: list[int], mask: list[int], score: float | None) -> Trajectory:
        return Trajectory(TASKS[0], 0, [1], ids, mask, [-0.5] * len(ids), reward=score)

    out = rows([made([3, 4], [1, 0], 0.5), made([3, 4], [1, 1], None), made([], [], 0.0), made([], [], None)], 9)
    assert out["env_mask"] == [[1, 0], [0, 0], [0], [0]]
    assert out["completion_ids"] == [[3, 4], [3, 4], [9], [9]]
    assert [len(row) for row in out["logprobs"]] == [2, 2, 1, 1]
    assert out["reward"] == [0.5, None, 0.0, None]
    assert rows([Trajectory(TASKS[0], 0, [])], 9)["prompt_ids"] == [[9]]


def test_metrics_are_means_over_episodes() -> None:
    def turn(*names: str) -> TurnRecord:
        return TurnRecord("", [{"name": name} for name in names], "", True, 3, True)

    first = Trajectory(TASKS[0], 0, [1], mask=[1, 1, 0, 1], turns=[turn("grep"), turn("select", "done")], reward=1.0)
    first.stop, first.commands, first.selected = Stop.DONE, 3, ["D1:1", "D1:2"]
    second = Trajectory(TASKS[1], 0, [1], mask=[1], turns=[turn()], commands=1, invalid=1, stop=Stop.TURN_CAP)
    found = means(totals([[first, second]], [first, second], 2.0))
    assert {name.removeprefix("rollout/"): value for name, value in found.items() if value} == {
        "reward": 1.0, "flat_groups": 1.0, "turns": 1.5, "commands": 2.0, "invalid_rate": 0.25,
        "call_rate": pytest.approx(2 / 3), "selected": 1.0, "unscored": 0.5, "seconds": 2.0, "tokens_per_s": 2.0,
        "stop_done": 0.5, "stop_turn_cap": 0.5,
    }  # fmt: skip
    assert found["rollout/stop_error"] == 0.0


@pytest.mark.parametrize("groups", [[], [[Trajectory(TASKS[0], 0, [])]]])
def test_a_process_without_episodes_or_with_dead_ones_counts_like_any(groups: list[list[Trajectory]]) -> None:
    counts = totals(groups, [t for group in groups for t in group], 1.0)
    other = totals([[Trajectory(TASKS[0], 0, [1], reward=0.5)]], [Trajectory(TASKS[0], 0, [1], reward=0.5)], 1.0)
    assert list(counts) == list(other)
    assert "rollout/reward" not in means(counts)
    assert not any(isnan(value) for value in means(counts).values())


def test_each_process_has_its_own_log(tmp_path: Path) -> None:
    assert [trajectory_log(tmp_path, n).name for n in (0, 3)] == ["trajectories.jsonl", "trajectories.rank3.jsonl"]


def test_the_metrics_of_a_step_reach_the_trainer_once(workspaces: WorkspaceCache, tmp_path: Path) -> None:
    seen = trainer()
    function(workspaces, Engine(varied), tmp_path / "log", resample=1)(prompts(TASKS[0]), seen)
    assert {len(values) for values in seen._metrics["train"].values()} == {1}
    assert {"rollout/turns", "rollout/invalid_rate", "rollout/flat_groups"} <= seen._metrics["train"].keys()


def test_the_log_is_appended_to_and_a_torn_line_goes(workspaces: WorkspaceCache, tmp_path: Path) -> None:
    log = tmp_path / "log"
    function(workspaces, Engine(varied), log)(prompts(TASKS[0]), trainer(0))
    with log.open("a") as file:
        file.write('{"step": 1, "task": "cut sho')
    function(workspaces, Engine(varied), log)(prompts(TASKS[0]), trainer(1))
    assert [row["step"] for row in lines_of(log)] == [0, 0, 0, 1, 1, 1]


def test_real_episodes_end_with_their_reward(workspaces: WorkspaceCache, tmp_path: Path) -> None:
    """The rollout engine and shells for real, with a policy that selects the first task's evidence, then is done."""
    made, (one, two) = codec(), [task for task in TASKS if task.evidence][:2]
    assert not set(one.evidence) & set(two.evidence)
    answer = made.format.render([ToolCall("select", " ".join(one.evidence)), ToolCall("done")])

    def script(request: Request, turn: int) -> list[int]:
        return [*made.tokenizer.encode(answer, add_special_tokens=False), made.end_id]

    engine = RolloutEngine(ScriptedGenerator(script, made.eos_ids), made)
    out = function(workspaces, engine, tmp_path / "log")(prompts(one, two), trainer())
    assert out["reward"] == [1.0] * 3 + [0.0] * 3
    assert made.decode(out["completion_ids"][0]) == answer
    assert all(sum(mask) == len(ids) for mask, ids in zip(out["env_mask"], out["completion_ids"], strict=True))
    logged = lines_of(tmp_path / "log")
    assert [row["selected"] for row in logged] == [list(one.evidence)] * 6
    assert [row["stop"] for row in logged] == ["done"] * 6
