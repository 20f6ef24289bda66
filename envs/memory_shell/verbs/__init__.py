"""The six verbs. `execute` runs one line, `render` makes its output fit for a prompt."""

from __future__ import annotations

import re
from collections.abc import Callable

from memory_shell.caps import clip
from memory_shell.commands import Command, CommandError, Word, parse_command
from memory_shell.options import UsageError
from memory_shell.output import BUDGET, More, Output, Target
from memory_shell.types import Caps
from memory_shell.verbs.cat import cat
from memory_shell.verbs.cd import cd
from memory_shell.verbs.grep import grep
from memory_shell.verbs.ls import ls
from memory_shell.verbs.select import select
from memory_shell.workspace import Workspace

__all__ = ["BUDGET", "More", "Output", "Target", "execute", "render"]

_LONE = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # surrogates that stand for no byte
_VERBS: dict[str, Callable[[Workspace, str, list[Word], int | None], Output]] = {
    "cat": cat,
    "cd": cd,
    "grep": grep,
    "ls": ls,
    "select": select,
}


def execute(workspace: Workspace, cwd: str, line: str, budget: int | None = BUDGET) -> Output:
    """Run `line` in the directory `cwd` ("" is the root). Never raises: a refused line is an Output with status != 0.

    `budget`: bytes of output to keep before the rest is only counted; None keeps all (GNU's output, whole).
    """
    try:
        command = parse_command(line if line.isascii() else _LONE.sub("\ufffd", line))
        if command.verb == "done":
            return _done(command)
        return _VERBS[command.verb](workspace, cwd, list(command.words), budget)
    except (CommandError, UsageError) as error:
        return Output(f"{error}\n", status=2)


def render(output: Output, caps: Caps) -> str:
    """The observation: `output.text` neutralised and within `caps`, with its hint or the marker of what is left out."""
    return clip(output, caps)


def _done(command: Command) -> Output:
    if command.words:
        raise CommandError("done: takes no arguments: use select first, then done alone")
    return Output("", done=True)
