"""The memory shell as a Gymnasium environment: a command line in, an observation out, one turn a step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.spaces import Text

from memory_shell.cache import shared_cache
from memory_shell.episode import DEFAULT_CAPS, MemoryShell
from memory_shell.overview import Overview
from memory_shell.types import Caps, Task, Unit

ENV_ID = "horma/MemoryShell-v0"
MAX_COMMAND_CHARS = 4096
MAX_QUESTION_CHARS = 65_536


class AnyText(Text):
    """Strings of any characters up to a length. `Text` wants the set of characters: for Unicode, a million of them."""

    def contains(self, x: Any) -> bool:
        """Whether `x` is a string of an allowed length."""
        return isinstance(x, str) and self.min_length <= len(x) <= self.max_length


class MemoryShellEnv(gymnasium.Env[str, str]):
    """Episodes over `tasks`, whose workspaces lie below `memory_dir`.

    `reset` draws a task by its seed, or takes the one that `options={"task": ID}` names. The reward comes with the last
    step. `terminated`: the policy said `done`. `truncated`: the turn cap ended the episode.
    """

    def __init__(
        self,
        memory_dir: str | Path,
        tasks: Sequence[Task],
        *,
        caps: Caps = DEFAULT_CAPS,
        unit: Unit = "turn",
        overview: Overview = "none",
        zero_on_cap: bool = False,
    ) -> None:
        if not tasks:
            raise ValueError("MemoryShellEnv needs at least one task")
        self._cache = shared_cache(str(memory_dir))
        self._tasks = {task.id: task for task in tasks}
        self._options: dict[str, Any] = {"caps": caps, "unit": unit, "overview": overview, "zero_on_cap": zero_on_cap}
        self._shell: MemoryShell | None = None
        self.action_space = AnyText(MAX_COMMAND_CHARS, min_length=0)
        self.observation_space = AnyText(MAX_QUESTION_CHARS + 2 * caps.bytes, min_length=0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode; the observation holds the question. An unknown task id raises ValueError."""
        super().reset(seed=seed)
        task = self._choose((options or {}).get("task"))
        self.close()
        self._shell = MemoryShell(self._cache.get(task.workspace), **self._options)
        return self._shell.reset(task, seed or 0).text, {"task": task.id}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Run one command line as one turn."""
        if self._shell is None:
            raise RuntimeError("reset the environment before the first step")
        result = self._shell.run(action)
        info = {"ok": result.ok, **result.info}
        return result.text, result.reward, result.terminated, result.truncated, info

    def close(self) -> None:
        """Drop the episode. Safe to call any number of times."""
        if self._shell is not None:
            self._shell.close()
        self._shell = None

    def _choose(self, wanted: str | None) -> Task:
        if wanted is None:
            return list(self._tasks.values())[int(self.np_random.integers(len(self._tasks)))]
        if wanted not in self._tasks:
            raise ValueError(f"no task '{wanted}' among the {len(self._tasks)} given")
        return self._tasks[wanted]


def register() -> None:
    """Make `gymnasium.make(ENV_ID, memory_dir=..., tasks=...)` work. Nothing is registered by importing the package."""
    if ENV_ID not in gymnasium.registry:
        gymnasium.register(ENV_ID, entry_point="memory_shell.adapters.gymnasium:MemoryShellEnv")
