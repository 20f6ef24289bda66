"""`horma-rl data` as people run it."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from horma_rl.benchmarks import sources
from horma_rl.benchmarks.storage import load_conversations, load_tasks
from horma_rl.cli import main

REPOSITORY = Path(__file__).resolve().parents[2]
CONTENT = b"[some data]\n" * 5000


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file served on this machine, made the source of "locomo"; the cache is a fresh folder."""
    file = tmp_path / "served" / "file.json"
    file.parent.mkdir()
    file.write_bytes(CONTENT)

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(file.parent)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    real = sources.source("locomo")
    ours = replace(
        real,
        url=f"http://127.0.0.1:{server.server_port}/file.json",
        bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )
    monkeypatch.setattr(sources, "sources", lambda: {"locomo": ours})
    monkeypatch.setenv("HORMA_CACHE", str(tmp_path / "cache"))
    yield file
    server.shutdown()
    server.server_close()


def cached(tmp_path: Path) -> list[str]:
    return sorted(
        str(path.relative_to(tmp_path / "cache")) for path in (tmp_path / "cache").rglob("*") if path.is_file()
    )


def test_fetch_downloads_once(served: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "fetch", "locomo"]) == 0
    assert "CC BY-NC" in capsys.readouterr().out
    assert cached(tmp_path) == ["locomo/locomo10.json"]
    served.unlink()
    assert main(["data", "fetch", "locomo"]) == 0
    assert (tmp_path / "cache" / "locomo" / "locomo10.json").read_bytes() == CONTENT


def test_fetch_mends_a_damaged_copy(served: Path, tmp_path: Path) -> None:
    copy = tmp_path / "cache" / "locomo" / "locomo10.json"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(CONTENT[:-1])
    assert main(["data", "fetch", "locomo"]) == 0
    assert copy.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("content", "message"),
    [(CONTENT[:-1], "sha256 is"), (CONTENT[:-2] + b"!\n", "sha256 is"), (CONTENT + b"more", "more than the")],
)
def test_fetch_keeps_nothing_wrong(
    served: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, message: str
) -> None:
    served.write_bytes(content)
    assert main(["data", "fetch", "locomo"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "nothing was kept" in error
    assert error.count("\n") == 1
    assert cached(tmp_path) == []


def test_fetch_without_the_server(served: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    served.unlink()
    assert main(["data", "fetch", "locomo"]) == 2
    error = capsys.readouterr().err
    assert "could not download" in error
    assert "--from FILE" in error
    assert error.count("\n") == 1
    assert cached(tmp_path) == []


def test_fetch_without_a_network(
    served: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unreachable = replace(sources.source("locomo"), url="http://127.0.0.1:9/file.json")
    monkeypatch.setattr(sources, "sources", lambda: {"locomo": unreachable})
    assert main(["data", "fetch", "locomo"]) == 2
    assert "check the network" in capsys.readouterr().err


def test_fetch_takes_a_local_file(served: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    local = tmp_path / "mine.json"
    local.write_bytes(CONTENT)
    served.unlink()
    assert main(["data", "fetch", "locomo", "--from", str(local)]) == 0
    assert cached(tmp_path) == ["locomo/locomo10.json"]
    assert main(["data", "fetch", "nosuch"]) == 2
    assert "unknown dataset 'nosuch'" in capsys.readouterr().err


def test_fetch_of_an_absent_local_file(served: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "fetch", "locomo", "--from", str(tmp_path / "absent")]) == 2
    assert "cannot be read (No such file" in capsys.readouterr().err


def test_the_manifest_describes_the_release(locomo_file: Path) -> None:
    facts = sources.source("locomo")
    content = locomo_file.read_bytes()
    assert (facts.bytes, facts.sha256) == (len(content), hashlib.sha256(content).hexdigest())


def test_the_sample_is_what_its_command_makes(tmp_path: Path) -> None:
    assert main(["data", "generate", "--out", str(tmp_path), "--memories", "8", "--seed", "7"]) == 0
    for name in ("conversations.jsonl", "tasks.jsonl"):
        assert (tmp_path / name).read_bytes() == (REPOSITORY / "data" / "sample" / name).read_bytes()


def test_generate_takes_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["part=eval", "sessions=4", "questions=9", "mix.absent=0", "mix.trap=6"]
    assert main(["data", "generate", "--out", str(tmp_path), "--memories", "3", *settings]) == 0
    tasks = load_tasks(tmp_path / "tasks.jsonl")
    assert all(task.category != "absent" for task in tasks)
    assert len(tasks) == 27
    assert all(len(talk.sessions) == 4 for talk in load_conversations(tmp_path / "conversations.jsonl"))
    capsys.readouterr()
    assert main(["data", "stats", str(tmp_path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["conversations"], report["sessions"], report["turns"]) == (3, 12, 168)
    assert report["questions"] == sum(report["by_category"].values()) == 27
    assert report["evidence_without_turn"] == 0


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("sesions=3", "did you mean 'sessions'"),
        ("turns=many", "'turns': Input should be a valid integer"),
        ("turns", "'turns' is not of the form key=value"),
        ("mix.trp=1", "did you mean 'trap'"),
        ("mix=[", "the value is not YAML"),
    ],
)
def test_generate_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str, message: str) -> None:
    assert main(["data", "generate", "--out", str(tmp_path / "out"), setting]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_locomo_stats(locomo_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "stats", "locomo", "--path", str(locomo_file), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["conversations"], report["turns"], report["questions"]) == (10, 5882, 1986)
    assert [report["split"][half]["questions"] for half in ("train", "eval")] == [1089, 519]
    assert main(["data", "stats", "locomo", "--path", str(locomo_file)]) == 0
    assert "joined_by_space: 3" in capsys.readouterr().out


def test_stats_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "stats", "nosuch"]) == 2
    (tmp_path / "bad.json").write_text("{}")
    assert main(["data", "stats", "locomo", "--path", str(tmp_path / "bad.json")]) == 2
    assert "expected a list of conversations" in capsys.readouterr().err
