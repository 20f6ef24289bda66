"""The contract of an interactive environment: one task at a time, an action as text in, an observation as text out.

Nothing here imports more than the standard library. An environment is one object for one episode; a suite makes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, Protocol

Rewind = Literal["restore", "replay", "none"]
"""How an environment goes back to an earlier state: `snapshot` and `restore`, a reset and the same actions once more
(it is deterministic), or not at all."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool that actions call, as the chat APIs describe one. `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """The entry of a chat request's `tools`."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an environment can do.

    `actions` tells a policy, in a few lines, what it may write. With `tools`, an action is a call as
    `calls.format_call` writes it: `name {"argument": value}`; without, it is text in the environment's own grammar.
    """

    actions: str
    rewind: Rewind
    max_steps: int
    """Steps after which the environment ends the episode itself."""
    tools: tuple[ToolSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class EnvTask:
    """One task. `family` is the suite's own label, for reports. `data` is the environment's, and is shown to nobody."""

    id: str
    family: str = ""
    data: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Start:
    """What a policy is told first: the instruction, which holds for the whole task, and the first observation."""

    instruction: str
    observation: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one action brought.

    `terminated`: the task is over, won or lost. `truncated`: the step cap ended it. `valid`: the action was one that
    the environment knows and that could be done; others change nothing but the step count, and their observation says
    what is wrong. `subtask`: a part of the task ended with this action (in suites whose tasks have parts).
    """

    observation: str
    terminated: bool = False
    truncated: bool = False
    valid: bool = True
    subtask: bool = False
    info: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


class InteractiveEnv(Protocol):
    """One episode of one task. `step` never raises on what a policy writes: a fault is an observation."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""

    def reset(self, task: EnvTask) -> Start:
        """Start `task` anew. The same task gives the same start and, after the same actions, the same observations."""

    def step(self, action: str) -> Outcome:
        """Do `action`. Raises RuntimeError before `reset` and after the end."""

    @property
    def success(self) -> bool:
        """Whether the task is solved."""

    @property
    def progress(self) -> float:
        """The part of the task that is solved, from 0 to 1."""

    def snapshot(self) -> object:
        """The state as an opaque value, for `restore`. Raises NotImplementedError unless `rewind` is `restore`."""

    def restore(self, snapshot: object) -> None:
        """Go back to `snapshot`, any number of times. The step count stays as it is."""

    def close(self) -> None:
        """Free what the episode holds. May be called twice."""


class Suite(Protocol):
    """A benchmark of interactive tasks."""

    @property
    def name(self) -> str:
        """The name in configs and tables."""

    @property
    def provenance(self) -> str:
        """Where the tasks come from, and under which licence."""

    def tasks(self, split: str) -> Sequence[EnvTask]:
        """The tasks of a split, in a fixed order. Raises ValueError, with the splits there are, for an unknown one."""

    def make(self, task: EnvTask) -> InteractiveEnv:
        """A new environment for `task`, not yet reset."""
