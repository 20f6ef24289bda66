"""Typed run configs: one YAML file is one run.

A file may extend others (`extends: ../base.yaml`, paths relative to the file), and the command line may override any
field (`grpo.learning_rate=1e-5`). Unknown keys are refused with the nearest name; a wrong type names the field.
No torch is imported here.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from horma_rl.errors import UserError, nearest

ConfigT = TypeVar("ConfigT", bound=BaseModel)


class StrictModel(BaseModel):
    """The base of every config: unknown keys and numbers that are not finite are errors, values never change after
    reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class _Loader(yaml.SafeLoader):
    """YAML 1.1 reads `1e-6` as a string; people mean a number."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^[-+]?(?:\d[\d_]*(?:\.[\d_]*)?(?:[eE][-+]?\d+)|\d[\d_]*\.[\d_]*|\.\d+(?:[eE][-+]?\d+)?|\.(?:inf|nan))$"
    ),
    list("-+0123456789."),
)


def load_config(path: Path | str, overrides: Sequence[str], model: type[ConfigT]) -> ConfigT:
    """Read `path`, apply `key.sub=value` overrides, and validate against `model`.

    Raises:
        UserError: the file is missing or not YAML, a key is unknown, or a value has the wrong type.
    """
    data = _read(Path(path), ())
    for override in overrides:
        _apply(data, override)
    return validate(data, model, str(path))


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
    if not path.is_file():
        raise UserError(f"no config file at {path}{_other_configs(path.name)}")
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # a subclass of SafeLoader
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
        value = yaml.load(text, _Loader)  # a subclass of SafeLoader
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
    return f"'{where}' is {first['input']!r}: {first['msg'][0].lower()}{first['msg'][1:]}"


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
