"""GNU-style options: combined short flags, long spellings and their abbreviations, `--`, flags after operands."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from memory_shell.commands import Word


class UsageError(ValueError):
    """A flag that a verb does not know, or that lacks its value."""


@dataclass(frozen=True, slots=True)
class Flags:
    """What a verb takes. `short`: its one-letter flags; `valued`: those that take a value; `long`: spelling -> letter
    (or a longer name, for flags that have no letter; `valued_long` are those that take a value); `digits`: whether `-5`
    is a flag."""

    verb: str
    short: str
    valued: str
    long: Mapping[str, str]
    usage: str
    digits: bool = False
    valued_long: tuple[str, ...] = ()


def parse_options(flags: Flags, words: Sequence[Word]) -> tuple[list[tuple[str, str]], list[Word]]:
    """(flag, value) pairs in the order typed, and the operands. Raises UsageError."""
    found: list[tuple[str, str]] = []
    operands: list[Word] = []
    queue = iter(words)
    for word in queue:
        text = word.text
        if text == "--":
            operands += queue
        elif text.startswith("--"):
            found.append(_long(flags, text[2:], queue))
        elif len(text) > 1 and text[0] == "-":
            _short(flags, text, queue, found)
        else:
            operands.append(word)
    return found, operands


def _short(flags: Flags, text: str, queue: Iterator[Word], found: list[tuple[str, str]]) -> None:
    index = 1
    while index < len(text):
        letter = text[index]
        index += 1
        if flags.digits and letter.isascii() and letter.isdigit():
            start = index - 1
            while index < len(text) and text[index].isascii() and text[index].isdigit():
                index += 1
            found.append(("C", text[start:index]))
        elif letter in flags.valued:
            value = text[index:] if index < len(text) else _next(flags, f"-{letter}", queue)
            found.append((letter, value))
            return
        elif letter in flags.short:
            found.append((letter, ""))
        else:
            raise UsageError(f"{flags.verb}: unknown flag -{letter}: {flags.usage}")


def _long(flags: Flags, text: str, queue: Iterator[Word]) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    matches = [name] if name in flags.long else [known for known in flags.long if known.startswith(name)]
    letters = {flags.long[known] for known in matches}
    if len(letters) > 1:
        raise UsageError(f"{flags.verb}: --{name} is ambiguous: {', '.join('--' + known for known in matches)}")
    if not letters:
        close = difflib.get_close_matches(name, flags.long, n=1)
        hint = f"did you mean --{close[0]}? " if close else ""
        raise UsageError(f"{flags.verb}: unknown flag --{name}: {hint}{flags.usage}")
    letter = letters.pop()
    if not _takes_value(flags, letter):
        if equals:
            raise UsageError(f"{flags.verb}: --{name} takes no value")
        return letter, ""
    return letter, value if equals else _next(flags, f"--{name}", queue)


def _takes_value(flags: Flags, letter: str) -> bool:
    return letter in flags.valued if len(letter) == 1 else letter in flags.valued_long


def _next(flags: Flags, name: str, queue: Iterator[Word]) -> str:
    word = next(queue, None)
    if word is None:
        raise UsageError(f"{flags.verb}: {name} needs a value: {flags.usage}")
    return word.text
