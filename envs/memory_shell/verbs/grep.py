"""grep: first cut."""

from __future__ import annotations

import re2

from memory_shell.commands import Word
from memory_shell.options import Flags, parse_options
from memory_shell.output import Output, Sink
from memory_shell.paths import reason, resolve
from memory_shell.workspace import Workspace

_FLAGS = Flags("grep", "inrlLcowxFEGvHhsq", "emABC", {}, "see grep", digits=True)


def grep(workspace: Workspace, cwd: str, words: list[Word], budget: int | None) -> Output:
    found, operands = parse_options(_FLAGS, words)
    letters = {flag for flag, _ in found}
    patterns = [value for flag, value in found if flag == "e"]
    names = [word.text for word in operands]
    if not patterns:
        if not names:
            return Output("grep: name a pattern\n", status=2)
        patterns = [names.pop(0)]
    source = "|".join(f"(?:{re2.escape(p) if 'F' in letters else p})" for p in patterns)
    if "i" in letters:
        source = f"(?i){source}"
    try:
        regex = re2.compile(source.encode())
    except re2.error as error:
        return Output(f"grep: {error}\n", status=2)
    sink = Sink(budget)
    searched: list[str] = []
    matched: list[str] = []
    prefix = not names or len(names) > 1 or "r" in letters
    for name in names or ["."]:
        entry = resolve(workspace, cwd, name)
        if entry.kind == "file":
            paths = [entry.path]
        elif entry.kind == "dir" and ("r" in letters or not names):
            paths = [p for p in workspace.files if not entry.path or p.startswith(entry.path + "/")]
        else:
            sink.put(f"grep: {name}: {reason(workspace, entry)}\n".encode(), 1)
            continue
        for path in paths:
            searched.append(path)
            shown = path if not names else path if entry.kind == "file" else path
            hits = 0
            for number, line in enumerate(workspace.files[path].data.splitlines(), 1):
                if (regex.search(line) is not None) != ("v" in letters):
                    hits += 1
                    head = f"{shown}:" if prefix else ""
                    head += f"{number}:" if "n" in letters else ""
                    if not letters & set("lcq"):
                        sink.put(head.encode() + line + b"\n", 1)
            if hits:
                matched.append(path)
                if "l" in letters:
                    sink.put(f"{shown}\n".encode(), 1)
            if "c" in letters:
                sink.put((f"{shown}:" if prefix else "").encode() + b"%d\n" % hits, 1)
            sink.end_file()
    return Output(sink.text, 0 if matched else 1, searched=tuple(searched), matched=tuple(matched), more=sink.more,
                  hint="" if matched else f"no match in {len(searched)} files searched", narrow="use -l, -m or a narrower path")
