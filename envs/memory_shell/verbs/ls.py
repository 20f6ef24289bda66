"""`ls [-1 -l -a -R] [PATH...]`: list names, byte for byte as GNU ls prints to a pipe; `-l` is shorter than GNU's."""

from __future__ import annotations

from memory_shell.commands import Word
from memory_shell.options import Flags, parse_options
from memory_shell.output import Output, Sink
from memory_shell.paths import name_bytes, resolve
from memory_shell.quoting import quoted
from memory_shell.verbs.expand import expand_words
from memory_shell.workspace import Workspace

_FLAGS = Flags("ls", "1laR", "", {"all": "a", "recursive": "R"}, "ls takes -1, -l, -a, -R and PATH...")
_TYPES = {"file": "-", "dir": "d", "link": "l", "fifo": "p", "socket": "s", "device": "c"}


def ls(workspace: Workspace, cwd: str, words: list[Word], budget: int | None) -> Output:
    """List each file that is named, then the content of each directory; of the current one when none is named."""
    flags, operands = parse_options(_FLAGS, words)
    letters = {flag for flag, _ in flags}
    listing = _Listing(workspace, Sink(budget), letters)
    names = [word.text for word in expand_words(workspace, cwd, operands)] or ["."]
    status = 0
    files: list[tuple[str, str]] = []
    folders: list[tuple[str, str]] = []
    for name in names:
        entry = resolve(workspace, cwd, name)
        if entry.kind in ("missing", "not_dir"):
            status = 2
            what = "No such file or directory" if entry.kind == "missing" else "Not a directory"
            listing.message(f"ls: cannot access {quoted(name)}: {what}\n")
        elif entry.kind == "dir":
            folders.append((name, entry.path))
        else:
            files.append((name, entry.path))
    listing.files(files)
    listing.folders(folders, headed=len(names) > 1 or "R" in letters)
    return Output(
        listing.sink.text,
        status,
        visited=tuple(listing.visited),
        narrow="use ls on one folder, or a narrower glob",
        more=listing.sink.more,
    )


class _Listing:
    """One run of ls."""

    def __init__(self, workspace: Workspace, sink: Sink, flags: set[str]) -> None:
        self.sink = sink
        self.visited: dict[str, None] = {}
        self._workspace = workspace
        self._long = "l" in flags
        self._all = "a" in flags
        self._recursive = "R" in flags
        self._printed = False

    def message(self, text: str) -> None:
        self.sink.put(name_bytes(text), 1)

    def files(self, files: list[tuple[str, str]]) -> None:
        """List names given on the command line that are no directories."""
        if not files:
            return
        self._entries(sorted(files, key=lambda item: name_bytes(item[0])))
        self._printed = True

    def folders(self, folders: list[tuple[str, str]], *, headed: bool) -> None:
        """List directories, below them too with `-R`."""
        stack = sorted(folders, key=lambda item: name_bytes(item[0]), reverse=True)
        while stack and not self.sink.stopped:
            name, path = stack.pop()
            if headed:
                self.sink.put(name_bytes(f"{chr(10) if self._printed else ''}{name}:\n"), 2 if self._printed else 1)
            self._printed = True
            children = self._folder(path)
            if self._recursive:
                below = [(f"{name.rstrip('/') if name != '/' else ''}/{child}", inner) for child, inner in children]
                stack += reversed([item for item in below if item[1] in self._workspace.dirs])

    def _folder(self, path: str) -> list[tuple[str, str]]:
        """List one directory; gives back its entries (name, path) where they are needed for `-R`."""
        self.visited[path] = None
        if not (self._all or self._long or self._recursive):
            self.sink.put(*self._workspace.listings[path])
            return []
        names = self._workspace.dirs[path]
        children = [(name, f"{path}/{name}" if path else name) for name in names if self._all or name[0] != "."]
        dots = [(".", path), ("..", path.rpartition("/")[0])] if self._all else []
        self._entries(sorted(dots + children, key=lambda item: name_bytes(item[0])) if dots else children)
        return children

    def _entries(self, items: list[tuple[str, str]]) -> None:
        if not items:
            return
        if self.sink.full:
            self.sink.skip(len(items))
            return
        if not self._long:
            self.sink.put(name_bytes("\n".join(name for name, _ in items) + "\n"), len(items))
            return
        rows = [(*self._describe(path), name) for name, path in items]
        width = max(len(size) for _, size, _ in rows)
        self.sink.put(name_bytes("".join(f"{kind} {size:>{width}} {name}\n" for kind, size, name in rows)), len(items))

    def _describe(self, path: str) -> tuple[str, str]:
        """The type letter, and the size: bytes of a file, names in a directory."""
        workspace = self._workspace
        if path in workspace.files:
            return _TYPES["file"], str(len(workspace.files[path].data))
        if path in workspace.dirs:
            return _TYPES["dir"], str(len(workspace.dirs[path]))
        return _TYPES[workspace.specials[path]], "0"
