"""What a domain is: its actions, its prompts, and how a subtask is scored. The loop over subtasks is `env.py`.

A domain is shared and immutable: tables and indexes are loaded once. A play is one row in one episode.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeVar

from interactive_env.calls import parse_call
from interactive_env.types import ToolSpec
from memory_arena.rows import Row

Grader = Callable[[str, str, str], bool]
"""(question, gold, answer): whether the answer is right. One that raises makes the episode an error, never a 0."""

Decides = Literal["all", "last"]
"""What solves a row: every subtask (shopping, travel) or the last one (search, formal reasoning)."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What an action gave. `valid` as in `interactive_env.types.Outcome`; `ended`: the subtask is over."""

    observation: str
    valid: bool = True
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Score:
    """How a subtask came out. `answered`: something was handed in. `figures`: what the domain's own metrics need."""

    passed: bool
    answered: bool
    figures: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


class Play(Protocol):
    """One row in one episode: subtask after subtask, in order. Deterministic, given the grader's answers."""

    @property
    def instruction(self) -> str:
        """What holds for the whole row."""

    def begin(self, index: int) -> str:
        """Start subtask `index` (from 0) and give its prompt. What the one before left behind, such as a page that
        was open, is gone; what it did, such as a purchase, stays."""

    def act(self, action: str) -> Reply:
        """Do `action`. Never raises on what a policy writes. Not called again after a reply with `ended`."""

    def score(self) -> Score:
        """Score the current subtask, once, when it ended or its steps ran out. Raises what the grader raises."""


class Domain(Protocol):
    """A domain, with all that it looks things up in."""

    @property
    def name(self) -> str:
        """One of `rows.DOMAINS`."""

    @property
    def actions(self) -> str:
        """What a policy may write, in a few lines."""

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """Tools that actions call as `interactive_env.calls` writes them; empty when actions are text."""

    @property
    def step_cap(self) -> int:
        """Steps of one subtask; then the next one begins."""

    @property
    def decides(self) -> Decides:
        """What solves a row."""

    def play(self, row: Row) -> Play:
        """Start a row. Raises ValueError when it is another domain's (`expect`)."""


Builder = Callable[[Mapping[str, Any], Grader], Domain]
"""Makes a domain from the user's options (paths, caps). Raises ValueError for unknown options and missing files."""


@dataclass(frozen=True, slots=True)
class Part:
    """A domain and rows for it."""

    domain: Domain
    rows: Sequence[Row]


Maker = Callable[[int, int, Grader], Part]
"""(count, seed, grader): a domain over generated data, and `count` rows that it can be played with."""

R = TypeVar("R")


def expect(row: Row, kind: type[R]) -> R:
    """`row`, which is a `kind`. Raises ValueError when it is another domain's."""
    if not isinstance(row, kind):
        raise ValueError(f"row {row.id} is of domain {row.domain}; expected a {kind.__name__}")
    return row


def same_text(question: str, gold: str, answer: str) -> bool:
    """The default grader: equal but for case, spaces, dollar signs around LaTeX, and a full stop at the end. It misses
    right answers that are written otherwise, and does not tell `x` from `X`: give a judge for figures to report."""
    return bool(normalise(gold)) and normalise(gold) == normalise(answer)


def remembered(grader: Grader) -> Grader:
    """`grader`, asked once for the same question, gold and answer (the last 4,096 are kept): replays are free, and
    agree. What raised is asked again."""
    return lru_cache(maxsize=4096)(grader)


def normalise(text: str) -> str:
    """The form in which `same_text` compares."""
    plain = re.sub(r"\\[()\[\]]|\$+|\\[,;:!]|\s+", "", text.casefold())
    return plain.rstrip(".")


_TYPES: dict[str, type] = {"string": str, "integer": int, "array": list, "object": dict}
MAX_ACTION_CHARS = 100_000


def checked_call(action: str, tools: Sequence[ToolSpec]) -> tuple[str, dict[str, Any]]:
    """The tool that an action calls, and its arguments: those required are there, of their type, and no others.

    Raises ValueError, in words for the policy.
    """
    if len(action) > MAX_ACTION_CHARS:
        raise ValueError(f"the action has {len(action)} characters; {MAX_ACTION_CHARS} are the most")
    name, arguments = parse_call(action)
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is None:
        raise ValueError(f"no tool '{name}': there are {', '.join(tool.name for tool in tools)}")
    known = tool.parameters["properties"]
    for key in [*tool.parameters.get("required", ()), *arguments]:
        if key not in known:
            raise ValueError(f"{name} has no argument '{shown(key)}': it takes {', '.join(known)}")
        if key not in arguments:
            raise ValueError(f"{name} needs the argument '{key}'")
        value, kind = arguments[key], known[key]["type"]
        if not isinstance(value, _TYPES[kind]) or isinstance(value, bool):
            raise ValueError(f"{name}: {key} is to be of type {kind}")
    return name, arguments


def shown(text: str, limit: int = 80) -> str:
    """What a policy wrote, fit to be repeated to it: one line, cut, and `?` for what cannot be printed: control
    characters, and half of a surrogate pair, which UTF-8 has no bytes for."""
    line = " ".join(text.split())
    cut = line if len(line) <= limit else line[: limit - 3] + "..."
    return "".join(character if character.isprintable() else "?" for character in cut)


def options(given: Mapping[str, Any], known: Sequence[str], domain: str) -> dict[str, Any]:
    """`given`, all of whose keys are `known`. Raises ValueError for another."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(f"{domain}: no such option '{unknown[0]}': known are {', '.join(known)}")
    return dict(given)


def path_option(given: Mapping[str, Any], name: str, domain: str, missing: str) -> Path:
    """The option `name`, a path. Raises ValueError, with what `missing` says, when it is not there, and for what is no
    path."""
    value = given.get(name)
    if value is None or value == "":
        raise ValueError(f"{domain}: {missing}")
    if not isinstance(value, str | Path):
        raise ValueError(f"{domain}: the option '{name}' is {value!r}; it is the path of a file or folder")
    return Path(value)


def step_cap(given: Mapping[str, Any], default: int, domain: str) -> int:
    """The option `step_cap`. Raises ValueError for what is no number of steps."""
    value = given.get("step_cap", default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{domain}: step_cap is to be a whole number from 1 on, got {value!r}")
    return value
