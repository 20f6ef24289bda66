"""`select PATH[:M[-N]]...`: choose evidence. Also takes the ids that notes cite, such as `D3:12`."""

from __future__ import annotations

import re

from memory_shell.commands import Word
from memory_shell.output import Output, Target
from memory_shell.paths import reason, resolve
from memory_shell.verbs.expand import expand_words
from memory_shell.verbs.ranges import split_range
from memory_shell.workspace import Workspace

_SPAN = re.compile(r"(.+:)([0-9]{1,9})-([0-9]{1,9})")
_MAX_SPAN = 1000
_USAGE = "select PATH[:M[-N]]... or the ids that notes cite, such as D3:12"


def select(workspace: Workspace, cwd: str, words: list[Word], _budget: int | None) -> Output:
    """Select the turns that each word stands for; a word that stands for none is reported, the others still count."""
    words = expand_words(workspace, cwd, words)
    texts = [text for word in words if word.text != "--" for text in _texts(workspace, cwd, word.text)]
    if not texts:
        return Output(f"select: name the evidence: {_USAGE}\n", status=1)
    targets: list[Target] = []
    evidence: list[tuple[str, tuple[str, ...]]] = []
    errors: list[str] = []
    for text in texts:
        if text.startswith("-") and len(text) > 1 and resolve(workspace, cwd, text).kind == "missing":
            errors.append(f"select: unknown flag {text}: {_USAGE}\n")
            continue
        found = _by_path(workspace, cwd, text)
        if isinstance(found, str):
            turns = _by_id(workspace, text) if _is_free(workspace, cwd, text) else None
            if turns is None:
                errors.append(found)
                continue
            for ident in turns:
                turn = workspace.turns[ident]
                targets.append(Target(turn.path, turn.line, turn.line))
                evidence.append((text, (ident,)))
            continue
        targets.append(found)
        evidence.append((text, workspace.evidence(*found)))
    ids = tuple(dict.fromkeys(ident for _, turns in evidence for ident in turns))
    summary = f"selected {', '.join(ids)} ({len(ids)} {'turn' if len(ids) == 1 else 'turns'})\n" if ids else ""
    opened = {target.path.rpartition("/")[0]: None for target in targets}
    return Output(
        "".join(errors) + summary,
        status=1 if errors else 0,
        visited=tuple(opened),
        targets=tuple(targets),
        evidence=tuple(evidence),
        narrow="select fewer lines",
    )


def _texts(workspace: Workspace, cwd: str, word: str) -> list[str]:
    """The targets in one word: itself when it names something, else what stands between commas and brackets."""
    if resolve(workspace, cwd, word).kind != "missing":
        return [word]
    return [part for part in word.strip("[](),").split(",") if part.strip("[]()")] or [word]


def _by_path(workspace: Workspace, cwd: str, text: str) -> Target | str:
    """The lines that `text` names, or why it names none."""
    lines = split_range(workspace, cwd, text)
    entry = resolve(workspace, cwd, lines.name)
    if entry.kind == "dir":
        return f"select: {text}: Is a directory: select files or lines of files\n"
    if entry.kind != "file":
        return f"select: {text}: {reason(workspace, entry)}, and no turn has that id: {_USAGE}\n"
    count = len(workspace.files[entry.path].ends)
    if lines.first is not None and lines.first > count:
        return f"select: {text}: the file has {count} lines\n"
    last = lines.first if lines.last is None else lines.last
    target = Target(entry.path, lines.first, last)
    if workspace.evidence(*target):
        return target
    if lines.first is None:
        return f"select: {text}: cites no turn: select a raw log or a note with sources\n"
    return f"select: {text}: these lines cite no turn: select a line that ends in an id in brackets\n"


def _is_free(workspace: Workspace, cwd: str, text: str) -> bool:
    """Whether no file has the name `text`, which may then be an id."""
    return resolve(workspace, cwd, split_range(workspace, cwd, text).name).kind == "missing"


def _by_id(workspace: Workspace, text: str) -> tuple[str, ...] | None:
    """The turns that `text` names by id (`D3:12`, or `D3:12-14` for those among them that exist)."""
    text = text.strip("[]()")
    if text in workspace.turns:
        return (text,)
    match = _SPAN.fullmatch(text)
    if match is None or not 0 <= int(match[3]) - int(match[2]) <= _MAX_SPAN:
        return None
    ids = (f"{match[1]}{number}" for number in range(int(match[2]), int(match[3]) + 1))
    return tuple(ident for ident in ids if ident in workspace.turns) or None
