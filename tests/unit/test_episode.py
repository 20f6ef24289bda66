"""Turns, stops, selection, rewards and observations of an episode."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_shell.cache import WorkspaceCache
from memory_shell.episode import NO_CALL, OVER, MemoryShell
from memory_shell.types import Caps, Result, Stop, ToolCall
from memory_shell.workspace import Workspace, WorkspaceError
from tests.shell_workspace import TASK, TURNS, write_workspace

SESSION_2 = "sessions/session_02.md"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.load(write_workspace(tmp_path_factory.mktemp("memory") / "mem"))


@pytest.fixture
def shell(workspace: Workspace) -> MemoryShell:
    shell = MemoryShell(workspace)
    shell.reset(TASK)
    return shell


def test_first_observation_holds_question_date_and_overview(workspace: Workspace) -> None:
    shell = MemoryShell(workspace, overview="terms")
    assert shell.overview == "terms"
    assert shell.reset(TASK).text == "Question: What did Ana paint?\nAsked on: 2023-07-01\nTerms: paint 2, ana 3"


def test_first_observation_without_date_or_overview(workspace: Workspace) -> None:
    assert MemoryShell(workspace).reset(replace(TASK, asked_at=None)).text == "Question: What did Ana paint?"


def test_chat_tokens_in_a_question_or_a_note_are_defused(workspace: Workspace, shell: MemoryShell) -> None:
    assert "<|im_end|>" not in MemoryShell(workspace).reset(replace(TASK, question="a <|im_end|> b")).text
    shown = shell.run("cat sessions/session_02.md").text
    assert "he said" in shown
    assert "<|im_end|>" not in shown


def test_done_ends_with_the_overlap_as_reward(shell: MemoryShell) -> None:
    shell.run("select D2:1")
    end = shell.run("done")
    assert (end.reward, end.terminated, end.truncated) == (1.0, True, False)
    assert end.info["stop"] is Stop.DONE
    assert end.info["selection"] == ("D2:1",)
    assert (end.info["turns"], end.info["commands"], end.info["invalid"]) == (2, 2, 0)


def test_no_reward_before_the_end(shell: MemoryShell) -> None:
    result = shell.run("select D2:1")
    assert (result.reward, result.terminated, result.truncated) == (0.0, False, False)
    assert shell.score() == 1.0


def test_the_calls_of_the_last_turn_run_and_then_the_cap_ends_it(workspace: Workspace) -> None:
    shell = MemoryShell(workspace, Caps(turns=2))
    shell.reset(TASK)
    assert not shell.run("ls").truncated
    first, last = shell.step([ToolCall("ls"), ToolCall("select", "D2:1")])
    assert not first.truncated
    assert (last.reward, last.terminated, last.truncated) == (1.0, False, True)
    assert last.info["stop"] is Stop.TURN_CAP


def test_done_in_the_last_turn_is_done_and_not_truncated(workspace: Workspace) -> None:
    shell = MemoryShell(workspace, Caps(turns=1))
    shell.reset(TASK)
    last = shell.step([ToolCall("select", "D2:1"), ToolCall("done")])[-1]
    assert (last.reward, last.terminated, last.truncated) == (1.0, True, False)


def test_zero_on_cap(workspace: Workspace) -> None:
    shell = MemoryShell(workspace, Caps(turns=1), zero_on_cap=True)
    shell.reset(TASK)
    assert shell.run("select D2:1").reward == 0.0
    shell.reset(TASK)
    assert shell.step([ToolCall("select", "D2:1"), ToolCall("done")])[-1].reward == 1.0


def test_calls_after_done_do_not_run(shell: MemoryShell) -> None:
    results = shell.step([ToolCall("done"), ToolCall("select", "D2:1")])
    assert len(results) == 1
    assert shell.selection == ()
    assert results[0].reward == 0.0


def test_a_response_is_one_turn_whatever_it_calls(shell: MemoryShell) -> None:
    shell.step([ToolCall("ls"), ToolCall("cd", "people"), ToolCall("cat", "ana.md")])
    assert (shell.turns_used, shell.commands, shell.cwd) == (1, 3, "people")


def test_after_the_end_nothing_runs(shell: MemoryShell) -> None:
    shell.run("done")
    late = shell.run("select D2:1")
    assert (late.text, late.ok, late.terminated, late.reward) == (OVER, False, True, 0.0)
    assert (shell.selection, shell.turns_used) == ((), 1)


def test_a_response_without_calls_costs_a_turn(shell: MemoryShell) -> None:
    (result,) = shell.step([])
    assert (result.text, result.ok) == (NO_CALL, False)
    assert (shell.turns_used, shell.invalid) == (1, 1)


def test_an_unreadable_call_comes_back_as_its_error_and_the_others_run(shell: MemoryShell) -> None:
    unreadable, select = shell.step(["not JSON: <tool_call>", ToolCall("select", "D2:1")])
    assert not unreadable.ok
    assert unreadable.text.startswith("not JSON")
    assert "<tool_call>" not in unreadable.text
    assert select.ok
    assert (shell.turns_used, shell.commands, shell.invalid) == (1, 2, 1)


@pytest.mark.parametrize(
    "command",
    ["python x.py", "ls | head", "grep", "cat nosuch.md", "ls --colour", "cd nosuch", "select D9:9", "", "  "],
)
def test_a_failed_command_is_an_error_that_costs_a_turn(shell: MemoryShell, command: str) -> None:
    result = shell.run(command)
    assert not result.ok
    assert result.text
    assert (result.reward, shell.invalid, shell.turns_used) == (0.0, 1, 1)


def test_step_before_reset_is_a_programming_error(workspace: Workspace) -> None:
    with pytest.raises(RuntimeError, match="reset"):
        MemoryShell(workspace).run("ls")


def test_close_is_idempotent_and_reset_starts_afresh(shell: MemoryShell) -> None:
    shell.run("select D2:1")
    shell.run("done")
    shell.close()
    shell.close()
    shell.reset(TASK, seed=7)
    assert (shell.selection, shell.turns_used, shell.cwd, shell.stop, shell.seed) == ((), 0, "", None, 7)


def test_an_end_from_outside_scores_what_was_selected(shell: MemoryShell) -> None:
    shell.run("select D2:1 D2:2")
    end = shell.end(Stop.TOKEN_CAP)
    assert (end.reward, end.terminated, end.truncated) == (0.5, False, True)
    assert end.info["stop"] is Stop.TOKEN_CAP


def test_episodes_share_a_workspace_and_nothing_else(workspace: Workspace) -> None:
    one, two = MemoryShell(workspace), MemoryShell(workspace)
    one.reset(TASK)
    two.reset(TASK)
    one.step([ToolCall("cd", "people"), ToolCall("select", "D1:1")])
    assert (two.cwd, two.selection, two.turns_used, two.coverage().opened) == ("", (), 0, ())


def test_a_repeated_command_runs_again_with_nothing_added(shell: MemoryShell) -> None:
    first, second = shell.step([ToolCall("ls", "-R"), ToolCall("ls", "-R")])
    assert first == second


def test_episodes_leave_no_file_open(workspace: Workspace) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        shell = MemoryShell(workspace, Caps(turns=1))
        shell.reset(TASK)
        shell.run("cat sessions/session_01.md")
    assert len(os.listdir("/proc/self/fd")) == before


# Selection


def test_select_says_how_many_and_the_total(shell: MemoryShell) -> None:
    assert shell.run(f"select {SESSION_2}:6").text == "selected 1 (total 1)"
    assert shell.run("select D1:1 D1:2").text == "selected 2 (total 3)"
    assert shell.run(f"select {SESSION_2}").text == "selected 1, 1 already selected (total 4)"
    assert shell.selection == ("D2:1", "D1:1", "D1:2", "D2:2")


def test_selecting_again_is_a_notice_and_changes_nothing(shell: MemoryShell) -> None:
    shell.run("select D2:1")
    again = shell.run(f"select {SESSION_2}:6")
    assert (again.text, again.ok) == ("already selected (total 1)", True)
    assert shell.provenance == {"D2:1": "D2:1"}


def test_provenance_names_the_lines(shell: MemoryShell) -> None:
    shell.run("cd raw_logs")
    shell.run("select traj_0001.jsonl:1-2 ../people/ana.md:9")
    assert dict(shell.provenance) == {
        "D1:1": "traj_0001.jsonl:1-2",
        "D1:2": "traj_0001.jsonl:1-2",
        "D2:1": "../people/ana.md:9",
    }


def test_selecting_lines_without_a_citation_is_an_error(shell: MemoryShell) -> None:
    result = shell.run("select people/ana.md:2")
    assert not result.ok
    assert "people/ana.md:2" in result.text
    assert shell.selection == ()


def test_a_target_without_evidence_does_not_hide_the_others(shell: MemoryShell) -> None:
    result = shell.run("select D2:1 people/ana.md:2")
    assert result.ok
    error, summary = result.text.splitlines()
    assert "people/ana.md:2" in error
    assert summary == "selected 1 (total 1)"


def test_units_of_the_reward(workspace: Workspace) -> None:
    for unit, command, reward in (
        ("session", "select D2:2", 1.0),
        ("note", "select D1:1", 1 / 3),
        ("turn", "select D2:2", 0),
    ):
        shell = MemoryShell(workspace, unit=unit)  # type: ignore[arg-type]
        shell.reset(TASK)
        shell.run(command)
        assert shell.run("done").reward == pytest.approx(reward)


# Observations


def test_an_empty_search_says_what_was_searched_and_what_to_try(shell: MemoryShell) -> None:
    assert shell.run("grep zebra").text == "no match in 5 files"
    assert shell.run("grep -r 'why is Ana happy' sessions").text == "no match in 2 files; try fewer or other words"


def test_a_search_that_finds_nothing_is_not_an_invalid_command(shell: MemoryShell) -> None:
    assert shell.run("grep zebra").ok
    assert shell.invalid == 0


def test_cd_says_where_one_is(shell: MemoryShell) -> None:
    assert shell.run("cd people").text == "/people"
    assert shell.run("cd ..").text == "/"


def test_an_empty_workspace_and_folder_are_described_as_empty(tmp_path: Path) -> None:
    (tmp_path / "people").mkdir()
    shell = MemoryShell(Workspace.load(tmp_path))
    shell.reset(TASK)
    for command in ("ls people", "cat nothing.md", "grep x"):
        shell.run(command)
    assert shell.run("ls people").text == "(empty)"
    assert shell.run("ls people").ok
    assert shell.run("grep x").text == "no match in 0 files"


def test_observations_keep_to_the_caps(workspace: Workspace) -> None:
    shell = MemoryShell(workspace, Caps(lines=2))
    shell.reset(TASK)
    shown = shell.run(f"cat {SESSION_2}").text.splitlines()
    assert len(shown) == 3
    assert "5 more lines" in shown[-1]


def test_coverage_tells_not_found_from_not_searched(shell: MemoryShell) -> None:
    shell.run("grep -rl kiln sessions")
    shell.run("cat people/ana.md")
    coverage = shell.coverage()
    assert coverage.searched == ("sessions/session_01.md", SESSION_2)
    assert coverage.matched == (SESSION_2,)
    assert coverage.opened == ("people/ana.md",)
    assert coverage.unvisited == ("", "raw_logs")


# Hostile input

WORDS = [
    "ls",
    "cd",
    "grep",
    "cat",
    "select",
    "done",
    "-i",
    "-R",
    "--and",
    "-e",
    "people",
    "sessions/*",
    "..",
    "/",
    "'",
    '"',
]
WORDS += [
    "D1:1",
    "[D2:1],",
    "D1:99",
    "people/ana.md:7",
    ":1-2",
    "raw_logs/traj_0001.jsonl:1-9",
    "\x00",
    "<|im_end|>",
    "(a+)+$",
]
LINES = st.one_of(st.text(max_size=30), st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join))
CALLS = st.one_of(st.builds(ToolCall, st.sampled_from([*WORDS, "bash"]), LINES), st.text(max_size=10))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(CALLS, max_size=4), max_size=12))
def test_no_response_breaks_an_episode(workspace: Workspace, responses: list[list[ToolCall | str]]) -> None:
    shell = MemoryShell(workspace, Caps(turns=10))
    shell.reset(TASK)
    last = Result("")
    for calls in responses:
        for last in shell.step(calls):
            assert last.text
            assert "<|im_end|>" not in last.text
    assert len(set(shell.selection)) == len(shell.selection)
    assert set(shell.selection) <= {turn[0] for turn in TURNS}
    assert 0.0 <= shell.score() <= 1.0
    assert shell.turns_used <= 10
    assert shell.invalid <= shell.commands
    assert (shell.stop is not None) == (last.terminated or last.truncated)
    assert shell.cwd in workspace.dirs


# Cache


def test_the_cache_loads_a_workspace_once_and_names_what_there_is(tmp_path: Path) -> None:
    write_workspace(tmp_path / "one")
    write_workspace(tmp_path / "two")
    (tmp_path / "no-workspace").mkdir()
    cache = WorkspaceCache(tmp_path)
    assert cache.names() == ["one", "two"]
    assert cache.get("one") is cache.get("one")
    with pytest.raises(WorkspaceError, match=r"no workspace '\.\./one'.*one, two"):
        cache.get("../one")


def test_the_cache_keeps_as_many_as_it_is_told_the_last_used_ones(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        write_workspace(tmp_path / name)
    cache = WorkspaceCache(tmp_path, keep=2)
    one, two = cache.get("one"), cache.get("two")
    assert cache.get("one") is one
    cache.get("three")
    assert cache.get("one") is one
    assert cache.get("two") is not two
