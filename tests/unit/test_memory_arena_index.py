"""The full-text index, what it is built from, and what a model may write into a query."""

from __future__ import annotations

import fcntl
import json
import os
import re
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from horma_rl.cli import main
from memory_arena import jsonstream
from memory_arena.index import MAX_WORDS, Document, TextIndex, build_index, query_words, read_documents
from memory_arena.jsonstream import read_records
from memory_arena.products import Item, document_item, item_document, parse_item, parse_prices
from memory_arena.rows import Product, ShoppingRow
from memory_arena.shopping import Shopping

DOCUMENTS = [
    Document("b", "Otters", "Otters swim in rivers and eat fish.", {"url": "x"}),
    Document("a", "Herons", "Herons stand in rivers."),
    Document("c", "Foxes", "Foxes hunt at night."),
]
LAMP = Item(
    "B0LAMP0001", "Elm Brass Lamp", (12.5, 20.0), "Home › Lamps", "Bright.", ("dimmable",), {"size": ("s", "m")}, 4.5
)


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


# Damaged files


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of an index of products."""
    path = tmp_path_factory.mktemp("whole") / "x.db"
    build_index((item_document(replace(LAMP, asin=f"B{number:04}")) for number in range(200)), path)
    return path.read_bytes()


@contextmanager
def suppress_told(path: Path) -> Iterator[None]:
    """Let pass what tells of the file, or that a product is not in it, and nothing else."""
    try:
        yield
    except ValueError as error:
        if not re.search(f"{re.escape(str(path))}: .*`horma-rl data index|is not in the index", str(error)):
            raise


def asked(path: Path) -> int:
    """How many questions an index, and the domain over it, answered before the first that was refused."""
    answered = 0
    with suppress_told(path):
        index = TextIndex.open(path)
        shopping = Shopping(index)
        row = ShoppingRow("1", ("q",), (Product("B0150", ()),), "x")
        for ask in (
            lambda: index.get("B0007"),
            lambda: index.search("dimmable brass", 200),
            lambda: index.search("dim", 5),
            lambda: len(index),
            lambda: shopping.item("B0100"),
            lambda: shopping.found("lamp"),
            lambda: shopping.play(row).act("search[elm]").observation,
        ):
            ask()
            answered += 1
    return answered


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=3000), st.booleans())
def test_overwritten_bytes_are_told_or_do_no_harm(
    tmp_path: Path, whole: bytes, at: int, put: bytes, at_a_page: bool
) -> None:
    at %= len(whole)
    at -= at % 4096 if at_a_page else 0
    path = tmp_path / "x.db"
    path.write_bytes((whole[:at] + put + whole[at + len(put) :])[: len(whole)])
    asked(path)


def test_every_page_that_is_lost_is_told_or_not_needed(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(whole)
    assert asked(path) == 7
    lost = 0
    for at in range(4096, len(whole), 4096):
        path.write_bytes(whole[:at] + b"\xff" * 4096 + whole[at + 4096 :])
        lost += asked(path) < 7
    assert lost > len(whole) / 4096 / 2


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_index_is_told_when_it_is_opened(tmp_path: Path, whole: bytes, part: float) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(whole[: int(len(whole) * part)])
    with pytest.raises(ValueError, match=r"x\.db: the index is damaged \(.*\); build it again with `horma-rl data"):
        TextIndex.open(path)


@pytest.mark.parametrize("table", ["words", "places", "documents"])
def test_a_missing_table_is_told_when_the_index_is_opened(tmp_path: Path, whole: bytes, table: str) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"DROP TABLE {table}")
    with pytest.raises(ValueError, match=f"x.db: the index is damaged \\(no such table: .*{table}"):
        TextIndex.open(path)


def test_empty_old_and_unreadable_files_are_told(tmp_path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.db"
    path.touch()
    with pytest.raises(ValueError, match="is no index"):
        TextIndex.open(path)
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version=0")
    with pytest.raises(ValueError, match=r"x\.db: is an index of another version; build it again"):
        TextIndex.open(path)

    def refused(*arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(ValueError, match=r"x\.db: the index cannot be read \(.*Permission denied"):
        TextIndex.open(path)


def test_a_lock_of_another_program_is_in_nobodys_way(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        assert asked(path) == 7


def test_a_product_whose_fields_are_others_is_told_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    for fields in ({}, {"prices": 3}, {"prices": ["?"]}, {"prices": []}):
        build_index([Document("B1", "Lamp", "lamp", fields)], path)
        with pytest.raises(ValueError, match=r"x\.db: .*data index"):
            Shopping(TextIndex.open(path)).found("lamp")


def test_other_files_are_neither_opened_nor_replaced(tmp_path: Path) -> None:
    other = tmp_path / "products.json"
    other.write_text("[]")
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE t (x)")
    for path in (other, foreign):
        with pytest.raises(ValueError, match="is no index"):
            TextIndex.open(path)
        with pytest.raises(ValueError, match="is no index"):
            build_index(DOCUMENTS, path)
    assert other.read_text() == "[]"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match="is no index"):
        build_index(DOCUMENTS, pipe)
    assert pipe.is_fifo()
    with pytest.raises(ValueError, match="no such index"):
        TextIndex.open(pipe)
    with pytest.raises(ValueError, match="no such index"):
        TextIndex.open(tmp_path / "none.db")


# Records from files


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60)
@given(st.lists(VALUES, max_size=6), st.integers(1, 40), st.sampled_from([None, 1]), st.booleans())
def test_an_array_is_read_as_json_reads_it_whatever_the_blocks(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any], block: int, indent: int | None, escaped: bool
) -> None:
    path = tmp_path_factory.mktemp("json") / "x.json"
    path.write_text(json.dumps(values, indent=indent, ensure_ascii=escaped), encoding="utf-8", errors="surrogatepass")
    assert [value for _, value in read_records(path, block)] == values


@pytest.mark.parametrize("block", range(1, 12))
def test_a_number_is_not_cut_where_a_block_ends(tmp_path: Path, block: int) -> None:
    path = tmp_path / "x.json"
    path.write_text("[1.5e-7, -2, 3E+2 , 40,true]")
    assert [value for _, value in read_records(path, block)] == [1.5e-7, -2, 3e2, 40, True]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.json", '{"id": 1}', "begin with '\\['"),
        ("x.json", "", "begin with '\\['"),
        ("x.json", '[{"id": 1} {"id": 2}]', "comma is missing after item 1"),
        ("x.json", '[{"id": 1}', "comma is missing after item 1, or the file is cut off"),
        ("x.json", '[{"id": 1}, {"id"', "item 2 is no JSON"),
        ("x.json", "[1, ]", "item 2 is no JSON"),
        ("x.json", "[1]\n[2]", "something follows the array, which ends after item 1"),
        ("x.json", "[]]", "something follows the array, which ends after item 0"),
        ("x.json", "[" * 100_000, "nested too deep"),
        ("x.jsonl", '{"id": 1}\n\n{"id"\n', "line 3 is no JSON"),
        ("x.jsonl", "[" * 100_000, "line 1 is no JSON"),
    ],
)
def test_faults_are_told_with_their_place(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        list(read_records(path))


def test_long_records_and_other_encodings_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonstream, "MAX_RECORD", 100)
    for name, text in ("x.json", f'["{"a" * 500}'), ("x.jsonl", f'"{"a" * 500}"'):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match="longer than 100 characters"):
            list(read_records(tmp_path / name, block=10))
    (tmp_path / "latin.json").write_bytes(b'["\xe9"]')
    with pytest.raises(ValueError, match="UTF-8"):
        list(read_records(tmp_path / "latin.json"))


def test_documents_may_call_their_fields_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(
        '{"docid": 7, "url": "u", "text": "t", "lang": "en", "tags": [[1]]}\n{"id": "e", "contents": "c"}\n'
    )
    assert list(read_documents([path])) == [Document("7", "u", "t", {"lang": "en"}), Document("e", "", "c", {})]
    path.write_text('{"key": 7, "text": "t"}\n')
    with pytest.raises(ValueError, match=r"item 1 needs 'id' and 'text', both texts \(.*\); it has 'key', 'text'"):
        list(read_documents([path]))
    for odd in ('""', f'"{"x" * 201}"', "9" * 201):
        path.write_text(f'{{"id": {odd}, "text": "t"}}\n')
        with pytest.raises(ValueError, match=r"x\.jsonl: item 1: the id is empty or longer than 200 characters"):
            list(read_documents([path]))
    for odd in ("true", "[1]", "{}"):
        path.write_text(f'{{"id": {odd}, "text": "t"}}\n')
        with pytest.raises(ValueError, match="item 1 needs 'id' and 'text'"):
            list(read_documents([path]))


# Products


def test_a_product_comes_back_from_the_index_as_it_was() -> None:
    index = TextIndex.of([item_document(LAMP)])
    (found,) = index.search("dimmable", 5)
    assert document_item(found) == LAMP
    with pytest.raises(ValueError, match="data index documents"):
        document_item(DOCUMENTS[0])


@pytest.mark.parametrize(
    ("pricing", "prices"),
    [
        ("$12.99", (12.99,)),
        ("$20.00 to $10.50", (10.5, 20.0)),
        ("$1,299.00", (1299.0,)),
        ([30, "$5"], (5.0, 30.0)),
        (7, (7.0,)),
        ("", ()),
        (None, ()),
        ("call us", ()),
        (True, ()),
    ],
)
def test_prices(pricing: object, prices: tuple[float, ...]) -> None:
    assert parse_prices(pricing) == prices


def test_a_record_of_webshop() -> None:
    record = {
        "asin": " b0abc12345 ",
        "name": "A  Mug",
        "pricing": "$9.00",
        "full_description": "Holds\ntea.",
        "small_description": ["ceramic", "", None, "blue"],
        "customization_options": {"Color": [{"value": "Blue", "image": "x"}, {"value": None}], "Size": None},
        "product_category": "Home › Mugs",
        "query": "mugs",
        "category": "kitchen",
        "average_rating": 4,
    }
    options = {"color": ("blue",)}
    expected = Item(
        "B0ABC12345", "A Mug", (9.0,), "Home › Mugs", "Holds tea.", ("ceramic", "blue"), options, 4.0, "mugs kitchen"
    )
    assert parse_item(record) == expected


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from(
            ["pricing", "full_description", "small_description", "customization_options", "average_rating"]
        ),
        VALUES,
    )
)
def test_odd_fields_of_a_product_are_left_empty(odd: dict[str, Any]) -> None:
    item = parse_item({"asin": "B01", "name": "Mug", **odd})
    assert item is not None
    assert document_item(TextIndex.of([item_document(item)]).search("mug", 1)[0]).name == "Mug"


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
