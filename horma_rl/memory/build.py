"""Build a workspace from a conversation: archive the raw turns first, then write notes against the archive.

Building is incremental (a longer conversation adds to the archive), idempotent (the same input touches no file) and
atomic: killed anywhere, the same call completes it to the tree that an uninterrupted build gives. The manifest
`horma.json` is written last and taken away first, so a workspace that has one is whole.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from horma_rl.benchmarks.types import Conversation
from horma_rl.errors import UserError, nearest
from horma_rl.memory import archive, files, observations
from horma_rl.memory.notes import Note
from horma_rl.memory.outline import TAG as OUTLINE_TAG
from horma_rl.memory.outline import outline

NotesKind = Literal["outline", "observations", "llm"]
NOTES: tuple[NotesKind, ...] = get_args(NotesKind)
MANIFEST = "horma.json"
FORMAT = 1
_OWN_TAGS = frozenset({OUTLINE_TAG, observations.TAG, "llm"})
_TAG_LINE = 4


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What one build found and did. Counts are of the finished workspace unless they say otherwise."""

    name: str
    path: Path
    notes_kind: NotesKind
    sessions: int
    turns: int
    archived: int
    """Turns that this build added to the archive."""
    notes: int
    written: int
    """Notes that this build wrote or changed."""
    removed: int
    """Notes of an earlier build that no longer apply."""
    bytes: int
    """Size of all notes."""
    warnings: tuple[str, ...] = ()


def build(conversation: Conversation, out: Path, notes: NotesKind = "outline") -> BuildReport:
    """Build or bring up to date the workspace at `out`.

    Raises UserError when `conversation` contradicts what is archived there, or when `out` cannot be used; nothing has
    been changed then. Notes that somebody else put into the workspace are left alone unless they bear the name of one
    that is to be written.
    """
    check_notes(notes)
    if notes == "llm":
        raise UserError(
            f"{out}: notes by a language model come from `horma-rl memory build SOURCE --manager llm --llm CONFIG`; "
            "build them first, and name their folder as `memory`"
        )
    with files.locked(out):
        files.clean(out)
        archived = archive.merge(out, conversation)
        records = {record.id: record for record in archived.records()}
        written, warnings = _notes(conversation, records, notes)
        manifest = manifest_bytes(conversation.name, notes, len(archived.sessions), len(records), len(written))
        retract_manifest(out, manifest)
        archived.write(out)
        rendered = {note.path: note.render() for note in written}
        changed = sum(files.write(out / path, data) for path, data in rendered.items())
        removed = remove_stale(out, rendered)
        files.write(out / MANIFEST, manifest, durable=True)
    return BuildReport(
        name=conversation.name,
        path=out,
        notes_kind=notes,
        sessions=len(archived.sessions),
        turns=len(records),
        archived=archived.added,
        notes=len(rendered),
        written=changed,
        removed=removed,
        bytes=sum(map(len, rendered.values())),
        warnings=tuple(warnings),
    )


def build_all(
    conversations: Iterable[Conversation],
    out_dir: Path,
    notes: NotesKind = "outline",
    progress: Callable[[BuildReport], None] = lambda report: None,
) -> list[BuildReport]:
    """Build one workspace per conversation, `out_dir/<name>`; `progress` hears of each as it is done.

    Raises UserError for a name that is not a plain folder name or that two conversations share, and as `build` does.
    """
    todo = list(conversations)
    check_names(todo)
    reports: list[BuildReport] = []
    for conversation in todo:
        reports.append(build(conversation, out_dir / conversation.name, notes))
        progress(reports[-1])
    return reports


def check_names(conversations: Iterable[Conversation]) -> None:
    """Raise UserError when a name cannot be a folder, or when two conversations share one."""
    counts = Counter(conversation.name for conversation in conversations)
    for name, count in counts.items():
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise UserError(f"conversation name {name!r} cannot be a folder name: rename the conversation")
        if count > 1:
            raise UserError(f"two conversations are named '{name}': names must be unique")


def shard(conversations: Sequence[Conversation], part: str) -> list[Conversation]:
    """The conversations of shard `i/n`, 1/n to n/n: every n-th. Raises UserError for anything else."""
    index, slash, count = part.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise UserError(f"--shard {part}: write i/n with i from 1 to n, for example 1/4")
    return list(conversations[int(index) - 1 :: int(count)])


def check_notes(notes: str) -> None:
    """Raise UserError when `notes` is none of NOTES."""
    if notes not in NOTES:
        raise UserError(f"unknown notes '{notes}'{nearest(notes, NOTES)}: use {' or '.join(NOTES)}")


def read_manifest(workspace: Path) -> dict[str, Any]:
    """The manifest of a finished workspace: `format`, `conversation`, `notes` (the kind), `sessions`, `turns`, `files`.

    Raises UserError when there is none, which is how a build that was cut short shows.
    """
    path = workspace / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"{path} is missing: build the workspace (again) with `horma-rl memory build`") from None
    except (ValueError, RecursionError):
        raise UserError(f"{path} is not JSON: build the workspace again with `horma-rl memory build`") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        found = manifest.get("format") if isinstance(manifest, dict) else None
        raise UserError(f"{path}: workspace format {found}, this program reads {FORMAT}: build into a new folder")
    return manifest


def _notes(
    conversation: Conversation, records: dict[str, archive.Record], kind: NotesKind
) -> tuple[list[Note], list[str]]:
    notes = outline(records.values())
    if kind == "outline":
        return notes, []
    annotated, warnings = observations.observation_notes(conversation.observations, records)
    if not annotated:
        raise UserError(f"{conversation.name} comes without observations: use --notes outline")
    return [note for note in notes if not note.path.startswith("people/")] + annotated, warnings


def manifest_bytes(
    name: str,
    notes: NotesKind,
    sessions: int,
    turns: int,
    count: int,
    manager: Mapping[str, object] | None = None,
) -> bytes:
    """The manifest of a workspace with `count` notes; `manager` tells which prompts and models wrote them."""
    fields: dict[str, object] = {
        "format": FORMAT,
        "conversation": name,
        "notes": notes,
        "sessions": sessions,
        "turns": turns,
        "files": count,
    }
    if manager is not None:
        fields["manager"] = manager
    return f"{json.dumps(fields, ensure_ascii=True)}\n".encode()


def retract_manifest(out: Path, manifest: bytes = b"") -> None:
    """Take a manifest other than `manifest` away before anything changes under it."""
    with contextlib.suppress(FileNotFoundError):
        if (out / MANIFEST).read_bytes() != manifest:
            (out / MANIFEST).unlink()


def remove_stale(out: Path, current: Iterable[str]) -> int:
    """Remove the managers' own notes that are not `current`: known by their tag, so others' notes stay. Folders that
    are empty then go, too."""
    keep = set(current)
    removed = 0
    folders = [out / name for name in sorted(_subfolders(out))]
    for folder in folders:
        for path in sorted(folder.glob("*.md")):
            if path.relative_to(out).as_posix() not in keep and _is_own(path):
                path.unlink()
                removed += 1
    for folder in reversed(folders):  # the ones inside before those that hold them
        with contextlib.suppress(OSError):  # not empty
            folder.rmdir()
    return removed


def _subfolders(out: Path) -> Iterator[str]:
    """Every folder below `out` but the archive, relative to it. Links are not followed."""
    for root, folders, _ in os.walk(out):
        folders[:] = [name for name in folders if not (Path(root) == out and name == archive.FOLDER)]
        yield from (
            Path(root, name).relative_to(out).as_posix() for name in folders if not Path(root, name).is_symlink()
        )


def _is_own(path: Path) -> bool:
    with path.open("rb") as file:
        head = [file.readline(1_000) for _ in range(_TAG_LINE)]
    return any(f"tags: [{tag}]\n".encode() in head for tag in _OWN_TAGS)
