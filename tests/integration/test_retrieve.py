"""`horma-rl retrieve`: an exported model answers from the command line, as it plays in evaluation."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from horma_rl.agent.recall import PolicyRecaller, make_recaller
from horma_rl.benchmarks.registry import load_benchmark
from horma_rl.cli import main
from horma_rl.memory.build import build
from horma_rl.retrieval.backends.server import TOKEN_VARIABLE
from horma_rl.retrieval.manifest import Manifest
from horma_rl.serving.retrieve import Answer, Question, QuestionError, Retriever
from memory_shell.workspace import Workspace
from tests.export_parts import edit, eval_config, export, make_run
from tests.fake_vllm import FakeServer, serving
from tests.training_parts import OPTIONS, codec, lines_of, memory, partly_trained, world

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an exported model (`out`), its run's config, and the workspace of the held-out memory."""
    folder = tmp_path_factory.mktemp("retrieve")
    start = partly_trained(folder / "start", memory(folder / "start" / "memory"), steps=40)
    assert export(make_run(folder, start), folder / "out") == 0
    conversations = {
        conversation.name: conversation for conversation in load_benchmark("generated", **OPTIONS).conversations
    }
    build(conversations[world().eval[0].workspace], folder / "memory" / world().eval[0].workspace)
    return folder


def workspace(place: Path) -> Path:
    return place / "memory" / world().eval[0].workspace


def ask(place: Path, *arguments: str) -> int:
    return main(["retrieve", "--model", str(place / "out"), "--memory", str(workspace(place)), *arguments])


def test_answers_are_those_of_the_evaluation(place: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions from standard input, one JSON object each: what is selected is what greedy evaluation selected."""
    assert main(["eval", str(eval_config(place, place / "out", limit=7))]) == 0
    logged = {row["question"]: row for row in lines_of(place / "evaluated" / "trajectories.jsonl")}
    tasks = [task for task in world().eval if task.asked_at is None]
    text = "".join(f"{task.question}\n\n" for task in tasks).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    capsys.readouterr()
    assert ask(place, "--json", "--trace", "-") == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["question"] for answer in answers] == [task.question for task in tasks]
    for answer in answers:
        row = logged[answer["question"]]
        assert [turn["id"] for turn in answer["selected"]] == row["selected"]
        assert answer["trace"] == {"first_observation": row["first_observation"], "turns": row["turns"]}
        assert answer["stop"] == row["stop"]
    assert any(row["selected"] or row["commands"] for row in logged.values())


def test_questions_that_are_gathered_have_the_answers_that_each_has_alone(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the agent's recaller, in 32-bit floats on a CPU; a question that is too long fails alone."""
    recaller = make_recaller(str(place / "out"), "cpu")
    assert isinstance(recaller, PolicyRecaller)
    memory, questions = Workspace.load(workspace(place)), [task.question for task in world().eval]
    rounds: list[list[Answer | Exception]] = []
    ask_all = Retriever.ask_all

    def kept(model: Retriever, asked: Sequence[Question]) -> list[Answer | Exception]:
        rounds.append(ask_all(model, asked))
        return rounds[-1]

    async def both() -> None:
        alone = [await recaller.recall(memory, question) for question in questions]
        calls = (recaller.recall(memory, question) for question in (*questions, "why " * 1000))
        *together, refused = await asyncio.gather(*calls, return_exceptions=True)
        assert together == alone
        assert isinstance(refused, QuestionError)

    monkeypatch.setattr(Retriever, "ask_all", kept)
    asyncio.run(both())
    assert [len(one) for one in rounds] == [1] * len(questions) + [len(questions) + 1]
    said = [one.trajectory.completion_ids for answers in rounds for one in answers if isinstance(one, Answer)]
    assert said[: len(questions)] == said[len(questions) :], "token for token"
    assert len(set(map(tuple, said))) > 1, "they are not all the same"


def test_an_answer_shows_turns_with_their_text_and_what_was_not_looked_at(place: Path, capsys: Capture) -> None:
    question = world().eval[0].question
    assert ask(place, question, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    coverage = answer["coverage"]
    assert set(coverage["looked_at"]).isdisjoint(coverage["not_looked_at"])
    there = {str(p.relative_to(workspace(place))) for p in workspace(place).rglob("*") if p.is_file()} - {"horma.json"}
    assert {*coverage["looked_at"], *coverage["not_looked_at"]} - {".lock"} == {
        n for n in there if not n.startswith(".")
    }
    assert ask(place, question, "--trace") == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Question: {question}\n")
    assert f"selected: {question}" in shown
    assert f"looked at {len(coverage['looked_at'])} of {len(there)} files" in shown
    for turn in answer["selected"]:
        assert f"[{turn['id']}] {turn['time']} {turn['speaker']}: " in shown


def test_other_notes_are_told(place: Path, capsys: Capture) -> None:
    marker = workspace(place) / "horma.json"
    before = marker.read_bytes()
    edit(marker, notes="observations")
    assert ask(place, "Who is she?") == 0
    assert "has observations notes, the model knows outline" in capsys.readouterr().err
    marker.write_bytes(before)


def test_every_fault_is_one_line(place: Path, tmp_path: Path, capsys: Capture) -> None:
    def fault(*arguments: str) -> str:
        assert main(["retrieve", *arguments]) == 2
        said = capsys.readouterr().err
        assert said.startswith("horma-rl: ")
        assert said.count("\n") == 1
        return said

    good, model = str(workspace(place)), str(place / "out")
    assert "there is no folder" in fault("--model", str(tmp_path / "no"), "--memory", good, "q")
    assert "has no horma.json" in fault("--model", str(place / "start"), "--memory", good, "q")
    assert "there is no folder" in fault("--model", model, "--memory", str(tmp_path / "no"), "q")
    assert "it has no raw_logs/" in fault("--model", model, "--memory", str(tmp_path), "q")
    assert "the question is empty" in fault("--model", model, "--memory", good, " ")
    other = shutil.copytree(good, tmp_path / "other")
    edit(other / "horma.json", format=9)
    assert "workspace format 9, this program reads 1" in fault("--model", model, "--memory", str(other), "q")
    (other / "horma.json").unlink()
    assert "horma.json is missing: build the workspace" in fault("--model", model, "--memory", str(other), "q")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"prompt_version": 2}, "prompt_version is 2, but here it is 1"),
        ({"tool_schema_sha256": "0" * 64}, "tool_schema_sha256 is 0000"),
        ({"prompt": "full"}, "was changed after the export"),
    ],
)
def test_a_tampered_folder_is_refused(
    changes: dict[str, object], told: str, place: Path, tmp_path: Path, capsys: Capture
) -> None:
    shutil.copytree(place / "out", tmp_path / "out")
    edit(tmp_path / "out" / "horma.json", **changes)
    for command in (
        ["retrieve", "--model", str(tmp_path / "out"), "--memory", str(workspace(place)), "q"],
        ["eval", str(eval_config(place, tmp_path / "out", out=str(tmp_path / "evaluated")))],
    ):
        assert main(command) == 2
        assert told in capsys.readouterr().err


def test_a_tampered_template_is_refused_even_with_a_matching_manifest(
    place: Path, tmp_path: Path, capsys: Capture
) -> None:
    """Whoever writes a new manifest for a changed chat template is told by the ids that it gives."""
    out = shutil.copytree(place / "out", tmp_path / "out")
    template = out / "chat_template.jinja"
    template.write_text("You are a pirate. " + template.read_text(encoding="utf-8"), encoding="utf-8")
    manifest = Manifest.read(out)
    assert manifest is not None
    command = ["retrieve", "--model", str(out), "--memory", str(workspace(place)), "q"]
    assert main(command) == 2
    assert "chat_template.jinja is not the exported file" in capsys.readouterr().err
    kept = {name: digest for name, digest in manifest.files.items() if name != template.name}
    manifest.model_copy(update={"files": kept}).write(out)
    assert main(command) == 2
    assert "prompt_ids_sha256 is" in capsys.readouterr().err


def test_a_server_decodes_in_place_of_this_process(
    place: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    with serving(FakeServer()) as server:
        assert ask(place, "Who is she?", "--json", "--server", server.url) == 0
        answer = json.loads(capsys.readouterr().out)
        assert len(server.bodies) >= 1
        assert codec().tokenizer.decode(server.bodies[0]["prompt"]).count("who is she") == 1
        assert server.bodies[0]["temperature"] == 0.0
    assert answer["stop"] in ("turn_cap", "context_full")
    assert ask(place, "Who is she?", "--server", "127.0.0.1:1") == 2
    assert "is no URL" in capsys.readouterr().err
