"""The one line that the first observation says about a memory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memory_shell.overview import MAX_TERMS, TermIndex, overview, terms_line, tree_line
from memory_shell.verbs import execute
from memory_shell.workspace import Workspace
from tests.shell_workspace import write_workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.load(write_workspace(tmp_path / "mem"))


def test_terms_are_stems_rarest_first_with_line_counts(workspace: Workspace) -> None:
    # Ana speaks on 3 session lines, `paint` starts a word on 2 (paints, painting), `potter` on 1.
    assert terms_line(workspace, "When did Ana paint her pottery?") == "Terms: potter 1, paint 2, ana 3"


def test_ties_keep_the_question_order_and_unknown_words_are_left_out(workspace: Workspace) -> None:
    assert terms_line(workspace, "kilns, zebras, pottery and green") == "Terms: kiln 1, potter 1, green 1"
    assert terms_line(workspace, "pottery green kiln") == "Terms: potter 1, green 1, kiln 1"


def test_a_word_asked_twice_is_listed_once(workspace: Workspace) -> None:
    assert terms_line(workspace, "paint painting painted") == "Terms: paint 2"


def test_no_word_found_says_so(workspace: Workspace) -> None:
    expected = "Terms: none of the question's words occur"
    assert (
        terms_line(workspace, "zebra?")
        == terms_line(workspace, "what did the")
        == terms_line(workspace, "")
        == expected
    )


def test_only_the_rarest_terms_are_kept(workspace: Workspace) -> None:
    line = terms_line(
        workspace, "ana started pottery last week sister paints bowls lovely painting kiln green ben said"
    )
    assert line.count(",") == MAX_TERMS - 1
    assert "ana" not in line


def test_without_session_notes_all_cited_lines_count(tmp_path: Path) -> None:
    root = write_workspace(tmp_path / "mem")
    for note in (root / "sessions").iterdir():
        note.unlink()
    assert terms_line(Workspace.load(root), "pottery bowl sister") == "Terms: potter 1, bowl 1"


def test_counts_equal_a_search_for_the_word_prefix() -> None:
    lines = ["ana's bowl, bowls", "rainbow", "o'brien's  bow", "café bowling", "snow_bowl bow-tie"]
    index = TermIndex(lines)
    for prefix in ("bow", "bowl", "ana", "o'brien", "café", "brien", "s", "zebra"):
        assert index.count(prefix) == sum(re.search(rf"\b{prefix}", line) is not None for line in lines)


@pytest.mark.parametrize("term", ["paint", "bowl", "ana", "potter", "sister", "zebra"])
def test_counts_are_those_of_the_shell_s_own_grep(workspace: Workspace, term: str) -> None:
    counts = execute(workspace, "", rf"grep -ic '\b{term}' sessions/session_01.md sessions/session_02.md").text
    total = sum(int(line.rpartition(":")[2]) for line in counts.splitlines())
    assert terms_line(workspace, term) == (
        f"Terms: {term} {total}" if total else "Terms: none of the question's words occur"
    )


def test_tree_counts_files_and_turns(workspace: Workspace) -> None:
    assert tree_line(workspace) == (
        "Memory: people/ 1 file, raw_logs/ 2 files, sessions/ 2 files; 5 turns, 2023-05-08 to 2023-06-09"
    )


def test_an_empty_memory_is_described_as_empty(tmp_path: Path) -> None:
    empty = Workspace.load(tmp_path)
    assert overview(empty, "q", "tree") == "Memory: empty, it holds no files yet"
    assert overview(empty, "q", "terms") == "Terms: none of the question's words occur"


def test_none_says_nothing_and_an_unknown_kind_is_refused(workspace: Workspace) -> None:
    assert overview(workspace, "pottery", "none") == ""
    with pytest.raises(ValueError, match="none, tree or terms"):
        overview(workspace, "pottery", "term")  # type: ignore[arg-type]
