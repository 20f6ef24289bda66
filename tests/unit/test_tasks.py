"""Tasks and conversations as JSON Lines, benchmarks by name, and the sources of public data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from horma_rl.benchmarks import sources
from horma_rl.benchmarks.generator import GeneratorConfig, generate
from horma_rl.benchmarks.registry import load_benchmark
from horma_rl.benchmarks.storage import load_conversations, load_tasks, save_conversations, save_tasks
from horma_rl.benchmarks.types import Split
from horma_rl.errors import UserError
from memory_shell.types import Task

GOOD = {"v": 1, "id": "a", "workspace": "w", "question": "q", "evidence": ["D1:1"], "answer": None, "category": "c"}
TURN = {"id": "D1:1", "speaker": "A", "text": "x"}
SITTING = {"index": 1, "time": "2023-05-08T13:56:00", "turns": [TURN]}
TALK = {"v": 1, "name": "w", "speakers": ["A"], "sessions": [SITTING]}

texts = st.text(max_size=30)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    st.lists(
        st.builds(
            Task, id=texts, question=texts, evidence=st.lists(texts).map(tuple), workspace=texts,
            answer=st.none() | texts, category=texts, asked_at=st.none() | texts, meta=st.dictionaries(texts, texts),
        ),
        unique_by=lambda task: task.id,
    )
)  # fmt: skip
def test_any_task_comes_back_as_it_was(tmp_path: Path, tasks: list[Task]) -> None:
    path = tmp_path / "tasks.jsonl"
    assert save_tasks(tasks, path) == len(tasks)
    assert load_tasks(path) == tasks


def test_generated_memories_come_back_as_they_were(tmp_path: Path) -> None:
    made = generate(GeneratorConfig(memories=3))
    save_conversations(made.conversations, tmp_path / "deep" / "conversations.jsonl")
    assert load_conversations(tmp_path / "deep" / "conversations.jsonl") == made.conversations
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["conversations.jsonl"]


def test_locomo_conversations_come_back_as_they_were(tmp_path: Path, locomo_file: Path) -> None:
    from horma_rl.benchmarks.locomo import load_locomo

    conversations = list(load_locomo(locomo_file).conversations)
    save_conversations(conversations, tmp_path / "c.jsonl")
    assert load_conversations(tmp_path / "c.jsonl") == conversations


def test_an_interrupted_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    good = Task("a", "q", (), "w")
    save_tasks([good], path)
    with pytest.raises(TypeError):
        save_tasks([Task("b", "q", (), "w", meta={"x": object()})], path)
    assert load_tasks(path) == [good]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", r"line 3: not JSON \(column 2"),
        (b"\xff\xfe", "line 3: not UTF-8"),
        (b"[1]", "line 3: expected an object, found list"),
        (b"[" * 100_000, "line 3: "),
        ({**GOOD, "v": 2}, "line 3: schema version 2; this program reads version 1"),
        ({key: value for key, value in GOOD.items() if key != "v"}, "schema version None"),
        ({key: value for key, value in GOOD.items() if key != "question"}, "line 3: 'question' is missing"),
        ({**GOOD, "question": 3}, "'question' must be str, found int"),
        ({**GOOD, "evidence": "D1:1"}, "'evidence' must be list, found str"),
        ({**GOOD, "evidence": [1]}, "'evidence' must be a list of texts"),
        ({**GOOD, "answer": 2022}, "'answer' must be str, found int"),
        ({**GOOD, "meta": []}, "'meta' must be dict"),
        (GOOD, "task id 'a' occurs twice"),
    ],
)
def test_bad_task_lines(tmp_path: Path, line: Any, message: str) -> None:
    path = tmp_path / "tasks.jsonl"
    raw = line if isinstance(line, bytes) else json.dumps(line).encode()
    path.write_bytes(json.dumps(GOOD).encode() + b"\n\n" + raw + b"\n")
    with pytest.raises(UserError, match=message) as caught:
        load_tasks(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**TALK, "speakers": None}, "'speakers' must be list"),
        ({**TALK, "sessions": [3]}, "'time' is missing"),
        ({**TALK, "sessions": [{"index": 1, "time": "yesterday", "turns": []}]}, "Invalid isoformat"),
        ({**TALK, "sessions": [{**SITTING, "turns": [{**TURN, "id": "one"}]}]}, "not like 'D3:12'"),
        ({**TALK, "sessions": [{**SITTING, "turns": [{**TURN, "caption": 1}]}]}, "'caption' must be str"),
    ],
)
def test_bad_conversation_lines(tmp_path: Path, row: Any, message: str) -> None:
    path = tmp_path / "conversations.jsonl"
    path.write_text(json.dumps(row))
    with pytest.raises(UserError, match=f"line 1: .*{message}"):
        load_conversations(path)


def test_missing_files(tmp_path: Path) -> None:
    for load in (load_tasks, load_conversations):
        with pytest.raises(UserError, match="cannot be read"):
            load(tmp_path / "absent.jsonl")


def test_generated_benchmark() -> None:
    made = load_benchmark("generated", seed=2, train=3, eval=2, generator={"sessions": 4, "questions": 6})
    assert (len(made.conversations), len(made.train), len(made.eval)) == (5, 18, 12)
    assert {task.workspace for task in made.train}.isdisjoint(task.workspace for task in made.eval)
    assert made.tasks("all") == [*made.train, *made.eval]
    assert [c.name for c in made.conversations_of(made.tasks("eval"))] == [c.name for c in made.conversations[3:]]
    assert load_benchmark("generated", seed=2, train=0, eval=2).train == ()
    with pytest.raises(UserError, match="unknown split 'dev'"):
        made.tasks(cast(Split, "dev"))


def test_locomo_benchmark(locomo_file: Path) -> None:
    made = load_benchmark("locomo", path=locomo_file)
    assert (len(made.conversations), len(made.train), len(made.eval)) == (10, 1089, 519)
    assert "NC" in made.licence
    assert len(load_benchmark("locomo", path=locomo_file, categories=None).tasks()) == 1986
    assert len(load_benchmark("locomo", path=locomo_file, categories=["temporal"]).eval) == 107


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("locmo", {}, r"unknown benchmark 'locmo' \(did you mean 'locomo'"),
        ("generated", {"trian": 3}, r"'trian': no such option \(did you mean 'train'"),
        ("generated", {"generator": {"sesions": 3}}, r"'sesions': no such option \(did you mean 'sessions'"),
        ("generated", {"generator": {"mix": {"trp": 3}}}, r"unknown question kind 'trp' \(did you mean 'trap'"),
        ("generated", {"seed": "x"}, "'seed': Input should be a valid integer"),
        ("generated", {"generator": {"turns": 2}}, "'turns': Input should be greater than or equal to 6"),
        ("locomo", {"path": "/nonexistent/file.json"}, "/nonexistent/file.json: no such file; `horma-rl data fetch"),
    ],
)
def test_bad_benchmark_options(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_benchmark(name, **options)


def test_find_looks_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def put(folder: Path) -> Path:
        path = folder / "locomo" / "locomo10.json"
        path.parent.mkdir(parents=True)
        path.touch()
        return path

    monkeypatch.setattr(sources, "REPOSITORY", tmp_path / "work" / "repository")
    monkeypatch.setenv("HORMA_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("HORMA_DATA", str(tmp_path / "data"))
    with pytest.raises(UserError, match="run `horma-rl data fetch locomo`, or set HORMA_DATA"):
        sources.find_locomo()
    cached = put(tmp_path / "cache")
    assert sources.find_locomo() == cached
    beside = put(tmp_path / "work" / "shared" / "data")
    assert sources.find_locomo() == beside
    named = put(tmp_path / "data")
    assert sources.find_locomo() == named
    assert sources.find_locomo(cached) == cached
    with pytest.raises(UserError, match="no such file"):
        sources.find_locomo(tmp_path / "absent.json")
    monkeypatch.setenv("HORMA_DATA", str(tmp_path / "absent"))
    with pytest.raises(UserError, match="no folder"):
        sources.find_locomo()


def test_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HORMA_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert sources.cache_dir() == Path.home() / ".cache" / "horma_rl"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert sources.cache_dir() == tmp_path / "horma_rl"
    monkeypatch.setenv("HORMA_CACHE", str(tmp_path / "here"))
    assert sources.cache_dir() == tmp_path / "here"
