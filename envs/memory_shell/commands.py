"""Read one command line: shell quoting, globs, and the habits of a real shell that this one refuses."""

from __future__ import annotations

import difflib
import re
from typing import NamedTuple

from memory_shell.globs import has_magic

VERBS = ("ls", "cd", "grep", "cat", "select", "done")
MAX_LINE = 64 * 1024

_INSTEAD = {
    "find": "use ls -R, or a glob such as **/*.md",
    "tree": "use ls -R",
    "dir": "use ls",
    "head": "use cat PATH:1-20",
    "tail": "use cat PATH:M-N (grep -c '' PATH counts the lines)",
    "sed": "use cat PATH:M-N to show lines; nothing here can be edited",
    "awk": "use grep and cat PATH:M-N",
    "less": "use cat PATH:M-N",
    "more": "use cat PATH:M-N",
    "wc": "use grep -c '' PATH to count lines",
    "egrep": "use grep -E",
    "fgrep": "use grep -F",
    "rg": "use grep",
    "ag": "use grep",
    "git": "use grep",
    "sort": "the output comes in order of files and lines",
    "pwd": "cd . prints the current directory",
    "open": "use cat PATH",
    "view": "use cat PATH",
    "submit": "use done",
    "exit": "use done",
    "quit": "use done",
    "finish": "use done",
    "answer": "use select for the evidence, then done",
    "echo": "use select for the evidence, then done",
}


class CommandError(ValueError):
    """A line that is no command. The message is for whoever typed it: what is wrong, and what to use instead."""


class Word(NamedTuple):
    """One word of a command line: its `text` without quotes, and the `glob` it stands for when it holds one
    (a backslash quotes the next character there)."""

    text: str
    glob: str | None = None


class Command(NamedTuple):
    """A verb and the words after it."""

    verb: str
    words: tuple[Word, ...]


def parse_command(line: str) -> Command:
    """The command on `line`. Raises CommandError."""
    if len(line) > MAX_LINE:
        raise CommandError(f"the command is longer than {MAX_LINE} characters")
    words = split_words(line)
    if not words:
        raise CommandError(f"empty command: use one of {', '.join(VERBS)}")
    verb = words[0].text
    if verb not in VERBS:
        raise CommandError(_unknown(verb))
    return Command(verb, tuple(words[1:]))


def _unknown(verb: str) -> str:
    shown = verb[:40]
    if verb in _INSTEAD:
        return f"{shown}: not available here: {_INSTEAD[verb]}"
    close = difflib.get_close_matches(shown.lower(), VERBS, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{shown}: command not found: {hint}the commands are {', '.join(VERBS)}"


_OPERATORS = {
    "|": "pipes are not available: give one command the flags it needs (grep takes -c, -m N, -l and -e A --and -e B); "
    "quote a | that belongs to a pattern",
    "||": "|| is not available: one command at a time",
    "&": "& is not available: one command at a time",
    "&&": "&& is not available: one command at a time",
    ";": "; is not available: one command at a time",
    ">": "redirection is not available: nothing here can be written; quote a > that belongs to a pattern",
    "<": "redirection is not available: name the file as an argument; quote a < that belongs to a pattern",
    "(": "subshells are not available: quote a pattern that holds parentheses",
    ")": "subshells are not available: quote a pattern that holds parentheses",
    "\n": "one command at a time: put a second line into a second command",
}
_SUBSTITUTION = "command substitution is not available: run the inner command first; use single quotes for a literal "
_VARIABLE = "there are no variables here: use single quotes for a literal $"


# A word without anything special, or one that is quoted as a whole.
_SIMPLE = re.compile(r"""[ \t]*(?:([^ \t\r\n'"\\|&;<>()$`*?\[#~]+)|'([^']*)'|"([^"\\$`]*)")(?=[ \t]|\Z)""")
_PLAIN = re.compile(r"""[^ \t\r\n'"\\|&;<>()$`]+""")


def split_words(line: str) -> list[Word]:
    """The words of `line` by the rules of a POSIX shell. Raises CommandError for what this shell refuses."""
    line = line.strip(" \t\r\n")
    words: list[Word] = []
    index = 0
    while match := _SIMPLE.match(line, index):
        words.append(Word(match[match.lastindex or 0]))
        index = match.end()
    return words if index == len(line) else words + _Splitter(line, index).split()


class _Splitter:
    """Reads the words of a line from `index` on, which is not inside a word."""

    def __init__(self, line: str, index: int) -> None:
        self.line = line
        self.index = index
        self.words: list[Word] = []

    def split(self) -> list[Word]:
        line, end = self.line, len(self.line)
        while self.index < end:
            char = line[self.index]
            if char in " \t\r":
                self.index += 1
            elif char == "#":
                newline = line.find("\n", self.index)
                self.index = end if newline < 0 else newline
            else:
                self.words.append(self._word())
        return self.words

    def _word(self) -> Word:
        """One word, from the cursor on: pieces of plain and quoted text side by side."""
        text: list[str] = []
        glob: list[str] = []
        line, end = self.line, len(self.line)
        if line[self.index] == "~" and (self.index + 1 == end or line[self.index + 1] in "/ \t"):
            text.append("/")  # the home directory is the root
            glob.append("/")
            self.index += 1
        while self.index < end:
            char = line[self.index]
            if char in " \t\r":
                break
            if char in "|&;<>()\n":
                self._refuse(char)
            if char == "'":
                quoted = self._single()
            elif char == '"':
                quoted = self._double()
            elif char == "\\":
                quoted = self._escaped()
            else:
                self._dollar(char)
                plain = _PLAIN.match(line, self.index)
                self.index = plain.end() if plain else self.index + 1
                text.append(plain[0] if plain else char)
                glob.append(text[-1])
                continue
            text.append(quoted)
            glob.append(_quote(quoted))
        pattern = "".join(glob)
        return Word("".join(text), pattern if has_magic(pattern) else None)

    def _refuse(self, char: str) -> None:
        double = self.line[self.index : self.index + 2]
        raise CommandError(_OPERATORS.get(double) or _OPERATORS[char])

    def _dollar(self, char: str) -> None:
        """Refuse what a shell would expand: a `$` before a name, a brace or a parenthesis, and backticks."""
        if char == "`":
            raise CommandError(_SUBSTITUTION + "`")
        if char != "$":
            return
        after = self.line[self.index + 1 : self.index + 2]
        if after == "(":
            raise CommandError(_SUBSTITUTION + "$(")
        if after in ("{", "_") or (after.isascii() and after.isalpha()):
            raise CommandError(_VARIABLE)

    def _single(self) -> str:
        close = self.line.find("'", self.index + 1)
        if close < 0:
            raise CommandError("a ' is not closed: put text that holds an apostrophe in double quotes")
        text = self.line[self.index + 1 : close]
        self.index = close + 1
        return text

    def _double(self) -> str:
        text: list[str] = []
        line, end = self.line, len(self.line)
        self.index += 1
        while self.index < end:
            char = line[self.index]
            if char == '"':
                self.index += 1
                return "".join(text)
            if char == "\\" and self.index + 1 < end and line[self.index + 1] in '$`"\\\n':
                self.index += 1
                char = line[self.index]
                text.append("" if char == "\n" else char)
            else:
                self._dollar(char)
                text.append(char)
            self.index += 1
        raise CommandError('a " is not closed')

    def _escaped(self) -> str:
        if self.index + 1 >= len(self.line):
            self.index += 1
            return "\\"
        char = self.line[self.index + 1]
        self.index += 2
        return "" if char == "\n" else char


def _quote(text: str) -> str:
    """`text` with what a glob would take for itself behind backslashes."""
    if not any(char in "*?[]\\-!^" for char in text):
        return text
    return "".join("\\" + char if char in "*?[]\\-!^" else char for char in text)
