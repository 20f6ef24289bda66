"""What a policy writes, as the one command grammar that the games are played in."""

from __future__ import annotations

import re

MOST_CHARACTERS = 300
"""Longer lines are no command; the longest real one has about 60 characters."""

_PREFIX = re.compile(r"(?:next )?(?:action|act|command) ?\d* ?:")
_STRAY = " \"'`*.,;:!?>[]()-"
_PUT = re.compile(r"(?:put|move) (?P<object>.+?) (?:in/on|in|on|into|onto|to) (?P<receptacle>.+)")


def normalise(action: str) -> str:
    """The command in the grammar of ALFWorld 0.4: the first line that has words, in lower case, without an `Action:`
    before it and without quotes and punctuation around it; `put X in/on Y` becomes `move X to Y`. Empty when there is
    none.
    """
    lines = (" ".join(line.split()).strip(_STRAY) for line in action[: 4 * MOST_CHARACTERS].splitlines())
    command = next((line for line in lines if line), "").casefold()
    if len(command) > MOST_CHARACTERS:
        return ""
    while match := _PREFIX.match(command):
        command = command[match.end() :].strip(_STRAY)
    put = _PUT.fullmatch(command)
    return f"move {put['object']} to {put['receptacle']}" if put else command
