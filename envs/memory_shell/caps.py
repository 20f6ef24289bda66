"""Limit what one command may print, and say what was left out and how to ask for less."""

from __future__ import annotations

from bisect import bisect_right

from memory_shell.output import Output
from memory_shell.text import neutralise
from memory_shell.types import Caps

_MARKER_BYTES = 200
"""Room kept for the marker, so that the whole observation stays within the cap on bytes."""


def clip(output: Output, caps: Caps) -> str:
    """`output.text`, harmless to a tokenizer and within `caps` (marker included), with `output.hint` after it.

    A line over `line_bytes` is cut and says how much is missing; lines over `lines` or `bytes` are left out behind one
    marker that counts them and says how to narrow the command.
    """
    text = output.text
    if not output.more.lines and len(text) <= caps.bytes and (shown := _whole(text, caps)) is not None:
        return _with_hint(shown, output.hint, caps.bytes)
    lines = _split(text, caps)
    kept: list[str] = []
    room = max(caps.bytes - _MARKER_BYTES, 0)
    for line in lines[: caps.lines]:
        shown = _clip_line(line, caps.line_bytes)
        size = len(shown.encode("utf-8")) + 1
        if size > room:
            break
        room -= size
        kept.append(shown)
    total = text.count("\n") + (not text.endswith("\n") and bool(text))
    left = total - len(kept) + output.more.lines
    if not left:
        return _with_hint("\n".join(kept) + ("\n" if text.endswith("\n") else ""), output.hint, caps.bytes)
    marker = _marker(left, _files_left(output, len(kept)), output)
    body = "".join(line + "\n" for line in kept)
    return _fit(body + marker, caps.bytes)


def _whole(text: str, caps: Caps) -> str | None:
    """All of `text`, harmless, when nothing of it needs to be left out."""
    if text.count("\n") > caps.lines:
        return None
    shown = neutralise(text)
    size = len(shown) if shown.isascii() else len(shown.encode("utf-8"))
    if size > caps.bytes:
        return None
    if size > caps.line_bytes and any(len(line.encode("utf-8")) > caps.line_bytes for line in shown.split("\n")):
        return None
    return shown


def _split(text: str, caps: Caps) -> list[str]:
    """The first lines of `text`: enough for the caps, without splitting what will not be shown."""
    end = 0
    for _ in range(caps.lines):
        newline = text.find("\n", end)
        if newline < 0:
            end = len(text)
            break
        end = newline + 1
        if end > 4 * caps.bytes + caps.line_bytes:
            break
    lines = text[:end].split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return lines


def _clip_line(line: str, cap: int) -> str:
    shown = neutralise(line[: cap + 1])
    data = shown.encode("utf-8")
    if len(line) <= cap and len(data) <= cap:
        return shown
    missing = f" [... {len(line.encode('utf-8', 'surrogateescape'))} bytes in this line]"
    return data[: max(cap - len(missing), 0)].decode("utf-8", "ignore") + missing


def _files_left(output: Output, kept: int) -> int:
    """Files of which at least one line was left out."""
    return len(output.file_ends) - bisect_right(output.file_ends, kept) + output.more.files


def _marker(lines: int, files: int, output: Output) -> str:
    least = "at least " if output.more.open_ended else ""
    where = f" ({files} {'file' if files == 1 else 'files'})" if files else ""
    return f"[{least}{lines} more {'line' if lines == 1 else 'lines'}{where} left out: {output.narrow}]\n"


def _with_hint(text: str, hint: str, cap: int) -> str:
    if not hint:
        return _fit(text, cap)
    gap = "" if not text or text.endswith("\n") else "\n"
    return _fit(f"{text}{gap}[{neutralise(hint)}]\n", cap)


def _fit(text: str, cap: int) -> str:
    """The last guard: never over `cap` bytes, whatever the caps are."""
    if len(text) <= cap // 4:
        return text
    data = text.encode("utf-8")
    return text if len(data) <= cap else data[:cap].decode("utf-8", "ignore")
