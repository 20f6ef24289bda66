"""The memory shell's grep against the machine's GNU grep, on hostile trees."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conformance.gnu import (
    BASIC,
    CASES,
    EXTENDED,
    FIXED,
    NOISE,
    TREES,
    Forest,
    Tree,
    build_forest,
    gnu,
    ours,
    paths,
    refuses_the_pattern,
    without_warnings,
)


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Forest:
    return build_forest(tmp_path_factory)


_FLAGS = ["-i", "-n", "-l", "-L", "-c", "-o", "-w", "-x", "-v", "-H", "-h", "-s", "-q", "-r", "-in", "-rn", "-ow",
          "-vn", "-m1", "-m2", "-A1", "-B1", "-C1", "-A0", "-2", "--include=*.md", "--exclude=a*",
          "--include=foo"]  # fmt: skip

# What -w does with a pattern that can match nothing is an accident of GNU's implementation, so these cannot.
_WHOLE = ["foo", "a", "b*a", "fo*", "[a-c]+b", "[a-c]\\+b", "é", ".a", "a.", "foo.bar", "[^a]b", "жук", "x1\\|ab",
          "x1|ab", "-.", "[éb]", "ба", "ſ", "\\w", "\\W", "fo\\{1,2\\}", "fo{1,2}", "foo-bar", "o",
          "oo", "b.*", ".*b"]  # fmt: skip


@st.composite
def _commands(draw: st.DrawFn, tree: Tree) -> list[str]:
    words = not tree.workspace.index.broken  # a byte that is not UTF-8 is part of a word for glibc, and not for us
    syntax, pattern = draw(
        st.one_of(
            st.tuples(st.sampled_from(["-G", ""]), BASIC[words]),
            st.tuples(st.just("-E"), EXTENDED[words]),
            st.tuples(st.just("-F"), FIXED),
            st.tuples(
                st.sampled_from(["", "-F"]), st.sampled_from(["foo", "a", "b", "foo\nbar", "é", "D1:2", "foo bar"])
            ),
        )
    )
    flags = draw(st.lists(st.sampled_from(_FLAGS), max_size=4, unique=True))
    if tree.workspace.index.broken and {"-v", "-vn"} & set(flags):
        flags = [flag for flag in flags if flag[1] not in "ABC2"]  # where `--` goes then is an accident
    if not {"-w", "-ow", "-x"} & set(flags) and draw(st.integers(0, 5)) == 0:
        pattern = draw(NOISE)  # an unmatched ) with -x or -w would close GNU's own group
    if any("w" in flag and not flag.startswith("--") for flag in flags):
        pattern = draw(st.sampled_from(_WHOLE)) if syntax != "-F" else pattern
    names = draw(paths(tree)) or draw(st.sampled_from([["f0"], ["."], ["f0", "."]]))
    argv = [*([syntax] if syntax else []), *flags, "-e", pattern]
    if draw(st.booleans()):
        argv += ["-e", draw(st.sampled_from(["b", "foo", "é"]))]
    return ["grep", *argv, "--", *names]


def _comparable(status: int, text: str, argv: list[str]) -> tuple[int, object]:
    """What must be equal. GNU's recursion follows the order of the disk: there lines are compared as a set, without
    the separators, which depend on the order."""
    text = without_warnings(text)
    if {"-r", "-rn"} & set(argv):
        return status, sorted(line for line in text.split("\n") if line != "--")
    return status, text


@settings(CASES, max_examples=3600)
@given(data=st.data())
def test_grep_prints_what_gnu_prints(trees: Forest, data: st.DataObject) -> None:
    tree = trees[data.draw(st.integers(0, TREES - 1))]
    argv = data.draw(_commands(tree))
    status, text = gnu(tree, argv)
    mine = ours(tree, argv)
    if refuses_the_pattern(status, text, argv):
        assert mine.status == 2, (argv, text, mine.text)
        assert mine.text.startswith("grep: "), mine.text
        return
    assert _comparable(mine.status, mine.text, argv) == _comparable(status, text, argv), argv
