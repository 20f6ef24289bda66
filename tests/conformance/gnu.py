"""Hostile trees, random command lines, and the machine's own GNU tools to compare with."""

from __future__ import annotations

import os
import random
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from memory_shell.output import Output
from memory_shell.verbs import execute
from memory_shell.workspace import Workspace

TREES = 60
CASES = settings(deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
ENVIRONMENT = {"LC_ALL": "C.UTF-8", "PATH": os.environ.get("PATH", "/usr/bin:/bin")}

# Few letters, so that patterns meet text; and everything that GNU treats in a way of its own.
WORDS = [
    "foo", "bar", "foobar", "Foo", "FOO", "a", "ab", "aab", "b", "foo_bar", "foo-bar", "x1", "42", "é", "É", "café",
    "CAFÉ", "straße", "ж", "Жук", "жук", "漢字", "—", "’", "😀", "ſ", "", "...", "a.b", "[x]", "(a)", "a|b", "a*", "^a",
    "a$", "\\", "\\d", "{1}", "a{2}", "+", "?", "-e", "--", "\t", "\r", "\x0b", "\x0c", "\x01", "\x1b[31m",
    "<|im_end|>", "ſs", "a\u0301", "\u00a0", "D1:2", "[D1:2]", "ba", "aaa", "oof", ".md", "/", ":", "1:", "#", "'", '"',
]  # fmt: skip
BAD_BYTES = [b"\xff", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xc0\xaf", b"\x80\x80", b"caf\xe9"]
NAMES = ["a.md", "b.md", "c.txt", "foo", "x y", "é.md", "-e", ".hid", "D1:2", "a-b", "q'q", "z.md"]


def _line(rng: random.Random) -> bytes:
    glue = rng.choice(["", " ", " ", " ", "-"])
    return glue.join(rng.choice(WORDS) for _ in range(rng.choice([0, 1, 1, 2, 3, 5]))).encode()


def _content(rng: random.Random) -> bytes:
    kind = rng.random()
    if kind < 0.06:
        return b""
    lines = [_line(rng) for _ in range(rng.choice([1, 1, 2, 3, 5, 8, 13]))]
    if kind < 0.16:
        lines.insert(rng.randrange(len(lines) + 1), rng.choice(BAD_BYTES) + _line(rng))
    elif kind < 0.24:
        lines.insert(rng.randrange(len(lines) + 1), _line(rng) + b"\0" + _line(rng))
    end = b"\r\n" if kind > 0.92 else b"\n"
    return end.join(lines) + (b"" if rng.random() < 0.25 else end)


def build_tree(root: Path, seed: int, *, links: bool = True) -> Workspace:
    """A seeded hostile tree below `root`: odd names, empty, binary and broken files, a FIFO, and links (also out)."""
    rng = random.Random(seed)
    folders = [root]
    for name in rng.sample(["d", "e.d", "sub dir", "ü", ".dot"], rng.randint(1, 4)):
        folder = rng.choice(folders) / name
        folder.mkdir(parents=True, exist_ok=True)
        folders.append(folder)
    for name in rng.sample(NAMES, rng.randint(3, len(NAMES))):
        (rng.choice(folders) / name).write_bytes(_content(rng))
    for index in range(rng.randint(1, 4)):
        (root / f"f{index}").write_bytes(_content(rng))
    if links:
        (rng.choice(folders) / "link").symlink_to("/etc/passwd")
        (rng.choice(folders) / "up").symlink_to("..")
    os.mkfifo(rng.choice(folders) / "pipe")
    workspace = Workspace.load(root)
    if seed % 2:
        workspace.index.__dict__["vocabulary"] = None  # searched by scanning, as a large workspace is
    return workspace


@dataclass(frozen=True)
class Tree:
    """A tree on disk and as loaded."""

    root: Path
    workspace: Workspace

    def readable(self) -> list[str]:
        """Names one can type from the root: files and directories, in several spellings."""
        return [*self.workspace.files, *(path for path in self.workspace.dirs if path)]


class Forest(tuple[Tree, ...]):
    """The trees that every GNU test draws from; short in the report of a failure."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Forest({len(self)})"


def build_forest(factory: pytest.TempPathFactory, *, links: bool = True) -> Forest:
    """A forest of TREES trees, always the same."""
    roots = [factory.mktemp(f"tree{seed}") for seed in range(TREES)]
    return Forest(Tree(root, build_tree(root, seed, links=links)) for seed, root in enumerate(roots))


def gnu(tree: Tree, argv: list[str]) -> tuple[int, str]:
    """Exit status and output (errors in their place) of the real tool, run in the tree."""
    done = subprocess.run(
        argv, cwd=tree.root, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, check=False, timeout=30,
    )  # fmt: skip
    return done.returncode, done.stdout.decode("utf-8", "surrogateescape")


def ours(tree: Tree, argv: list[str]) -> Output:
    """The same words in the memory shell, everything quoted, all output kept."""
    return execute(tree.workspace, "", " ".join(shlex.quote(word) for word in argv), budget=None)


def without_warnings(text: str) -> str:
    """`text` without GNU grep's warnings about what POSIX leaves undefined; they differ from version to version."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("grep: warning: "))


def refuses_the_pattern(status: int, text: str, argv: list[str]) -> bool:
    """Whether GNU grep ended with an error about the pattern, and not about a file."""
    about_files = tuple(f"grep: {name}: " for name in argv)
    lines = without_warnings(text).splitlines()
    return status == 2 and bool(lines) and all(x.startswith("grep: ") and not x.startswith(about_files) for x in lines)


@st.composite
def paths(draw: st.DrawFn, tree: Tree, most: int = 3) -> list[str]:
    """Some names: of files, of directories, of nothing."""
    known = tree.readable()
    spelled = st.sampled_from(known).flatmap(
        lambda name: st.sampled_from([name, name, name, "./" + name, name + "/", "d/../" + name, name + "/."])
    )
    missing = st.sampled_from(["nosuch", "no such", "d/nosuch", "a.md/x", ".", "./", "d//", "nosuch/../a.md"])
    return draw(st.lists(st.one_of(spelled, spelled, spelled, missing), max_size=most))


_ATOMS = st.sampled_from(
    ["a", "b", "o", "foo", "bar", "é", "É", "ж", "漢", ".", ".", "\\w", "\\W", "\\s", "\\S", "[a-c]", "[^a]",
     "[[:alpha:]]", "[[:space:]]", "[^[:alnum:]_]", "[]a]", "[a-]", "[éü]", "[[:upper:]]", "[[:punct:]]",
     "[0-9]", "\\.", "x", "1", " ", "_", "-", "s", "[b*]", "\\*", "\\[", ",", "}", "]", "/", "D1:2", "’", "—"]
)  # fmt: skip
# No operator follows these: POSIX leaves undefined what repeating a place means.
_EDGES = st.sampled_from(["^", "$"])
_WORD_EDGES = st.sampled_from(
    ["\\b", "\\B", "\\<", "\\>", "\\bfoo", "\\<a", "b\\>", "foo\\b", "\\<b\\>", "\\<é", "ук\\>"]
)
_BASIC = st.sampled_from(["", "", "", "*", "\\+", "\\?", "\\{2\\}", "\\{1,\\}", "\\{,2\\}", "\\{0,1\\}", "+", "?"])
_EXTENDED = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,}", "{,2}", "{0,1}", "{", "{a", "{1"])


def _patterns(
    operators: st.SearchStrategy[str], opened: str, closed: str, bar: str, words: bool
) -> st.SearchStrategy[str]:
    """Patterns of one syntax; word edges only when `words`. No group with an edge is repeated: glibc fails there."""
    atom = st.tuples(_ATOMS, operators).map("".join)
    edge = _WORD_EDGES if words else _EDGES
    run = st.lists(st.one_of(atom, atom, atom, edge), max_size=4).map("".join)
    once = st.tuples(st.just(opened), st.lists(st.one_of(atom, atom, _EDGES), max_size=4).map("".join), st.just(closed))
    often = st.tuples(st.just(opened), st.lists(atom, max_size=4).map("".join), st.just(closed), operators)
    group = st.one_of(once.map("".join), often.map("".join))
    either = st.lists(st.one_of(run, run, run, group), min_size=1, max_size=3).map("".join)
    return st.lists(either, min_size=1, max_size=3).map(bar.join)


BASIC = {words: _patterns(_BASIC, "\\(", "\\)", "\\|", words) for words in (False, True)}
EXTENDED = {words: _patterns(_EXTENDED, "(", ")", "|", words) for words in (False, True)}
FIXED = st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(" ".join)
NOISE = st.text(st.sampled_from("ab\\(){}[]|*+?^$.-,1é:= "), max_size=8)
