"""A validated value out of what a model wrote: JSON is looked for in the text, small faults are repaired, and a value
that does not fit is refused with a reason that the model can be shown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import ValidationError

from horma_rl.llm.types import ModelT

_LONGEST = 200_000
"""Characters that are looked at; an answer of a megabyte is no answer, and must not take minutes to refuse."""
_STARTS = 24
_REPAIRS = 4
_OPEN = re.compile(r"[{\[]")
_FENCE = re.compile(r"```[A-Za-z]*\s*\n(.*?)```", re.DOTALL)
_WORD = re.compile(r"\b(?:True|False|None)\b")
_WORDS = {"True": "true", "False": "false", "None": "null"}
_QUOTES = {'"': '"', "'": "'", "\u201c": "\u201d", "\u201d": "\u201d", "\u2018": "\u2019"}
_REASON = 600


class InvalidError(ValueError):
    """There is no valid value in a text; the message says why."""


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(strict=False, parse_constant=_no_constant)


def extract(
    text: str, schema: type[ModelT], check: Callable[[ModelT], str | None] | None = None, cut: bool = False
) -> ModelT:
    """The first value in `text` that is a `schema` and that `check` has nothing against.

    `cut`: the text ended at the limit of tokens, so that brackets left open are not closed: what is missing is missing.

    Raises:
        InvalidError: there is none. The reason is that of the first JSON value found.
    """
    reasons: list[str] = []
    for value in _values(_answer(text)[:_LONGEST], close=not cut):
        try:
            found = schema.model_validate(_wrapped(value, schema))
        except ValidationError as error:
            reasons.append(_explain(error))
            continue
        except RecursionError:
            reasons.append("the value is nested too deeply")
            continue
        reason = check(found) if check else None
        if reason is None:
            return found
        reasons.append(reason)
    if reasons:
        raise InvalidError(reasons[0][:_REASON] + (" (the answer was cut off: be shorter)" if cut else ""))
    if not text.strip():
        raise InvalidError("the answer was empty")
    raise InvalidError("the answer was cut off: be shorter" if cut else "there was no JSON in the answer that parses")


def _answer(text: str) -> str:
    """What comes after thinking."""
    return text.rpartition("</think>")[2]


def _values(text: str, close: bool) -> Iterator[Any]:
    """The JSON objects and arrays in `text`, those in fences first."""
    for fenced in _FENCE.findall(text)[:_STARTS]:
        yield from _values_in(fenced, close)
    yield from _values_in(text, close)


def _values_in(text: str, close: bool) -> Iterator[Any]:
    at, tries, repairs = _OPEN.search(text), 0, 0
    while at and tries < _STARTS:
        tries += 1
        end = at.start() + 1
        try:
            value, end = _DECODER.raw_decode(text, at.start())
            yield _encodable(value)
        except (ValueError, RecursionError):
            # What other brackets hold inside a faulty value is no answer, so a repaired one is the last.
            if repairs < _REPAIRS and (value := _repaired_value(text[at.start() :], close)) is not None:
                yield value
                return
            repairs += 1
        at = _OPEN.search(text, end)


def _repaired_value(text: str, close: bool) -> Any:
    """The value that `text` begins with after repairs, or None."""
    try:
        return _encodable(_DECODER.raw_decode(_repaired(text, close))[0])
    except (ValueError, RecursionError):
        return None


def _encodable(value: Any) -> Any:
    """`value` without lone surrogates, which JSON can escape and no file can hold."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _repaired(text: str, close: bool) -> str:
    """The JSON value that `text` begins with, rewritten: other quotes, Python's constants, commas before a closing
    bracket, and (`close`) brackets that were never closed."""
    out: list[str] = []
    stack: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char in _QUOTES:
            string, at = _string(text, at)
            out.append(string)
            continue
        if char in "{[":
            stack.append("}" if char == "{" else "]")
        elif char in "}]":
            _drop_comma(out)
            while stack and stack[-1] != char:
                out.append(stack.pop())
            if not stack:
                break
            stack.pop()
        word = _WORD.match(text, at)
        out.append(_WORDS[word.group()] if word else char)
        at = word.end() if word else at + 1
        if not stack:
            return "".join(out)
    if close:
        _drop_comma(out)
        out += reversed(stack)
    return "".join(out)


def _string(text: str, start: int) -> tuple[str, int]:
    """The string that begins at `start`, as JSON writes it, and where it ends."""
    closing = _QUOTES[text[start]]
    end = start + 1
    while end < len(text) and text[end] != closing:
        end += 2 if text[end] == "\\" else 1
    inside = text[start + 1 : end]
    if closing != '"':
        inside = inside.replace("\\'", "'").replace('\\"', '"').replace('"', '\\"')
    return f'"{inside}"', end + 1


def _drop_comma(out: list[str]) -> None:
    """Take a comma off the end of `out`, and the blanks after it."""
    end = len(out)
    while end and out[end - 1].isspace():
        end -= 1
    if end and out[end - 1] == ",":
        del out[end - 1 :]


def _wrapped(value: Any, schema: type[ModelT]) -> Any:
    """A bare list is taken for the one field of a model that has no other."""
    if isinstance(value, list) and len(schema.model_fields) == 1:
        return {next(iter(schema.model_fields)): value}
    return value


def _explain(error: ValidationError) -> str:
    """The first faults, with where they are and never with long inputs."""
    told = []
    for fault in error.errors(include_url=False, include_input=False)[:3]:
        where = ".".join(str(part) for part in fault["loc"])[:120]
        told.append(f"{where or 'the value'}: {fault['msg'][:200]}")
    more = error.error_count() - len(told)
    return "; ".join(told) + (f"; and {more} more" if more > 0 else "")
