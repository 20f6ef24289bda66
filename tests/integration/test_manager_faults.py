"""The manager, the real client and a faulty server between them and a scripted model: builds complete, nothing is lost
or duplicated, budgets hold, and a process that is killed halfway goes on from where it was."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from horma_rl.benchmarks.storage import save_conversations
from horma_rl.cli import main
from horma_rl.llm.client import Llm
from horma_rl.llm.config import LlmConfig
from horma_rl.memory.manager.config import ManagerConfig
from horma_rl.memory.manager.journal import Journal, journal_path
from horma_rl.memory.manager.manager import Writer
from horma_rl.memory.manager.run import ManagedBuild, build_managed
from horma_rl.memory.skills.render import HEADING
from memory_shell.workspace import Workspace
from tests.conftest import REPOSITORY
from tests.faulty_server import FAULTS, FaultyServer
from tests.manager_parts import assert_sound, diligent
from tests.memory_conversation import conversation, tree

SEED = REPOSITORY / "data/skills/seed.json"


def model(body: dict[str, Any]) -> str:
    """The scripted model behind the server; it wraps its JSON in prose, as models do."""
    prompts = [message["content"] for message in body["messages"] if message["role"] == "user"]
    asked = next((prompt for prompt in reversed(prompts) if "New turns" in prompt or "refused" in prompt), prompts[-1])
    return f"Sure! Here it is:\n```json\n{json.dumps(diligent(asked))}\n```"


def llm_config(server: FaultyServer, cache: Path, **options: Any) -> LlmConfig:
    fast: dict[str, Any] = {"timeout_s": 0.5, "backoff_s": 0.01, "backoff_max_s": 0.05, "retries": 12, "reasks": 3}
    return LlmConfig(base_url=server.url, model="scripted", cache=cache, **(fast | options))


def build(server: FaultyServer, out: Path, cache: Path, **options: Any) -> tuple[ManagedBuild, int]:
    """Three conversations, two at a time; the build, and the tokens that the client counted."""

    async def work() -> tuple[ManagedBuild, int]:
        async with Llm(llm_config(server, cache, **options)) as llm:
            talks = [conversation(3, name=f"c{number}") for number in range(3)]
            done = await build_managed(talks, out, Writer(llm, "scripted", ManagerConfig(rounds=1)), workers=2)
            return done, llm.budget.spent_tokens

    return asyncio.run(work())


def filed_once(out: Path) -> None:
    """Every turn of every conversation is covered by one batch, and no line stands twice in a note."""
    for number in range(3):
        talk = conversation(3, name=f"c{number}")
        workspace = assert_sound(out / talk.name, talk)
        turns = Counter(turn for batch in Journal(journal_path(out / talk.name)).batches for turn in batch.turns)
        assert turns == Counter(talk.turn_ids())
        for path in workspace.notes:
            lines = [line for line in workspace.files[path].data.split(b"\n") if line.endswith(b"]")]
            assert len(lines) == len(set(lines)), path


def test_every_fault_between_client_and_model(tmp_path: Path) -> None:
    with FaultyServer(model, seed=3, share=0.3, script=FAULTS, silence_s=0.7) as server:
        done, _ = build(server, tmp_path / "out", tmp_path / "cache.sqlite")
        assert set(FAULTS) <= set(server.injected), server.injected
    assert done.stopped is None
    assert len(done.reports) == 3
    filed_once(tmp_path / "out")
    with FaultyServer(model, share=0) as server:
        build(server, tmp_path / "clean", tmp_path / "other.sqlite")
    logs = {path: data for path, data in tree(tmp_path / "out").items() if "raw_logs" in path or "sessions" in path}
    assert logs == {path: data for path, data in tree(tmp_path / "clean").items() if path in logs}


def test_faults_of_transport_alone_change_nothing(tmp_path: Path) -> None:
    """What the client can mend by sending again gives the bytes of a build without faults."""
    with FaultyServer(model, seed=5, share=0.5, faults=("429", "500", "cut", "malformed_body", "no_choices")) as server:
        build(server, tmp_path / "faulty", tmp_path / "cache.sqlite")
        assert sum(server.injected.values()) > server.injected["ok"]
    with FaultyServer(model, share=0) as server:
        build(server, tmp_path / "clean", tmp_path / "other.sqlite")
    assert tree(tmp_path / "faulty") == tree(tmp_path / "clean")


def test_a_budget_holds_and_reruns_end_in_the_same_workspaces(tmp_path: Path) -> None:
    with FaultyServer(model, seed=7, share=0.3, faults=("429", "500", "cut")) as server:
        runs = 0
        while True:
            done, spent = build(server, tmp_path / "out", tmp_path / "cache.sqlite", budget_tokens=4_000)
            runs += 1
            assert spent <= 4_000
            if done.stopped is None:
                break
            assert runs < 20, "no progress"
        assert runs > 1
    with FaultyServer(model, share=0) as server:
        build(server, tmp_path / "clean", tmp_path / "other.sqlite")
    assert tree(tmp_path / "out") == tree(tmp_path / "clean")
    filed_once(tmp_path / "out")


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """The command line of a build, but for the model's config."""
    save_conversations([conversation(4, name="one"), conversation(2, name="two")], tmp_path / "talks.jsonl")
    return ["memory", "build", str(tmp_path / "talks.jsonl"), "--manager", "llm", "--workers", "2"]


def write_config(path: Path, server: FaultyServer, **options: Any) -> str:
    path.write_text(json.dumps(llm_config(server, path.with_suffix(".sqlite"), **options).model_dump(mode="json")))
    return str(path)


def test_the_command_ends_with_one_json_line(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultyServer(model, share=0) as server:
        config = write_config(tmp_path / "llm.yaml", server, price_in=1.0, price_out=2.0)
        assert main([*command, "--llm", config, "--out", str(tmp_path / "out")]) == 0
        told = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert (told["workspaces"], told["turns"], told["archived"], told["complete"]) == (2, 24, 24, True)
        assert told["operations_rejected"] == sum(told["rejected"].values()) > 0
        assert told["operations_accepted"] > 20
        assert told["tokens"]["prompt"] > 0 < told["cost"]
        requests = len(server.requests)
        assert main([*command, "--llm", config, "--out", str(tmp_path / "again")]) == 0
        told = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert (told["requests"], told["cost"]) == (0, 0)
        assert told["requests_cached"] >= requests
        assert len(server.requests) == requests
        assert HEADING not in server.requests[-1]["messages"][0]["content"]
        taught = [*command, "--llm", config, "--out", str(tmp_path / "taught"), "--skills", str(SEED)]
        sizes = tmp_path / "manager.yaml"
        sizes.write_text("rounds: 0\nskills_tokens: 500\n")
        assert main([*taught, "--manager-config", str(sizes)]) == 0
        assert HEADING in server.requests[-1]["messages"][0]["content"]
        capsys.readouterr()
        tight = write_config(tmp_path / "tight.yaml", server, budget_tokens=1_500)
        assert main([*command, "--llm", tight, "--out", str(tmp_path / "tight")]) == 75
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["complete"] is False
    assert tree(tmp_path / "out") == tree(tmp_path / "again")
    assert main(["memory", "check", str(tmp_path / "out")]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "x"], "go together"),
        (["--out", "x", "--llm", "nosuch.yaml"], "no config file"),
        (["--out", "x", "--llm", "nosuch.yaml", "--shard", "3/2"], "--shard 3/2"),
        (["--out", "x", "--llm", "nosuch.yaml", "--workers", "0"], "--workers must be at least 1"),
    ],
)
def test_mistakes_end_in_one_clear_line(
    command: list[str], capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main([*command, *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_server_that_is_gone_ends_in_one_clear_line(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultyServer(model) as server:
        config = write_config(tmp_path / "llm.yaml", server, retries=1)
    assert main([*command, "--llm", config, "--out", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert "the same command goes on from there" in error
    assert error.count("\n") == 1
    assert (tmp_path / "out/one/sessions/session_04.md").is_file()


def test_killed_halfway_for_real(tmp_path: Path, command: list[str]) -> None:
    """SIGKILL while requests are in flight; the same command then asks only what was not answered, and ends in the
    workspaces of a build that was not killed."""

    def slow(body: dict[str, Any]) -> str:
        time.sleep(0.2)
        return model(body)

    with FaultyServer(slow, share=0) as server:
        config = write_config(tmp_path / "llm.yaml", server, timeout_s=30)
        line = [sys.executable, "-m", "horma_rl.cli", *command, "--llm", config, "--out", str(tmp_path / "out")]
        run = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while len(server.requests) < 4 and run.poll() is None:
            time.sleep(0.02)
        os.kill(run.pid, signal.SIGKILL)
        run.communicate()
        assert run.returncode == -signal.SIGKILL
        assert main([*command, "--llm", config, "--out", str(tmp_path / "out")]) == 0
        texts = Counter(json.dumps(body["messages"]) for body in server.requests)
        assert sum(count - 1 for count in texts.values()) <= 2, "only what was in flight is asked again"
        fresh = write_config(tmp_path / "fresh.yaml", server, timeout_s=30)
        assert main([*command, "--llm", fresh, "--out", str(tmp_path / "whole")]) == 0
    assert tree(tmp_path / "out") == tree(tmp_path / "whole")
    for name in ("one", "two"):
        assert Workspace.load(tmp_path / "out" / name).problems() == []
    assert not re.search("horma-partial", " ".join(tree(tmp_path / "out")))
