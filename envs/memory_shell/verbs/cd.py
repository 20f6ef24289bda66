"""`cd [PATH]`: change the directory. Prints where one is now."""

from __future__ import annotations

from memory_shell.commands import Word
from memory_shell.output import Output
from memory_shell.paths import resolve
from memory_shell.verbs.expand import expand_words
from memory_shell.workspace import Workspace


def cd(workspace: Workspace, cwd: str, words: list[Word], _budget: int | None) -> Output:
    """Go to the named directory, or to the root."""
    names = [word.text for word in expand_words(workspace, cwd, words) if word.text != "--"]
    if len(names) > 1:
        return Output("cd: too many arguments: name one directory\n", status=1)
    name = names[0] if names else "/"
    if name == "-":
        return Output("cd: -: no earlier directory is kept: name the directory\n", status=1)
    entry = resolve(workspace, cwd, name)
    if entry.kind == "dir":
        return Output(f"/{entry.path}\n", cwd=entry.path, visited=(entry.path,))
    if entry.kind == "missing":
        return Output(f"cd: {name}: No such file or directory\n", status=1)
    if entry.kind == "file":
        return Output(f"cd: {name}: Not a directory: use cat to read it\n", status=1)
    return Output(f"cd: {name}: Not a directory\n", status=1)
