"""The full-text index and what a model may write into a query."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import IO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horma_rl.cli import main
from memory_arena.index import MAX_WORDS, Document, TextIndex, build_index, query_words
from memory_arena.jsonstream import read_records
from memory_arena.products import item_document, parse_item

DOCUMENTS = [
    Document("b", "Otters", "Otters swim in rivers and eat fish.", {"url": "x"}),
    Document("a", "Herons", "Herons stand in rivers."),
    Document("c", "Foxes", "Foxes hunt at night."),
]


@pytest.fixture(scope="module")
def small() -> TextIndex:
    return TextIndex.of(DOCUMENTS)


def ids(found: list[Document]) -> list[str]:
    return [document.id for document in found]


def test_documents_are_found_by_words_and_their_stems_and_come_back_whole(small: TextIndex) -> None:
    assert ids(small.search("otter fishing", 5)) == ["b"]
    assert small.search("hunted", 5) == [DOCUMENTS[2]]
    assert small.get("b") == DOCUMENTS[0]
    assert small.get("B") is None
    assert len(small) == 3


def test_equal_ranks_are_in_the_order_of_ids_whatever_the_order_of_the_file() -> None:
    texts = [Document(f"d{number}", "", "one same text") for number in (7, 3, 9, 1, 5)]
    for documents in (texts, texts[::-1]):
        assert ids(TextIndex.of(documents).search("same", 3)) == ["d1", "d3", "d5"]


def test_the_best_document_comes_first(small: TextIndex) -> None:
    assert ids(small.search("herons in rivers", 5)) == ["a", "b"]
    assert ids(small.search("rivers", 1)) == ["a"]


@pytest.mark.parametrize(
    "query",
    ['"', "x OR", "NOT otters", "title:otters", "otters*", "(otters", "otters OR", "^otters", "{x}:", "-", "\x00"],
)
def test_syntax_in_a_query_is_words_or_nothing(small: TextIndex, query: str) -> None:
    assert set(ids(small.search(query, 5))) <= {"a", "b"}
    assert ("b" in ids(small.search(query, 5))) == ("otters" in query)


@settings(max_examples=60)
@given(st.text(max_size=200))
def test_no_text_breaks_a_search(text: str) -> None:
    index = TextIndex.of(DOCUMENTS)
    assert index.search(text, 3) == index.search(text, 3)
    assert ("otters" in query_words(f"{text} otters")) == (
        len(query_words(text)) < MAX_WORDS or "otters" in query_words(text)
    )
    index.get(text)
    index.close()


def test_surrogates_and_long_queries(small: TextIndex) -> None:
    assert small.search("\ud800 otters", 5) == [DOCUMENTS[0]]
    assert small.get("\ud800") is None
    many = " ".join(f"w{number}" for number in range(100_000))
    assert len(query_words(many)) == MAX_WORDS
    assert small.search(many, 5) == []


def test_an_index_in_a_file_is_read_only_and_shared_by_threads(tmp_path: Path) -> None:
    path = tmp_path / "a name with ? and %.db"
    assert build_index(DOCUMENTS, path).documents == 3
    path.chmod(0o444)
    index = TextIndex.open(path)
    with ThreadPoolExecutor(8) as pool:
        assert set(map(tuple, pool.map(lambda _: ids(index.search("rivers", 5)), range(50)))) == {("a", "b")}
    with pytest.raises(sqlite3.OperationalError):
        index._connection.execute("DELETE FROM documents")
    index.close()
    index.close()
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_the_first_document_of_an_id_counts(tmp_path: Path) -> None:
    built = build_index([*DOCUMENTS, Document("a", "Later", "later words")], tmp_path / "x.db")
    assert (built.documents, built.duplicates) == (3, 1)
    assert TextIndex.open(tmp_path / "x.db").search("later", 5) == []


def test_progress_counts_what_was_read(tmp_path: Path) -> None:
    seen: list[int] = []
    documents = (Document(str(number), "", "text") for number in range(12_000))
    build_index(documents, tmp_path / "x.db", seen.append)
    assert seen == [5_000, 10_000, 12_000]


def test_a_build_that_fails_leaves_the_old_index_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    build_index(DOCUMENTS, path)
    for documents, message in ([], "nothing to index"), ([*DOCUMENTS, Document("", "", "")], "is empty"):
        with pytest.raises(ValueError, match=message):
            build_index(documents, path)
    assert len(TextIndex.open(path)) == 3
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.db"]


def test_an_index_is_built_where_all_locks_are_of_one_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on NFS: there a lock on the whole file shuts out SQLite's own, even in the same process."""

    def lock(file: IO[bytes], how: int) -> None:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))

    monkeypatch.setattr("memory_arena.index.fcntl.flock", lock)
    assert build_index(DOCUMENTS, tmp_path / "x.db").documents == 3


def test_a_link_in_the_place_of_an_unfinished_index_is_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    (tmp_path / ".x.db.unfinished").symlink_to(other)
    for text in (None, "precious"):
        if text:
            other.write_text(text)
        with pytest.raises(ValueError, match=r"the index cannot be written \(.*\.x\.db\.unfinished"):
            build_index(DOCUMENTS, tmp_path / "x.db")
        assert (other.read_text() if other.exists() else None) == text


def test_a_name_of_an_index_may_be_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a?b#%41\udcff.db"
    build_index(DOCUMENTS, path)
    with closing(TextIndex.open(path)) as index:
        assert len(index) == 3
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_build_left_is_taken_by_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    code = (
        "import os, sys; from pathlib import Path; from memory_arena.index import Document, build_index\n"
        "def documents():\n"
        "    for number in range(100): yield Document(str(number), '', 'text')\n"
        "    os.kill(os.getpid(), 9)\n"
        "build_index(documents(), Path(sys.argv[1]))"
    )
    assert subprocess.run([sys.executable, "-c", code, path], timeout=60, check=False).returncode == -9
    assert [entry.name for entry in tmp_path.iterdir()] == [".x.db.unfinished"]
    build_index(DOCUMENTS, path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.db"]
    assert len(TextIndex.open(path)) == 3


def test_a_link_stays_one(tmp_path: Path) -> None:
    link, target = tmp_path / "link.db", tmp_path / "disk" / "x.db"
    link.symlink_to(target)
    for documents in (DOCUMENTS, DOCUMENTS[:1]):
        build_index(documents, link)
        assert link.is_symlink()
        assert [entry.name for entry in target.parent.iterdir()] == ["x.db"]
        assert len(TextIndex.open(link)) == len(documents)


def test_of_two_builds_at_once_the_later_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.db"

    def documents() -> Iterator[Document]:
        yield from DOCUMENTS
        with pytest.raises(ValueError, match="another process is building this index"):
            build_index(DOCUMENTS[:1], path)

    assert build_index(documents(), path).documents == 3
    assert len(TextIndex.open(path)) == 3
    assert build_index(DOCUMENTS[:1], path).documents == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.db"]


# The command


def test_the_command_indexes_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "p.json", tmp_path / "deep" / "p.db"
    source.write_text(json.dumps([{"asin": "B01", "name": "Mug"}, {"asin": "B01", "name": "Cup"}, {"name": "no asin"}]))
    assert main(["data", "index", "products", str(source), "--out", str(out)]) in (0, None)
    shown = capsys.readouterr()
    report = json.loads(shown.out.splitlines()[-1])
    assert (report["documents"], report["duplicates"], report["skipped"]) == (1, 1, 1)
    assert "item 3 has no 'asin' or no 'name'" in shown.err
    assert TextIndex.open(out).search("mug", 1)[0].title == "Mug"
    source.write_text('[{"name": "no asin"}]')
    assert main(["data", "index", "products", str(source), "--out", str(out)]) == 2
    assert "nothing to index (1 skipped; the first: " in capsys.readouterr().err
    assert main(["data", "index", "documents", str(source), "--out", str(out)]) == 2
    assert "item 1 needs 'id' and 'text'" in capsys.readouterr().err


# Real data, where it is there


def test_real_goals_are_read_and_searched(horma_data: Path) -> None:
    """All 12,087 goals of WebShop through the reader; every sixtieth as a query against the 415 rows that have a
    text, of which each finds itself (a longer text that holds all its words may come first)."""
    goals_file = horma_data / "webshop" / "webshop_human_goals.json"
    rows_file = horma_data / "webshop" / "webshop_items_ins_v2_1000.json"
    if not goals_file.is_file() or not rows_file.is_file():
        pytest.skip(f"no WebShop goals at {goals_file.parent}")
    goals = [goal for _, goal in read_records(goals_file, block=5_000)]
    assert goals == json.loads(goals_file.read_text())
    with pytest.raises(ValueError, match="begin with"):
        next(read_records(rows_file))
    told = {asin: row for asin, row in json.loads(rows_file.read_text()).items() if row.get("instruction")}
    records = [
        {"asin": asin, "name": row["instruction"], "small_description": row["attributes"]} for asin, row in told.items()
    ]
    items = [item for record in records if (item := parse_item(record))]
    index = TextIndex.of(map(item_document, items))
    found = {item.name: [document.title for document in index.search(item.name, 5)] for item in items}
    assert all(name in titles for name, titles in found.items())
    assert sum(name == titles[0] for name, titles in found.items()) > 0.97 * len(found)
    assert sum(bool(index.search(goal, 5)) for goal in goals[::60]) > 195
