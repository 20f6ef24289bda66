"""An index that is damaged, or no index: told, with the file and what to do."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_arena.index import Document, TextIndex, build_index
from memory_arena.products import Item, item_document
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
