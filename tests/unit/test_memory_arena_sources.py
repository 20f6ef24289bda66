"""What indexes are built from: records in files, and products."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_arena import jsonstream
from memory_arena.index import Document, TextIndex, read_documents
from memory_arena.jsonstream import read_records
from memory_arena.products import Item, document_item, item_document, parse_item, parse_prices

LAMP = Item(
    "B0LAMP0001", "Elm Brass Lamp", (12.5, 20.0), "Home › Lamps", "Bright.", ("dimmable",), {"size": ("s", "m")}, 4.5
)


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
        document_item(Document("b", "Otters", "Otters swim in rivers."))


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
