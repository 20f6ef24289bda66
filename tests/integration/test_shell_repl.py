"""`horma-rl shell` as a person meets it: through a pseudo-terminal, and through a pipe."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from horma_rl.commands.shell import candidates
from memory_shell.workspace import Workspace
from tests.shell_workspace import write_workspace

SHELL = [sys.executable, "-m", "horma_rl.cli", "shell"]


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    return write_workspace(tmp_path / "mem")


WITHOUT_PROMPT_TOOLKIT = """
import sys
sys.modules["prompt_toolkit"] = None
from horma_rl.cli import main
sys.exit(main(["shell", *sys.argv[1:]]))
"""


def pipe(*args: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([*SHELL, *args], input=typed, capture_output=True, text=True, timeout=60, check=False)


def test_a_piped_episode_ends_with_evidence_coverage_and_reward(memory: Path) -> None:
    typed = "grep -i kiln\nselect D2:1\nselect sessions/session_01.md:7\ndone\nls\n"
    ran = pipe(str(memory), "--question", "What did Ana paint?", "--evidence", "D2:1", typed=typed)
    assert (ran.returncode, ran.stderr) == (0, "")
    out = ran.stdout
    assert out.startswith("Question: What did Ana paint?\nMemory: people/ 1 file, ")
    assert "selected 2 turns with 4 commands" in out
    assert "[D2:1] 2023-06-09T10:00:00 Ana: I am painting my kiln green.\n      by: select D2:1\n" in out
    assert (
        "Ben: My sister paints bowls. (shares a photo of a blue bowl)\n      by: select sessions/session_01.md:7\n"
        in out
    )
    assert "never looked at: nothing" in out
    assert out.endswith("evidence: D2:1; reward (Jaccard) 0.500\n")


def test_the_end_of_the_pipe_ends_the_episode_and_unknown_evidence_shows_no_reward(memory: Path) -> None:
    ran = pipe(str(memory), "--overview", "none", typed="cat people/ana.md:6\n")
    assert ran.returncode == 0
    assert "2023-05-08: I started pottery last week. [D1:1]" not in ran.stdout.split("# Ana")[0]
    assert "selected 0 turns with 1 command\n" in ran.stdout
    assert "never looked at: raw_logs/, sessions/" in ran.stdout
    assert "reward" not in ran.stdout


def test_terminal_escapes_in_a_memory_do_not_reach_the_terminal(memory: Path) -> None:
    with (memory / "raw_logs/traj_0001.jsonl").open("a") as log:
        log.write('{"id": "D1:4", "time": "2023-05-08", "speaker": "Ana", "text": "\\u001b[2J wiped"}\n')
    out = pipe(str(memory), typed="select D1:4\ndone\n").stdout
    assert "wiped" in out
    assert "\x1b" not in out


def test_a_memory_directory_with_one_workspace_is_opened(memory: Path) -> None:
    assert "5 turns" in pipe(str(memory.parent), typed="done\n").stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["MEMORY"], "holds 2 workspaces, name one of them: mem, other"),
        (["MEMORY/nosuch"], "is not a folder"),
        (["MEMORY/mem", "--turns", "0"], "--turns 0: give at least 1"),
        (["MEMORY/mem", "--evidence", "D1:1 D9:9"], "no turn D9:9 in mem"),
    ],
)
def test_a_wrong_argument_is_one_clear_line(memory: Path, args: list[str], message: str) -> None:
    write_workspace(memory.parent / "other")
    ran = pipe(*(arg.replace("MEMORY", str(memory.parent)) for arg in args))
    assert ran.returncode == 2
    assert message in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_a_folder_that_is_no_workspace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_text("not a memory")
    ran = pipe(str(tmp_path))
    assert ran.returncode == 2
    assert "is no workspace" in ran.stderr


def test_candidates_are_verbs_then_paths_from_the_current_folder(memory: Path) -> None:
    workspace = Workspace.load(memory)
    assert candidates(workspace, "", "") == ["ls", "cd", "grep", "cat", "select", "done"]
    assert candidates(workspace, "", "s") == ["select"]
    assert candidates(workspace, "", "cat se") == ["sessions/"]
    assert candidates(workspace, "", "cat sessions/") == ["sessions/session_01.md", "sessions/session_02.md"]
    assert candidates(workspace, "sessions", "cat ../people/") == ["../people/ana.md"]
    assert candidates(workspace, "sessions", "cat /pe") == ["/people/"]
    assert candidates(workspace, "", "cat ../../../pe") == ["../../../people/"]
    assert candidates(workspace, "", "cat nosuch/") == []


class Terminal:
    """A child process on a pseudo-terminal."""

    def __init__(self, *command: str) -> None:
        self.seen = ""
        self.pid, self._handle = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored, and so inherited, where tests run in the background
            os.execvpe(command[0], command, {**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"})

    def expect(self, text: str, seconds: float = 20.0) -> None:
        """Read until `text` appears on the screen after what was awaited before."""
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            ready, _, _ = select.select([self._handle], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{text!r} did not appear; the screen showed {self.seen!r}"
            self.seen += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", os.read(self._handle, 65_536).decode())
        self.seen = self.seen.partition(text)[2]

    def type(self, keys: str) -> None:
        os.write(self._handle, keys.encode())

    def wait(self) -> int:
        status = os.waitpid(self.pid, 0)[1]
        os.close(self._handle)
        return os.waitstatus_to_exitcode(status)


def test_a_person_at_a_terminal_completes_with_tab_and_recalls_history(memory: Path) -> None:
    pytest.importorskip("prompt_toolkit")
    terminal = Terminal(*SHELL, str(memory), "--question", "What did Ana paint?", "--evidence", "D2:1")
    terminal.expect("Question: What did Ana paint?")
    terminal.expect("/>")
    terminal.type("cat peo\t")
    terminal.expect("ple/")
    terminal.type("ana.md:9\r")
    terminal.expect("[D2:1]")
    terminal.expect("/>")
    terminal.type("\x1b[A")
    terminal.expect("cat people/ana.md:9")
    terminal.type("\x03")
    terminal.expect("/>")
    terminal.type("select D2:1\r")
    terminal.expect("selected 1 (total 1)")
    terminal.expect("/>")
    terminal.type("done\r")
    terminal.expect("reward (Jaccard) 1.000")
    assert terminal.wait() == 0


def test_without_prompt_toolkit_plain_lines_are_read(memory: Path) -> None:
    terminal = Terminal(sys.executable, "-c", WITHOUT_PROMPT_TOOLKIT, str(memory))
    terminal.expect("/> ")
    terminal.type("cd people\n")
    terminal.expect("/people> ")
    time.sleep(0.5)  # the prompt is printed a moment before the read that Ctrl-C interrupts
    terminal.type("\x03")
    terminal.expect("/people> ")
    terminal.type("done\n")
    terminal.expect("selected 0 turns with 2 commands")
    assert terminal.wait() == 0


def test_bytes_that_are_not_utf8_are_an_ordinary_wrong_command(memory: Path) -> None:
    ran = subprocess.run([*SHELL, str(memory)], input=b"\xff\xfe\ndone\n", capture_output=True, timeout=60, check=True)
    assert b"command not found" in ran.stdout


def test_ctrl_d_leaves_with_the_summary(memory: Path) -> None:
    terminal = Terminal(*SHELL, str(memory))
    terminal.expect("/>")
    terminal.type("\x04")
    terminal.expect("selected 0 turns with 0 commands")
    assert terminal.wait() == 0
