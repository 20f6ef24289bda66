"""Workspaces of one memory directory, shared by every episode."""

from __future__ import annotations

from collections import OrderedDict
from functools import lru_cache
from pathlib import Path
from threading import Lock

from memory_shell.workspace import DEFAULT_LIMITS, Limits, Workspace, WorkspaceError


class WorkspaceCache:
    """The workspaces below `memory_dir` (one folder each) by name, loaded at first use. Safe to share by threads.

    `keep`: how many stay loaded, those used last; None is all. A haystack of 100,000 tokens takes some 20 MB.
    """

    def __init__(self, memory_dir: Path, limits: Limits = DEFAULT_LIMITS, keep: int | None = None) -> None:
        self.memory_dir = memory_dir
        self.limits = limits
        self.keep = keep
        self._loaded: OrderedDict[str, Workspace] = OrderedDict()
        self._lock = Lock()

    def names(self) -> list[str]:
        """The workspaces there are, sorted; empty when the folder does not exist."""
        return workspace_names(self.memory_dir)

    def get(self, name: str) -> Workspace:
        """The workspace called `name`. Raises WorkspaceError when there is none, or it cannot be loaded."""
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = self._load(name)
            self._loaded.move_to_end(name)
            if self.keep is not None and len(self._loaded) > self.keep:
                self._loaded.popitem(last=False)
            return self._loaded[name]

    def _load(self, name: str) -> Workspace:
        names = self.names()
        if name not in names:
            there = ", ".join(names) or "none"
            raise WorkspaceError(f"no workspace '{name}' in {self.memory_dir} (there: {there}); build the memory first")
        return Workspace.load(self.memory_dir / name, self.limits)


@lru_cache(maxsize=8)
def shared_cache(memory_dir: str) -> WorkspaceCache:
    """The process's one cache of a memory directory, for adapters that are made once per rollout in flight."""
    return WorkspaceCache(Path(memory_dir))


def is_workspace(folder: Path) -> bool:
    """Whether `folder` is itself a workspace: it holds an archive."""
    return (folder / "raw_logs").is_dir()


def workspace_names(memory_dir: Path) -> list[str]:
    """The names of the workspaces directly below `memory_dir`, sorted; empty when the folder does not exist."""
    if not memory_dir.is_dir():
        return []
    return sorted(child.name for child in memory_dir.iterdir() if is_workspace(child))
