"""Typed run configs: one YAML file is one run.

A file may extend others (`extends: ../base.yaml`, paths relative to the file), and the command line may override any
field (`grpo.learning_rate=1e-5`). Unknown keys are refused with the nearest name; a wrong type names the field.
No torch is imported here.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from horma_rl.errors import UserError, nearest
from horma_rl.yaml_reader import read_yaml

ConfigT = TypeVar("ConfigT", bound=BaseModel)


class StrictModel(BaseModel):
    """The base of every config: unknown keys and numbers that are not finite are errors, values never change after
    reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


_KINDS: dict[str, tuple[str, frozenset[str]]] = {
    "ablate": ("an ablation", frozenset({"question", "cells"})),
    "train": ("a training run", frozenset({"grpo", "sft"})),
    "eval": ("an evaluation", frozenset({"policies", "baselines", "split"})),
}
"""By verb: what its configs are, and keys that those of the other verbs do not have."""


def load_config(path: Path | str, overrides: Sequence[str], model: type[ConfigT]) -> ConfigT:
    """Read `path`, apply `key.sub=value` overrides, and validate against `model`.

    Raises:
        UserError: the file is missing or not YAML, a key is unknown, or a value has the wrong type.
    """
    data = _read(Path(path), ())
    other = _other_kind(data, model)
    for override in overrides:
        _apply(data, override)
    try:
        return validate(data, model, str(path))
    except UserError as error:
        raise UserError(f"{error}; this looks like {other} {path}") if other else error from None


def _other_kind(data: Mapping[str, Any], model: type[BaseModel]) -> str | None:
    """What a file with the keys of another verb's configs is, and the command for it; None for one of `model`."""
    strange = data.keys() - model.model_fields.keys()
    kinds = (f"{what}: horma-rl {verb}" for verb, (what, keys) in _KINDS.items() if keys & strange)
    return next(kinds, None)


def validate(data: Mapping[str, Any], model: type[ConfigT], where: str) -> ConfigT:
    """`data` as a `model`; the first fault becomes one clear line that names `where`."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise UserError(f"{where}: {_explain(error, model)}") from None


def dump(config: BaseModel) -> str:
    """The resolved config as YAML, every default written out."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _read(path: Path, seen: tuple[Path, ...]) -> dict[str, Any]:
    path = path.resolve()
    if path in seen:
        raise UserError(f"{path}: 'extends' goes in a circle")
    if path.is_dir():
        raise UserError(f"{path} is a folder: name the config in it")
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is no file")
    if not path.is_file():
        raise UserError(f"no config file at {path}{_other_configs(path.name)}")
    try:
        data = read_yaml(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError) as error:  # impossible dates and bad UTF-8 are ValueErrors
        raise UserError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise UserError(f"{path}: a config is a mapping of keys to values, not a {type(data).__name__}")
    bases = data.pop("extends", None) or []
    if not isinstance(bases, str | list) or not all(isinstance(base, str) for base in bases):
        raise UserError(f"{path}: 'extends' is the path of a config, or a list of them, not {bases!r}")
    merged: dict[str, Any] = {}
    for base in [bases] if isinstance(bases, str) else bases:
        _merge(merged, _read(path.parent / base, (*seen, path)))
    _merge(merged, data)
    return merged


def _other_configs(name: str) -> str:
    """What to say of the configs that are there: the one with a name like `name`, or their folders."""
    there = {path.stem: str(path) for path in sorted(Path("configs").rglob("*.yaml"))}
    close = difflib.get_close_matches(Path(name).stem, there, n=1)
    if close:
        return f" (did you mean '{there[close[0]]}'?)"
    folders = sorted({str(Path(path).parent) for path in there.values()})
    return f"; there are configs in {', '.join(folders)}" if folders else ""


def _merge(into: dict[str, Any], new: Mapping[str, Any]) -> None:
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def _apply(data: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise UserError(f"'{override}' is not an override: write key=value, for example grpo.learning_rate=1e-5")
    try:
        value = read_yaml(text)
    except (yaml.YAMLError, ValueError):
        raise UserError(f"'{override}': the value is not valid YAML; put quotes around it") from None
    *parents, last = key.split(".")
    node = data
    for parent in parents:
        child = node.setdefault(parent, {})
        if not isinstance(child, dict):
            raise UserError(f"'{override}': '{parent}' is a value, not a section")
        node = child
    node[last] = value


def _explain(error: ValidationError, model: type[BaseModel]) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        known = _fields_at(model, first["loc"][:-1])
        return f"unknown key '{where}'{nearest(str(first['loc'][-1]), known)}"
    if first["type"] == "missing":
        return f"key '{where}' is missing"
    return f"'{where}' is {first['input']!r}: {_in_words(first, model)}"


def _in_words(fault: Any, model: type[BaseModel]) -> str:
    """What pydantic says of a value, without its own terms."""
    if fault["type"] in ("model_type", "dataclass_type"):
        keys = ", ".join(_fields_at(model, fault["loc"]))
        return f"a section is expected, with some of the keys {keys}"
    if fault["type"] == "too_short":
        return f"at least {fault['ctx']['min_length']} must be given"
    if fault["type"] == "string_pattern_mismatch":
        return "letters, digits, '_', '-' and '.' make a name, and it begins with a letter, a digit or '_'"
    return f"{fault['msg'][0].lower()}{fault['msg'][1:]}"


def _fields_at(section: type[Any], loc: Sequence[int | str]) -> list[str]:
    """The names that the section at `loc` knows; sections are models or dataclasses, also as values of a mapping."""
    for part in loc:
        annotation = _annotations(section).get(str(part))
        options = getattr(annotation, "__args__", (annotation,))
        section = next((option for option in options if isinstance(option, type) and _annotations(option)), section)
    return list(_annotations(section))


def _annotations(section: type[Any]) -> dict[str, Any]:
    """Field name -> annotation; empty for what is no section."""
    if issubclass(section, BaseModel):
        return {name: field.annotation for name, field in section.model_fields.items()}
    return {field.name: field.type for field in fields(section)} if is_dataclass(section) else {}
