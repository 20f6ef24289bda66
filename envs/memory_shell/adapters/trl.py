"""The memory shell as an environment of TRL's GRPOTrainer.

    GRPOTrainer(..., environment_factory=functools.partial(MemoryShellEnvironment, "memory"))

TRL makes a tool of every public method, so there are exactly six beside `reset` and `get_reward`, which it reserves. It
does not say where a model response ends, so here every call is a turn of the episode's cap. TRL's own loop has limits
that `horma_rl`'s rollout engine has not: it goes on after `done`, and never runs the last turn's calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memory_shell.cache import shared_cache
from memory_shell.episode import DEFAULT_CAPS, MemoryShell
from memory_shell.overview import Overview
from memory_shell.types import Caps, Task, ToolCall, Unit


class MemoryShellEnvironment:
    """One rollout's environment. A dataset row carries the task: `question`, `workspace`, `evidence` and, if there are
    any, `id` and `asked_at`; its other columns are ignored.

    It can be pickled in the middle of an episode: what is kept is the task and the calls, which are replayed.
    """

    def __init__(
        self,
        memory_dir: str | Path,
        *,
        caps: Caps = DEFAULT_CAPS,
        unit: Unit = "turn",
        overview: Overview = "none",
        zero_on_cap: bool = False,
    ) -> None:
        self._memory_dir = str(memory_dir)
        self._options: dict[str, Any] = {"caps": caps, "unit": unit, "overview": overview, "zero_on_cap": zero_on_cap}
        self._shell: MemoryShell | None = None
        self._task: Task | None = None
        self._calls: list[ToolCall] = []

    def reset(self, **row: Any) -> str:
        """Start the episode of a dataset row; returns the text that TRL appends to the prompt's last message."""
        return self._start(_task(row))

    def get_reward(self) -> float:
        """The overlap of what was selected with the evidence."""
        return self._shell.score() if self._shell is not None else 0.0

    def ls(self, args: str = "") -> str:
        """List a folder.

        Args:
            args: Options and paths, e.g. `-R people`
        """
        return self._run("ls", args)

    def cd(self, args: str = "") -> str:
        """Change the current folder.

        Args:
            args: A path, e.g. `sessions` or `..`
        """
        return self._run("cd", args)

    def grep(self, args: str) -> str:
        r"""Search files for a regular expression. -i ignores case, -l lists names, -e A --and -e B needs both.

        Args:
            args: Options, pattern, paths, e.g. `-ri '\bkiln' sessions`
        """
        return self._run("grep", args)

    def cat(self, args: str) -> str:
        """Show files or lines of them.

        Args:
            args: Paths, e.g. `people/ana.md` or `sessions/session_03.md:5-9`
        """
        return self._run("cat", args)

    def select(self, args: str) -> str:
        """Take evidence: lines of a note or raw log, or cited turn ids.

        Args:
            args: Paths with lines or ids, e.g. `sessions/session_03.md:7` or `D3:12`
        """
        return self._run("select", args)

    def done(self) -> str:
        """End the search; what was selected is the answer."""
        return self._run("done", "")

    def _start(self, task: Task) -> str:
        self._task = task
        self._calls = []
        self._shell = MemoryShell(shared_cache(self._memory_dir).get(task.workspace), **self._options)
        return self._shell.reset(task).text

    def _run(self, verb: str, args: str) -> str:
        if self._shell is None:
            raise RuntimeError("reset the environment before the first tool call")
        call = ToolCall(verb, args)
        self._calls.append(call)
        return self._shell.step([call])[-1].text

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_shell": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        calls = self._calls
        if self._task is None:
            return
        self._start(self._task)
        for call in calls:
            self._run(call.name, call.args)


def _task(row: Mapping[str, Any]) -> Task:
    missing = [name for name in ("question", "workspace", "evidence") if row.get(name) is None]
    if missing:
        raise ValueError(f"a dataset row lacks {', '.join(missing)}: MemoryShellEnvironment needs them in every row")
    return Task(
        id=str(row.get("id") or ""),
        question=row["question"],
        evidence=tuple(row["evidence"]),
        workspace=row["workspace"],
        asked_at=row.get("asked_at"),
    )
