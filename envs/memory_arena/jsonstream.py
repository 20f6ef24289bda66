"""Records of JSON Lines files and of JSON arrays, one at a time, whatever the size of the file.

Product databases and document collections come as one array of gigabytes or as one object per line. Either is read in
constant memory: no more than one record, which is limited, and one block of the file are held.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

MAX_RECORD = 16 * 2**20
"""Characters of one record."""
_BLOCK = 2**20
_LINES = (".jsonl", ".ndjson")
_SPACE = " \t\r\n"
_NUMBER = "0123456789.eE+-"
_DECODER = json.JSONDecoder()


def read_records(path: Path, block: int = _BLOCK) -> Iterator[tuple[int, Any]]:
    """The values in `path`, each with its number from 1 on (the line, or the place in the array).

    Files called `.jsonl` or `.ndjson` hold a value per line, blank lines aside; any other file holds one array.
    Raises ValueError, with file and place, for what is neither, is no UTF-8, or is longer than `MAX_RECORD`.
    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            yield from _lines(file, path) if path.suffix.lower() in _LINES else _array(file, path, block)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is not UTF-8 text; save it as UTF-8") from None


def _lines(file: TextIO, path: Path) -> Iterator[tuple[int, Any]]:
    number = 0
    while line := file.readline(MAX_RECORD + 1):
        number += 1
        if len(line) > MAX_RECORD:
            raise ValueError(f"{path}: line {number} is longer than {MAX_RECORD:,} characters")
        if line.strip():
            yield number, _value(line, f"{path}: line {number}")


def _value(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is no JSON ({error})") from None


def _array(file: TextIO, path: Path, block: int) -> Iterator[tuple[int, Any]]:
    window = _Window(file, path, block)
    if window.skip() != "[":
        raise ValueError(
            f"{path}: does not begin with '[': an array of objects is expected, or one object per line in a file "
            "called .jsonl"
        )
    window.at += 1
    number = 0
    while (mark := window.skip()) != "]":
        if number:
            if mark != ",":
                raise ValueError(f"{path}: a comma is missing after item {number}, or the file is cut off there")
            window.at += 1
            window.skip()
        number += 1
        yield number, window.value(number)
    window.at += 1
    if window.skip():
        raise ValueError(f"{path}: something follows the array, which ends after item {number}; give one array a file")


class _Window:
    """The part of the file that is being looked at: `text` from `at` on."""

    def __init__(self, file: TextIO, path: Path, block: int) -> None:
        self.file, self.path, self.block = file, path, block
        self.text, self.at, self.ended = "", 0, False

    def skip(self) -> str:
        """The next character that is no space; empty at the end of the file."""
        while True:
            while self.at < len(self.text):
                if self.text[self.at] not in _SPACE:
                    return self.text[self.at]
                self.at += 1
            if not self.read(self.block):
                return ""

    def read(self, size: int) -> bool:
        """Drop what is done, and add `size` characters. False at the end of the file."""
        more = self.file.read(size)
        self.ended = not more
        self.text, self.at = self.text[self.at :] + more, 0
        return not self.ended

    def value(self, number: int) -> Any:
        """The value that begins here. What is read more for it doubles each time, so that long values take linear
        time."""
        while True:
            try:
                found, end = _DECODER.raw_decode(self.text, self.at)
                if self.ended or self.delimited(found, end):
                    self.at = end
                    return found
            except RecursionError:
                raise ValueError(f"{self.path}: item {number} is nested too deep") from None
            except ValueError as error:
                if self.ended:
                    raise ValueError(f"{self.path}: item {number} is no JSON ({error})") from None
            held = len(self.text) - self.at
            if held > MAX_RECORD:
                raise ValueError(f"{self.path}: item {number} is no JSON, or longer than {MAX_RECORD:,} characters")
            self.read(max(self.block, held))

    def delimited(self, found: object, end: int) -> bool:
        """Whether the value ends where it seems to. A number that the window cuts may have more to it."""
        return not isinstance(found, int | float) or self.text[end : end + 1].strip(_NUMBER) != ""
