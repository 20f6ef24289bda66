"""Make words from a conversation safe to stand in a note: one line, no false citations, links or dates, safe names.

A note's structure is its front matter, its lines and the `[D3:12]` at their ends. What people said is data, and must
not be able to look like any of these; the raw log keeps it as it was said.
"""

from __future__ import annotations

import re
import unicodedata


def word_set(text: str) -> frozenset[str]:
    """The blank-separated words of `text`: a readable way to write down a list of words."""
    return frozenset(text.split())


_CITATION = re.compile(r"\[(\s*[A-Za-z0-9_.-]+:\d+(?:\s*,\s*[A-Za-z0-9_.-]+:\d+)*\s*)\]")
_RESOLVED = re.compile(r"\{([^{}]*=\s*\d[^{}]*)\}")
_LINK = re.compile(r"\](?=[(\[])|\[(?=\[)")
_SPACES = re.compile(r"\s+")
_MAX_NAME = 80
_MAX_SLUG = 48


def one_line(text: str) -> str:
    """`text` on one line, defused: control characters and line ends become single spaces, lone surrogates and
    noncharacters become U+FFFD, `[D3:4]` becomes `(D3:4)`, `{yesterday = 2023-01-01}` becomes `(...)`, and a space
    breaks Markdown links apart (`[a](b)` becomes `[a] (b)`). Idempotent."""
    line = _SPACES.sub(" ", text)
    if not (line.isascii() and line.isprintable()):
        line = _SPACES.sub(" ", "".join(map(_printable, line)))
    line = line.strip()
    if "{" in line:
        line = _RESOLVED.sub(r"(\1)", line)
    if "[" in line:
        line = _LINK.sub(lambda match: f"{match[0]} ", _CITATION.sub(r"(\1)", line))
    return line


def _printable(char: str) -> str:
    category = unicodedata.category(char)
    if category in ("Cc", "Zl", "Zp"):
        return " "
    unassigned = category == "Cn" and ord(char) & 0xFFFE == 0xFFFE
    return "\ufffd" if category == "Cs" or unassigned or 0xFDD0 <= ord(char) <= 0xFDEF else char


def display_name(name: str) -> str:
    """A speaker's name as a note shows it: one line of at most 80 characters that opens no Markdown; or `Unknown`."""
    return one_line(name).lstrip("#-*>`|~=+!:[]{}() ")[:_MAX_NAME].strip() or "Unknown"


def slug(name: str) -> str:
    """`name` as a file name without extension: lower-case letters and digits of any script joined by `-`, without
    accents, at most 48 characters; `unnamed` when nothing is left. Never a dotfile, never a path."""
    plain = "".join(char for char in unicodedata.normalize("NFKD", name) if not unicodedata.combining(char))
    words = re.split(r"[\W_]+", plain.casefold())
    return "-".join(word for word in words if word)[:_MAX_SLUG].strip("-") or "unnamed"


class FileNames:
    """Hands out one file name per name. Names with the same slug are kept apart by order: `ana`, `ana-2`, `ana-3`."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()

    def of(self, name: str) -> str:
        """The file name (no extension) of `name`; the same one each time."""
        if name not in self._names:
            base = candidate = slug(name)
            number = 2
            while candidate in self._taken:
                candidate = f"{base}-{number}"
                number += 1
            self._taken.add(candidate)
            self._names[name] = candidate
        return self._names[name]


_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def sentences(line: str) -> list[str]:
    """The sentences of a line, by their full stops, exclamation and question marks."""
    return [part for part in _SENTENCE.split(line) if part]
