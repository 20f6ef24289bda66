"""Reading a move out of what a language model wrote: leniently, for small models forget half of the form.

A move is an action of the environment, or one on memory: `compress[SUMMARY]`, `revise[STEP: REASON]`,
`recall[QUESTION]`. Tool calls are `name {"argument": value}`, also as `name({...})` and as `{"name": ..., "arguments":
...}`, and come out in the one way in which `interactive_env.calls.format_call` writes them.
"""

from __future__ import annotations

import json
import re
from typing import Any

from horma_rl.agent.types import Act, GoBack, Malformed, Mark, Move, Recall
from interactive_env.calls import format_call

LONGEST = 16_000
"""Characters of a move, summaries and arguments included; an answer that rambles on is no move."""
LONGEST_ANSWER = 200_000
"""Characters of an answer, thought included, that is read at all."""
_DECORATION = r"[ \t>*_#`-]*"
_ACTION = re.compile(rf"^{_DECORATION}action[ \t]*+\d*+[ \t*_`]*+:[ \t*_]*", re.IGNORECASE | re.MULTILINE)
_OBSERVATION = re.compile(rf"^{_DECORATION}observation[ \t]*+\d*+[ \t*_`]*+:", re.IGNORECASE | re.MULTILINE)
_THOUGHT = re.compile(rf"^{_DECORATION}thought[ \t]*+\d*+[ \t*_`]*+:[ \t*_]*", re.IGNORECASE | re.MULTILINE)
_FENCE = re.compile(r"```[A-Za-z]*[ \t]*\n?(.*?)(?:```|\Z)", re.DOTALL)
_MEMORY = re.compile(r"(compress|revise|recall)[ \t]*([\[(])", re.IGNORECASE)
_LINE_MOVE = re.compile(r"^(?:(?:compress|revise|recall)[ \t]*[\[(]|[A-Za-z_][\w-]{0,63}[ \t]*\{)", re.MULTILINE)
_TOOL = re.compile(r"([A-Za-z_][\w-]{0,63}+)\s*+\(?+\s*+(?=\{)")
_STEP = re.compile(r"(?:step\s*)?\[?(\d{1,9})\]?\s*[:,.;-]?\s*(.*)", re.IGNORECASE | re.DOTALL)
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_DECODER = json.JSONDecoder(strict=False)
CUT = "it was cut off before its end: be shorter"
NO_ACTION = "there is no line that begins with 'Action:'"


def read_answer(text: str, cut: bool = False) -> tuple[str, Move]:
    """Thought and move of an answer in lines `Thought: ...` and `Action: ...`, in either order, or of a bare action.

    Of several actions the last one counts, but nothing that comes after an observation, which the model made up. `cut`:
    the answer ended at the limit of tokens.
    """
    said = _plain(text)
    if not said.strip():
        return "", Malformed(text[:LONGEST], "it was empty")
    if len(said) > LONGEST_ANSWER:
        return "", Malformed(said[:LONGEST], f"it has more than {LONGEST_ANSWER:,} characters: be shorter")
    first = _ACTION.search(said)
    if first is None:
        return _bare(said, cut)
    made_up = _OBSERVATION.search(said, first.end())
    said = said[: made_up.start()] if made_up else said
    marked = list(_ACTION.finditer(said))[-1]
    before, after = said[: marked.start()], said[marked.end() :]
    thought = _THOUGHT.search(after)
    if thought and not before.strip():
        before, after = after[thought.end() :], after[: thought.start()]
    return _thought(before), read_action(after, cut and not made_up)


def read_action(text: str, cut: bool = False) -> Move:
    """The move that `text` begins with; the rest of it is not looked at."""
    match _move(text, cut):
        case Act(said) | Mark(said) | Recall(said) | GoBack(_, said) if len(said) > LONGEST:
            return Malformed(text[:LONGEST], f"a move has at most {LONGEST:,} characters")
        case move:
            return move


def _move(text: str, cut: bool) -> Move:
    action = _unfenced(text)
    if not action:
        return Malformed(text, CUT if cut else "there is nothing after 'Action:'")
    if found := _MEMORY.match(action):
        inside = _inside(action, found.end() - 1)
        if inside is None and cut:
            return Malformed(text, CUT)
        return _memory(found[1].lower(), action[found.end() :] if inside is None else inside, text)
    if call := _call(action):
        return Act(call)
    if cut and "\n" not in action:
        return Malformed(text, CUT)
    return Act(_first(action))


def _plain(text: str) -> str:
    """What comes after thinking, without what no file can hold."""
    return _encodable(text.rpartition("</think>")[2])


def _encodable(text: str) -> str:
    """`text` with `?` for halves of characters, which JSON can write and neither a file nor a database takes."""
    return text.encode("utf-8", "replace").decode()


def _bare(said: str, cut: bool) -> tuple[str, Move]:
    """An answer without a line `Action:`: one line, alone or after the thought, or a move that begins a line."""
    if cut:
        return "", Malformed(said, CUT)
    lines = [line for line in _unfenced(said).splitlines() if line.strip()]
    thought = bool(lines) and _THOUGHT.match(lines[0]) is not None
    if len(lines) == 1 + thought:
        return (_thought(lines[0]) if thought else ""), read_action(lines[-1])
    if found := _LINE_MOVE.search(said):
        return _thought(said[: found.start()]), read_action(said[found.start() :])
    return "", Malformed(said, NO_ACTION)


def _thought(text: str) -> str:
    return _THOUGHT.sub("", text, count=1).strip(" \t\n\r`")


def _unfenced(text: str) -> str:
    """`text` without blanks, the code fence and the quotes around it."""
    stripped = text.strip()
    if fenced := _FENCE.match(stripped):
        stripped = fenced[1].strip()
    for quote in ("`", '"', "'", "**"):
        if len(stripped) > 2 * len(quote) and stripped.startswith(quote) and stripped.endswith(quote):
            stripped = stripped[len(quote) : -len(quote)].strip()
    return stripped


def _inside(text: str, start: int) -> str | None:
    """What stands in the bracket that opens at `start`; None when it is never closed."""
    opening, closing, depth = text[start], _CLOSING[text[start]], 0
    for at in range(start, len(text)):
        depth += (text[at] == opening) - (text[at] == closing)
        if depth == 0:
            return text[start + 1 : at]
    return None


def _memory(name: str, inside: str, text: str) -> Move:
    inside = inside.strip()
    if name == "revise":
        found = _STEP.fullmatch(inside)
        if found is None:
            return Malformed(text, "revise names the step to go back to: revise[STEP: REASON]")
        return GoBack(int(found[1]), found[2].strip() or "no reason given")
    if not inside:
        return Malformed(text, f"there is nothing in the brackets of {name}[...]")
    return Mark(inside) if name == "compress" else Recall(inside)


def _call(action: str) -> str | None:
    """A tool call in the one way to write it, or None when this is none, or its arguments are no JSON object."""
    if action.startswith("{"):
        value = _json(action, 0)
        name, arguments = value.get("name"), value.get("arguments", value.get("parameters", {}))
        return _written(name, arguments) if isinstance(name, str) and isinstance(arguments, dict) else None
    found = _TOOL.match(action)
    value = _json(action, found.end()) if found else {}
    return _written(found[1], value) if found and (value or re.match(r"\{\s*\}", action[found.end() :])) else None


def _written(name: str, arguments: dict[str, Any]) -> str | None:
    """The call as text; None when its arguments are nested too deeply to be written, if not to be read."""
    try:
        return _encodable(format_call(name, arguments))
    except RecursionError:
        return None


def _json(text: str, start: int) -> dict[str, Any]:
    """The JSON object at `start`, or an empty one."""
    try:
        value, _ = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _first(action: str) -> str:
    """The first line; with those that follow, as long as a bracket that it opens is not closed."""
    line = action.splitlines()[0].strip()
    opened = next((at for at, char in enumerate(action[: len(line)]) if char in _CLOSING), None)
    if opened is None or _inside(line, opened) is not None:
        return _unfenced(line)
    inside = _inside(action, opened)
    return line if inside is None else action[: opened + len(inside) + 2]
