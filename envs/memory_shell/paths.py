"""Names as typed -> entries of a workspace. The root is the top of everything: `..` stops there, `/` starts there."""

from __future__ import annotations

from typing import Literal, NamedTuple

from memory_shell.workspace import Workspace

Kind = Literal["file", "dir", "special", "missing", "not_dir"]


class Entry(NamedTuple):
    """What a typed name stands for. `path` is relative to the root ("" is the root itself)."""

    kind: Kind
    path: str


def name_bytes(name: str) -> bytes:
    """The bytes of a file name; names that are not UTF-8 come back as they are on disk."""
    return name.encode("utf-8", "surrogateescape")


def resolve(workspace: Workspace, cwd: str, name: str) -> Entry:
    """The entry that `name` stands for when typed in the directory `cwd`.

    Every component is looked up, as a kernel would: `nosuch/..` is missing, and a file or a link is no directory.
    """
    if not name:
        return Entry("missing", name)
    straight = name[1:] if name[0] == "/" else f"{cwd}/{name}" if cwd else name
    if straight in workspace.files:
        return Entry("file", straight)
    path = "" if name.startswith("/") else cwd
    kind: Kind = "dir"
    for part in name.split("/"):
        if not part and kind != "dir":
            return Entry("not_dir", path)
        if not part:
            continue
        if kind != "dir":
            return Entry("not_dir", path)
        if part == ".":
            continue
        if part == "..":
            path = path.rpartition("/")[0]
            continue
        path = f"{path}/{part}" if path else part
        kind = _kind(workspace, path)
        if kind == "missing":
            return Entry("missing", path)
    return Entry(kind, path)


def _kind(workspace: Workspace, path: str) -> Kind:
    if path in workspace.files:
        return "file"
    if path in workspace.dirs:
        return "dir"
    return "special" if path in workspace.specials else "missing"


def reason(workspace: Workspace, entry: Entry) -> str:
    """Why `entry` cannot be read as a file, in the words of the C library where it has them."""
    if entry.kind == "dir":
        return "Is a directory"
    if entry.kind == "not_dir":
        return "Not a directory"
    if entry.kind == "special":
        return f"Is a {workspace.specials[entry.path]}, and those are never opened here"
    return "No such file or directory"
