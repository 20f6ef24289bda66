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


@dataclass
class ManagedBuild:
    """What a run did. `reports`: the conversations that are finished. `tally`: the operations of this run. `stopped`:
    why it ended before all were finished, or None."""

    reports: list[BuildReport] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    stopped: str | None = None


def build_managed(
    conversations: Sequence[Conversation],
    out_dir: Path,
    writer: Writer,
    workers: int = 4,
    progress: Callable[[str, int], None] = lambda name, turns: None,
) -> ManagedBuild:
    """Build one workspace per conversation, `out_dir/<name>`, `workers` at a time; `progress` hears how many turns of
    which conversation have been filed.

    A spent budget stops all workers, and what is committed stays: `stopped` says so, and the same call goes on from
    there.

    Raises:
        UserError: a name cannot be a folder, a conversation contradicts its archive, a journal was damaged.
        UnreachableError, RefusedError: the model cannot be asked; what is committed stays here, too.
    """
    check_names(conversations)
    if any(conversation.name.startswith(".") for conversation in conversations):
        raise UserError("conversation names may not begin with a dot: such folders are the manager's own")
    return asyncio.run(_build_all(conversations, out_dir, writer, workers, progress))


async def _build_all(
    conversations: Sequence[Conversation],
    out_dir: Path,
    writer: Writer,
    workers: int,
    progress: Callable[[str, int], None],
) -> ManagedBuild:
    done = ManagedBuild()
    waiting = iter(conversations)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(workers, len(conversations))):
                group.create_task(_work(waiting, out_dir, writer, done, progress))
    except* BudgetSpent as spent:
        done.stopped = str(spent.exceptions[0])
    except* Exception as failed:
        raise _first(failed) from None
    done.reports.sort(key=lambda report: report.name)
    return done


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a group, which ends the run in one clear line."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
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

        report = await build_one(conversation, out_dir / conversation.name, writer, filed)
        done.reports.append(report)
        # What another run had filed already counts as progress, too.
        progress(conversation.name, 0)


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
        desk = _Desk(out, tree, records)
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
    records: tuple[archive.Record, ...]
    written: int = 0

    def write(self) -> Mapping[str, bytes]:
        """Bring the notes up to date; files that are so already are not touched."""
        rendered = render(self.tree, self.records)
        for path, data in rendered.items():
            self.written += files.write(self.out / path, data)
        return rendered


def _told(journal: Journal) -> dict[str, object]:
    """What the manifest says of the manager: the prompts and the models that the notes come from."""
    return {
        "prompts": sorted({batch.prompt for batch in journal.batches}),
        "models": sorted({batch.model for batch in journal.batches}),
    }


def shard(conversations: Sequence[Conversation], part: str) -> list[Conversation]:
    """The conversations of shard `i/n`, 1/n to n/n: every n-th. Raises UserError for anything else."""
    index, slash, count = part.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
        raise UserError(f"--shard {part}: write i/n with i from 1 to n, for example 1/4")
    return list(conversations[int(index) - 1 :: int(count)])
