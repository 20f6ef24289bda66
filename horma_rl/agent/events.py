"""A state tree on disk: its operations as JSON Lines, appended as they are done, and replayed to the same tree."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from horma_rl.agent.tree import Operation, StateTree
from horma_rl.errors import UserError

TREE_FILE = "tree.jsonl"
"""The log's name in the folder of an episode."""

_ARGUMENTS: dict[str, dict[str, type]] = {
    "grow": {"action": str, "observation": str},
    "compress": {"summary": str},
    "fail": {"feedback": str},
    "revise": {"feedback": str, "target": int},
}
_POINTERS = ("step", "p_b", "p_t")


class EventLog:
    """The log of one tree, at `path`. The file is made by the first operation, and only ever appended to.

    Raises:
        UserError: there is a log at `path` already.
    """

    def __init__(self, path: Path) -> None:
        if path.exists() and path.stat().st_size:
            raise UserError(f"{path} is the log of another episode; delete it, or write to another folder")
        self.path = path
        self._file: BinaryIO | None = None
        self._written = 0

    def record(self, tree: StateTree) -> None:
        """Append what was done to `tree` since the last call: at first, all of it. Costs only what is new."""
        new = tree.operations[self._written :]
        if not new:
            return
        if self._file is None:
            self._file = self.path.open("ab")
        self._file.write(b"".join(_line(operation) for operation in new))
        self._file.flush()
        self._written += len(new)

    def close(self) -> None:
        """Close the file, if there is one; another `record` opens it again."""
        if self._file:
            self._file.close()
        self._file = None


def replay(path: Path) -> StateTree:
    """The tree whose operations are logged at `path`, with its pointers, notes and feedback.

    A last line without its end, which a kill leaves, is dropped.

    Raises:
        UserError: there is no log, or a line is no operation, cannot be done, or did not end where it says.
    """
    if not path.is_file():
        raise UserError(f"{path}: there is no such log of a state tree")
    tree = StateTree()
    does: dict[str, Callable[..., object]] = {name: getattr(tree, name) for name in _ARGUMENTS}
    for number, line in _whole_lines(path):
        try:
            operation = _operation(line)
            does[operation.name](*operation.arguments)
        except ValueError as error:
            raise UserError(f"{path}, line {number}: {error}") from None
        if tree.operations[-1] != operation:
            raise UserError(
                f"{path}, line {number}: {_told(operation)} by the log, but {_told(tree.operations[-1])} "
                f"when its operations are done again; the log was changed, or lines are missing"
            )
    return tree


def _line(operation: Operation) -> bytes:
    """UTF-8 with lone surrogates as they are, as `json.loads` reads it, so that every text comes back as it was. As
    escapes, two that stand side by side would come back as one character."""
    named = dict(zip(_ARGUMENTS[operation.name], operation.arguments, strict=True))
    where = {name: getattr(operation, name) for name in _POINTERS}
    line = json.dumps({"op": operation.name, **named, **where}, ensure_ascii=False) + "\n"
    return line.encode("utf-8", "surrogatepass")


def _whole_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        yield from ((number, line) for number, line in enumerate(file, 1) if line.endswith(b"\n"))


def _operation(line: bytes) -> Operation:
    """Raises ValueError with what is wrong."""
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("not JSON") from None
    name = data.get("op") if isinstance(data, dict) else None
    if not isinstance(name, str) or name not in _ARGUMENTS:
        raise ValueError(f"no operation; 'op' is one of {', '.join(_ARGUMENTS)}")
    kinds = {**_ARGUMENTS[name], **dict.fromkeys(_POINTERS, int)}
    if data.keys() != {"op", *kinds}:
        raise ValueError(f"{name} has the fields {', '.join(kinds)}, and no others")
    for key, kind in kinds.items():
        if type(data[key]) is not kind:  # a bool is no int here
            raise ValueError(f"{key} is a {'text' if kind is str else 'whole number'}")
    values: list[Any] = [data[key] for key in _ARGUMENTS[name]]
    return Operation(name, tuple(values), *(data[key] for key in _POINTERS))


def _told(operation: Operation) -> str:
    return f"the step is {operation.step}, p_b {operation.p_b} and p_t {operation.p_t}"
