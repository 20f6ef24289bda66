"""ALFWorld's own games through our environment: one game a family, the smallest scene of each."""

from __future__ import annotations

import json
import re
import sys
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from household import HouseholdEnv, HouseholdSuite
from household.games import FAMILIES
from interactive_env.types import EnvTask, Outcome
from tests.env_contract import CHECKS, Check, Sample

pytest.importorskip("alfworld", reason="the games' packages are not installed: bash scripts/setup.sh alfworld")
pytest.importorskip("fast_downward", reason="the games' packages are not installed: bash scripts/setup.sh alfworld")

BAD = ("go to the moon 1", "", "take", "Nothing happens.")


@pytest.fixture(scope="module")
def games(horma_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, EnvTask]]:
    """The smallest game of each family of valid_seen."""
    archive = horma_data / "alfworld" / "alfworld_valid_seen140.tar.xz"
    if not archive.is_file():
        pytest.skip(f"no ALFWorld games at {archive}")
    folder = tmp_path_factory.mktemp("alfworld")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALFWORLD_DATA", str(folder))
        tasks = HouseholdSuite().tasks("valid_seen")
        assert len(tasks) == 140
        by_size = sorted(tasks, key=lambda task: Path(task.data["file"]).stat().st_size, reverse=True)
        yield {task.family: task for task in by_size}


@pytest.fixture(scope="module")
def smallest(games: dict[str, EnvTask]) -> EnvTask:
    return games["pick_and_place_simple"]


def play(task: EnvTask, commands: list[str] | None = None) -> list[Any]:
    env = HouseholdEnv()
    seen: list[Any] = [env.reset(task)]
    seen += [env.step(command) for command in commands or task.data["walkthrough"]]
    seen.append((env.success, env.progress))
    env.close()
    return seen


def in_the_old_grammar(command: str) -> str:
    return re.sub("move (.+) to (.+)", r"put \1 in/on \2", command)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_walkthrough_wins_in_both_grammars(games: dict[str, EnvTask], family: str) -> None:
    task = games[family]
    env = HouseholdEnv()
    start = env.reset(task)
    assert re.fullmatch(r"Your task is to: [a-z ]+\.", start.instruction)
    assert start.observation.startswith("You are in the middle of a room. Looking quickly around you, you see a")
    plain, progress = [], [env.progress]
    for command in task.data["walkthrough"]:
        plain.append(env.step(command))
        progress.append(env.progress)
    assert [outcome.terminated for outcome in plain] == [False] * (len(plain) - 1) + [True]
    assert env.success
    assert progress[0] == 0
    assert progress == sorted(progress)
    assert progress[-1] == 1 > progress[-2]

    assert env.reset(task) == start
    other = [f"Action: {in_the_old_grammar(command).upper()}." for command in task.data["walkthrough"]]
    assert [env.step(command) for command in other] == plain
    assert env.success
    env.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check: Check, smallest: EnvTask) -> None:
    check(Sample(lambda: HouseholdEnv(max_steps=30), smallest, smallest.data["walkthrough"], BAD))


def test_what_is_seen_and_said(smallest: EnvTask) -> None:
    env = HouseholdEnv()
    env.reset(smallest)
    first, *rest = smallest.data["walkthrough"]
    place = first.removeprefix("go to ")
    assert env.step("inventory").observation == "You are not carrying anything."
    assert "Available commands:" in env.step("help").observation
    assert env.step(first.upper()).observation.startswith(f"You arrive at {place}. ")
    assert env.step("look").observation == f"You are facing the {place}. Next to it, you see nothing."
    assert env.step("fly") == Outcome("Nothing happens.", valid=False, info={"command": "fly"})
    (taken,) = [re.fullmatch("take (.+) from .+", command) for command in rest if command.startswith("take")]
    assert taken is not None
    for command in rest[: rest.index(taken[0]) + 1]:
        env.step(command)
    assert env.step("inventory").observation == f"You are carrying: a {taken[1]}."
    assert not env.success
    env.close()


def test_it_plays_as_alfworld_does(smallest: EnvTask) -> None:
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
    from textworld.envs.pddl import PddlEnv

    theirs = AlfredDemangler(PddlEnv(textworld.EnvInfos(won=True, admissible_commands=True)))
    theirs.load(smallest.data["file"])
    state = theirs.reset()
    env = HouseholdEnv()
    start = env.reset(smallest)
    assert state.feedback == f"-= Welcome to TextWorld, ALFRED! =-\n\n{start.observation}\n\n{start.instruction}"
    for command in ("help", *smallest.data["walkthrough"]):
        for written in ("look", "fly", command):
            assert env._game is not None
            assert env._game.admissible == state["admissible_commands"]
            state, _, won = theirs.step(written)
            assert (state.feedback.strip(), won) == (env.step(written).observation, env.success)
    env.close()


def test_a_game_of_the_old_grammar_plays_in_the_new_one(smallest: EnvTask, tmp_path: Path) -> None:
    game = json.loads(Path(smallest.data["file"]).read_text())
    game["grammar"] = (
        game["grammar"]
        .replace("move {o} to {r}", "put {o} in/on {r}")
        .replace("You move the {o.name} to the {r.name}", "You put the {o.name} in/on the {r.name}")
        .replace("You arrive at {r.name}", "You arrive at {lend.name}")
    )
    old = tmp_path / "game.tw-pddl"
    old.write_text(json.dumps(game))
    walkthrough = [in_the_old_grammar(command) for command in smallest.data["walkthrough"]]
    assert play(EnvTask("old", data={"file": str(old)}), walkthrough) == play(smallest)


def test_a_scene_is_translated_once(smallest: EnvTask, monkeypatch: pytest.MonkeyPatch) -> None:
    import fast_downward

    first, arguments = play(smallest), list(sys.argv)

    def refuse(*args: Any, **options: Any) -> None:
        raise AssertionError("translated again")

    monkeypatch.setattr(fast_downward, "pddl2sas", refuse)
    assert play(smallest) == first
    assert sys.argv == arguments
    assert fast_downward.pddl2sas is refuse


def test_games_in_several_threads_do_not_mix(games: dict[str, EnvTask]) -> None:
    tasks = [games[family] for family in ("pick_and_place_simple", "look_at_obj_in_light", "pick_two_obj_and_place")]
    alone = {task.id: play(task) for task in tasks}
    together: list[tuple[str, list[Any]]] = []
    threads = [threading.Thread(target=lambda task=task: together.append((task.id, play(task)))) for task in tasks * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(together) == len(threads)
    assert all(alone[name] == seen for name, seen in together)


def test_a_scene_that_cannot_be_read_is_told(smallest: EnvTask, tmp_path: Path, games: dict[str, EnvTask]) -> None:
    from household import engine

    env = HouseholdEnv()
    env.reset(smallest)
    game = json.loads(Path(smallest.data["file"]).read_text())
    path = tmp_path / "game.tw-pddl"
    for problem in ("", "(define", game["pddl_problem"].replace("exists", "forall"), game["pddl_problem"][:-3_000]):
        path.write_text(json.dumps(game | {"pddl_problem": problem}))
        with pytest.raises(ValueError, match="PDDL"):
            env.reset(EnvTask("broken", data={"file": str(path)}))
    free = len(engine._FREE_LIBRARIES)
    assert free >= 1, "libraries are given back"
    env.reset(smallest)
    assert len(engine._FREE_LIBRARIES) == free - 1
    env.close()
    with pytest.raises(ValueError, match="no ALFWorld game"):
        env.reset(EnvTask("gone", data={"file": str(tmp_path / "gone")}))
