"""HORMA's workspace of one episode: every step archived, every summary filed, what was abandoned marked as such.

Mage's tree says what is so now; the workspace keeps everything. `raw_logs/traj_0001.jsonl` gets a record a step and
`sessions/session_01.md` a cited line, as retrievers know them from conversations. After `SESSION_STEPS` steps both go
on in a next file, so that a reader of what changed does not read all again. `subgoals/` gets a note a summary,
`abandoned/` a note for the steps that Revise took off the path before any summary covered them. An episode has no
clock: step n is archived n minutes after a fixed start, so that the same episode gives the same bytes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from horma_rl.agent.tree import Node, Revised
from horma_rl.agent.types import Pair
from horma_rl.memory import files
from horma_rl.memory.archive import FOLDER, Record
from horma_rl.memory.build import FORMAT, MANIFEST
from horma_rl.memory.notes import Line, Note, yaml_text
from horma_rl.memory.text import one_line
from memory_shell.workspace import Workspace

START = datetime(2000, 1, 1)
SPEAKER = "agent"
TAG = "agent"
SESSION_STEPS = 50
"""Steps after which the log goes on in another file."""
FILE_BYTES = 4 * 1024 * 1024
"""So it does after these bytes, if that is sooner: a workspace with a file over 8 MiB is refused."""
_SHOWN = 400
"""Characters of an action, and of an observation, on the line of a note; the log has the whole."""
_TITLE = 80
_DIAGNOSIS = 400
_CITED = 64
"""Turns that the line of a summary cites, the latest ones; each step has a line of its own beside it."""


def turn_id(node: int) -> str:
    """The id under which bottom node `node` is archived."""
    return f"D1:{node}"


def node_id(turn: str) -> int:
    """The bottom node that turn `turn` archives."""
    return int(turn.partition(":")[2])


@dataclass
class _Subgoal:
    """A filed summary. It is current as long as the last step that it covers is on the active path."""

    path: str
    text: str
    covered: list[Pair]
    diagnosis: str | None


@dataclass
class _Loose:
    """A note of abandoned steps that no summary covers: those of them that are still off the path."""

    path: str
    nodes: list[Node]
    diagnosis: str


class EpisodeStore:
    """The workspace at `root`, from nothing: what an earlier attempt left there is removed. A step costs O(1)."""

    def __init__(self, root: Path) -> None:
        self.root = root
        if root.is_dir() and not root.is_symlink():
            shutil.rmtree(root)
        self._log: BinaryIO | None = None
        self._session: BinaryIO | None = None
        self._logs, self._log_steps, self._log_bytes = 0, 0, 0
        self._last = 0
        self._notes: set[str] = set()
        self._abandoned: dict[int, str] = {}
        self._subgoals: dict[int, dict[str, _Subgoal]] = {}
        """By the last step that they cover, then by path."""
        self._loose: dict[int, _Loose] = {}
        self._loaded: Workspace | None = None
        self._changed: set[str] = set()
        """What was written since then."""

    @property
    def steps(self) -> int:
        """The id of the last archived step: with the ids of nodes counted up, the number of records."""
        return self._last

    def diagnosis(self, node: int) -> str | None:
        """Why bottom node `node` is off the active path; None when it is on it."""
        return self._abandoned.get(node)

    def grow(self, node: Node) -> None:
        """Archive a bottom node. One that is archived already was walked into again: it is current again."""
        if node.id > self._last:
            self._last = node.id
            self._append(node.pair)
        elif self._abandoned.pop(node.id, None) is not None:
            self._file_subgoals(node.id)
            if loose := self._loose.pop(node.id, None):
                loose.nodes.remove(node)
                self._file_loose(loose)

    def compress(self, node: Node, diagnosis: str | None = None) -> None:
        """File the summary of top node `node` as current, with what Maintain found wrong with it, if it did."""
        covered = [step.pair for step in node.cover_nodes]
        subgoal = _Subgoal(f"subgoals/{_span(covered)}.md", node.text, covered, diagnosis)
        self._subgoals.setdefault(covered[-1].id, {})[subgoal.path] = subgoal
        self._file_subgoal(subgoal)

    def revise(self, revised: Revised, diagnosis: str) -> None:
        """Mark everything that Revise took off the path as abandoned, because of `diagnosis`."""
        reason = _cut(diagnosis, _DIAGNOSIS)
        self._abandoned.update((node.id, reason) for node in revised.steps)
        for node in revised.steps:
            self._file_subgoals(node.id, reason)
        covered = {step.id for node in revised.summaries for step in node.cover_nodes}
        if left := [node for node in revised.steps if node.id not in covered]:
            loose = _Loose(f"abandoned/{_span([node.pair for node in left])}.md", left, reason)
            self._loose.update((node.id, loose) for node in left)
            self._file_loose(loose)

    def workspace(self) -> Workspace:
        """What is there now, as retrievers read it; read again only after a change.

        Raises WorkspaceError when it has outgrown what a workspace may hold.
        """
        if self._loaded is None:
            self._loaded = Workspace.load(self.root)
        elif self._changed:
            self._loaded = self._loaded.after(self._changed)
        self._changed.clear()
        return self._loaded

    def close(self) -> None:
        """Close the log and write the manifest, with which the workspace is whole. Without a step there is none."""
        if self._log is None:
            return
        self._close_log()
        fields = {
            "format": FORMAT,
            "conversation": self.root.name,
            "notes": TAG,
            "sessions": self._logs,
            "turns": self._last,
            "files": len(self._notes),
        }
        files.write(self.root / MANIFEST, f"{json.dumps(fields)}\n".encode())
        self._changed.add(MANIFEST)

    def _append(self, pair: Pair) -> None:
        record = f"{_record(pair).line()}\n".encode()
        if self._log_steps == SESSION_STEPS or self._log_bytes + len(record) > FILE_BYTES:
            self._close_log()
        if self._log is None:
            self._open_log(_time(pair.id))
        assert self._log is not None
        assert self._session is not None
        self._log.write(record)
        self._log.flush()
        self._session.write(f"{SPEAKER}: {_step(pair)}\n".encode())
        self._session.flush()
        self._log_steps += 1
        self._log_bytes += len(record)
        self._changed.update(self._log_names())

    def _open_log(self, start: datetime) -> None:
        """The next file of the log, and of its readable view. That has no `sources`: its lines cite, and come later."""
        self._logs, self._log_steps, self._log_bytes = self._logs + 1, 0, 0
        log, session = self._log_names()
        for name in (log, session):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        self._log, self._session = (self.root / log).open("ab"), (self.root / session).open("ab")
        title = yaml_text(f"Session {self._logs}, {start.date().isoformat()}")
        head = ("---", f"title: {title}", f"timestamp: {start.isoformat()}", f"tags: [{TAG}]", "---")
        self._session.write("".join(f"{line}\n" for line in head).encode())
        self._notes.add(session)

    def _log_names(self) -> tuple[str, str]:
        return f"{FOLDER}/traj_{self._logs:04d}.jsonl", f"sessions/session_{self._logs:02d}.md"

    def _close_log(self) -> None:
        for file in (self._log, self._session):
            if file:
                file.close()
        self._log = self._session = None

    def _file_subgoals(self, last: int, diagnosis: str | None = None) -> None:
        """Write the notes that end with step `last` again, as current or abandoned, as that step is."""
        for subgoal in self._subgoals.get(last, {}).values():
            subgoal.diagnosis = diagnosis or subgoal.diagnosis
            self._file_subgoal(subgoal)

    def _file_subgoal(self, subgoal: _Subgoal) -> None:
        status = "abandoned" if subgoal.covered[-1].id in self._abandoned else "current"
        self._write(_note(subgoal.path, subgoal.text, subgoal.covered, status, subgoal.diagnosis))

    def _file_loose(self, loose: _Loose) -> None:
        """Write the note again with the steps that are left in it; without any there is nothing to tell."""
        if loose.nodes:
            pairs = [node.pair for node in loose.nodes]
            self._write(_note(loose.path, f"Abandoned: {pairs[0].action}", pairs, "abandoned", loose.diagnosis))
            return
        (self.root / loose.path).unlink()
        self._notes.discard(loose.path)
        self._changed.add(loose.path)

    def _write(self, note: Note) -> None:
        for part in note.parts():
            files.write(self.root / part.path, part.render())
            self._notes.add(part.path)
            self._changed.add(part.path)


def _record(pair: Pair) -> Record:
    return Record(
        turn_id(pair.id), _time(pair.id), SPEAKER, f"Action: {pair.action}\nObservation: {pair.observation}", 1
    )


def _time(node: int) -> datetime:
    return START + timedelta(minutes=node)


def _step(pair: Pair) -> Line:
    return Line(f"{_cut(pair.action, _SHOWN)} -> {_cut(pair.observation, _SHOWN)}", (turn_id(pair.id),))


def _note(path: str, text: str, covered: Sequence[Pair], status: str, diagnosis: str | None) -> Note:
    """What `covered` came to, then a line a step. All of them are its sources."""
    ids = tuple(turn_id(pair.id) for pair in covered)
    steps = map(_step, covered)
    extra = (("status", status), *((("diagnosis", _cut(diagnosis, _DIAGNOSIS)),) if diagnosis else ()))
    title = _cut(text, _TITLE) or "Steps"
    lines = (Line(one_line(text), ids[-_CITED:]), *steps)
    return Note(path, title, _time(max(pair.id for pair in covered)), lines, TAG, extra)


def _span(steps: Sequence[Pair]) -> str:
    """A file name for steps of one path: no two paths have the same first and last node."""
    return f"steps_{steps[0].id:04d}-{steps[-1].id:04d}"


def _cut(text: str, most: int) -> str:
    """`text` on one line, defused, of at most `most` characters."""
    line = one_line(text)
    return line if len(line) <= most else f"{line[: most - 3].rstrip()}..."
