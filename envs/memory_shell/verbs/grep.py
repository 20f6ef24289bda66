"""`grep`: search files for lines that match a pattern, byte for byte as GNU grep prints them.

Without a path it searches the current directory recursively. `-e A --and -e B`, from git grep: a line must match both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from memory_shell.commands import Word
from memory_shell.globs import matcher as glob_matcher
from memory_shell.matcher import Matcher, Spec, compile_spec
from memory_shell.options import Flags, UsageError, parse_options
from memory_shell.output import Output, Sink
from memory_shell.paths import name_bytes
from memory_shell.patterns import PatternError, Syntax
from memory_shell.verbs.expand import expand_words
from memory_shell.verbs.grep_print import Style, Wanted
from memory_shell.verbs.grep_scan import Query, Scan
from memory_shell.workspace import Workspace

_LONG = {
    "ignore-case": "i", "line-number": "n", "recursive": "r", "files-with-matches": "l", "files-without-match": "L",
    "count": "c", "only-matching": "o", "word-regexp": "w", "line-regexp": "x", "fixed-strings": "F",
    "extended-regexp": "E", "basic-regexp": "G", "invert-match": "v", "with-filename": "H", "no-filename": "h",
    "no-messages": "s", "quiet": "q", "silent": "q", "regexp": "e", "max-count": "m", "after-context": "A",
    "before-context": "B", "context": "C", "include": "include", "exclude": "exclude", "and": "and",
    "no-ignore-case": "I",
}  # fmt: skip
_USAGE = (
    "grep takes -i -n -r -l -L -c -o -w -x -F -E -G -v -H -h -s -q, -e PATTERN, -m N, -A N, -B N, -C N, "
    "--include=GLOB, --exclude=GLOB and -e A --and -e B"
)
_FLAGS = Flags("grep", "inrlLcowxFEGvHhsqy", "emABC", _LONG, _USAGE, digits=True, valued_long=("include", "exclude"))
_MAX_NUMBER = 2**31
_SYNTAXES: dict[str, Syntax] = {"F": "F", "E": "E", "G": "G"}


@dataclass(slots=True)
class _Request:
    """The flags of one grep, as they add up."""

    letters: set[str] = field(default_factory=set)
    groups: list[list[str]] = field(default_factory=list)
    joins: bool = False
    syntax: Syntax = "G"
    numbers: dict[str, int] = field(default_factory=dict)
    names: str = ""
    filters: list[tuple[bool, str]] = field(default_factory=list)


def grep(workspace: Workspace, cwd: str, words: list[Word], budget: int | None) -> Output:
    """Search the named files, the files below the named directories with `-r`, or all below the current directory."""
    found, operands = parse_options(_FLAGS, words)
    request = _Request()
    for flag, value in found:
        _take(request, flag, value)
    if request.joins:
        raise UsageError("grep: --and stands between two patterns: grep -e A --and -e B")
    if not request.groups:
        if not operands:
            raise UsageError(f"grep: name a pattern: grep [FLAGS] PATTERN [PATH...]: {_USAGE}")
        request.groups.append([operands.pop(0).text])
    if _asks_for_nothing(request):
        return Output("", status=1, hint="these flags ask for no line")
    names = [word.text for word in expand_words(workspace, cwd, operands)]
    try:
        query = _query(workspace, request)
        return Scan(workspace, cwd, query, _style(request, names), Sink(budget)).run(names)
    except PatternError as error:  # some forms of a pattern are only compiled when a file needs them
        return Output(f"grep: {error}\n", status=2)


def _take(request: _Request, flag: str, value: str) -> None:
    if flag == "e":
        if request.joins:
            request.groups[-1].append(value)
            request.joins = False
        else:
            request.groups.append([value])
    elif flag == "and":
        if not request.groups or request.joins:
            raise UsageError("grep: --and stands between two patterns: grep -e A --and -e B")
        request.joins = True
    elif flag in _SYNTAXES:
        request.syntax = _SYNTAXES[flag]
    elif flag in "mABC":
        request.numbers[flag] = _number(flag, value)
    elif flag in "Hh":
        request.names = flag
    elif flag in ("include", "exclude"):
        request.filters.append((flag == "include", value))
    elif flag in "iy":
        request.letters.add("i")
    elif flag == "I":
        request.letters.discard("i")
    else:
        request.letters.add(flag)
        request.letters -= {"l": {"L"}, "L": {"l"}}.get(flag, set())


def _asks_for_nothing(request: _Request) -> bool:
    """`-m 0`, or `-v` with the empty pattern: GNU grep ends at once, without looking at any file."""
    if "L" in request.letters:
        return False
    everything = request.groups == [[""]] and not request.letters & {"w", "x"}
    return request.numbers.get("m") == 0 or ("v" in request.letters and everything)


def _number(flag: str, value: str) -> int:
    digits = value.strip()
    if not (digits.isascii() and digits.isdigit()):
        what = "max count" if flag == "m" else "context length argument"
        raise UsageError(f"grep: {value}: invalid {what}" if flag != "m" else f"grep: invalid {what}")
    return min(int(digits[:12]), _MAX_NUMBER)


def _query(workspace: Workspace, request: _Request) -> Query:
    """The compiled patterns. Raises PatternError."""
    letters, groups = request.letters, request.groups
    whole = "x" if "x" in letters else "w" if "w" in letters else ""

    def compiled(*patterns: str, parts: bool = False) -> Matcher:
        return compile_spec(Spec(patterns, request.syntax, "i" in letters, whole, parts), workspace.index.exotic)

    inverted = "v" in letters
    if all(len(group) == 1 for group in groups):
        patterns = [group[0] for group in groups]
        every = compiled(*patterns)
        if "o" not in letters or letters & set("vclLq") or request.numbers or workspace.index.binary:
            return Query(every, (), every, None, inverted)
        printed = compiled(*patterns, parts=True)  # the other lines print nothing: they only count for the status
        return Query(printed, (), printed, every, inverted)
    joined = tuple(tuple(compiled(pattern) for pattern in group) for group in groups)
    shown = compiled(*(pattern for group in groups for pattern in group)) if "o" in letters else joined[0][0]
    return Query(shown, joined, shown, None, inverted)


def _style(request: _Request, names: list[str]) -> Style:
    letters, numbers = request.letters, request.numbers
    context = numbers.get("C")
    shown = {"H": True, "h": False}.get(request.names)
    quiet = "q" in letters
    listing = "" if quiet else "l" if "l" in letters else "L" if "L" in letters else ""
    return Style(
        recursive="r" in letters or not names,
        names=shown,
        numbered="n" in letters,
        counting="c" in letters and not listing and not quiet,
        listing=listing,
        only="o" in letters,
        inverted="v" in letters,
        quiet=quiet,
        silent="s" in letters,
        limit=numbers.get("m"),
        before=numbers.get("B", context),
        after=numbers.get("A", context),
        wanted=_filter(request.filters),
    )


def _filter(filters: list[tuple[bool, str]]) -> Wanted | None:
    """Whether a file name passes `--include` and `--exclude`: the last that matches it decides, as in GNU grep."""
    if not filters:
        return None
    compiled = [(include, glob_matcher(glob)) for include, glob in filters]

    def wanted(names: Sequence[str]) -> bool:
        forms = [name_bytes(name) for name in names]
        for include, matches in reversed(compiled):
            if any(map(matches, forms)):
                return include
        return not compiled[0][0]

    return wanted
