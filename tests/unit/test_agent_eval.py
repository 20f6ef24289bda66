"""The evaluation of agents: its config, its folder, what is played again, its numbers and its page."""

from __future__ import annotations

import asyncio
import json
import math
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horma_rl.config import validate
from horma_rl.errors import UserError
from horma_rl.evaluation.agents import report, store
from horma_rl.evaluation.agents.config import AgentsConfig
from horma_rl.evaluation.agents.intervals import difference, over_tasks
from horma_rl.evaluation.agents.metrics import compare, context_by_step, summarise
from horma_rl.evaluation.agents.run import STEPS, Played, choose_tasks, play_all, write_failures
from horma_rl.evaluation.agents.store import WHOLE, AgentRow, AgentStore, Shard
from horma_rl.evaluation.bootstrap import bootstrap_mean
from horma_rl.llm.types import BudgetSpent, LlmError, RefusedError, UnreachableError
from horma_rl.slurm import main as submit
from horma_rl.viewer.agents import render_agents
from tests.conftest import REPOSITORY
from tests.door_parts import BARE, DoorParts, DoorSuite, door_parts

ROW = AgentRow(
    system="full", task="doors/1", family="long", seed=0, success=True, progress=1.0, stop="success", steps=3, moves=4,
    malformed=0, invalid=1, refused=0, compressions=1, faults=0, unvalidated=0, revisions=0, not_rewound=0, recalls=0,
    over_budget=0, tokens=60, contexts=(10, 20, 30), scores={}, wall_s=0.1,
)  # fmt: skip


def config(out: Path, **values: Any) -> AgentsConfig:
    fields = {"out": str(out), "systems": {"bare": BARE.model_dump()}, "seeds": [0, 1], "retriever": None, **values}
    return validate(fields, AgentsConfig, "test")


def play(out: Path, parts: DoorParts, shard: Shard = WHOLE, **values: Any) -> Played:
    return asyncio.run(play_all(config(out, **values), DoorSuite(), parts, shard=shard))


def untimed(played: Played, system: str = "bare") -> list[dict[str, Any]]:
    return [{**asdict(row), "wall_s": 0.0} for row in played.rows(system)]


# Playing and going on ------------------------------------------------------------------------------------------------


def test_every_task_is_played_once_with_every_seed(tmp_path: Path) -> None:
    parts = door_parts()
    played = play(tmp_path, parts)
    assert sorted(parts.played) == [(f"doors/{n}", seed) for n in range(6) for seed in (0, 1)]
    assert [row.success for row in played.rows("bare")] == [True, False] * 6
    assert [row.progress for row in played.rows("bare")][:4] == [1.0, 0.5, 1.0, round(1 / 3, 6)]
    first = played.rows("bare")[0]
    assert (first.steps, first.stop, len(first.contexts)) == (2, "success", 2)
    assert first.tokens == sum(first.contexts) > 0
    steps = (played.store.episode(first.key) / STEPS).read_text().splitlines()
    assert [json.loads(line)["text"] for line in steps] == ["open", "open"]
    assert [json.loads(line)["prompt_tokens"] for line in steps] == list(first.contexts)
    again = door_parts()
    assert untimed(play(tmp_path, again)) == untimed(played)
    assert again.played == []


def test_a_failed_episode_is_unfinished_and_played_again(tmp_path: Path) -> None:
    played = play(tmp_path, door_parts({"doors/2": UnreachableError("no answer")}))
    assert {(f.task, f.seed) for f in played.failures} == {("doors/2", 0), ("doors/2", 1)}
    assert played.failures[0].reason == "UnreachableError: no answer"
    assert played.unfinished("bare") == 2
    assert played.stopped is None
    write_failures(played)
    assert len(json.loads((tmp_path / "failures.json").read_text())) == 2
    again = door_parts()
    whole = play(tmp_path, again)
    assert again.played == [("doors/2", 0), ("doors/2", 1)]
    assert whole.unfinished("bare") == 0
    assert untimed(whole) == untimed(play(tmp_path / "undisturbed", door_parts()))


def test_no_more_is_begun_at_once_than_there_is(tmp_path: Path) -> None:
    begin = time.monotonic()
    assert len(play(tmp_path, door_parts(), concurrency=10**12).rows("bare")) > 0
    assert time.monotonic() - begin < 60


@pytest.mark.parametrize("error", [BudgetSpent("too little is left"), RefusedError("no such model", 404)])
def test_what_every_request_would_meet_ends_the_run(tmp_path: Path, error: LlmError) -> None:
    parts = door_parts({"doors/1": error})
    played = play(tmp_path, parts, concurrency=1)
    assert played.stopped == str(error)
    assert parts.played == [("doors/0", 0), ("doors/0", 1), ("doors/1", 0)]
    assert played.unfinished("bare") == 10


def test_a_fault_of_the_users_ends_the_run_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="needs a judge") as caught:
        asyncio.run(
            play_all(
                config(tmp_path, systems={"full": {"horma": False}}),
                DoorSuite(),
                lambda system, task, seed: replace(door_parts()(system, task, seed), judge=None),
            )
        )
    assert type(caught.value) is UserError


def test_an_episodes_leftovers_go_before_it_is_played(tmp_path: Path) -> None:
    store = AgentStore(tmp_path, {}, WHOLE)
    folder = store.start(ROW.key)
    (folder / STEPS).write_text("left by a kill\n")
    (store.start(ROW.key) / "more").mkdir()
    assert [path.name for path in folder.iterdir()] == ["more"]


def test_memory_may_be_left_out_of_the_folder(tmp_path: Path) -> None:
    systems = {"mage": {"maintain": False}}
    kept = play(tmp_path / "kept", door_parts(), systems=systems)
    plain = play(tmp_path / "plain", door_parts(), systems=systems, keep_memory=False)
    names = [{path.name for path in p.store.episode(p.rows("mage")[0].key).iterdir()} for p in (kept, plain)]
    assert names == [{STEPS, "tree.jsonl", "memory"}, {STEPS}]
    assert untimed(kept, "mage") == untimed(plain, "mage")


# Shards and the folder -----------------------------------------------------------------------------------------------


def test_shards_are_every_nth_task_and_merge(tmp_path: Path) -> None:
    parts = door_parts()
    for index in (1, 2):
        shard = play(tmp_path / "shards", parts, Shard(index, 2))
        assert [task.id for task in shard.tasks] == [f"doors/{n}" for n in range(index - 1, 6, 2)]
    merging = door_parts()
    merged = play(tmp_path / "shards", merging)
    assert merging.played == []
    assert len(parts.played) == 12
    assert untimed(merged) == untimed(play(tmp_path / "one", door_parts()))


def test_a_run_plays_what_a_shard_did_not(tmp_path: Path) -> None:
    play(tmp_path, door_parts(), Shard(2, 3))
    parts = door_parts()
    assert play(tmp_path, parts).unfinished("bare") == 0
    assert {task for task, _ in parts.played} == {"doors/0", "doors/2", "doors/3", "doors/5"}


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/0", "a/b", "1/2/3", "-1/2", ""])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="write I/N"):
        Shard.parse(text)


def test_a_shard_names_its_rows() -> None:
    assert (Shard.parse("2/4"), Shard.parse("2/4").rows) == (Shard(2, 4), "rows.2-of-4.jsonl")
    assert Shard.parse("1/1").rows == "rows.jsonl"


def test_shards_are_submitted_as_an_array(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    config = "configs/eval/interdependent_ablation.yaml"
    assert submit([config, "name=four", "--shards=4", "--at-once=2", "--dry-run"]) == 0
    script = capsys.readouterr().out
    assert "--array=0-3%2\n" in script
    assert script.endswith('--shard "$((SLURM_ARRAY_TASK_ID + 1))/4"\n')
    assert f"eval {REPOSITORY}/runs/eval/four/slurm/config-" in script
    assert "{{" not in script
    assert submit([config, "--shards=0", "--dry-run"]) == 2


def test_unfinished_lines_are_no_rows_and_only_ones_own_are_cut(tmp_path: Path) -> None:
    store = AgentStore(tmp_path, {}, WHOLE)
    store.finish(ROW)
    store.close()
    line = (tmp_path / "rows.jsonl").read_text()
    for name in ("rows.jsonl", "rows.1-of-2.jsonl"):
        with (tmp_path / name).open("a") as file:
            file.write(line.replace("doors/1", "doors/3")[:40])
    other = (tmp_path / "rows.1-of-2.jsonl").read_text()
    store = AgentStore(tmp_path, {}, WHOLE)
    assert store.get(ROW.key) == ROW
    assert store.get(replace(ROW, task="doors/3").key) is None
    assert (tmp_path / "rows.jsonl").read_text() == line
    assert (tmp_path / "rows.1-of-2.jsonl").read_text() == other


def test_a_shard_is_played_by_one_process(tmp_path: Path) -> None:
    store = AgentStore(tmp_path, {}, Shard(1, 2))
    AgentStore(tmp_path, {}, Shard(2, 2)).close()
    with pytest.raises(UserError, match="another process"):
        AgentStore(tmp_path, {}, Shard(1, 2))
    store.close()
    AgentStore(tmp_path, {}, Shard(1, 2)).close()


def _row(**values: Any) -> bytes:
    return json.dumps({**asdict(ROW), **values}).encode()


@pytest.mark.parametrize(
    "line",
    [
        b"{", b"[]", b'{"system": "full"}', b"7", b"", b"\xff\x00", b"[" * 100_000, _row(more=1), _row(seed="0"),
        _row(success="maybe"), _row(progress=float("nan")), _row(contexts=[None]), _row(contexts=5), _row(scores=[]),
    ],
)  # fmt: skip
def test_what_is_no_row_is_refused(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "rows.jsonl").write_bytes(line + b"\n")
    with pytest.raises(UserError, match=r"rows\.jsonl, line 1"):
        AgentStore(tmp_path, {}, WHOLE)


def test_an_output_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match=f"out: {out} cannot be made a folder"):
            AgentStore(out, {}, WHOLE)
    with pytest.raises(UserError, match="cannot be made a folder: embedded null"):
        AgentStore(tmp_path / "a\0b", {}, WHOLE)


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b"[" * 100_000], ids=["cut", "list", "bytes", "deep"])
def test_a_damaged_identity_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "identity.json").write_bytes(content)
    with pytest.raises(UserError, match=r"identity\.json cannot be read"):
        AgentStore(tmp_path, {"suite": 1}, WHOLE)


def test_a_row_that_a_full_disk_cut_does_not_spoil_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(path: Path, data: dict[str, Any]) -> None:
        with path.open("a") as file:
            file.write(json.dumps(data)[:20])
        raise OSError(28, "No space left on device")

    results = AgentStore(tmp_path, {}, WHOLE)
    with monkeypatch.context() as patched:
        patched.setattr(store, "append_line", half)
        with pytest.raises(OSError, match="No space"):
            results.finish(ROW)
    assert results.get(ROW.key) is None
    results.finish(ROW)
    results.close()
    assert AgentStore(tmp_path, {}, WHOLE).get(ROW.key) == ROW


def test_a_folder_keeps_to_one_evaluation(tmp_path: Path) -> None:
    play(tmp_path, door_parts(), seeds=[0])
    with pytest.raises(UserError, match="another 'max_moves'"):
        play(tmp_path, door_parts(), max_moves=3)
    with pytest.raises(UserError, match="another 'system bare'"):
        play(tmp_path, door_parts(), systems={"bare": {**BARE.model_dump(), "state": "recent"}})
    systems = {"bare": BARE.model_dump(), "recent": {**BARE.model_dump(), "state": "recent"}}
    parts = door_parts()
    played = play(tmp_path, parts, systems=systems, seeds=[0])
    assert len(parts.played) == len(played.rows("recent")) == 6


@given(st.lists(st.text(max_size=100), unique=True, max_size=8))
@settings(max_examples=60)
def test_no_task_leaves_the_folder_or_meets_another(tmp_path_factory: pytest.TempPathFactory, tasks: list[str]) -> None:
    store = AgentStore(tmp_path_factory.getbasetemp() / "names", {}, WHOLE)
    store.close()
    folders = [store.episode(("full", task, 0)) for task in tasks]
    assert len(set(folders)) == len(tasks)
    assert all(folder.parent == store.folder / "episodes" / "full" for folder in folders)
    assert all(folder.name not in (".", "..") and len(folder.name.encode()) < 255 for folder in folders)


# The tasks -----------------------------------------------------------------------------------------------------------


def test_tasks_are_chosen_by_family_and_limit(tmp_path: Path) -> None:
    def ids(**values: Any) -> list[str]:
        return [task.id for task in choose_tasks(DoorSuite(), config(tmp_path, **values))]

    assert ids(families=["long"]) == ["doors/1", "doors/3", "doors/5"]
    assert len(ids(per_family=2)) == 4
    assert ids(limit=3) == ids(limit=3) == sorted(ids(limit=3))
    assert ids(limit=99) == [f"doors/{n}" for n in range(6)]
    with pytest.raises(UserError, match="did you mean 'long'"):
        ids(families=["lang"])
    with pytest.raises(UserError, match="there is test"):
        ids(split="valid")


# Numbers -------------------------------------------------------------------------------------------------------------


def test_one_seed_a_task_is_the_plain_bootstrap() -> None:
    values = {f"t{n}": [float(n % 3 == 0)] for n in range(20)}
    assert over_tasks(values, seed=3) == bootstrap_mean(
        [value for (value,) in values.values()], seed=3, resamples=2_000
    )


def test_seeds_of_a_task_are_no_further_tasks() -> None:
    """Ten seeds that all say the same add nothing; ten that differ add the spread within tasks."""
    tasks = {f"t{n}": float(n % 2) for n in range(20)}
    alone = over_tasks({task: [value] for task, value in tasks.items()})
    same = over_tasks({task: [value] * 10 for task, value in tasks.items()})
    assert same.mean == alone.mean == 0.5
    assert same.high - same.low == pytest.approx(alone.high - alone.low, abs=0.1)
    within = over_tasks({task: [0.0, 1.0] for task in tasks})
    assert 0.1 < within.high - within.low < alone.high - alone.low


def test_tasks_weigh_the_same_however_many_seeds_they_have() -> None:
    interval = over_tasks({"many": [1.0] * 9, "one": [0.0], "none": []})
    assert (interval.mean, interval.n) == (0.5, 2)
    assert math.isnan(over_tasks({}).mean)
    with pytest.raises(ValueError, match="not a finite number"):
        over_tasks({"many": [1.0, math.nan]})


def test_order_does_not_matter_to_an_interval() -> None:
    values = {f"t{n}": [n / 7 % 1, n / 3 % 1, 0.2][: 1 + n % 3] for n in range(15)}
    turned = {task: group[::-1] for task, group in reversed(values.items())}
    assert over_tasks(values) == over_tasks(turned)


def test_differences_are_of_the_same_task_and_seed() -> None:
    base = {"a": {0: 0.0, 1: 1.0}, "b": {0: 1.0}}
    found = difference(base, {"a": {1: 1.0, 0: 1.0, 2: 0.0}, "c": {0: 0.0}})
    assert (found.mean, found.n) == (0.5, 1)


def test_rows_become_means_and_curves() -> None:
    rows = [ROW, replace(ROW, seed=1, success=False, progress=0.5, contexts=(30,), revisions=2, stop="stuck")]
    summary = summarise(rows)
    assert summary.means["success"].mean == 0.5
    assert summary.means["most_context"].mean == 30.0
    assert summary.counts["revisions"] == 1.0
    assert summary.stops == {"stuck": 1, "success": 1}
    assert summary.families["long"] == {"success": 0.5, "progress": 0.75, "episodes": 2}
    assert context_by_step(rows) == [20.0, 20.0, 30.0]
    better = [replace(row, system="other", success=True) for row in rows]
    assert compare(rows, better)["success"].mean == 0.5
    assert summarise([]).as_json()["success"]["mean"] is None


# What readers get ----------------------------------------------------------------------------------------------------


def test_programs_and_people_get_the_same_numbers(tmp_path: Path) -> None:
    systems = {"bare": BARE.model_dump(), "<b>mage": {}}
    with pytest.raises(UserError, match="letters, digits"):
        config(tmp_path, systems=systems)
    systems = {"bare": BARE.model_dump(), "mage": {"horma": False}}
    played = play(tmp_path, door_parts(), systems=systems)
    played.config = played.config.model_copy(update={"name": "<script>doors"})
    report.write(played)
    line = report.last_line(played)
    assert {"tasks", "success", "progress", "tokens", "steps", "errors", "intervals"} <= line.keys()
    assert (line["tasks"], line["success"], line["errors"]) == (6, 0.5, 0)
    assert set(line["systems"]) == {"bare", "mage"}
    assert line["intervals"]["success"][0] <= 0.5 <= line["intervals"]["success"][1]
    whole = json.loads((tmp_path / "summary.json").read_text())
    assert whole["systems"]["mage"]["difference"]["success"]["mean"] == 0.0
    assert whole["systems"]["mage"]["compressions"] == 0.5
    assert whole["systems"]["bare"]["context_by_step"] == [
        round(value, 1) for value in context_by_step(played.rows("bare"))
    ]
    page = (tmp_path / "report.html").read_text()
    assert page == render_agents(report.report_data(played))
    assert "<script>doors" not in page
    assert page.count('class="series series-1"') == 2
    assert "mage: doors/0, seed 0, solved" in page
    tree = played.store.episode(played.rows("mage")[0].key) / "tree.jsonl"
    tree.write_text("?\n")  # a damaged drawing is told, and costs no result
    report.write(played)
    assert "tree.jsonl, line 1: not JSON" in (tmp_path / "report.html").read_text()


def test_a_shard_leaves_the_report_to_the_run_that_merges(tmp_path: Path) -> None:
    played = play(tmp_path, door_parts(), Shard(1, 2))
    report.write(played)
    assert not (tmp_path / "report.html").exists()
    line = report.last_line(played)
    assert (line["shard"], line["tasks"], "report" in line) == ("1/2", 3, False)


def test_a_page_is_written_with_nothing_finished(tmp_path: Path) -> None:
    played = play(tmp_path, door_parts({f"doors/{n}": UnreachableError("down") for n in range(6)}))
    report.write(played)
    line = report.last_line(played)
    assert (line["success"], line["errors"]) == (None, 12)
    assert "Context length" not in (tmp_path / "report.html").read_text()
