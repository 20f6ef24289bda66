"""Household tasks without the games' packages: commands, goals, game files, and the actor that plays a walkthrough."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horma_rl.agent.types import Act, Malformed, Mark, Move, State, View
from horma_rl.agent.walkthrough import WalkthroughActor
from household import HouseholdEnv, HouseholdSuite
from household.commands import MOST_CHARACTERS, normalise
from household.games import FAMILIES, family, read_game, split_files
from household.goal import Goal, Literal, parse_goal

# Commands ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "command"),
    [
        ("go to desk 1", "go to desk 1"),
        ("  Go  To\tDesk 1. ", "go to desk 1"),
        ("Action: go to desk 1", "go to desk 1"),
        ("Action 3: > `go to desk 1`", "go to desk 1"),
        ("> look", "look"),
        ('"Inventory"!', "inventory"),
        ("ACTION: Action: help", "help"),
        ("**Action:** open fridge 1", "open fridge 1"),
        ("\n\n```\nlook\n```", "look"),
        ("look\nAction: go to desk 1", "look"),
        ("put apple 1 in/on fridge 1", "move apple 1 to fridge 1"),
        ("Put apple 1 in fridge 1.", "move apple 1 to fridge 1"),
        ("put mug 2 onto desk 1", "move mug 2 to desk 1"),
        ("move mug 2 to desk 1", "move mug 2 to desk 1"),
        ("move mug 2 in/on desk 1", "move mug 2 to desk 1"),
        ("put mug 2", "put mug 2"),
        ("take mug 2 from desk 1", "take mug 2 from desk 1"),
        ("", ""),
        (" .,'\n> ", ""),
        ("Action:", "action"),
        ("look" * MOST_CHARACTERS, ""),
    ],
)
def test_commands_are_normalised(written: str, command: str) -> None:
    assert normalise(written) == command


@settings(max_examples=60)
@given(st.text(max_size=400) | st.text("putmove inon/to:Action >\n.", max_size=80))
def test_any_text_is_a_command_that_stays_as_it_is(written: str) -> None:
    command = normalise(written)
    assert "\n" not in command
    assert len(command) <= 3 * MOST_CHARACTERS  # casefold may lengthen
    assert normalise(command) == command


# Goals ---------------------------------------------------------------------------------------------------------------

CLEAN = """(define (problem x) (:init (a b)) (:goal (and ; why
    (exists (?r - receptacle) (exists (?o - object) (and (cleanable ?o) (objectType ?o KnifeType)
        (receptacleType ?r TableType) (isClean ?o) (inReceptacle ?o ?r))))))"""
TWO = """(:goal (and (exists (?r - receptacle) (exists (?o1 - object) (and (objectType ?o1 KnifeType)
    (receptacleType ?r TableType) (inReceptacle ?o1 ?r) (exists (?o2 - object) (and (not (= ?o1 ?o2))
    (objectType ?o2 KnifeType) (receptacleType ?r TableType) (inReceptacle ?o2 ?r))))))))"""
LIGHT = """(:goal (and (exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and (objectType ?ot LampType)
    (toggleable ?ot) (isToggled ?ot) (receptacleAtLocation ?r ?l) (atLocation ?a ?l) (inReceptacle ?ot ?r)))
    (exists (?o - object ?a - agent) (and (objectType ?o KnifeType) (holds ?a ?o)))))"""
THINGS = {
    "object": ["k1", "k2", "f1", "lamp"],
    "receptacle": ["t1", "t2", "sink"],
    "agent": ["me"],
    "location": ["at_t1", "at_t2", "at_sink"],
}
SCENE = frozenset(
    tuple(fact.split())
    for fact in """
    objecttype k1 knifetype, objecttype k2 knifetype, objecttype f1 forktype, objecttype lamp lamptype
    cleanable k1, cleanable k2, cleanable f1, pickupable k1, pickupable k2, pickupable f1, toggleable lamp
    receptacletype t1 tabletype, receptacletype t2 tabletype, receptacletype sink sinktype
    receptacleatlocation t1 at_t1, receptacleatlocation t2 at_t2, receptacleatlocation sink at_sink
    inreceptacle k1 t1, inreceptacle k2 sink, inreceptacle f1 t2, inreceptacle lamp t2
    isclean f1, atlocation me at_sink
    """.strip()
    .replace("\n", ",")
    .split(",")
)


def changed(*facts: str, gone: tuple[str, ...] = ()) -> frozenset[tuple[str, ...]]:
    return (SCENE - {tuple(fact.split()) for fact in gone}) | {tuple(fact.split()) for fact in facts}


def test_progress_is_the_share_of_the_way_from_the_start() -> None:
    goal = Goal.of(CLEAN, THINGS, SCENE)
    assert goal.progress(SCENE) == 0, "k1 lies on a table already, a clean fork too: neither is progress"
    held = changed(gone=("inreceptacle k2 sink",))
    assert goal.progress(held) == 0
    assert goal.progress(held | {("isclean", "k2")}) == 0.5
    assert goal.progress(changed("isclean k2", "inreceptacle k2 t1", gone=("inreceptacle k2 sink",))) == 1
    assert goal.progress(changed("isclean k1")) == 1, "k1 was where it has to be"
    assert goal.progress(changed("isclean k1", gone=("inreceptacle k1 t1",))) == 0.5, "on the way to another table"


def test_two_things_are_two_things() -> None:
    goal = Goal.of(TWO, THINGS, SCENE)
    assert goal.progress(SCENE) == 0
    assert goal.progress(changed("inreceptacle k2 t2", gone=("inreceptacle k2 sink",))) == 0.5, "another table than k1"
    assert goal.progress(changed("inreceptacle k2 t1", gone=("inreceptacle k2 sink",))) == 1


def test_variables_of_two_parts_with_one_name_are_two() -> None:
    goal = Goal.of(LIGHT, THINGS, SCENE)
    there = changed("atlocation me at_t2", gone=("atlocation me at_sink",))
    assert goal.progress(SCENE) == 0
    assert goal.progress(there) == pytest.approx(1 / 3)
    assert goal.progress(there | {("istoggled", "lamp")}) == pytest.approx(2 / 3)
    assert goal.progress(there | {("istoggled", "lamp"), ("holds", "me", "k2")}) == 1
    assert goal.progress(changed("atlocation me at_t1")) == 0, "the lamp stays on t2"


def test_a_goal_is_read_whole() -> None:
    formula = parse_goal(CLEAN)
    assert [type_name for _, type_name in formula.variables] == ["receptacle", "object"]
    assert len(formula.literals) == 5
    assert Literal("isclean", (formula.variables[1][0],)) in formula.literals


@pytest.mark.parametrize(
    "problem",
    [
        "",
        "(:goal)",
        "(:goal (and (a b)",
        "(:goal (a b) (c d))",
        "(:goal (or (a b) (c d)))",
        "(:goal (forall (?x - t) (a ?x)))",
        "(:goal (not (and (a b))))",
        "(:goal (exists (?x) (a ?x)))",
        "(:goal (a (b c)))",
        "(:goal ())",
        "(:goal (= ?a))",
        "(:goal " + "(and " * 5_000,
    ],
)
def test_other_goals_are_refused(problem: str) -> None:
    with pytest.raises(ValueError, match=":goal"):
        parse_goal(problem)


def test_a_goal_with_too_many_alternatives_is_refused() -> None:
    things = {"t": [f"x{number}" for number in range(200)]}
    with pytest.raises(ValueError, match="alternatives"):
        Goal.of("(:goal (exists (?a ?b ?c - t) (and (p ?a) (p ?b) (p ?c))))", things, frozenset())


# Game files ----------------------------------------------------------------------------------------------------------

GAME = {
    "pddl_domain": "",
    "grammar": '"task": [{"rhs": "Your task is to: put a knife in table."}]',
    "pddl_problem": TWO,
    "solvable": True,
    "walkthrough": ["look"],
}
HERE = "pick_and_place_simple-Mug-None-Desk-301"


def add_game(root: Path, split: str, task: str, **changes: Any) -> Path:
    folder = root / split / task / "trial_1"
    folder.mkdir(parents=True)
    path = folder / "game.tw-pddl"
    path.write_text(json.dumps(GAME | changes))
    return path


def test_a_game_is_read(tmp_path: Path) -> None:
    game = read_game(add_game(tmp_path, "train", HERE))
    assert (game.task, game.walkthrough, game.solvable) == ("put a knife in table.", ("look",), True)
    assert game.problem == TWO


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"grammar": "x"}, "Your task is to"),
        ({"grammar": None}, "missing"),
        ({"pddl_problem": 3}, "missing"),
        ({"walkthrough": "look"}, "list of commands"),
        ({"walkthrough": [1]}, "list of commands"),
    ],
)
def test_what_is_no_game_is_told_with_its_path(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    path = add_game(tmp_path, "train", HERE, **changes)
    with pytest.raises(ValueError, match=reason) as caught:
        read_game(path)
    assert str(path) in str(caught.value)


@settings(max_examples=40)
@given(raw=st.binary(max_size=60) | st.sampled_from([b"[" * 100_000, b"[]", b"null", b'{"grammar": "\\ud800"}']))
def test_any_bytes_are_a_game_or_told(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    path = tmp_path_factory.mktemp("game") / "game.tw-pddl"
    path.write_bytes(raw)
    with pytest.raises(ValueError, match="no ALFWorld game"):
        read_game(path)


def test_splits_are_found_in_both_layouts_and_sorted(tmp_path: Path) -> None:
    add_game(tmp_path, "json_2.1.1/valid_seen", HERE)
    add_game(tmp_path, "json_2.1.1/valid_seen", "look_at_obj_in_light-Mug-None-DeskLamp-301")
    add_game(tmp_path, "json_2.1.1/valid_seen", "pick_two_obj_and_place-MugSliced-None-Desk-301")
    add_game(tmp_path, "json_2.1.1/valid_seen", "pick_and_place_with_movable_recep-Mug-Bowl-Desk-301")
    add_game(tmp_path, "train", HERE)
    assert [family(path) for path in split_files(tmp_path, "valid_seen")] == [
        "look_at_obj_in_light",
        "pick_and_place_simple",
    ]
    assert len(split_files(tmp_path, "train")) == 1
    with pytest.raises(ValueError, match="it has valid_seen, train"):
        split_files(tmp_path, "valid_unseen")
    with pytest.raises(ValueError, match="there are valid_seen"):
        split_files(tmp_path, "test")
    assert len(FAMILIES) == 6


def test_a_suite_says_what_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    with pytest.raises(ValueError, match="ALFWORLD_DATA"):
        HouseholdSuite()
    with pytest.raises(ValueError, match="no folder"):
        HouseholdSuite(tmp_path / "none")
    monkeypatch.setattr("household.environment.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"setup\.sh alfworld"):
        HouseholdSuite(tmp_path)
    assert "ALFWORLD_DATA" not in os.environ


def test_a_suite_lists_solvable_games(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    monkeypatch.setattr("household.environment.find_spec", lambda name: object())
    path = add_game(tmp_path, "train", HERE)
    add_game(tmp_path, "train", HERE.replace("Mug", "Cup"), solvable=False)
    (task,) = HouseholdSuite().tasks("train")
    assert (task.id, task.family) == (f"{HERE}/trial_1", "pick_and_place_simple")
    assert task.data == {"file": str(path), "walkthrough": ("look",)}


def test_an_environment_needs_steps() -> None:
    with pytest.raises(ValueError, match="max_steps 0"):
        HouseholdEnv(0)


# The actor that plays a walkthrough ----------------------------------------------------------------------------------


def moves(actor: WalkthroughActor, count: int, *, compress: bool = True) -> list[Move]:
    view = View("task", "", State((), (), ()), "", "seen", "", "prompt", 7, ("compress",) if compress else ())
    decisions = [asyncio.run(actor.act(view)) for _ in range(count)]
    assert {decision.usage.prompt_tokens for decision in decisions} == {7}
    return [decision.move for decision in decisions]


def test_a_walkthrough_is_played_in_order() -> None:
    first, second, after, again = moves(WalkthroughActor(["a", "b"]), 4)
    assert (first, second) == (Act("a"), Act("b"))
    assert isinstance(after, Malformed)
    assert "ended" in after.reason
    assert again == after


def test_subgoals_are_marked_every_few_actions() -> None:
    played = moves(WalkthroughActor(["a", "b", "c"], mark_every=2), 4)
    assert played == [Act("a"), Act("b"), Mark("Done: a; b. Last seen: seen"), Act("c")]


def test_no_marks_where_none_are_taken() -> None:
    assert moves(WalkthroughActor(["a", "b"], mark_every=1), 2, compress=False) == [Act("a"), Act("b")]
    with pytest.raises(ValueError, match="mark_every -1"):
        WalkthroughActor([], mark_every=-1)
