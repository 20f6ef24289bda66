"""Results of agents on disk: a folder that several shards fill side by side, and that survives a kill.

    identity.json                what the rows depend on
    rows.jsonl                   finished episodes; a shard's are in rows.2-of-4.jsonl
    episodes/SYSTEM/TASK-SEED/   steps.jsonl, tree.jsonl, memory/

Every process appends to its own file of rows and reads those of all. An episode counts when its row stands there; what
a kill interrupted has none, and is played anew in a clean folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from horma_rl.aside import aside
from horma_rl.errors import UserError
from horma_rl.evaluation.store import IDENTITY, append_line, drop_unfinished_line

ROWS = "rows.jsonl"
EPISODES = "episodes"
_SHARD_ROWS = "rows.*-of-*.jsonl"
_ODD = re.compile(r"[^\w.-]")
_LONGEST_NAME = 80

Key = tuple[str, str, int]
"""System, task and seed of an episode."""


@dataclass(frozen=True, slots=True)
class Shard:
    """The part `index` (from 1) of `count`: every `count`-th task."""

    index: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """`2/4`, the second of four. Raises UserError for anything else."""
        match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
        shard = cls(int(match[1]), int(match[2])) if match else cls(0, 0)
        if not 1 <= shard.index <= shard.count:
            raise UserError(f"--shard '{text}': write I/N, with I from 1 to N: 1/4, 2/4, 3/4 and 4/4 are the whole")
        return shard

    @property
    def rows(self) -> str:
        """Name of its file of rows."""
        return ROWS if self.count == 1 else f"rows.{self.index}-of-{self.count}.jsonl"

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


WHOLE = Shard()


@dataclass(frozen=True, slots=True)
class AgentRow:
    """How an agent with one memory system did on one task with one seed. Counts are of the whole episode."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    system: str
    task: str
    family: str
    seed: int
    success: bool
    progress: float
    """The part of the task that was solved, 0 to 1."""
    stop: str
    """Why the episode ended."""
    steps: int
    """Actions done in the environment, those that a revision played again not counted."""
    moves: int
    """Decisions of the actor."""
    malformed: int
    """Answers of the actor that were no move."""
    invalid: int
    """Actions that the environment did not know or could not do."""
    refused: int
    """Moves on memory that could not be done."""
    compressions: int
    """By the actor's mark or by fallback."""
    faults: int
    """Summaries that the judge found wrong."""
    unvalidated: int
    """Summaries that the judge could not be read about."""
    revisions: int
    not_rewound: int
    """Revisions after which the environment was not, or not surely, where it had been."""
    recalls: int
    over_budget: int
    """Prompts over `prompt_tokens` with everything left out that may be."""
    tokens: int
    """Prompt and completion tokens of actor, judge and summariser: as their servers counted them, or, where they are
    programs, by the project's estimate."""
    contexts: tuple[int, ...]
    """Tokens of the prompt at each move."""
    scores: Mapping[str, Any]
    """What the suite's own metrics need; empty where it has none."""
    wall_s: float

    @property
    def key(self) -> Key:
        """What is finished with this row."""
        return self.system, self.task, self.seed

    @property
    def most_context(self) -> int:
        """Tokens of the longest prompt."""
        return max(self.contexts, default=0)


_ROW = TypeAdapter(AgentRow)


class AgentStore:
    """The folder of one evaluation, seen by one of its processes.

    Raises:
        UserError: the folder holds results of another evaluation, or lines that cannot be read, or another process is
            playing this shard.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any], shard: Shard) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:  # a name with a null byte is the latter
            raise UserError(f"out: {folder} cannot be made a folder: {getattr(error, 'strerror', error)}") from None
        _check_identity(folder / IDENTITY, identity)
        self._own = folder / shard.rows
        self._lock = _locked(self._own)
        drop_unfinished_line(self._own)
        self._rows: dict[Key, AgentRow] = {}
        for path in (folder / ROWS, *sorted(folder.glob(_SHARD_ROWS))):
            for row in _read_rows(path):
                self._rows.setdefault(row.key, row)

    def get(self, key: Key) -> AgentRow | None:
        """The row of a finished episode."""
        return self._rows.get(key)

    def start(self, key: Key) -> Path:
        """A clean folder for an episode that is to be played."""
        path = self.episode(key)
        if path.exists():
            shutil.rmtree(path)
        path.mkdir(parents=True)
        return path

    def finish(self, row: AgentRow) -> None:
        """Append the row of an episode whose files are written."""
        try:
            append_line(self._own, asdict(row))
        except OSError:
            drop_unfinished_line(self._own)  # a full disk: the next row must not go on in the middle of this one
            raise
        self._rows[row.key] = row

    def forget(self, key: Key, kept: str) -> None:
        """Delete what an episode left behind, but for the file `kept`."""
        for path in self.episode(key).iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != kept:
                path.unlink()

    def close(self) -> None:
        """Let another process play this shard; the end of this one does too."""
        self._lock.close()

    def episode(self, key: Key) -> Path:
        """The folder of an episode."""
        system, task, seed = key
        return self.folder / EPISODES / system / f"{_file_name(task)}-{seed}"


def write_atomically(path: Path, text: str) -> None:
    """Write a file whole or not at all, also when several processes write it at once."""
    with aside(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", errors="replace")


def _check_identity(path: Path, identity: Mapping[str, Any]) -> None:
    """As `horma_rl.evaluation.store.check_identity`, for several processes at once."""
    known = _known(path)
    changed = [key for key, value in identity.items() if key in known and known[key] != value]
    if changed:
        raise UserError(
            f"{path.parent} holds results with another '{changed[0]}': set out=<another folder>, or delete it"
        )
    if identity.keys() - known.keys():
        write_atomically(path, json.dumps({**known, **identity}, indent=1, ensure_ascii=False) + "\n")


def _known(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        known = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        known = None
    if not isinstance(known, dict):
        raise UserError(f"{path} cannot be read: set out=<another folder>, or delete this one")
    return known


def _locked(path: Path) -> IO[bytes]:
    """The file of rows at `path`, made if missing, held for one process."""
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise UserError(f"{path} is being written by another process; wait for it to end") from None
    return file


def _read_rows(path: Path) -> Iterator[AgentRow]:
    """The rows of a file. A last line without its end is being written, or was cut by a kill: it is no row yet."""
    if not path.is_file():
        return
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        try:
            yield _ROW.validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            reason = ": ".join((*map(str, first["loc"]), first["msg"]))
            raise UserError(
                f"{path}, line {number} is no row of this version ({reason}); delete the line, and its episode is "
                "played anew, or choose another `out`"
            ) from None


def _file_name(task: str) -> str:
    """A task's id as the name of a folder; what had to be changed is told apart by a digest."""
    plain = _ODD.sub("_", task)[:_LONGEST_NAME].strip(".") or "_"
    return plain if plain == task else f"{plain}.{hashlib.sha256(task.encode()).hexdigest()[:8]}"


def by_system(rows: Iterable[AgentRow]) -> dict[str, list[AgentRow]]:
    """System -> its rows, in order of appearance."""
    found: dict[str, list[AgentRow]] = {}
    for row in rows:
        found.setdefault(row.system, []).append(row)
    return found
