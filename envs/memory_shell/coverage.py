"""What an episode looked at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from memory_shell.types import Coverage

if TYPE_CHECKING:
    from memory_shell.verbs import Output
    from memory_shell.workspace import Workspace


class CoverageLog:
    """Collects what each command read, as it was given; only `report` takes the trouble of merging it."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._searched: list[tuple[str, ...]] = []
        self._matched: list[tuple[str, ...]] = []
        self._opened: list[tuple[str, ...]] = []
        self._skipped: list[tuple[str, ...]] = []
        self._visited: list[tuple[str, ...]] = []

    def add(self, output: Output) -> None:
        """Note one command's reads."""
        self._searched.append(output.searched)
        self._matched.append(output.matched)
        self._opened.append(output.opened)
        self._skipped.append(output.skipped)
        self._visited.append(output.visited)

    def report(self) -> Coverage:
        """The union over all commands, in the order of first mention, and the folders that were never looked at."""
        searched, opened = _merge(self._searched), _merge(self._opened)
        visited = {path for part in self._visited for path in part}
        visited.update(path.rpartition("/")[0] for path in (*searched, *opened))
        return Coverage(
            searched=searched,
            matched=_merge(self._matched),
            opened=opened,
            skipped=_merge(self._skipped),
            unvisited=tuple(path for path in self._workspace.dirs if path not in visited),
        )


def _merge(parts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path for part in parts for path in part))
