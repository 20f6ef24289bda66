"""File names in error messages, quoted for a shell as GNU core utilities do (control characters stay as they are)."""

from __future__ import annotations

_SPECIAL = frozenset('!"$&()*;<=>[^`|?\\')
_FORCING = _SPECIAL | frozenset(" '\t\n")


def quoted(name: str) -> str:
    """`name` in quotes: double ones when it holds an apostrophe and nothing that they would change."""
    if "'" not in name:
        return f"'{name}'"
    if _SPECIAL.isdisjoint(name):
        return f'"{name}"'
    return "'" + name.replace("'", "'\\''") + "'"


def quoted_before_colon(name: str) -> str:
    """`name` as it stands before `: message`, in quotes only when it needs them."""
    plain = name and _FORCING.isdisjoint(name) and ":" not in name and name[0] not in "#~" and name not in ("{", "}")
    return name if plain else quoted(name)
