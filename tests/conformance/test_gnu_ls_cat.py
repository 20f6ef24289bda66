"""The memory shell's ls, cat and globs against the machine's GNU tools and bash, on hostile trees."""

from __future__ import annotations

import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_shell.commands import split_words
from memory_shell.verbs.expand import expand_words
from tests.conformance.gnu import CASES, TREES, Forest, Tree, build_forest, gnu, ours, paths


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Forest:
    return build_forest(tmp_path_factory)


def _draw_tree(trees: Forest, data: st.DataObject) -> Tree:
    return trees[data.draw(st.integers(0, TREES - 1))]


@settings(CASES, max_examples=700)
@given(data=st.data())
def test_ls_prints_what_gnu_prints(trees: Forest, data: st.DataObject) -> None:
    tree = _draw_tree(trees, data)
    flags = data.draw(st.lists(st.sampled_from(["-1", "-a", "-R", "-aR", "-1R", "--all", "--recursive"]), max_size=2))
    special = data.draw(st.sampled_from([[], [], list(tree.workspace.specials)[:1]]))
    if {"-R", "-aR", "-1R", "--recursive"} & set(flags):
        special = []
    special = [name for name in special if tree.workspace.specials[name] != "link"]
    argv = ["ls", *flags, "--", *data.draw(paths(tree)), *special]
    status, text = gnu(tree, argv)
    mine = ours(tree, argv)
    assert (mine.status, mine.text) == (status, text), argv


@settings(CASES, max_examples=700)
@given(data=st.data())
def test_cat_prints_what_gnu_prints(trees: Forest, data: st.DataObject) -> None:
    tree = _draw_tree(trees, data)
    flags = data.draw(st.lists(st.sampled_from(["-n", "-u", "--number"]), max_size=2))
    names = data.draw(paths(tree)) or ["f0"]
    argv = ["cat", *flags, "--", *names]
    status, text = gnu(tree, argv)
    mine = ours(tree, argv)
    assert (mine.status, mine.text) == (status, text), argv


_GLOB_PARTS = st.sampled_from(
    [
        "*",
        "?",
        "a",
        "b",
        ".md",
        "f",
        "[a-c]",
        "[!a]",
        "[^f]",
        "*.*",
        "d",
        "é",
        "[[:alpha:]]",
        "[",
        "]",
        "x\\ y",
        "0",
        ".",
        "ü",
        "[0-9]",
    ]
)
_GLOBS = st.lists(
    st.one_of(st.just("**"), st.lists(_GLOB_PARTS, min_size=1, max_size=3).map("".join)), min_size=1, max_size=3
).map("/".join)


@pytest.fixture(scope="module")
def plain_trees(tmp_path_factory: pytest.TempPathFactory) -> Forest:
    """Trees without links, which bash would follow."""
    return build_forest(tmp_path_factory, links=False)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@settings(CASES, max_examples=400)
@given(data=st.data())
def test_globs_expand_as_in_bash(plain_trees: Forest, data: st.DataObject) -> None:
    tree = _draw_tree(plain_trees, data)
    glob = data.draw(_GLOBS)
    _, wanted = gnu(tree, ["bash", "-O", "globstar", "-c", f"printf '%s\\n' {glob}"])
    words = expand_words(tree.workspace, "", split_words(glob))
    assert [word.text for word in words] == wanted.removesuffix("\n").split("\n"), glob
