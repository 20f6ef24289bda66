"""Build workspaces with the manager: one conversation after the other in each worker, sessions in order, all of it safe
to kill and to run again.

Per conversation: the raw turns are archived, the session notes written, then the model is asked batch by batch; every
batch is committed to the journal before its notes are written. Notes are rendered from the journal, so a rerun ends
with the same bytes, and with the client's cache it asks nothing twice. The manifest is written last, when every turn is
filed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from horma_rl.benchmarks.types import Conversation
from horma_rl.errors import UserError
from horma_rl.llm.types import BudgetSpent
from horma_rl.memory import archive, files
from horma_rl.memory.build import (
    MANIFEST,
    BuildReport,
    check_names,
    manifest_bytes,
    remove_stale,
    retract_manifest,
)
from horma_rl.memory.manager.journal import Batch, Journal, journal_path
from horma_rl.memory.manager.manager import Writer, file_sessions, replay
from horma_rl.memory.manager.progress import Tally
from horma_rl.memory.manager.render import render
from horma_rl.memory.manager.tree import Tree
from horma_rl.memory.notes import Utterance, utterance


@dataclass
class ManagedBuild:
    """What a run did. `reports`: the conversations that are finished. `tally`: the operations of this run. `stopped`:
    why it ended before all were finished, or None."""

    reports: list[BuildReport] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    stopped: str | None = None


async def build_managed(
    conversations: Sequence[Conversation],
    out_dir: Path,
    writer: Writer,
    workers: int = 4,
    progress: Callable[[str, int], None] = lambda name, turns: None,
) -> ManagedBuild:
    """Build one workspace per conversation, `out_dir/<name>`, `workers` at a time; `progress` hears how many turns of
    which conversation have been filed.

    When the budget is spent each worker stops before its next request, and what is committed stays: `stopped` says
    so, and the same call goes on from there.

    Raises:
        UserError: a name cannot be a folder, a conversation contradicts its archive, a journal was damaged.
        UnreachableError, RefusedError: the model cannot be asked; what is committed stays here, too.
    """
    check_names(conversations)
    if any(conversation.name.startswith(".") for conversation in conversations):
        raise UserError("conversation names may not begin with a dot: such folders are the manager's own")
    done = ManagedBuild()
    waiting = iter(conversations)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(workers, len(conversations))):
                group.create_task(_work(waiting, out_dir, writer, done, progress))
    except ExceptionGroup as failed:
        raise _first(failed) from None
    done.reports.sort(key=lambda report: report.name)
    return done


def _first(error: Exception) -> Exception:
    """The first error of a group, which ends the run in one clear line."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


async def _work(
    waiting: Iterator[Conversation],
    out_dir: Path,
    writer: Writer,
    done: ManagedBuild,
    progress: Callable[[str, int], None],
) -> None:
    for conversation in waiting:

        def filed(batch: Batch, name: str = conversation.name) -> None:
            done.tally.add(batch)
            progress(name, len(batch.turns))

        try:
            done.reports.append(await build_one(conversation, out_dir / conversation.name, writer, filed))
        except BudgetSpent as spent:
            done.stopped = str(spent)
            return


async def build_one(
    conversation: Conversation, out: Path, writer: Writer, filed: Callable[[Batch], None] = lambda batch: None
) -> BuildReport:
    """Build or bring up to date the workspace at `out`; raises as `build_managed` does, and BudgetSpent."""
    with files.locked(out):
        files.clean(out)
        archived = archive.merge(out, conversation)
        records = tuple(archived.records())
        journal = Journal(journal_path(out))
        tree = replay(journal, records)
        fresh = {record.id for record in records} - journal.done()
        desk = _Desk(out, tree, tuple(map(utterance, records)))
        if fresh or archived.added:
            retract_manifest(out)
        archived.write(out)
        desk.write()

        def commit(batch: Batch) -> None:
            desk.write()
            filed(batch)

        await file_sessions(records, tree, journal, writer, commit)
        rendered = desk.write()
        manifest = manifest_bytes(
            conversation.name, "llm", len(archived.sessions), len(records), len(rendered), _told(journal)
        )
        retract_manifest(out, manifest)
        removed = remove_stale(out, rendered)
        files.write(out / MANIFEST, manifest, durable=True)
    return BuildReport(
        name=conversation.name,
        path=out,
        notes_kind="llm",
        sessions=len(archived.sessions),
        turns=len(records),
        archived=archived.added,
        notes=len(rendered),
        written=desk.written,
        removed=removed,
        bytes=sum(map(len, rendered.values())),
    )


@dataclass
class _Desk:
    """Writes the notes of a tree into its workspace."""

    out: Path
    tree: Tree
    turns: tuple[Utterance, ...]
    written: int = 0
    _seen: dict[str, bytes] = field(default_factory=dict)

    def write(self) -> Mapping[str, bytes]:
        """Bring the notes up to date; files that are so already are not touched."""
        rendered = render(self.tree, self.turns)
        for path, data in rendered.items():
            if self._seen.get(path) != data:
                self.written += files.write(self.out / path, data)
        self._seen = rendered
        return rendered


def _told(journal: Journal) -> dict[str, object]:
    """What the manifest says of the manager: the prompts and the models that the notes come from."""
    return {
        "prompts": sorted({batch.prompt for batch in journal.batches}),
        "models": sorted({batch.model for batch in journal.batches}),
    }
