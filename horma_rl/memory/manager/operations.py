"""What the model may propose: six operations in a validated schema, small enough for a small model.

Reading is lenient where the meaning is plain (a line may be `"text [D1:3]"`, one turn may stand for a list of one) and
strict otherwise: an operation that does not fit comes back as a `Refused` with a reason that the model can act on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from memory_shell.notes import citations

MAX_LINES = 20
"""Lines of one operation."""
MAX_LINE = 400
"""Characters of one line."""
MAX_TURNS = 4
"""Turns that one line cites."""
_TELLING = {"claim": "absence", "to": "link", "new_path": "supersede", "lines": "create"}
_SHOWN = 600
"""Characters of a refused operation that are logged and shown again."""


def _listed(value: object) -> object:
    return [value] if isinstance(value, str | Mapping) else value


class NoteLine(BaseModel):
    """One statement and the turns that it comes from."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    text: str = Field(min_length=1, max_length=MAX_LINE)
    turns: Annotated[tuple[str, ...], BeforeValidator(_listed)] = Field(min_length=1, max_length=MAX_TURNS)

    @model_validator(mode="before")
    @classmethod
    def _from_cited_text(cls, value: object) -> object:
        """`"text [D1:3]"`, and a text that cites its turns itself."""
        fields = {"text": value} if isinstance(value, str) else value
        if not isinstance(fields, Mapping) or fields.get("turns") or not isinstance(fields.get("text"), str):
            return fields
        text = fields["text"]
        cited = citations(text)
        return {"text": text.rpartition("[")[0].strip() if text.rstrip().endswith("]") else text, "turns": cited}


Lines = Annotated[tuple[NoteLine, ...], BeforeValidator(_listed)]
_PATH = Field(min_length=1, max_length=200)
_LINES = Field(min_length=1, max_length=MAX_LINES)


Topics = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=60)], ...], BeforeValidator(_listed)]
_TOPICS = Field((), max_length=3)


class _Operation(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Create(_Operation):
    """A new note. `path` is FOLDER/NAME.md; its lines are also filed under `topics`."""

    op: Literal["create"]
    path: str = _PATH
    title: str = Field("", max_length=200)
    topics: Topics = _TOPICS
    lines: Lines = _LINES


class Append(_Operation):
    """More lines for a note that exists."""

    op: Literal["append"]
    path: str = _PATH
    lines: Lines = _LINES


class Supersede(_Operation):
    """A note that is no longer true gets a successor; it stays, and names the successor."""

    op: Literal["supersede"]
    path: str = _PATH
    new_path: str = _PATH
    title: str = Field("", max_length=200)
    topics: Topics = _TOPICS
    lines: Lines = _LINES


class Link(_Operation):
    """A note names another one that belongs to it."""

    op: Literal["link"]
    path: str = _PATH
    to: str = _PATH


class Mkdir(_Operation):
    """A new folder for notes."""

    op: Literal["mkdir"]
    path: str = _PATH


class Absence(_Operation):
    """Something that was never said so far. `words` are looked for in every archived turn: none may hold them all."""

    op: Literal["absence"]
    claim: str = Field(min_length=1, max_length=200)
    words: Annotated[tuple[str, ...], BeforeValidator(_listed)] = Field(min_length=1, max_length=4)


Operation = Create | Append | Supersede | Link | Mkdir | Absence
KINDS = ("create", "append", "supersede", "link", "mkdir", "absence")
_ADAPTER: TypeAdapter[Operation] = TypeAdapter(Annotated[Operation, Field(discriminator="op")])


class Proposal(BaseModel):
    """One answer. Each operation is validated on its own (`read`), so that a bad one does not spoil the others; what
    the server is told is stricter (`schema.answer_to`)."""

    operations: list[Any]

    @model_validator(mode="before")
    @classmethod
    def _from_bare_operations(cls, value: object) -> object:
        """A bare list of operations, or one operation, is taken for what it is."""
        if isinstance(value, list):
            return {"operations": value}
        if isinstance(value, Mapping) and "op" in value and "operations" not in value:
            return {"operations": [dict(value)]}
        return value

    @field_validator("operations")
    @classmethod
    def _are_objects(cls, value: list[Any]) -> list[Any]:
        """A list without any object in it is not a list of operations, but a piece of a broken answer."""
        if value and not any(isinstance(one, Mapping) for one in value):
            raise ValueError("operations are objects with 'op'")
        return value


@dataclass(frozen=True, slots=True)
class Refused:
    """An operation that does not count, as far as it is shown, its kind (`unknown` if it has none) and why."""

    kind: str
    shown: str
    reason: str


def read(raw: object) -> Operation | Refused:
    """`raw` as an operation. Never raises. Where `op` is missing, the fields may tell it: small models forget it."""
    if isinstance(raw, Mapping) and "op" not in raw:
        kind = next((kind for name, kind in _TELLING.items() if name in raw), None)
        raw = {"op": kind, **raw} if kind else raw
    try:
        return _ADAPTER.validate_python(raw)
    except ValidationError as error:
        return Refused(kind_of(raw), shown(raw), _reason(error, raw))
    except RecursionError:
        return Refused(kind_of(raw), "", "nested too deeply")


def kind_of(raw: object) -> str:
    """The operation's name, or `unknown`."""
    kind = raw.get("op") if isinstance(raw, Mapping) else None
    return kind if isinstance(kind, str) and kind in KINDS else "unknown"


def shown(raw: object) -> str:
    """`raw` as JSON in ASCII, cut to a few hundred characters."""
    try:
        text = json.dumps(raw, ensure_ascii=True, default=str, allow_nan=False)
    except (ValueError, RecursionError):
        text = "(no JSON)"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _reason(error: ValidationError, raw: object) -> str:
    """The first fault, in words that say what to write."""
    if kind_of(raw) == "unknown":
        return f"'op' must be one of {', '.join(KINDS)}"
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"][1:])
    if where.endswith("turns") and first["type"] in ("missing", "too_short"):
        return f"{where}: every line names the turns it comes from, like ['D1:3']"
    return f"{where}: {first['msg'][0].lower()}{first['msg'][1:]}"
