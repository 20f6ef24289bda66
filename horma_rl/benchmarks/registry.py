"""Benchmarks by name, so that a config can say which tasks to train and evaluate on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from horma_rl.benchmarks.generator import Generated, GeneratorConfig, generate
from horma_rl.benchmarks.generator.chains import ChainConfig, chains
from horma_rl.benchmarks.locomo import PAPER_CATEGORIES, load_locomo
from horma_rl.benchmarks.longmemeval import LongMemEvalOptions, longmemeval
from horma_rl.benchmarks.sources import find_locomo, source
from horma_rl.benchmarks.types import Benchmark, Conversation
from horma_rl.errors import UserError, nearest
from memory_shell.types import Task

M = TypeVar("M", bound=BaseModel)


class LocomoOptions(BaseModel):
    """Options of "locomo"."""

    model_config = ConfigDict(extra="forbid")

    path: Path | None = Field(None, description="locomo10.json; found in the usual places when not given.")
    categories: Sequence[str] | None = Field(PAPER_CATEGORIES, description="Names of categories; null means all five.")


class GeneratedOptions(BaseModel):
    """Options of "generated": two generator runs, one for each half, over vocabularies that share no name or object."""

    model_config = ConfigDict(extra="forbid")

    seed: int = Field(0, description="Seed of both halves.")
    train: int = Field(64, ge=0, description="Memories in the training half.")
    eval: int = Field(16, ge=0, description="Memories in the evaluation half.")
    generator: dict[str, Any] = Field(default_factory=dict, description="Other fields of GeneratorConfig.")


class ChainOptions(BaseModel):
    """Options of "chains": things of one kind that are moved again and again, in two halves without common words."""

    model_config = ConfigDict(extra="forbid")

    seed: int = Field(0, description="Seed of both halves.")
    train: int = Field(16, ge=0, description="Memories in the training half.")
    eval: int = Field(8, ge=0, description="Memories in the evaluation half.")
    generator: dict[str, Any] = Field(default_factory=dict, description="Other fields of ChainConfig.")


def load_benchmark(name: str, **options: Any) -> Benchmark:
    """The benchmark `name`: "locomo", "longmemeval", "generated" or "chains".

    Raises:
        UserError: an unknown name or option.
    """
    check_options(name, options)
    return BENCHMARKS[name](options)


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Raise UserError, as `load_benchmark` does, for an unknown benchmark or an unsound option; nothing is read."""
    if name not in BENCHMARKS:
        raise UserError(f"unknown benchmark '{name}'{nearest(name, BENCHMARKS)}: use {', '.join(BENCHMARKS)}")
    _checked(_OPTIONS[name], options, f"benchmark {name}")


def generator_config(values: Mapping[str, Any]) -> GeneratorConfig:
    """A checked GeneratorConfig. Raises UserError that names the field at fault."""
    return _checked(GeneratorConfig, values, "generator")


def longmemeval_options(values: Mapping[str, Any]) -> LongMemEvalOptions:
    """Checked options of "longmemeval". Raises UserError that names the option at fault."""
    return _checked(LongMemEvalOptions, values, "benchmark longmemeval")


def _checked(model: type[M], values: Mapping[str, Any], where: str) -> M:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(map(str, fault["loc"]))
        hint = nearest(key, model.model_fields) if fault["type"] == "extra_forbidden" else ""
        message = "no such option" if fault["type"] == "extra_forbidden" else fault["msg"].removeprefix("Value error, ")
        raise UserError(f"{where}: '{key}': {message}{hint}") from None


def _locomo(values: Mapping[str, Any]) -> Benchmark:
    options = _checked(LocomoOptions, values, "benchmark locomo")
    locomo = load_locomo(find_locomo(options.path))
    facts = source("locomo")
    return Benchmark(
        name="locomo",
        conversations=locomo.conversations,
        train=tuple(locomo.tasks("train", options.categories)),
        eval=tuple(locomo.tasks("eval", options.categories)),
        provenance=f"LoCoMo as released ({facts.url}); first seven conversations train, the rest evaluate",
        licence=facts.licence,
    )


def _generated(values: Mapping[str, Any]) -> Benchmark:
    options = _checked(GeneratedOptions, values, "benchmark generated")
    halves: dict[str, Generated | None] = {}
    for part, memories in (("train", options.train), ("eval", options.eval)):
        wanted = {"seed": options.seed, **options.generator, "part": part, "memories": memories}
        halves[part] = generate(generator_config(wanted)) if memories else None
    train, held_out = halves["train"], halves["eval"]
    return Benchmark(
        name="generated",
        conversations=tuple(
            conversation for half in (train, held_out) if half is not None for conversation in half.conversations
        ),
        train=tuple(train.tasks) if train else (),
        eval=tuple(held_out.tasks) if held_out else (),
        provenance=f"generated by this program (seed {options.seed}); the halves share no name and no object",
        licence="Apache-2.0",
    )


def _chains(values: Mapping[str, Any]) -> Benchmark:
    options = _checked(ChainOptions, values, "benchmark chains")
    halves: dict[str, list[tuple[Conversation, tuple[Task, ...]]]] = {}
    for part, memories in (("train", options.train), ("eval", options.eval)):
        wanted = {"seed": options.seed, **options.generator, "part": part, "memories": max(1, memories)}
        halves[part] = list(chains(_checked(ChainConfig, wanted, "chains")))[:memories]
    train, held_out = halves["train"], halves["eval"]
    return Benchmark(
        name="chains",
        conversations=tuple(conversation for conversation, _ in (*train, *held_out)),
        train=tuple(task for _, tasks in train for task in tasks),
        eval=tuple(task for _, tasks in held_out for task in tasks),
        provenance=f"object chains generated by this program (seed {options.seed}); the halves share no words",
        licence="Apache-2.0",
    )


def _longmemeval(values: Mapping[str, Any]) -> Benchmark:
    return longmemeval(longmemeval_options(values))


BENCHMARKS: Mapping[str, Callable[[Mapping[str, Any]], Benchmark]] = {
    "locomo": _locomo,
    "longmemeval": _longmemeval,
    "generated": _generated,
    "chains": _chains,
}

_OPTIONS: Mapping[str, type[BaseModel]] = {
    "locomo": LocomoOptions,
    "longmemeval": LongMemEvalOptions,
    "generated": GeneratedOptions,
    "chains": ChainOptions,
}
