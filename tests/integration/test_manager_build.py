"""Whole builds by the manager with a scripted model: growth, idempotence, kills, budgets, shards, and what the journal
keeps."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from horma_rl.benchmarks.types import RawTurn
from horma_rl.errors import UserError
from horma_rl.evaluation.config import EvalConfig
from horma_rl.evaluation.runner import ensure_memory
from horma_rl.llm.types import BudgetSpent, RefusedError, UnreachableError
from horma_rl.memory import build, read_manifest
from horma_rl.memory.build import shard
from horma_rl.memory.manager.journal import Journal, journal_path
from horma_rl.memory.manager.run import build_managed
from tests.integration.test_crash import in_child
from tests.manager_parts import Scripted, assert_sound, diligent, manage, writer
from tests.memory_conversation import conversation, tree


def test_a_build_is_sound_and_says_what_it_did(tmp_path: Path) -> None:
    out = tmp_path / "conv"
    report = manage(conversation(), out, writer())
    workspace = assert_sound(out, conversation())
    assert (report.turns, report.archived, report.sessions) == (24, 24, 6)
    assert report.notes == len(workspace.notes)
    assert report.bytes == sum(len(workspace.files[path].data) for path in workspace.notes)
    manifest = read_manifest(out)
    assert (manifest["notes"], manifest["turns"], manifest["files"]) == ("llm", 24, report.notes)
    assert manifest["manager"] == {"prompts": [2], "models": ["scripted"]}


def test_a_line_is_found_by_person_by_date_and_by_topic(tmp_path: Path) -> None:
    manage(conversation(), tmp_path / "conv", writer())
    workspace = assert_sound(tmp_path / "conv", conversation())
    line = "2023-05-26: Ben: Hey! Yesterday I worked on the marathon. {Yesterday = 2023-05-25} [D2:1]\n"
    holders = {path for path in workspace.notes if line in workspace.files[path].data.decode()}
    assert {"people/ben.md", "dates/2023-05.md", "topics/daily-life.md", "people/ben-facts.md"} <= holders


def test_a_superseded_note_stays_and_names_its_successor(tmp_path: Path) -> None:
    manage(conversation(), tmp_path / "conv", writer())
    notes = assert_sound(tmp_path / "conv", conversation()).notes
    assert notes["events/happening-1.md"].superseded_by == "events/happened-1.md"
    assert notes["events/happening-1.md"].status == "superseded"
    assert notes["events/happened-1.md"].superseded_by is None


def test_an_absence_is_marked_when_it_is_contradicted(tmp_path: Path) -> None:
    short = conversation(2)
    manage(short, tmp_path / "conv", writer())
    text = (tmp_path / "conv/absence/ipad-car.md").read_text()
    assert 'scope: "sessions: 1, turns: 4, all of them; searched for: ipad car"\nas_of: 2023-05-17T13:56:00\n' in text
    told = RawTurn("D2:5", "Ana", "I left my iPad in the car!")
    longer = replace(
        short, sessions=(short.sessions[0], replace(short.sessions[1], turns=(*short.sessions[1].turns, told)))
    )
    manage(longer, tmp_path / "conv", writer())
    assert_sound(tmp_path / "conv", longer)
    text = (tmp_path / "conv/absence/ipad-car.md").read_text()
    assert 'status: contradicted\ncontradicted_by: "D2:5"\n' in text
    assert "No longer holds since turn D2:5." in text


def test_building_again_asks_nothing_and_touches_nothing(tmp_path: Path) -> None:
    manage(conversation(), tmp_path / "conv", writer())
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    again = Scripted(diligent)
    report = manage(conversation(), tmp_path / "conv", replace(writer(), llm=again))
    assert again.asked == []
    assert (report.archived, report.written, report.removed) == (0, 0, 0)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_growing_session_by_session_gives_the_tree_of_one_build(tmp_path: Path) -> None:
    for sessions in range(1, 7):
        manage(conversation(sessions), tmp_path / "grown/conv", writer())
    manage(conversation(), tmp_path / "whole/conv", writer())
    assert tree(tmp_path / "grown") == tree(tmp_path / "whole")


def test_long_sessions_are_filed_in_batches(tmp_path: Path) -> None:
    model = Scripted(diligent)
    manage(conversation(2), tmp_path / "conv", replace(writer(batch_tokens=100), llm=model))
    first = [asked for asked in model.asked if "New turns" in asked[-1]["content"]]
    assert len(first) == 2
    long = Scripted(diligent)
    turns = tuple(RawTurn(f"D1:{at}", "Ana", f"Fact {at}: " + "word " * 50) for at in range(1, 9))
    talk = replace(conversation(1), sessions=(replace(conversation(1).sessions[0], turns=turns),))
    manage(talk, tmp_path / "long", replace(writer(batch_tokens=150), llm=long))
    assert sum("New turns" in asked[-1]["content"] for asked in long.asked) == 4
    assert_sound(tmp_path / "long", talk)


def test_killed_before_every_file_operation(tmp_path: Path) -> None:
    """The same build again ends in the tree of an uninterrupted one, journal included."""
    talk = conversation(2)
    manage(talk, tmp_path / "whole/conv", writer())
    whole = tree(tmp_path / "whole")
    status, operations = in_child(partial(manage, talk, tmp_path / "counted/conv", writer()))
    assert status == 0
    for number in range(1, operations + 1, 2):
        out = tmp_path / f"killed-{number}/conv"
        status, _ = in_child(partial(manage, talk, out, writer()), kill_at=number)
        assert os.WTERMSIG(status) == signal.SIGKILL
        manage(talk, out, writer())
        assert tree(out.parent) == whole


def test_a_torn_journal_line_is_dropped(tmp_path: Path) -> None:
    manage(conversation(2), tmp_path / "conv", writer())
    path = journal_path(tmp_path / "conv")
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"row": "operation", "round": 0, "ki')
    assert len(Journal(path).batches) == 2
    assert path.read_bytes() == whole


def test_a_journal_that_was_changed_is_refused(tmp_path: Path) -> None:
    manage(conversation(2), tmp_path / "conv", writer())
    path = journal_path(tmp_path / "conv")
    path.write_text(path.read_text().replace('"turns": ["D1:1"]', '"turns": ["D9:9"]', 1))
    with pytest.raises(UserError, match="build into another folder"):
        manage(conversation(2), tmp_path / "conv", writer())


def test_every_operation_is_in_the_journal_with_its_verdict(tmp_path: Path) -> None:
    manage(conversation(3), tmp_path / "conv", writer())
    batches = Journal(journal_path(tmp_path / "conv")).batches
    assert [batch.turns[0] for batch in batches] == ["D1:1", "D2:1", "D3:1"]
    rejected = [one for batch in batches for one in batch.verdicts if one.reason]
    assert {"append", "create", "mkdir"} <= {one.kind for one in rejected}
    assert "there is no note people/ben-facts.md: create it" in {one.reason for one in rejected}


def test_refused_operations_go_back_with_the_reason_at_most_so_often(tmp_path: Path) -> None:
    bad = {"operations": [{"op": "create", "path": "people/x.md", "lines": ["Never said [D9:9]"]}]}
    model = Scripted(lambda prompt: bad)
    manage(conversation(1), tmp_path / "conv", replace(writer(rounds=2), llm=model))
    assert len(model.asked) == 3
    assert "refused: line 1: 'D9:9' is no archived turn" in model.asked[1][-1]["content"]
    assert len(model.asked[2]) == 6
    (batch,) = Journal(journal_path(tmp_path / "conv")).batches
    assert [(one.round, one.kind) for one in batch.verdicts] == [(0, "create"), (1, "create"), (2, "create")]
    assert_sound(tmp_path / "conv", conversation(1))


@pytest.mark.parametrize("answer", ["no", 7, None, {"operations": 3}, {"op": "create"}, [], {"operations": [[], None]}])
def test_any_answer_is_survived(tmp_path: Path, answer: object) -> None:
    manage(conversation(2), tmp_path / "conv", writer(lambda prompt: answer))
    workspace = assert_sound(tmp_path / "conv", conversation(2))
    assert all(path.startswith("sessions/") for path in workspace.notes)


def test_a_spent_budget_stops_and_the_next_run_goes_on(tmp_path: Path) -> None:
    asked = 0

    def limited(prompt: str) -> object:
        nonlocal asked
        asked += 1
        if asked > 5:
            raise BudgetSpent("5 requests")
        return diligent(prompt)

    talks = [conversation(3, name="one"), conversation(2, name="two")]
    stopped = asyncio.run(build_managed(talks, tmp_path / "out", writer(limited), workers=2))
    assert stopped.stopped == "5 requests"
    assert not (tmp_path / "out/one/horma.json").exists()
    session = (tmp_path / "out/one/sessions/session_03.md").read_text()
    assert "[D3:4]" in session
    done = asyncio.run(build_managed(talks, tmp_path / "out", writer(), workers=2))
    assert done.stopped is None
    assert [report.name for report in done.reports] == ["one", "two"]
    asyncio.run(build_managed(talks, tmp_path / "whole", writer(), workers=1))
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")


@pytest.mark.parametrize("error", [UnreachableError("gone"), RefusedError("no such model", 404)])
def test_a_model_that_cannot_be_asked_ends_the_run_and_loses_nothing(tmp_path: Path, error: Exception) -> None:
    def failing(prompt: str) -> object:
        if "session 2" in prompt:
            raise error
        return diligent(prompt)

    with pytest.raises(type(error)):
        asyncio.run(build_managed([conversation()], tmp_path / "out", writer(failing)))
    manage(conversation(), tmp_path / "out/conv", writer())
    manage(conversation(), tmp_path / "whole/conv", writer())
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")


def test_a_request_that_is_too_large_is_logged_and_skipped(tmp_path: Path) -> None:
    def failing(prompt: str) -> object:
        if "session 2" in prompt:
            raise RefusedError("prompt too long", 413)
        return diligent(prompt)

    manage(conversation(3), tmp_path / "conv", writer(failing))
    assert_sound(tmp_path / "conv", conversation(3))
    outcomes = [batch.outcome for batch in Journal(journal_path(tmp_path / "conv")).batches]
    assert outcomes == ["filed", "the server refused the request (status 413)", "filed"]


def test_workers_take_conversations_side_by_side_and_shards_share_them(tmp_path: Path) -> None:
    talks = [conversation(2, name=f"c{number}") for number in range(5)]
    for part in ("1/2", "2/2"):
        asyncio.run(build_managed(shard(talks, part), tmp_path / "shards", writer(), workers=3))
    asyncio.run(build_managed(talks, tmp_path / "whole", writer(), workers=1))
    assert tree(tmp_path / "shards") == tree(tmp_path / "whole")
    assert shard(talks, "1/2") == talks[::2]
    for wrong in ("0/2", "3/2", "1", "a/b", "1/0"):
        with pytest.raises(UserError, match="--shard"):
            shard(talks, wrong)


def test_switching_from_the_outline_and_back(tmp_path: Path) -> None:
    build(conversation(), tmp_path / "conv")
    outline = tree(tmp_path / "conv")
    manage(conversation(), tmp_path / "conv", writer())
    manage(conversation(), tmp_path / "whole/conv", writer())
    assert tree(tmp_path / "conv") == tree(tmp_path / "whole/conv")
    build(conversation(), tmp_path / "conv")
    assert tree(tmp_path / "conv") == outline


def test_the_outline_build_refuses_what_needs_a_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--manager llm"):
        build(conversation(), tmp_path / "conv", "llm")
    with pytest.raises(UserError, match="begin with a dot"):
        asyncio.run(build_managed([conversation(name=".manager")], tmp_path, writer()))


def test_an_evaluation_takes_the_workspace_and_builds_none(tmp_path: Path) -> None:
    manage(conversation(2), tmp_path / "conv", writer())
    config = EvalConfig(memory=tmp_path, notes="llm")
    before = tree(tmp_path)
    ensure_memory([conversation(2)], config)
    assert tree(tmp_path) == before
    with pytest.raises(UserError, match="--manager llm"):
        ensure_memory([conversation(2, name="other")], config)


def test_the_journal_is_out_of_the_retrievers_sight(tmp_path: Path) -> None:
    manage(conversation(2), tmp_path / "conv", writer())
    assert not [path for path in tree(tmp_path / "conv") if "journal" in path or path.startswith(".")]
    rows = [json.loads(line) for line in journal_path(tmp_path / "conv").read_text().splitlines()]
    assert {row["row"] for row in rows} == {"operation", "commit"}
