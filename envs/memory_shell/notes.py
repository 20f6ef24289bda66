"""Read one memory note: YAML front matter between `---` lines, then cited lines."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C loader is ten times faster, where it was built
_ID = r"[A-Za-z0-9_.-]+:\d+"
_CITATION = re.compile(rf"\[({_ID}(?:\s*,\s*{_ID})*)\]")
_MAX_FRONT_MATTER = 64 * 1024


@dataclass(frozen=True, slots=True)
class Note:
    """One Markdown file of the memory.

    `sources`: the turn ids it was written from, as far as they exist. `body_line`: the first line (1-based) after the
    front matter. `cited`: body line (1-based) -> the ids cited on it, as far as they exist. `problems`: what is wrong
    with the note, in one line each.
    """

    path: str
    title: str
    timestamp: str | None
    sources: tuple[str, ...]
    superseded_by: str | None
    status: str | None
    tags: tuple[str, ...]
    body_line: int
    cited: Mapping[int, tuple[str, ...]]
    problems: tuple[str, ...] = ()


def citations(line: str) -> tuple[str, ...]:
    """The ids that `line` cites as `[ID]` or `[ID, ID]`, in order, without duplicates."""
    found = (ident.strip() for match in _CITATION.finditer(line) for ident in match[1].split(","))
    return tuple(dict.fromkeys(found))


def parse_note(path: str, data: bytes, known: Container[str]) -> Note:
    """The note in `data`. Never raises: what is wrong stands in `Note.problems`. `known`: the turn ids that exist."""
    lines = data.decode("utf-8", "replace").split("\n")
    problems: list[str] = []
    fields, body_line = _front_matter(path, lines, problems)
    cited: dict[int, tuple[str, ...]] = {}
    for number, line in enumerate(lines[body_line - 1 :], start=body_line):
        if "[" not in line:
            continue
        ids = citations(line)
        problems += [f"{path}:{number}: cites {ident}, which no raw log holds" for ident in ids if ident not in known]
        if kept := tuple(ident for ident in ids if ident in known):
            cited[number] = kept
    sources = tuple(dict.fromkeys(_strings(fields.get("sources"))))
    problems += [f"{path}: source {ident} is in no raw log" for ident in sources if ident not in known]
    return Note(
        path=path,
        title=_string(fields.get("title")) or "",
        timestamp=_string(fields.get("timestamp")),
        sources=tuple(ident for ident in sources if ident in known),
        superseded_by=_string(fields.get("superseded_by")),
        status=_string(fields.get("status")),
        tags=_strings(fields.get("tags")),
        body_line=body_line,
        cited=cited,
        problems=tuple(problems),
    )


def _front_matter(path: str, lines: list[str], problems: list[str]) -> tuple[Mapping[str, object], int]:
    """The fields, and the line after the front matter; reports faults into `problems`."""
    if lines[0].rstrip("\r") != "---":
        problems.append(f"{path}: no front matter: the first line is not '---'")
        return {}, 1
    size = 0
    for index, line in enumerate(lines[1:], start=1):
        if line.rstrip("\r") == "---":
            return _fields(path, "\n".join(lines[1:index]), problems), index + 2
        size += len(line)
        if size > _MAX_FRONT_MATTER:
            break
    problems.append(f"{path}: the front matter is not closed by a second '---'")
    return {}, 1


def _fields(path: str, source: str, problems: list[str]) -> Mapping[str, object]:
    if "&" in source and "*" in source:  # YAML anchors can expand without bound
        problems.append(f"{path}: front matter may not use YAML anchors and aliases")
        return {}
    try:
        fields = yaml.load(source, Loader=_LOADER)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problems.append(f"{path}: front matter is not YAML: {str(error).splitlines()[0]}")
        return {}
    if isinstance(fields, dict):
        return {str(key): value for key, value in fields.items()}
    problems.append(f"{path}: front matter is not a mapping of fields")
    return {}


def _string(value: object) -> str | None:
    if value is None:
        return None
    isoformat = getattr(value, "isoformat", None)  # YAML reads bare timestamps as dates
    return str(isoformat()) if isoformat else str(value)


def _strings(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    items = value if isinstance(value, (list, tuple)) else [value]
    return tuple(str(item) for item in items if item is not None)
