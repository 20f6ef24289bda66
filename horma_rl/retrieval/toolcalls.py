"""How each model family writes tool calls: reading them out of a response, and writing them.

Two syntaxes are known. Qwen3 (and Qwen2.5, Hermes) puts a JSON object between the tags:

    <tool_call>
    {"name": "grep", "arguments": {"args": "-i kiln"}}
    </tool_call>

Qwen3.5 (and Qwen3-Coder) puts XML-like blocks there:

    <tool_call>
    <function=grep>
    <parameter=args>
    -i kiln
    </parameter>
    </function>
    </tool_call>

With the tool surface `shell` there is one tool, `shell`, whose `command` is the whole command line (`grep -i kiln`). It
is read as the call that the line makes, so nothing behind this module knows which surface a model was given.

Reading never raises: whatever cannot be read becomes a message that tells the model what to write instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from horma_rl.errors import UserError, nearest
from memory_shell.tools import Surface, schemas
from memory_shell.types import ToolCall

Syntax = Literal["json", "xml"]

_SHELL = "shell"
OPEN, CLOSE = "<tool_call>", "</tool_call>"
_END_OF_THOUGHT = "</think>"
_SHOWN = 40


class _UnreadableError(Exception):
    """One call could not be read; the message is for the model."""


@dataclass(frozen=True)
class ToolFormat:
    """Reads and writes calls in one syntax.

    `parameters` maps a tool's name to the names of its parameters: `("args",)`, or `()` for a tool without any. In the
    surface `shell` it is `{"shell": ("command",)}`.
    """

    syntax: Syntax
    parameters: Mapping[str, tuple[str, ...]]

    def parse(self, text: str) -> list[ToolCall | str]:
        """The calls in a response, in order; a str stands for a call that could not be read and is the message that
        the model should get for it. Text outside the tags, thinking included, is ignored. No call: an empty list."""
        answer = text.rpartition(_END_OF_THOUGHT)[2]
        return [self._read(body, closed) for body, closed in _bodies(answer)]

    def render(self, calls: Sequence[ToolCall]) -> str:
        """The text that a model of this family writes for `calls` (the inverse of `parse`)."""
        return "\n".join(f"{OPEN}\n{self._render_one(call)}\n{CLOSE}" for call in calls)

    def _read(self, body: str, closed: bool) -> ToolCall | str:
        try:
            if not closed:
                raise _UnreadableError("The tool call was not closed: the second tag is missing.")
            name, arguments = _read_json(body) if self.syntax == "json" else _read_xml(body)
            return self._call(name, arguments)
        except _UnreadableError as error:
            return f"Error: {error} {self._example()}"

    def _call(self, name: str, arguments: Mapping[str, Any]) -> ToolCall:
        if name not in self.parameters:
            raise _UnreadableError(
                f"There is no tool {_shown(name)}{nearest(name[:_SHOWN], self.parameters)}. "
                f"The tools are {', '.join(self.parameters)}."
            )
        known = self.parameters[name]
        unknown = [key for key in arguments if key not in known]
        if not known:
            if any(value not in ("", None) for value in arguments.values()):
                raise _UnreadableError(f"{name} takes no arguments.")
            return ToolCall(name)
        if unknown:
            raise _UnreadableError(
                f"{name} has no argument {_shown(str(unknown[0]))}: it takes one string, {known[0]}."
            )
        value = arguments.get(known[0], "")
        if not isinstance(value, str):
            raise _UnreadableError(f"The argument {known[0]} of {name} must be one string, as typed {self._typed}.")
        text = value.encode("utf-8", "replace").decode("utf-8")
        return ToolCall.of(text) if self._is_shell else ToolCall(name, text)

    @property
    def _is_shell(self) -> bool:
        return _SHELL in self.parameters

    @property
    def _typed(self) -> str:
        return "in a shell" if self._is_shell else "after the verb"

    def _render_one(self, call: ToolCall) -> str:
        if self._is_shell:
            name, arguments = _SHELL, {"command": f"{call.name} {call.args}".strip()}
        else:
            name, arguments = call.name, {key: call.args for key in self.parameters.get(call.name, ("args",))}
        if self.syntax == "json":
            return f'{{"name": "{name}", "arguments": {json.dumps(arguments, ensure_ascii=False)}}}'
        lines = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())
        return f"<function={name}>\n{lines}</function>"

    def _example(self) -> str:
        name = next((name for name, known in self.parameters.items() if known), next(iter(self.parameters), "ls"))
        call = ToolCall("grep" if self._is_shell else name, "...")
        return f"Write {' '.join(self._render_one(call).split())} between the two tool_call tags."


def detect(tokenizer: Any, surface: Surface = "six") -> ToolFormat:
    """The format that `tokenizer`'s chat template teaches, for the tools of `surface`.

    Raises UserError when the tokenizer has no chat template, or one of an unknown family.
    """
    template = getattr(tokenizer, "chat_template", None)
    if isinstance(template, Mapping):
        template = template.get("tool_use") or template.get("default")
    if not template:
        raise UserError(
            "the tokenizer has no chat template: set tokenizer.chat_template, or use the tokenizer of a Qwen3 or "
            "Qwen3.5 chat model"
        )
    parameters = {
        tool["function"]["name"]: tuple(tool["function"]["parameters"]["properties"]) for tool in schemas(surface)
    }
    if OPEN not in template:
        raise UserError(
            f"the chat template shows no {OPEN} format, so this model's tool calls cannot be read: known are "
            'Qwen3 (JSON between <tool_call> tags) and Qwen3.5 ("<function=NAME>" blocks)'
        )
    return ToolFormat("xml" if "<function=" in template else "json", parameters)


def _bodies(text: str) -> Iterator[tuple[str, bool]]:
    """What stands between each pair of tags, and whether the closing tag was there before the next call began."""
    at = text.find(OPEN)
    while at >= 0:
        start = at + len(OPEN)
        following = text.find(OPEN, start)
        limit = len(text) if following < 0 else following
        end = text.find(CLOSE, start, limit)
        yield (text[start : end if end >= 0 else limit], end >= 0)
        at = following


def _read_json(body: str) -> tuple[str, Mapping[str, Any]]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise _UnreadableError("The tool call is not valid JSON.") from None
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise _UnreadableError('The tool call must be a JSON object with "name" and "arguments".')
    arguments = value.get("arguments", {})
    if not isinstance(arguments, dict):
        raise _UnreadableError('"arguments" must be a JSON object.')
    return value["name"], arguments


def _read_xml(body: str) -> tuple[str, Mapping[str, Any]]:
    head, opened, rest = body.partition("<function=")
    name, named, rest = rest.partition(">")
    inner, closed, after = rest.rpartition("</function>")
    if not (opened and named and closed) or head.strip() or after.strip():
        raise _UnreadableError("The tool call must hold one <function=NAME> block that is closed.")
    arguments: dict[str, str] = {}
    while inner.strip():
        head, opened, rest = inner.partition("<parameter=")
        key, named, rest = rest.partition(">")
        value, closed, inner = rest.partition("</parameter>")
        if not (opened and named and closed) or head.strip():
            raise _UnreadableError("An argument must be a <parameter=NAME> block that is closed.")
        arguments[key.strip()] = value.removeprefix("\n").removesuffix("\n")
    return name.strip(), arguments


def _shown(word: str) -> str:
    """`word` as an error message may quote it: short, and without anything that could be taken for a tag."""
    clean = "".join(c if c.isprintable() and c not in "<>" else "?" for c in word[:_SHOWN])
    return f"'{clean}'" if len(word) <= _SHOWN else f"'{clean}...'"
