"""The shell as JSON tool schemas (OpenAI function format): the one description of it for every adapter.

Two surfaces: `six` gives every verb a tool of its own, with its arguments as one string; `shell` is one tool that takes
a whole command line. The commands, and what they print, are the same.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Literal

Surface = Literal["six", "shell"]

# verb -> (what it does, what its `args` string is). Small models pay for every token of these: keep them short.
VERBS: dict[str, tuple[str, str | None]] = {
    "ls": ("List a folder.", "Options and paths, e.g. `-R people`"),
    "cd": ("Change the current folder.", "A path, e.g. `sessions` or `..`"),
    "grep": (
        "Search files for a regular expression. -i ignores case, -l lists names, -e A --and -e B needs both.",
        "Options, pattern, paths, e.g. `-ri '\\bkiln' sessions`",
    ),
    "cat": ("Show files or lines of them.", "Paths, e.g. `people/ana.md` or `sessions/session_03.md:5-9`"),
    "select": (
        "Take evidence: lines of a note or raw log, or cited turn ids.",
        "Paths with lines or ids, e.g. `sessions/session_03.md:7` or `D3:12`",
    ),
    "done": ("End the search; what was selected is the answer.", None),
}

_NEEDS_ARGS = ("grep", "cat", "select")


def _schema(verb: str) -> dict[str, Any]:
    description, args = VERBS[verb]
    parameters: dict[str, Any] = {"type": "object", "properties": {}}
    if args is not None:
        parameters["properties"]["args"] = {"type": "string", "description": args}
    if verb in _NEEDS_ARGS:
        parameters["required"] = ["args"]
    return {"type": "function", "function": {"name": verb, "description": description, "parameters": parameters}}


def _shell_schema() -> dict[str, Any]:
    verbs = " ".join(f"{verb}: {description}" for verb, (description, _) in VERBS.items())
    command = {"type": "string", "description": "A command line, e.g. `grep -ri '\\bkiln' sessions` or `select D3:12`"}
    parameters = {"type": "object", "properties": {"command": command}, "required": ["command"]}
    function = {"name": "shell", "description": f"Run one command. {verbs}", "parameters": parameters}
    return {"type": "function", "function": function}


_SCHEMAS: dict[str, list[dict[str, Any]]] = {"six": [_schema(verb) for verb in VERBS], "shell": [_shell_schema()]}


def schemas(surface: Surface = "six") -> list[dict[str, Any]]:
    """A fresh copy of a surface's schemas: those of ls, cd, grep, cat, select, done in this order, or that of `shell`.
    Raises ValueError for an unknown surface."""
    if surface not in _SCHEMAS:
        raise ValueError(f"unknown tool surface '{surface}': use six or shell")
    return deepcopy(_SCHEMAS[surface])
