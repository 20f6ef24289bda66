"""Shell globs: `*`, `?`, `[...]` and `**`, expanded against a workspace in time linear in its size."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from memory_shell.engine import Engine
from memory_shell.paths import name_bytes, resolve
from memory_shell.patterns import POSIX_CLASSES, PatternError
from memory_shell.workspace import Workspace

_ANYTHING = "\\C*"  # also bytes that are not UTF-8


def has_magic(pattern: str) -> bool:
    """Whether `pattern` (a backslash quotes the next character) holds an unquoted `*`, `?` or `[`."""
    index = 0
    while index < len(pattern):
        if pattern[index] == "\\":
            index += 2
            continue
        if pattern[index] in "*?[":
            return True
        index += 1
    return False


def unquote(pattern: str) -> str:
    """`pattern` without its quoting backslashes."""
    if "\\" not in pattern:
        return pattern
    out: list[str] = []
    index = 0
    while index < len(pattern):
        if pattern[index] == "\\" and index + 1 < len(pattern):
            index += 1
        out.append(pattern[index])
        index += 1
    return "".join(out)


@lru_cache(maxsize=512)
def matcher(pattern: str) -> Callable[[bytes], bool]:
    """Whether a whole name (bytes) matches `pattern`. A slash is nothing special: directory entries hold none."""
    try:
        pattern.encode("utf-8")
        return Engine(f"(?s:{_translate(pattern)})").is_whole
    except (UnicodeEncodeError, PatternError):  # a range that is none, or not UTF-8: such a pattern matches itself
        return name_bytes(unquote(pattern)).__eq__


def _translate(pattern: str) -> str:
    out: list[str] = []
    index = 0
    while index < len(pattern):
        char = pattern[index]
        index += 1
        if char == "*":
            if not out or out[-1] != _ANYTHING:
                out.append(_ANYTHING)
        elif char == "?":
            out.append(".")
        elif char == "[" and (found := _bracket(pattern, index)):
            text, index = found
            out.append(text)
        elif char == "\\" and index < len(pattern):
            out.append(_escape(pattern[index]))
            index += 1
        else:
            out.append(_escape(char))
    return "".join(out)


def _escape(char: str) -> str:
    return char if char.isalnum() else f"\\x{{{ord(char):x}}}"


def _bracket(pattern: str, index: int) -> tuple[str, int] | None:
    """The class that starts just after a `[`, and the index after its `]`; None when it is not closed."""
    negated = index < len(pattern) and pattern[index] in "!^"
    index += negated
    items: list[str] = []
    first = True
    while index < len(pattern):
        char = pattern[index]
        if char == "]" and not first:
            return f"[{'^' if negated else ''}{''.join(items)}]", index + 1
        first = False
        name_end = pattern.find(":]", index) if pattern.startswith("[:", index) else -1
        if name_end > 0 and pattern[index + 2 : name_end] in POSIX_CLASSES:
            items.append(f"[:{pattern[index + 2 : name_end]}:]")
            index = name_end + 2
            continue
        if char == "\\" and index + 1 < len(pattern):
            index += 1
            char = pattern[index]
        index += 1
        if char == "-" and items and index < len(pattern) and pattern[index] != "]":
            items.append("-")
        else:
            items.append(f"\\x{{{ord(char):x}}}")
    return None


def expand(workspace: Workspace, cwd: str, pattern: str) -> list[str]:
    """The names `pattern` matches in `cwd`, sorted byte by byte; empty when nothing does."""
    absolute = pattern.startswith("/")
    states: dict[str, str] = {"/" if absolute else "": "" if absolute else cwd}
    parts = [part for part in pattern.split("/") if part]
    for number, part in enumerate(parts):
        states = _step(workspace, states, part, last=number == len(parts) - 1)
        if not states:
            return []
    if pattern.endswith("/"):
        states = {f"{typed}/": path for typed, path in states.items() if path in workspace.dirs}
    return sorted(states, key=name_bytes)


def _step(workspace: Workspace, states: dict[str, str], part: str, *, last: bool) -> dict[str, str]:
    """Follow one component of a pattern from every state (name as typed so far -> path)."""
    found: dict[str, str] = {}
    if part == "**":
        for typed, path in ((typed, path) for typed, path in states.items() if path in workspace.dirs):
            _below(workspace, typed, path, found, files=last)
        if last:
            found.pop("", None)
        return found
    if not has_magic(part):
        name = unquote(part)
        for typed, path in states.items():
            entry = resolve(workspace, path, name) if path in workspace.dirs else None
            if entry and entry.kind not in ("missing", "not_dir"):
                found[_join(typed, name)] = entry.path
        return found
    matches = matcher(part)
    hidden = part.startswith((".", "\\."))
    for typed, path in states.items():
        for name in workspace.dirs.get(path, ()):
            if (hidden or not name.startswith(".")) and matches(name_bytes(name)):
                found[_join(typed, name)] = f"{path}/{name}" if path else name
    return found


def _below(workspace: Workspace, typed: str, path: str, found: dict[str, str], *, files: bool) -> None:
    """Everything below `path` that is not hidden, and `path` itself: folders, and files when `files`."""
    stack = [(typed, path)]
    while stack:
        typed, path = stack.pop()
        if typed in found:
            continue
        if path in workspace.dirs:
            found[typed] = path
            children = workspace.dirs[path]
            stack += [(_join(typed, n), f"{path}/{n}" if path else n) for n in children if not n.startswith(".")]
        elif files:
            found[typed] = path


def _join(typed: str, name: str) -> str:
    return typed + name if not typed or typed.endswith("/") else f"{typed}/{name}"
