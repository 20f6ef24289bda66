"""The scripted agent on the generated family: what Maintain, Revise and Compress are worth, and what it can see."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horma_rl.agent.config import SystemConfig
from horma_rl.agent.episode import EpisodeResult, Parts, StepRow, play
from horma_rl.agent.recall import make_recaller
from horma_rl.agent.scripted import ScriptedActor, ScriptedJudge, ScriptedSummariser
from horma_rl.agent.types import Act, Hint, Mark, Move, Pair, Recall, State, Summary, View
from horma_rl.tokens import Estimate
from interactive_env.types import EnvTask, Rewind
from interdependent import InterdependentSuite, optimal, read_player
from interdependent.suite import Kind
from interdependent.world import World

KINDS: tuple[Kind, ...] = ("bundle", "schedule")
SEEDS = range(3)


def played(
    folder: Path,
    kind: Kind,
    *,
    seed: int = 0,
    size: int = 6,
    errors: Collection[int] = (),
    way: Rewind = "restore",
    **system: Any,
) -> tuple[EpisodeResult, list[StepRow]]:
    suite = InterdependentSuite(kind, size, tasks=1, seed=seed, rewind=way)
    task = suite.tasks("test")[0]
    system = {"horma": False} | system
    recaller = make_recaller("bm25-3") if system["horma"] else None
    parts = Parts(ScriptedActor(errors), Estimate(), ScriptedJudge(), ScriptedSummariser(), recaller)
    rows: list[StepRow] = []
    return asyncio.run(play(suite.make(task), task, SystemConfig(**system), parts, folder, rows.append)), rows


# The ablations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_without_errors_it_wins_and_the_judge_finds_nothing(kind: Kind, seed: int, tmp_path: Path) -> None:
    result, _ = played(tmp_path, kind, seed=seed)
    assert result.success
    assert result.maintain_passed == 6
    assert result.maintain_failed == result.invalid == result.refused == 0


@pytest.mark.parametrize("way", ["restore", "replay"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("errors", [(1,), (3,), (6,), (2, 3, 5), range(1, 7)], ids=str)
def test_it_recovers_from_every_error(kind: Kind, way: Rewind, errors: Collection[int], tmp_path: Path) -> None:
    result, rows = played(tmp_path, kind, seed=7, errors=errors, way=way)
    assert result.success
    assert result.revisions == result.maintain_failed == len(errors)
    part = "purchase" if kind == "bundle" else "meeting"
    found = [row.text for row in rows if row.kind == "maintain" and not row.valid]
    assert [text.split(" (")[0] for text in found] == [f"{part} {number}" for number in errors]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lacking", [{"maintain": False}, {"revise": False}, {"state": "full"}], ids=str)
@pytest.mark.parametrize("seed", SEEDS)
def test_without_maintain_or_revise_the_error_stays(
    kind: Kind, lacking: dict[str, Any], seed: int, tmp_path: Path
) -> None:
    result, _ = played(tmp_path, kind, seed=seed, errors=(3,), **lacking)
    assert not result.success
    assert result.stop == "failed"
    assert result.revisions == 0
    assert result.progress == pytest.approx(2 / 6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_world_that_does_not_go_back_keeps_the_error(kind: Kind, tmp_path: Path) -> None:
    result, _ = played(tmp_path, kind, errors=(3,), way="none")
    assert result.stop == "failed"
    assert result.rewinds["not"] == result.revisions > 0


@pytest.mark.parametrize("kind", KINDS)
def test_without_compress_it_wins_with_a_context_that_grows(kind: Kind, tmp_path: Path) -> None:
    whole, rows = played(tmp_path / "whole", kind, size=20, errors=(3, 9))
    without, longer = played(tmp_path / "without", kind, size=20, errors=(3, 9), compress=False)
    assert whole.success
    assert without.success
    assert _growth(longer) > 4 * _growth(rows)
    assert without.most_context_tokens > 2 * whole.most_context_tokens


def _growth(rows: list[StepRow]) -> float:
    """Tokens of the state a step, between the second quarter of the actions and the last."""
    states = [row.state_tokens for row in rows if row.kind == "act"]
    quarter = len(states) // 4
    return (sum(states[-quarter:]) - sum(states[quarter : 2 * quarter])) / quarter / (2 * quarter)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tokens", [50, 150, 300])
def test_summaries_by_fallback_are_enough_to_go_on(kind: Kind, tokens: int, tmp_path: Path) -> None:
    result, _ = played(tmp_path, kind, errors=(2,), compress_tokens=tokens)
    assert result.success
    assert result.compressions_fallback or tokens == 300


def test_what_the_window_lost_comes_from_long_term_memory(tmp_path: Path) -> None:
    alone = [played(tmp_path / f"alone{seed}", "bundle", seed=seed, state="recent")[0] for seed in SEEDS]
    horma = [played(tmp_path / f"horma{seed}", "bundle", seed=seed, state="recent", horma=True)[0] for seed in SEEDS]
    assert all(result.success for result in horma)
    assert not all(result.success for result in alone)


@settings(max_examples=30)
@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 10**5), errors=st.sets(st.integers(1, 5), max_size=2))
def test_any_task_and_any_errors(
    tmp_path_factory: pytest.TempPathFactory, kind: Kind, seed: int, errors: set[int]
) -> None:
    result, _ = played(tmp_path_factory.mktemp("run"), kind, seed=seed, size=5, errors=errors)
    assert result.success
    assert result.revisions == len(errors)


# What the actor sees -------------------------------------------------------------------------------------------------


def start(kind: Kind) -> tuple[World, EnvTask, View]:
    suite = InterdependentSuite(kind)
    task = suite.tasks("test")[0]
    env = suite.make(task)
    begun = env.reset(task)
    empty = State((), (), ())
    view = View(begun.instruction, "", empty, "", begun.observation, "", "", 0, ("compress", "revise", "recall"))
    return env, task, view


def seeing(view: View, observation: str = "", context: str = "", **state: Any) -> View:
    whole = {"compressed": (), "raw": (), "hints": ()} | state
    return View(view.instruction, "", State(**whole), context, observation, "", "", 0, view.moves)


def move(view: View, errors: Collection[int] = ()) -> Move:
    return asyncio.run(ScriptedActor(errors).act(view)).move


@pytest.mark.parametrize("kind", KINDS)
def test_it_looks_again_when_it_does_not_see_where_it_is(kind: Kind) -> None:
    _, _, view = start(kind)
    assert move(seeing(view, "Nothing of note.")) == Act("status")


@pytest.mark.parametrize("kind", KINDS)
def test_the_state_alone_decides(kind: Kind) -> None:
    """A new actor that is shown the same moves the same way: it remembers nothing by itself."""
    env, _, view = start(kind)
    raw: tuple[Pair, ...] = ()
    for number in range(1, 9):
        now = move(seeing(view, raw[-1].observation if raw else view.observation, raw=raw))
        assert isinstance(now, Act)
        raw = (*raw, Pair(number, now.action, env.step(now.action).observation))
        if env.progress:
            break
    assert env.progress == pytest.approx(1 / 6)


def test_it_asks_memory_once_for_a_colour_that_it_does_not_see() -> None:
    env, task, view = start("bundle")
    bought = env.step(optimal(task)[0]).observation
    status = env.step("status").observation
    actor = ScriptedActor()
    lost = seeing(view, status, raw=(Pair(9, "status", status),))
    asked = asyncio.run(actor.act(lost)).move
    assert isinstance(asked, Recall)
    assert "Purchase 1 of 6" in asked.question
    assert isinstance(asyncio.run(actor.act(lost)).move, Act)
    current = f"Earlier steps, from memory:\n[step 1] Action: buy it Observation: {bought}"
    assert isinstance(move(seeing(view, status, context=current)), Act)
    given_up = f"Tried before:\n[step 1, abandoned: for a reason] Action: buy it Observation: {bought}"
    assert isinstance(move(seeing(view, status, context=given_up)), Recall)


@pytest.mark.parametrize("where", ["feedback", "hint", "context"])
def test_a_planted_error_is_not_made_again_once_it_is_diagnosed(where: str) -> None:
    env, _, view = start("bundle")
    player = read_player(view.instruction)
    kind = view.observation.rpartition("a ")[2].rstrip(".")
    raw = (Pair(1, f"search {kind}", env.step(f"search {kind}").observation),)
    wrong = move(seeing(view, view.observation, raw=raw), errors=(1,))
    right = move(seeing(view, view.observation, raw=raw))
    assert wrong != right
    diagnosis = f"{player.part} 1 ({kind}) is wrong: it leaves no way to the end"
    told = {
        "feedback": seeing(view, view.observation, raw=raw, feedback=diagnosis),
        "hint": seeing(view, view.observation, raw=raw, hints=(Hint("subgoal", "bought", diagnosis),)),
        "context": seeing(view, view.observation, f"[step 3, abandoned: {diagnosis}] Action: buy", raw=raw),
    }
    assert move(told[where], errors=(1,)) == right
    other = seeing(view, view.observation, raw=raw, feedback=diagnosis.replace("purchase 1 ", "purchase 10 "))
    assert move(other, errors=(1,)) == wrong


def test_other_tasks_are_refused() -> None:
    _, _, view = start("bundle")
    with pytest.raises(ValueError, match="interdependent family"):
        move(View("Put a clean egg in the microwave.", "", view.state, "", "", "", "", 0))


# The judge -----------------------------------------------------------------------------------------------------------


def parts_of(kind: Kind) -> tuple[str, list[tuple[list[Pair], str]]]:
    """The instruction, and of each subtask its trace and its summary, as a run without errors has them."""
    env, _, view = start(kind)
    actor = ScriptedActor()
    done: list[tuple[list[Pair], str]] = []
    raw: list[Pair] = []
    observation = view.observation
    for number in itertools.count(1):
        summaries = tuple(Summary(index, text) for index, (_, text) in enumerate(done))
        now = asyncio.run(actor.act(seeing(view, observation, compressed=summaries, raw=tuple(raw)))).move
        if isinstance(now, Mark):
            done.append((raw, now.summary))
            raw = []
            continue
        assert isinstance(now, Act)
        if now.action == "finish":
            return view.instruction, done
        observation = env.step(now.action).observation
        raw.append(Pair(number, now.action, observation))
    raise AssertionError


def verdict(instruction: str, trace: list[Pair], summary: str) -> str:
    return asyncio.run(ScriptedJudge().validate(instruction, trace, summary)).feedback


@pytest.mark.parametrize("kind", KINDS)
def test_the_judge_passes_what_is_right(kind: Kind) -> None:
    instruction, parts = parts_of(kind)
    assert len(parts) == 6
    assert [verdict(instruction, trace, summary) for trace, summary in parts] == [""] * 6


@pytest.mark.parametrize("kind", KINDS)
def test_the_judge_finds_summaries_that_are_not_true(kind: Kind) -> None:
    instruction, parts = parts_of(kind)
    (first, one), (second, two) = parts[:2]
    assert "not true" in verdict(instruction, first, two)
    assert "not true" in verdict(instruction, second, f"{one} {two}")
    assert "not true" in verdict(instruction, first, "All is well.")
    assert "not true" in verdict(instruction, first[:-1], one)


def test_the_judge_takes_what_was_before_from_the_summary() -> None:
    instruction, parts = parts_of("bundle")
    trace, summary = parts[1]
    colour = summary.partition("Before it: colour ")[2].split(",")[0]
    suits = {line.split(":")[0].split()[-1]: line for line in instruction.splitlines() if line.startswith("- after")}
    bought = summary.partition("(")[2].split(",")[0]
    unsuited = next(before for before, line in suits.items() if bought not in line.partition(":")[2])
    found = verdict(instruction, trace, summary.replace(f"colour {colour}", f"colour {unsuited}"))
    assert "purchase 2 (" in found
    assert f"{bought} does not suit {unsuited}" in found


def test_the_judge_finds_who_is_busy_by_the_calendars_of_the_trace() -> None:
    instruction, parts = parts_of("schedule")
    trace, summary = parts[0]
    slot = next(word for word in summary.split() if word.startswith("d1-"))
    busy = [
        Pair(pair.id, pair.action, pair.observation.replace(slot, "") if index == 0 else pair.observation)
        for index, pair in enumerate(trace)
    ]
    person = trace[0].action.removeprefix("calendar ")
    assert f"{person} cannot come in {slot}" in verdict(instruction, busy, summary)


@pytest.mark.parametrize("kind", KINDS)
def test_a_digest_tells_every_choice_and_passes(kind: Kind) -> None:
    instruction, parts = parts_of(kind)
    trace = [pair for steps, _ in parts for pair in steps]
    text = asyncio.run(ScriptedSummariser().summarise(instruction, trace)).text
    assert text.count("is made:" if kind == "bundle" else "is booked:") == 6
    assert verdict(instruction, trace, text) == ""
