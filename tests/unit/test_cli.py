"""The command line's promises: it starts fast, and a fault of the user's ends in one helpful line and exit code 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

from horma_rl.agent.events import EventLog
from horma_rl.agent.tree import StateTree
from horma_rl.cli import COMMANDS, main
from horma_rl.errors import UserError
from horma_rl.quiet import quieten_deepspeed
from tests.conftest import REPOSITORY

TINY = "configs/train/tiny_cpu.yaml"
HEAVY = {"torch", "transformers", "trl", "datasets", "numpy", "pandas", "pydantic", "yaml", "rich", "re2"}


def horma_rl(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`horma-rl` as a person runs it, in the repository."""
    command = [sys.executable, "-m", "horma_rl.cli", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False)


def loaded_after(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after `code`."""
    show = f"import json, sys\n{code}\nprint(json.dumps(sorted({{name.partition('.')[0] for name in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, timeout=120, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_help_loads_nothing_heavy() -> None:
    loaded = loaded_after("from horma_rl.cli import build_parser; build_parser().format_help()")
    assert not loaded & HEAVY


@pytest.mark.parametrize("verb", COMMANDS)
def test_help_of_a_verb_loads_no_torch(verb: str) -> None:
    code = (
        f"from horma_rl.cli import main\ntry: main(['{verb}', '--help'])\nexcept SystemExit as end: assert not end.code"
    )
    assert not loaded_after(code) & {"torch", "transformers", "trl", "datasets"}


def test_environments_load_no_torch() -> None:
    loaded = loaded_after("import memory_shell.episode, memory_shell.adapters.trl, horma_rl.config")
    assert not loaded & {"torch", "transformers", "trl", "datasets"}


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert end.value.code == 0
    shown = capsys.readouterr().out
    assert all(f"  {verb} " in shown for verb in COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["train", "nosuch.yaml"], ("nosuch.yaml", "configs/train")),
        (["train", "configs/train/tiny_cpu.yml"], (f"did you mean '{TINY}'?",)),
        (["train", TINY, "modle=x"], ("unknown key 'modle'", "did you mean 'model'?")),
        (["train", TINY, "shell.caps.turn=4"], ("unknown key 'shell.caps.turn'", "did you mean 'turns'?")),
        (["train", TINY, "rollout.max_turn=4"], ("unknown key 'rollout.max_turn'", "did you mean 'max_turns'?")),
        (["train", TINY, "threads=two"], ("'threads' is 'two'", "integer")),
        (["train", TINY, "prompt=short"], ("'prompt' is 'short'", "'full' or 'compact'")),
        (["train", TINY, "learning_rate"], ("'learning_rate' is not an override", "key=value")),
        (["eval", "configs/eval/retriever.yaml", "policies.after.modle=x"], ("did you mean 'model'?",)),
        (["data", "stats", "locomo", "--path", "nosuch.json"], ("nosuch.json", "horma-rl data fetch locomo")),
        (["data", "fetch", "locmo"], ("did you mean 'locomo'?",)),
        (["memory", "build", "locmo", "--out", "nowhere"], ("did you mean 'locomo'?",)),
        (["shell", "nosuch"], ("nosuch", "horma-rl memory build")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_fault_is_one_helpful_line(arguments: list[str], expected: tuple[str, ...]) -> None:
    done = horma_rl(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("horma-rl: ")
    assert done.stderr.count("\n") == 1
    for part in expected:
        assert part in done.stderr


def test_a_missing_dataset_says_how_to_get_it(tmp_path: Path) -> None:
    """In a checkout without the dataset beside it, with an empty cache."""
    code = (
        "import sys; from pathlib import Path\n"
        "import horma_rl.benchmarks.sources as sources\n"
        f"sources.REPOSITORY = Path({str(tmp_path / 'repository')!r})\n"
        "from horma_rl.cli import main; sys.exit(main(['data', 'stats', 'locomo']))"
    )
    empty = {"HORMA_CACHE": str(tmp_path / "cache"), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False, env=empty
    )
    assert done.returncode == 2
    assert done.stderr.startswith("horma-rl: ")
    assert "horma-rl data fetch locomo" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_unknown_verb_names_the_verbs() -> None:
    done = horma_rl("trian")
    assert done.returncode == 2
    assert "'train'" in done.stderr


@pytest.mark.parametrize(
    ("installed", "given", "expected"), [(True, None, "cpu"), (False, None, None), (True, "x", "x")]
)
def test_deepspeed_is_told_of_a_machine_without_a_gpu(
    installed: bool, given: str | None, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DS_ACCELERATOR", given or "")
    if given is None:
        monkeypatch.delenv("DS_ACCELERATOR")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: installed or None)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False)))
    quieten_deepspeed()
    assert os.environ.get("DS_ACCELERATOR") == expected


@pytest.mark.parametrize(("verb", "told"), [("train", "75 a cluster's signal"), ("eval", "script-three-speaker")])
def test_help_tells_exit_codes_and_baselines(verb: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    shown = capsys.readouterr().out.replace("\n", "")
    assert told.replace(" ", "") in shown.replace(" ", "")


def test_ctrl_c_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("horma_rl.commands.data.run", interrupted)
    assert main(["data", "stats", "locomo"]) == 130
    assert capsys.readouterr().err.startswith("horma-rl: interrupted")


def test_a_full_disk_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full(args: object) -> None:
        raise OSError(28, "No space left on device", "runs/x/metrics.jsonl")

    monkeypatch.setattr("horma_rl.commands.data.run", full)
    assert main(["data", "stats", "locomo"]) == 1
    error = capsys.readouterr().err
    assert "No space left on device" in error
    assert "runs/x/metrics.jsonl" in error
    assert error.count("\n") == 1


def test_an_error_is_one_line_without_control_characters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for error, code in ((UserError("a\nb \x1b[2J\0"), 2), (OSError(2, "No such file", "a\nb\x1b[2J"), 1)):

        def run(args: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr("horma_rl.commands.data.run", run)
        assert main(["data", "stats", "locomo"]) == code
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert told.rstrip("\n").isprintable()


def test_an_output_that_lacks_characters_is_one_line(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("kind: agent\nout: \N{LATIN SMALL LETTER E WITH ACUTE}\n", encoding="utf-8")
    command = [sys.executable, "-m", "horma_rl.cli", "eval", str(config), "--dry-run"]
    narrow = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, cwd=REPOSITORY, env=narrow, capture_output=True, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(b"horma-rl: the output's encoding, ascii, lacks characters")
    assert done.stderr.count(b"\n") == 1


# An output that cannot be written ------------------------------------------------------------------------------------

PRINTING = [
    ("--help",),
    ("view", "--help"),
    ("view", "tree", "TREE"),
    ("memory", "tree", "docs"),
    ("data", "stats", "data/sample", "--json"),
    ("eval", "configs/eval/household_llm.yaml", "--dry-run"),
    ("ablate", "configs/ablations/reward.yaml", "--list"),
    ("plan", TINY),
]
"""Commands that print with `print`, with argparse and with rich."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An episode whose drawing is longer than any buffer."""
    tree, folder = StateTree(), tmp_path_factory.mktemp("episode")
    for number in range(5_000):
        tree.grow("wait", str(number))
    with closing(EventLog(folder / "tree.jsonl")) as log:
        log.record(tree)
    return folder


def written_to(output: int | IO[bytes], arguments: Iterable[str], tree: Path, **streams: Any) -> tuple[int, str]:
    """Exit code and standard error of a command with that standard output, buffered as ordinarily."""
    command = [sys.executable, "-m", "horma_rl.cli", *(str(tree) if word == "TREE" else word for word in arguments)]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    streams = {"stdout": output, "stderr": subprocess.PIPE, **streams}
    done = subprocess.run(command, cwd=REPOSITORY, env=kept, timeout=120, check=False, **streams)
    return done.returncode, (done.stderr or b"").decode()


@pytest.fixture
def broken_pipe() -> Iterator[int]:
    """A pipe that nobody reads any more."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_a_reader_that_has_left_ends_a_command_quietly(
    arguments: tuple[str, ...], tree: Path, broken_pipe: int
) -> None:
    assert written_to(broken_pipe, arguments, tree) == (141, "")


def test_a_reader_that_leaves_in_the_middle_has_what_it_took(tree: Path) -> None:
    with subprocess.Popen(["head", "-3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as head:
        assert head.stdin is not None
        assert written_to(head.stdin, ("view", "tree", "TREE"), tree) == (141, "")
        shown, _ = head.communicate(timeout=60)
    assert shown.startswith(b"5,000 steps")
    assert shown.count(b"\n") == 3


def test_a_reader_of_errors_that_has_left_ends_a_command_quietly(tree: Path, broken_pipe: int) -> None:
    """As after `2>&1 |`."""
    for arguments in (("eval", "nosuch.yaml"), ("view", "tree", "TREE")):
        assert written_to(broken_pipe, arguments, tree, stderr=broken_pipe)[0] == 141


@pytest.mark.parametrize("arguments", [("view", "tree", "TREE"), ("plan", TINY)], ids=" ".join)
def test_a_full_output_is_one_line(arguments: tuple[str, ...], tree: Path) -> None:
    with open("/dev/full", "wb") as full:
        code, told = written_to(full, arguments, tree)
    assert code == 1
    assert told == "horma-rl: [Errno 28] No space left on device\n"


def test_no_output_at_all_is_no_fault(tree: Path) -> None:
    closed = {"preexec_fn": lambda: os.close(1)}
    assert written_to(subprocess.DEVNULL, ("view", "tree", "TREE"), tree, **closed) == (0, "")


def test_a_pipe_to_something_else_that_breaks_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(args: object) -> None:
        raise BrokenPipeError(32, "Broken pipe", "a worker")

    monkeypatch.setattr("horma_rl.commands.data.run", broken)
    assert main(["data", "stats", "locomo"]) == 1
    assert "a worker" in capsys.readouterr().err


BROKEN = """
import sys
import horma_rl.commands.data
from horma_rl.cli import main
def run(args):
    print("shown so far")
    raise {error}
horma_rl.commands.data.run = run
sys.exit(main(["data", "stats", "locomo"]))
"""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("RuntimeError('a bug')", "RuntimeError: a bug\n"),
        ("PermissionError(13, 'denied', 'a file')", "horma-rl: [Errno 13] denied: 'a file'\n"),
        ("UnicodeEncodeError('ascii', 'x', 0, 1, 'of a header')", "UnicodeEncodeError: 'ascii' codec can't encode"),
    ],
)
def test_an_output_that_cannot_be_written_hides_no_error(error: str, told: str, broken_pipe: int) -> None:
    """Whatever the output: a pipe without a reader, a full disk, and an encoding that has all characters."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", BROKEN.format(error=error)]
    with open("/dev/full", "wb") as full:
        for output in (broken_pipe, full, subprocess.DEVNULL):
            done = subprocess.run(
                command, env=kept, stdout=output, stderr=subprocess.PIPE, text=True, timeout=120, check=False
            )
            assert done.returncode == 1
            assert told in done.stderr
            assert "No space" not in done.stderr
