"""All ways to search give the same lines: by vocabulary, by fixed text, natively, outright, and line by line."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_shell import matcher as matching
from memory_shell.index import Index
from memory_shell.matcher import Cursor, Matcher, Spec, compile_spec
from memory_shell.patterns import PatternError

_WORDS = [
    "kiln",
    "kilns",
    "skiln",
    "Kiln",
    "clay",
    "claykiln",
    "é",
    "café",
    "caf",
    "ж",
    "кот",
    "скот",
    "a",
    "_kiln",
    "kiln_",
    "42",
    "",
]
_GLUE = [" ", "-", "—", "", ". "]


def _text(seed: int) -> dict[str, bytes]:
    rng = random.Random(seed)

    def line() -> str:
        return "".join(rng.choice(_WORDS) + rng.choice(_GLUE) for _ in range(rng.randint(0, 5)))

    return {f"f{n}": "\n".join(line() for _ in range(rng.randint(0, 30))).encode() for n in range(4)}


def _index(files: dict[str, bytes], *, vocabulary: bool) -> Index:
    index = Index(files, {"": sorted(files)})
    if not vocabulary:
        index.__dict__["vocabulary"] = None
    return index


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fallback is taken after a few lines."""
    monkeypatch.setattr(matching, "_MAX_MISSES", 2)
    monkeypatch.setattr(matching, "_MAX_DOUBTS", 1)
    monkeypatch.setattr(matching, "_LEAP", 1)


_PATTERNS = st.sampled_from(
    [
        "kiln", "\\bkiln", "kiln\\b", "\\<kiln\\>", "\\bкот", "кот\\b", "\\bcaf", "caf\\b", "\\bcafé\\b",
        "kiln.*clay", "clay\\|kiln", "\\bclay\\|\\bkiln", "\\(kiln\\|clay\\)s", "\\Bkiln", "kiln\\B", "\\<a", "a\\>",
        "\\<", "\\b.iln\\b", "[ck]l*a[yf]", "^kiln", "kiln$", "kiln*", "a.*\\bkiln", "\\bkiln.*a", "é", "\\bé", "—",
        "", "42", "_", "\\w_", "[[:upper:]]iln", "ki\\{1,20\\}ln", "k.\\{0,20\\}s",
    ]
)  # fmt: skip


@pytest.mark.usefixtures("impatient")
@settings(max_examples=250, deadline=None, derandomize=True, database=None)
@given(
    seed=st.integers(0, 30),
    pattern=_PATTERNS,
    other=st.one_of(st.none(), _PATTERNS),
    ignore=st.booleans(),
    whole=st.sampled_from("wx. "),
)
def test_every_way_finds_the_same_lines(seed: int, pattern: str, other: str | None, ignore: bool, whole: str) -> None:
    files = _text(seed)
    spec = Spec((pattern,) if other is None else (pattern, other), "G", ignore, whole.strip(" ."))
    by_vocabulary, by_scan = _index(files, vocabulary=True), _index(files, vocabulary=False)
    end = len(by_scan.text)
    wanted = [line for line in _all(by_scan) if Matcher(spec, False).test(by_scan.text, *line)]
    assert list(Matcher(spec, False).lines(by_scan, 0, end)) == wanted
    assert list(Matcher(spec, False).lines(by_vocabulary, 0, end)) == wanted
    assert Matcher(spec, False).count(by_scan, 0, end) == len(wanted)


def _all(index: Index) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(index.text):
        end = index.text.index(b"\n", start)
        yield start, end
        start = end + 1


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("vocabulary", [True, False])
def test_a_cursor_leaps_and_never_goes_back(vocabulary: bool) -> None:
    index = _index({"f": b"a\nb\na\na\na\na\nb\na\n"}, vocabulary=vocabulary)
    cursor = Cursor(compile_spec(Spec(("a",)), False), index, 0, len(index.text))
    assert cursor.at(0) == (0, 1)
    assert cursor.at(1) == (4, 5)
    assert cursor.at(11) == (14, 15)
    assert cursor.at(15) is None


def test_parts_are_leftmost_longest_and_never_empty() -> None:
    line = "aab caf\u00e9 caf".encode()

    def parts(pattern: str, whole: str = "") -> list[bytes]:
        return list(Matcher(Spec((pattern,), "E", whole=whole), False).parts(line, 0, len(line)))

    assert parts("a|aa|aab") == [b"aab", b"a", b"a"]
    assert parts("a*") == [b"aa", b"a", b"a"]
    assert parts("(x|b*)*") == [b"b"]
    assert parts("\\bcaf\\b") == [b"caf"]
    assert parts("caf.?", whole="w") == ["caf\u00e9".encode(), b"caf"]


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("a\\(", "Unmatched ( or \\("),
        ("[a", "Unmatched [, [^, [:, [., or [="),
        ("[z-a]", "Invalid range end"),
        ("a\\", "Trailing backslash"),
        ("a\\{2,1\\}", "Invalid content of \\{\\}"),
        ("a\\{1001\\}", "limited to 1000"),
        ("\\(a\\{999\\}\\)\\{999\\}", "too big"),
        ("\\(a\\)\\1", "back-references"),
        ("[[:foo:]]", "Invalid character class name"),
        ("[:space:]", "character class syntax is [[:space:]], not [:space:]"),
        ("a\udcff", "not valid UTF-8"),
        ("\\(" * 100 + "\\)" * 100, "nest more than"),
        ("nul\0", "NUL"),
    ],
)
def test_a_faulty_pattern_names_its_fault(pattern: str, fault: str) -> None:
    with pytest.raises(PatternError) as refused:
        Matcher(Spec((pattern,)), False)
    assert fault in str(refused.value)
