"""What a policy writes, as the one command grammar that the games are played in."""

from __future__ import annotations

import re

MOST_CHARACTERS = 300
"""Longer lines are no command; the longest real one has about 60 characters."""

_PREFIX = re.compile(r"^(?:>|[-*]\s|(?:next\s+)?(?:action|act|command)\s*\d*\s*:)\s*")
_STRAY = " \t\"'`*.,;:!>[]()"
_SPACE = re.compile(r"\s+")
_PUT = re.compile(r"(?:put|move) (?P<object>.+?) (?:in/on|in|on|into|onto|to) (?P<receptacle>.+)")


def normalise(action: str) -> str:
    """The command in the grammar of ALFWorld 0.4: its first line that is not empty, in lower case, without an
    `Action:` or `>` before it and without quotes and punctuation around it; `put X in/on Y` becomes `move X to Y`.
    Empty when there is none.
    """
    lines = (line.strip() for line in action[: 4 * MOST_CHARACTERS].splitlines())
    line = next((line for line in lines if line.strip(_STRAY)), "")
    if len(line) > MOST_CHARACTERS:
        return ""
    command = _SPACE.sub(" ", line.casefold()).strip(_STRAY.replace(">", "").replace("*", ""))
    while match := _PREFIX.match(command):
        command = command[match.end() :]
    command = command.strip(_STRAY)
    put = _PUT.fullmatch(command)
    return f"move {put['object']} to {put['receptacle']}" if put else command
