"""The loop of an episode: every kind of move, going back in three kinds of world, caps, and loops."""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horma_rl.agent.config import SystemConfig
from horma_rl.agent.episode import REPEATS_STUCK, Parts, StepRow, play
from horma_rl.agent.events import replay
from horma_rl.agent.judge import UnreadError
from horma_rl.agent.recall import make_recaller
from horma_rl.agent.types import Act, Decision, GoBack, Malformed, Mark, Move, Pair, Recall, Verdict, View
from horma_rl.errors import UserError
from horma_rl.llm.types import Attempt, UnreachableError, Usage
from horma_rl.tokens import Estimate
from interactive_env.types import EnvTask, Rewind, Start
from memory_shell.workspace import Workspace
from tests.agent_parts import FIRST, TASK, Everything, Joined, Listed, RuleJudge, Words, play_moves

ABC: list[Move] = [Act("a"), Act("b"), Act("c"), Act("done")]
MARKED: list[Move] = [Act("a"), Mark("said a"), Act("x"), Mark("bad: said x"), Act("b"), Act("c"), Act("done")]


def test_a_task_is_played_to_its_end(tmp_path: Path) -> None:
    rows: list[StepRow] = []
    env = Words()
    result, actor = play_moves(tmp_path, ABC, env=env, log=rows.append)
    assert (result.stop, result.success, result.progress, result.steps, result.moves) == ("success", True, 1.0, 4, 4)
    assert [(row.kind, row.text, row.step, row.p_b) for row in rows] == [
        ("act", "a", 1, 1), ("act", "b", 2, 2), ("act", "c", 3, 3), ("act", "done", 4, 4),
    ]  # fmt: skip
    assert env.closed == 1
    assert result.usage == {"actor": Usage(40, 8)}
    assert rows[1].usage == {"actor": Usage(10, 2)}
    assert [view.observation for view in actor.views][:2] == [FIRST, "Said so far: a"]
    json.dumps([row.as_json() for row in rows])
    json.dumps(result.as_json())


def test_a_lost_task_is_failed_and_not_an_error(tmp_path: Path) -> None:
    result, _ = play_moves(tmp_path, [Act("b"), Act("done")])
    assert (result.stop, result.success) == ("failed", False)


def test_the_actor_sees_state_and_not_what_was_compressed(tmp_path: Path) -> None:
    _, actor = play_moves(tmp_path, MARKED, SystemConfig(horma=False))
    after_mark = actor.views[2]
    assert [(one.id, one.text) for one in after_mark.state.compressed] == [(0, "said a")]
    assert after_mark.state.raw == ()
    assert "> a" not in after_mark.prompt
    assert "said a" in after_mark.prompt
    assert after_mark.moves == ("compress", "revise")


# Going back ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("way", "how"), [("restore", "restored"), ("replay", "replayed")])
def test_a_failed_check_takes_agent_and_world_back(tmp_path: Path, way: Rewind, how: str) -> None:
    rows: list[StepRow] = []
    env = Words(way)
    result, actor = play_moves(tmp_path, MARKED, env=env, log=rows.append)
    assert result.success, "what x did to the world is undone"
    assert (result.maintain_passed, result.maintain_failed, result.revisions) == (1, 1, 1)
    assert result.rewinds == {how: 1}
    assert result.replayed_steps == (1 if way == "replay" else 0)
    back = actor.views[4]
    assert back.observation == "Said so far: a"
    assert back.state.feedback == "x was wrong"
    assert [hint.text for hint in back.state.hints] == ["x", "bad: said x"]
    assert back.notice == "You are back after step 1, and so is the environment."
    assert [row.kind for row in rows[3:8]] == ["act", "mark", "maintain", "revise", "act"]
    assert not rows[5].valid
    assert (env.calls.count("reset") == 2) == (way == "replay")


def test_where_the_world_cannot_go_back_the_actor_is_told_for_as_long_as_it_matters(tmp_path: Path) -> None:
    result, actor = play_moves(tmp_path, MARKED, env=Words("none"))
    assert result.rewinds == {"not": 1}
    assert (result.stop, result.success) == ("failed", False)
    assert actor.views[4].observation == "Said so far: a x", "the world is as it is"
    for view in actor.views[4:6]:
        assert "does not go back" in view.prompt
    note = (tmp_path / "memory/say-abc/subgoals/steps_0002-0002.md").read_text()
    assert 'diagnosis: "x was wrong"' in note


def test_going_back_to_the_start_shows_the_first_observation(tmp_path: Path) -> None:
    moves: list[Move] = [Act("x"), Mark("said x"), GoBack(0, "x is not a"), *ABC]
    result, actor = play_moves(tmp_path, moves, SystemConfig(maintain=False), env=Words("replay"))
    assert actor.views[3].observation == FIRST
    assert (result.success, result.revisions) == (True, 1)
    assert actor.views[3].state.feedback == "x is not a"


def test_a_replay_that_drifts_is_counted_and_told(tmp_path: Path) -> None:
    class Drifting(Words):
        def reset(self, task: EnvTask) -> Start:
            start = super().reset(task)
            self.said = ["z"] if self.calls.count("reset") > 1 else []
            return start

    result, actor = play_moves(tmp_path, MARKED, env=Drifting("replay"))
    assert result.drifts == 1
    assert "otherwise than before from step 1 on" in actor.views[4].notice


def test_there_is_a_way_back_only_to_boundaries(tmp_path: Path) -> None:
    moves: list[Move] = [GoBack(0, "r"), Act("a"), Mark("m"), GoBack(1, "r"), GoBack(-1, "r"), *ABC[1:]]
    result, actor = play_moves(tmp_path, moves)
    assert (result.refused, result.revisions, result.success) == (3, 0, True)
    assert actor.views[1].notice == "There is no way back to step 0: no subgoal is compressed yet."
    assert actor.views[4].notice == "There is no way back to step 1: you can go back to 0."


def test_revisions_are_limited(tmp_path: Path) -> None:
    moves: list[Move] = [Act("x"), Mark("bad"), Act("y"), Mark("bad"), GoBack(0, "r"), Act("done")]
    result, actor = play_moves(tmp_path, moves, SystemConfig(revisions=1))
    assert (result.revisions, result.maintain_failed, result.refused) == (1, 2, 1)
    assert actor.views[4].notice == "A check found your last subgoal wrong: y was wrong"
    assert "all there is" in actor.views[5].notice


# Each mechanism off --------------------------------------------------------------------------------------------------


def test_without_maintain_no_judge_is_needed_nor_asked(tmp_path: Path) -> None:
    result, _ = play_moves(tmp_path, MARKED, SystemConfig(maintain=False))
    assert (result.maintain_passed, result.maintain_failed, result.revisions, result.success) == (0, 0, 0, False)
    with pytest.raises(UserError, match="needs a judge"):
        asyncio.run(
            play(Words(), TASK, SystemConfig(), Parts(Listed(), Estimate(), None, Joined(), None), tmp_path, print)
        )


def test_without_revise_a_fault_is_only_told(tmp_path: Path) -> None:
    moves = [*MARKED[:4], GoBack(1, "r"), *MARKED[4:]]
    result, actor = play_moves(tmp_path, moves, SystemConfig(revise=False))
    assert (result.maintain_failed, result.revisions, result.refused, result.success) == (1, 0, 1, False)
    assert actor.views[4].notice == "A check found your last subgoal wrong: x was wrong"
    assert actor.views[4].moves == ("compress",)
    note = (tmp_path / "memory/say-abc/subgoals/steps_0002-0002.md").read_text()
    assert 'status: "current"' in note
    assert 'diagnosis: "x was wrong"' in note


def test_without_compress_the_whole_path_is_shown_and_boundaries_still_work(tmp_path: Path) -> None:
    result, actor = play_moves(tmp_path, MARKED, SystemConfig(compress=False, compress_tokens=50))
    assert (result.success, result.revisions, result.compressions_fallback) == (True, 1, 0)
    assert [pair.action for pair in actor.views[5].state.raw] == ["a", "b"]
    assert [one.text for one in actor.views[5].state.compressed] == ["said a"]


@pytest.mark.parametrize("kind", ["full", "recent"])
def test_systems_without_mage_take_no_moves_on_the_tree(tmp_path: Path, kind: Any) -> None:
    moves: list[Move] = [Act("a"), Mark("m"), GoBack(0, "r"), *ABC[1:]]
    result, actor = play_moves(tmp_path, moves, SystemConfig(state=kind, recent_steps=1, horma=False))
    assert (result.refused, result.compressions, result.success) == (2, 0, True)
    assert actor.views[0].moves == ()
    last = [pair.action for pair in actor.views[-1].state.raw]
    assert last == (["a", "b", "c"] if kind == "full" else ["c"])


def test_without_horma_there_is_no_workspace_and_nothing_to_ask(tmp_path: Path) -> None:
    everything = Everything()
    result, actor = play_moves(tmp_path, [Recall("x"), *ABC], SystemConfig(horma=False), recaller=everything)
    assert (result.refused, result.recalls, everything.asked) == (1, 0, [])
    assert actor.views[1].notice == "There is no memory to ask here: act."
    assert not (tmp_path / "memory").exists()


# Retrieval -----------------------------------------------------------------------------------------------------------


def _asked(folder: Path, moves: Sequence[Move], **system: Any) -> tuple[list[str], list[View]]:
    everything = Everything()
    _, actor = play_moves(folder, moves, SystemConfig(**system), recaller=everything)
    return everything.asked, actor.views


def test_memory_is_asked_at_boundaries_when_it_holds_more_than_the_state(tmp_path: Path) -> None:
    moves: list[Move] = [Act("a"), Act("b"), Mark("said a b"), Act("c"), Act("done")]
    asked, views = _asked(tmp_path, moves)
    assert asked == ["Say a, b and c, in this order. said a b Said so far: a b"]
    assert [bool(view.context) for view in views] == [False, False, False, True, True]
    assert "[step 2] Action: b Observation: Said so far: a b" in views[3].context
    assert views[3].context in views[3].prompt


def test_memory_is_asked_at_every_step_or_only_by_the_actor(tmp_path: Path) -> None:
    moves: list[Move] = [Act("a"), Mark("m"), Recall("What first?"), Act("b"), Act("c"), Act("done")]
    every, _ = _asked(tmp_path / "1", moves, recall="step")
    assert every[1] == "What first?"
    assert len(every) == 4, "after the mark, by the actor, and twice later; not in place of the actor's own question"
    asked, views = _asked(tmp_path / "2", moves, recall="ask")
    assert asked == ["What first?"]
    assert views[3].notice == "What memory holds about your question stands above."
    assert "[step 1] Action: a" in views[3].prompt


def test_the_actor_is_told_when_memory_holds_nothing_more(tmp_path: Path) -> None:
    asked, views = _asked(tmp_path, [Act("a"), Recall("What?"), *ABC[1:]])
    assert asked == []
    assert views[2].notice == "Memory holds nothing about your question beyond what you see."


def test_what_was_abandoned_is_never_shown_as_current(tmp_path: Path) -> None:
    _, views = _asked(tmp_path, [*MARKED[:4], Act("x"), Act("done")])
    current, _, abandoned = views[4].context.partition("Tried before and abandoned")
    assert "[step 1]" in current
    assert "[step 2, abandoned: x was wrong] Action: x" in abandoned
    assert "[step 2" not in views[5].context, "done again, it is in S"


def test_the_end_of_a_part_is_a_hint_and_a_boundary_for_retrieval(tmp_path: Path) -> None:
    moves: list[Move] = [Act("a"), Mark("m"), Act("part"), Act("done")]
    asked, views = _asked(tmp_path, moves)
    assert len(asked) == 2
    assert "A part of the task has ended" in views[3].notice


# Compress by fallback ------------------------------------------------------------------------------------------------


def test_a_long_trace_is_compressed_without_the_actor(tmp_path: Path) -> None:
    rows: list[StepRow] = []
    moves: list[Move] = [Act(letter) for letter in "abcdefghijkl"]
    result, _ = play_moves(tmp_path, [*moves, Act("done")], SystemConfig(compress_tokens=50), log=rows.append)
    assert result.compressions == 0
    assert result.compressions_fallback >= 1
    assert result.maintain_passed == result.compressions_fallback
    first = next(row for row in rows if row.kind == "compress")
    assert first.text.startswith("said a b")
    assert first.usage == {"manager": Usage(6, 2)}
    assert result.usage["manager"].total == 8 * result.compressions_fallback


def test_contexts_stay_short_with_compress_and_grow_without(tmp_path: Path) -> None:
    moves: list[Move] = [Act(f"n{n}") for n in range(200)]
    mage = SystemConfig(compress_tokens=200, horma=False)
    short, _ = play_moves(tmp_path / "1", moves, mage, env=Words(max_steps=200))
    whole = mage.model_copy(update={"compress": False})
    long, actor = play_moves(tmp_path / "2", moves, whole, env=Words(max_steps=200))
    assert long.most_context_tokens > 3 * short.most_context_tokens
    tokens = [view.prompt_tokens for view in actor.views]
    assert 0.9 < (tokens[199] - tokens[100]) / (tokens[100] - tokens[1]) < 1.1, "linear"


# Loops, caps, faults -------------------------------------------------------------------------------------------------


def test_the_same_thing_again_and_again_is_pointed_out_and_then_ends_the_episode(tmp_path: Path) -> None:
    result, actor = play_moves(tmp_path, [Act("what")], endless=True)
    assert (result.stop, result.steps, result.invalid) == ("stuck", REPEATS_STUCK, REPEATS_STUCK)
    assert result.repeated == REPEATS_STUCK - 1
    assert actor.views[2].notice == ""
    assert actor.views[3].notice == "The same happened 3 times in a row: do something else."


def test_the_same_valid_action_with_another_outcome_is_no_loop(tmp_path: Path) -> None:
    result, _ = play_moves(tmp_path, [Act("a")], env=Words(max_steps=30), endless=True)
    assert (result.stop, result.steps, result.repeated) == ("step_cap", 30, 0)


def test_malformed_answers_are_told_and_counted(tmp_path: Path) -> None:
    rows: list[StepRow] = []
    moves: list[Move] = [Malformed("???", "no line begins with 'Action:'"), *ABC]
    result, actor = play_moves(tmp_path / "1", moves, log=rows.append)
    assert (result.malformed, result.moves, result.steps, result.success) == (1, 5, 4, True)
    assert (rows[0].kind, rows[0].text, rows[0].valid) == ("malformed", "???", False)
    assert "no line begins with 'Action:'" in actor.views[1].prompt
    result, _ = play_moves(tmp_path / "2", [Malformed("?", "a"), Malformed("?", "b")], endless=True)
    assert (result.stop, result.malformed, result.steps) == ("stuck", REPEATS_STUCK, 0)


def test_moves_that_are_no_actions_are_capped(tmp_path: Path) -> None:
    moves: list[Move] = [Mark("m"), Recall("r")]
    result, _ = play_moves(tmp_path / "1", moves, env=Words(max_steps=8), endless=True)
    assert (result.stop, result.moves, result.refused) == ("move_cap", 26, 26)
    result, _ = play_moves(tmp_path / "2", moves, endless=True, max_moves=5)
    assert (result.stop, result.moves) == ("move_cap", 5)


def test_the_step_cap_counts_what_was_undone(tmp_path: Path) -> None:
    moves: list[Move] = [Act("x"), Mark("bad")]
    result, _ = play_moves(tmp_path, moves, env=Words("replay", max_steps=5), endless=True)
    assert (result.stop, result.steps, result.revisions) == ("step_cap", 5, 4)


def test_what_the_actor_or_the_world_raises_comes_out_and_the_world_is_closed(tmp_path: Path) -> None:
    class Gone(Listed):
        async def act(self, view: View) -> Decision:
            raise UnreachableError("no answer")

    class Broken(Words):
        def step(self, action: str) -> Any:
            raise OSError("the game crashed")

    for actor, env, error in ((Gone(), Words(), UnreachableError), (Listed(*ABC), Broken(), OSError)):
        parts = Parts(actor, Estimate(), RuleJudge(), Joined(), None)
        with pytest.raises(error):
            asyncio.run(play(env, TASK, SystemConfig(), parts, tmp_path, lambda row: None))
        assert env.closed == 1
    play_moves(tmp_path, ABC)  # a later attempt starts anew in the same folder


def test_on_a_full_disk_the_world_is_closed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Path.open

    def full(path: Path, *how: Any, **more: Any) -> Any:
        return opened(Path("/dev/full") if path.name == "tree.jsonl" else path, *how, **more)

    monkeypatch.setattr(Path, "open", full)
    parts, env = Parts(Listed(*ABC), Estimate(), RuleJudge(), Joined(), None), Words()
    with pytest.raises(OSError, match="No space left"):
        asyncio.run(play(env, TASK, SystemConfig(), parts, tmp_path, lambda row: None))
    assert env.closed == 1


def test_a_judge_that_cannot_be_read_never_passes_a_summary(tmp_path: Path) -> None:
    class Unreadable:
        async def validate(self, instruction: str, trace: Sequence[Pair], summary: str) -> Verdict:
            raise UnreadError([Attempt("hm", "no JSON")], Usage(7, 3))

    rows: list[StepRow] = []
    result, _ = play_moves(tmp_path, [Act("a"), Mark("m"), *ABC[1:]], judge=Unreadable(), log=rows.append)
    assert (result.maintain_unread, result.maintain_passed, result.maintain_failed, result.success) == (1, 0, 0, True)
    assert result.usage["judge"] == Usage(7, 3)
    assert [(row.valid, row.usage) for row in rows if row.kind == "maintain"] == [(False, {"judge": Usage(7, 3)})]


def test_the_world_runs_in_one_thread_that_is_not_the_loops(tmp_path: Path) -> None:
    class Threads(Words):
        seen: ClassVar[set[int]] = set()

        def step(self, action: str) -> Any:
            self.seen.add(threading.get_ident())
            return super().step(action)

        def close(self) -> None:
            self.seen.add(threading.get_ident())

    env = Threads()
    play_moves(tmp_path, MARKED, env=env)
    assert len(env.seen) == 1
    assert threading.get_ident() not in env.seen


def test_a_step_costs_the_same_after_a_thousand(tmp_path: Path) -> None:
    ends: list[float] = []
    moves: list[Move] = [Act(f"n{n}") for n in range(1_000)]
    system = SystemConfig(compress_tokens=200, maintain=False)
    play_moves(tmp_path, moves, system, env=_Short(max_steps=1_000), log=lambda row: ends.append(time.process_time()))
    early, late = ends[300] - ends[100], ends[-1] - ends[-201]
    assert late < 4 * early, f"200 steps took {early:.3f} s early and {late:.3f} s late"


class _Short(Words):
    def step(self, action: str) -> Any:
        outcome = super().step(action)
        self.calls.clear()
        return outcome


STEPS = st.one_of(
    st.sampled_from("abx").map(Act),
    st.sampled_from(["good", "bad"]).map(Mark),
    st.builds(GoBack, st.integers(-1, 9), st.just("why")),
    st.just(Recall("x")),
    st.just(Malformed("x", "y")),
)


@settings(max_examples=40)
@given(st.lists(STEPS, max_size=25), st.sampled_from(["restore", "replay"]), st.sampled_from(["boundary", "step"]))
def test_world_tree_and_workspace_agree_after_any_moves(moves: list[Move], way: Rewind, when: Any) -> None:
    env = Words(way)
    with tempfile.TemporaryDirectory() as folder:
        recaller = make_recaller("bm25-3")
        _, actor = play_moves(
            Path(folder), moves, SystemConfig(recall=when), env=env, recaller=recaller, max_moves=len(moves)
        )
        tree = Path(folder, "tree.jsonl")
        path = replay(tree).path() if tree.exists() else ()
        assert [pair.action for pair in path] == env.said
        for view in actor.views:
            assert view.observation == (view.state.raw[-1].observation if view.state.raw else view.observation)
        if (archive := Path(folder, "memory/say-abc")).exists():
            assert Workspace.load(archive).problems() == []
