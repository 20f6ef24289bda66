"""The six verbs as JSON tool schemas (OpenAI function format): the one description of them for every adapter."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

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


_SCHEMAS = [_schema(verb) for verb in VERBS]


def schemas() -> list[dict[str, Any]]:
    """A fresh copy of the six schemas, in the order ls, cd, grep, cat, select, done."""
    return deepcopy(_SCHEMAS)
