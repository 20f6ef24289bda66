"""Suites of interactive tasks by name, with their options; what a suite needs is imported when it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, model_validator

from horma_rl.config import StrictModel, validate
from horma_rl.errors import UserError, nearest
from interactive_env.types import Rewind, Suite

ActorKind = Literal["scripted", "walkthrough", "llm"]
Grader = Callable[[str, str, str], bool]
"""(question, gold, answer): whether the answer is right."""


class InterdependentOptions(StrictModel):
    """Options of `interdependent`: generated tasks in which each choice constrains the next."""

    kind: Literal["bundle", "schedule"] = "bundle"
    """Purchases, or meetings."""
    size: int = Field(6, ge=1)
    """Purchases or meetings in a task."""
    tasks: int = Field(20, ge=1)
    """Tasks of a split: `train`, `valid` or `test`."""
    seed: int = Field(0, ge=0)
    """Seed of the first task."""
    rewind: Rewind = "restore"
    """How the environment goes back: `restore`, `replay` or `none`."""
    max_steps: int | None = Field(None, ge=1)
    """Steps of an episode; null is 40 for each purchase or meeting."""


class HouseholdOptions(StrictModel):
    """Options of `household`: ALFWorld's text games, from the user's folder."""

    folder: Path | None = None
    """Where the games are; null is `$ALFWORLD_DATA`."""
    max_steps: int = Field(50, ge=1)
    """Steps of an episode."""


class MemoryArenaOptions(StrictModel):
    """Options of `memory_arena`: published rows, or generated ones in their schema."""

    files: dict[str, Path] | None = None
    """Domain -> JSON Lines file of published rows; null generates rows, and needs no data."""
    options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """With `files`: domain -> its options, such as the path of its index or tables."""
    domains: list[str] | None = None
    """Without `files`: the domains; null is all five."""
    count: int = Field(10, ge=1)
    """Without `files`: rows of each domain."""
    seed: int = Field(0, ge=0)
    """Without `files`: seed of the rows."""
    show_results: bool = False
    """Tell the policy after a subtask whether it passed, which the benchmark does not."""

    @model_validator(mode="after")
    def _rows_come_from_one_place(self) -> MemoryArenaOptions:
        """What would choose other rows, and not be looked at, is refused."""
        if self.files is None and self.options:
            raise UserError("suite memory_arena: 'options' are those of published rows: name their 'files' too")
        if self.files is not None and self.domains is not None:
            raise UserError("suite memory_arena: 'domains' are those of generated rows: with 'files', name the files")
        return self


@dataclass(frozen=True)
class Entry:
    """A suite: the model of its options, what makes it from them (and a grader), and the actors that can play it."""

    options: type[BaseModel]
    make: Callable[[Any, Grader | None], Suite]
    actors: tuple[ActorKind, ...]
    scores: Callable[[Any], Mapping[str, Any]] = lambda env: {}
    """What the suite's own metrics need of an environment whose episode has ended."""
    metrics: Callable[[Sequence[Mapping[str, Any]]], dict[str, dict[str, float]]] = lambda scores: {}
    """Group -> metric -> value, from the scores of all episodes."""


def check_suite(name: str, options: Mapping[str, Any], actor: ActorKind | None = None) -> BaseModel:
    """The options as their model; nothing is imported or read.

    Raises:
        UserError: an unknown suite or option, or an actor that cannot play the suite.
    """
    if name not in SUITES:
        raise UserError(f"unknown suite '{name}'{nearest(name, SUITES)}: use {', '.join(SUITES)}")
    entry = SUITES[name]
    if actor is not None and actor not in entry.actors:
        raise UserError(f"actor.kind: '{actor}' cannot play {name}: use {' or '.join(entry.actors)}")
    return validate(options, entry.options, f"suite {name}")


def load_suite(name: str, options: Mapping[str, Any], grader: Grader | None = None) -> Suite:
    """The suite; `grader` takes the place of its own, if it has one.

    Raises UserError as `check_suite` does, and for data that are missing or wrong.
    """
    checked = check_suite(name, options)
    try:
        return SUITES[name].make(checked, grader)
    except (ValueError, ImportError, OSError) as error:
        raise UserError(f"suite {name}: {error}") from None


def _interdependent(options: InterdependentOptions, grader: Grader | None) -> Suite:
    from interdependent.suite import InterdependentSuite

    return InterdependentSuite(**options.model_dump())


def _household(options: HouseholdOptions, grader: Grader | None) -> Suite:
    from household import HouseholdSuite

    return HouseholdSuite(options.folder, options.max_steps)


def _memory_arena(options: MemoryArenaOptions, grader: Grader | None) -> Suite:
    from memory_arena.domain import same_text
    from memory_arena.rows import DOMAINS
    from memory_arena.suite import generated_suite, load_suite

    grade = grader or same_text
    if options.files is not None:
        return load_suite(options.files, options.options, grade, options.show_results)
    domains = DOMAINS if options.domains is None else options.domains
    return generated_suite(domains, options.count, options.seed, grade, options.show_results)


def _memory_arena_scores(env: Any) -> Mapping[str, Any]:
    scores: Mapping[str, Any] = env.result().as_json()
    return scores


def _memory_arena_metrics(scores: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    from memory_arena.metrics import RowResult, summarise

    return summarise([RowResult.from_json(one) for one in scores])


SUITES: Mapping[str, Entry] = {
    "interdependent": Entry(InterdependentOptions, _interdependent, ("scripted", "llm")),
    "household": Entry(HouseholdOptions, _household, ("walkthrough", "llm")),
    "memory_arena": Entry(MemoryArenaOptions, _memory_arena, ("llm",), _memory_arena_scores, _memory_arena_metrics),
}
