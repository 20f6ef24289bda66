"""Paths that the model names, made canonical: below the workspace, in a folder for notes, with a name that any system
takes. A path that cannot be is a PathError, whose message tells the model what to write."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection

from horma_rl.memory.text import slug

FOLDERS = ("people", "entities", "events", "places", "topics")
"""Folders that are always there for notes."""
KEPT = {
    "raw_logs": "the archive is never written by operations",
    "sessions": "sessions/ is written already, one line for each turn",
    "dates": "dates/ is written from the lines of the other notes",
    "absence": "write an 'absence' operation",
}
"""Folders that no operation writes a file to, and why."""
MAX_DEPTH = 3
"""Folders above a note."""


class PathError(ValueError):
    """A path that is refused. The message is for the model."""


def note_path(raw: str, folders: Collection[str]) -> str:
    """`People/Ana Smith.md` as `people/ana-smith.md`. Raises PathError outside `folders` and what lies in them."""
    parts = _parts(raw)
    name = parts[-1]
    stem, dot, extension = name.rpartition(".")
    if dot and extension.lower() != "md":
        raise PathError(f"{_quoted(raw)}: notes are .md files")
    if len(parts) < 2:
        raise PathError(f"{_quoted(raw)}: name a folder, like people/{slug(stem or name)}.md")
    if len(parts) > MAX_DEPTH + 1:
        raise PathError(f"{_quoted(raw)}: at most {MAX_DEPTH} folders deep")
    names = [_name(part, raw) for part in (*parts[:-1], stem if dot else name)]
    if names[0] not in folders:
        raise PathError(f"there is no folder {names[0]}/: use {', '.join(f'{one}/' for one in sorted(folders)[:12])}")
    return f"{'/'.join(names)}.md"


def folder_path(raw: str) -> str:
    """A folder for notes, canonical. Raises PathError."""
    parts = _parts(raw)
    if len(parts) > MAX_DEPTH:
        raise PathError(f"{_quoted(raw)}: at most {MAX_DEPTH} folders deep")
    if "." in parts[-1]:
        raise PathError(f"{_quoted(raw)}: a folder's name has no dot")
    return "/".join(_name(part, raw) for part in parts)


def _parts(raw: str) -> list[str]:
    """The components of a path that leaves the workspace nowhere and writes nothing that is kept."""
    if "\\" in raw or ":" in raw or any(unicodedata.category(char) in ("Cc", "Cs") for char in raw):
        raise PathError(f"{_quoted(raw)}: not a plain path; write FOLDER/NAME.md")
    parts = raw.strip().removeprefix("./").removeprefix("/").removesuffix("/").split("/")
    if any(part.strip() in ("", ".", "..") or part.strip().startswith((".", "~")) for part in parts):
        raise PathError(f"{_quoted(raw)}: paths stay inside the workspace, without '.', '..', '~' and hidden names")
    kept = KEPT.get(parts[0].strip().casefold().replace("-", "_"))
    if kept:
        raise PathError(f"{_quoted(raw)}: {kept}")
    return parts


def _name(part: str, raw: str) -> str:
    name = slug(part)
    if name == "unnamed":
        raise PathError(f"{_quoted(raw)}: names need a letter or a digit")
    if name in KEPT or name == "raw-logs":
        raise PathError(f"{_quoted(raw)}: {name} is the name of a folder that is kept")
    return name


def _quoted(raw: str) -> str:
    return ascii(raw if len(raw) <= 80 else f"{raw[:80]}...")
