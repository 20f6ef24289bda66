"""`horma-rl shell`: a person plays one episode by hand, with the verbs, limits and observations that a model gets."""

from __future__ import annotations

import argparse
import posixpath
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from horma_rl.errors import UserError
from memory_shell.cache import is_workspace, workspace_names
from memory_shell.episode import MemoryShell
from memory_shell.overview import Overview
from memory_shell.text import neutralise
from memory_shell.tools import VERBS
from memory_shell.types import Caps, Coverage, Result, Task
from memory_shell.workspace import Workspace, WorkspaceError

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer

NO_LIMIT = sys.maxsize
HELP = "verbs: ls, cd, grep, cat, select, done; `help` shows this, `exit` (or Ctrl-D) leaves without `done`"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `horma-rl shell`."""
    parser.add_argument("workspace", type=Path, help="a workspace folder, or a memory directory that holds just one")
    parser.add_argument("--question", default="", help="the question to answer")
    parser.add_argument("--evidence", default="", help="the turn ids that answer it (D3:12,D4:1): shows the reward")
    parser.add_argument(
        "--overview", choices=get_args(Overview), default="tree", help="what the start says of the memory"
    )
    parser.add_argument("--turns", type=int, default=NO_LIMIT, help="commands allowed (default: no limit)")


def run(args: argparse.Namespace) -> int:
    """Play the episode, then show what was selected, what was looked at and, when evidence is known, the reward."""
    if args.turns < 1:
        raise UserError(f"--turns {args.turns}: give at least 1")
    workspace = open_workspace(args.workspace)
    task = Task("shell", args.question, known_evidence(args.evidence, workspace), workspace.name)
    shell = MemoryShell(workspace, replace(Caps(), turns=args.turns), overview=args.overview)
    first = shell.reset(task).text
    print(first if args.question else first.partition("\n")[2], HELP, sep="\n", flush=True)
    for line in command_lines(shell):
        if line in ("exit", "quit"):
            break
        result = Result(HELP) if line == "help" else shell.run(line)
        print(result.text)
        if result.terminated or result.truncated:
            break
    print(summary(shell))
    return 0


def open_workspace(path: Path) -> Workspace:
    """Load a workspace folder, or the only workspace of a memory directory. Raises UserError otherwise."""
    if not path.is_dir():
        raise UserError(f"{path} is not a folder; build a workspace with `horma-rl memory build`")
    names = workspace_names(path)
    if not is_workspace(path):
        if len(names) > 1:
            raise UserError(f"{path} holds {len(names)} workspaces, name one of them: {', '.join(names)}")
        if not names and any(path.iterdir()):
            raise UserError(f"{path} is no workspace, it has no raw_logs/; build one with `horma-rl memory build`")
        path = path / names[0] if names else path
    try:
        return Workspace.load(path)
    except WorkspaceError as error:
        raise UserError(str(error)) from error


def known_evidence(text: str, workspace: Workspace) -> tuple[str, ...]:
    """The ids of `--evidence`, split at commas and spaces. Raises UserError for one that the workspace lacks."""
    ids = tuple(dict.fromkeys(re.findall(r"[^\s,;]+", text)))
    unknown = [turn_id for turn_id in ids if turn_id not in workspace.turns]
    if unknown:
        raise UserError(f"--evidence: no turn {', '.join(unknown)} in {workspace.name}; ids look like D3:12")
    return ids


def command_lines(shell: MemoryShell) -> Iterator[str]:
    """Stripped, non-empty lines from the person or the pipe, up to its end; Ctrl-C drops a line being typed."""
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    ask = _reader(shell) if at_terminal else _piped_line
    while True:
        try:
            line = ask(f"/{shell.cwd}> ").strip()
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            if not at_terminal:
                raise
            print()
            continue
        if line:
            yield line


def _piped_line(_prompt: str) -> str:
    line = sys.stdin.buffer.readline()
    if not line:
        raise EOFError
    return line.decode("utf-8", "replace")


def _reader(shell: MemoryShell) -> Callable[[str], str]:
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import InMemoryHistory
    except ImportError:
        return input
    session: PromptSession[str] = PromptSession(
        history=InMemoryHistory(), completer=_completer(shell), complete_while_typing=False
    )
    return session.prompt


def _completer(shell: MemoryShell) -> Completer:
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document

    class ShellCompleter(Completer):
        """Verbs for the first word, paths for the others."""

        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
            typed = document.text_before_cursor
            for candidate in candidates(shell.workspace, shell.cwd, typed):
                yield Completion(candidate, start_position=-len(typed.rpartition(" ")[2]))

    return ShellCompleter()


def candidates(workspace: Workspace, cwd: str, typed: str) -> list[str]:
    """What the last word of `typed` may become: a verb when it is the only word, else a path seen from `cwd`."""
    before, space, word = typed.rpartition(" ")
    if not (space and before.strip()):
        return [verb for verb in VERBS if verb.startswith(word)]
    parent, slash, start = word.rpartition("/")
    folder = posixpath.normpath(posixpath.join("/", cwd, f"{parent}{slash}")).strip("/")
    names = [name for name in workspace.dirs.get(folder, ()) if name.startswith(start)]
    is_dir = {name: posixpath.join(folder, name) in workspace.dirs for name in names}
    return [f"{parent}{slash}{name}{'/' if is_dir[name] else ''}" for name in names]


def summary(shell: MemoryShell) -> str:
    """What the episode found: the selected turns with their text and provenance, the coverage, the reward if known."""
    turns = shell.workspace.turns
    lines = [f"selected {_count(len(shell.selection), 'turn')} with {_count(shell.commands, 'command')}"]
    for turn_id in shell.selection:
        turn = turns[turn_id]
        caption = f" (shares {turn.caption})" if turn.caption else ""
        said = neutralise(" ".join(f"{turn.speaker}: {turn.text}{caption}".split()))
        lines.append(f"  [{turn_id}] {turn.time or 'undated'} {said}")
        lines.append(f"      by: select {shell.provenance[turn_id]}")
    lines += _coverage_lines(shell.coverage())
    if shell.task is not None and shell.task.evidence:
        lines.append(f"evidence: {', '.join(shell.task.evidence)}; reward (Jaccard) {shell.score():.3f}")
    return "\n".join(lines)


def _coverage_lines(coverage: Coverage) -> list[str]:
    unvisited = [f"{path}/" for path in coverage.unvisited if path]
    return [
        f"searched {_count(len(coverage.searched), 'file')}, {len(coverage.matched)} of them matched, "
        f"opened {len(coverage.opened)}, skipped {len(coverage.skipped)}",
        "never looked at: " + (", ".join(unvisited) or "nothing"),
    ]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
