"""Products of a WebShop-style database, and their form in an index.

A record is what WebShop (arXiv:2207.01206) and MemoryArena's product database hold: `asin`, `name`, `pricing`,
`full_description`, `small_description`, `customization_options`, `category`, `query`, `product_category` and
`average_rating`. Only `asin` and `name` are required.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from memory_arena.index import Document
from memory_arena.jsonstream import read_records

MAX_DESCRIPTION = 2_000
MAX_FEATURES = 20
MAX_FEATURE = 300
MAX_OPTIONS = 20
MAX_VALUES = 40
MAX_VALUE = 100
_PRICE = re.compile(r"\d[\d,]{0,11}(?:\.\d{1,4})?")


@dataclass(frozen=True, slots=True)
class Item:
    """A product. Texts are on one line and limited. `prices`: none, one, or the lowest and the highest, in dollars.

    `category` is a path such as `Home & Kitchen › Bedding › Pillows`; `options` maps a name to the values to choose
    from, in lower case.
    """

    asin: str
    name: str
    prices: tuple[float, ...] = ()
    category: str = ""
    description: str = ""
    features: tuple[str, ...] = ()
    options: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    rating: float | None = None
    query: str = ""

    @property
    def price(self) -> float | None:
        """What it costs: the lowest price of a range."""
        return self.prices[0] if self.prices else None

    @property
    def price_label(self) -> str:
        """The price as pages show it."""
        return " to ".join(f"${price:.2f}" for price in self.prices) or "no price"


def item_document(item: Item) -> Document:
    """An item in an index: found by name, category, description, features and options."""
    values = [value for name, values in item.options.items() for value in (name, *values)]
    text = "\n".join((item.category, item.query, item.description, *item.features, " ".join(values)))
    fields = {
        "prices": list(item.prices),
        "category": item.category,
        "description": item.description,
        "features": list(item.features),
        "options": {name: list(values) for name, values in item.options.items()},
        "rating": item.rating,
        "query": item.query,
    }
    return Document(item.asin, item.name, text, fields)


def document_item(document: Document) -> Item:
    """The item of `item_document`. Raises ValueError when the document is no product."""
    fields = document.fields
    if "prices" not in fields:
        raise ValueError(f"'{document.id}' is no product: the index was built with `horma-rl data index documents`")
    try:
        return Item(
            asin=document.id,
            name=document.title,
            prices=tuple(map(float, fields["prices"])),
            category=str(fields["category"]),
            description=str(fields["description"]),
            features=tuple(map(str, fields["features"])),
            options={name: tuple(map(str, values)) for name, values in fields["options"].items()},
            rating=None if fields["rating"] is None else float(fields["rating"]),
            query=str(fields["query"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        told = (
            f"product '{document.id}' cannot be read: the index is damaged; build it again with `horma-rl data index`"
        )
        raise ValueError(told) from None


def read_products(paths: Iterable[Path], skipped: Callable[[str], None] = lambda reason: None) -> Iterator[Document]:
    """The products of JSON arrays and JSON Lines files. `skipped` is told of each record without `asin` or `name`,
    which scraped databases hold. Raises ValueError, with file and place, for what is no object."""
    for path in paths:
        for number, record in read_records(path):
            where = f"{path}: item {number}"
            if not isinstance(record, dict):
                raise ValueError(f"{where} is no object: products have 'asin' and 'name'")
            item = parse_item(record)
            if item is None:
                skipped(f"{where} has no 'asin' or no 'name'")
            else:
                yield item_document(item)


def parse_item(record: Mapping[str, Any]) -> Item | None:
    """The item of a record; None without `asin` or `name`. Other fields that are missing or odd are left empty."""
    asin, name = _line(record.get("asin"), 20).upper(), _line(record.get("name"), 500)
    if not asin or asin == "NAN" or not name:
        return None
    return Item(
        asin=asin,
        name=name,
        prices=parse_prices(record.get("pricing")),
        category=_line(record.get("product_category"), 300),
        description=_line(record.get("full_description"), MAX_DESCRIPTION),
        features=tuple(_lines(record.get("small_description"), MAX_FEATURES, MAX_FEATURE)),
        options=_options(record.get("customization_options")),
        rating=_rating(record.get("average_rating")),
        query=" ".join(filter(None, (_line(record.get(key), 100) for key in ("query", "category")))),
    )


def parse_prices(pricing: object) -> tuple[float, ...]:
    """`$12.99`, `$10.00 to $20.00`, a number, or a list of these: the lowest and the highest, or one, or none."""
    parts = pricing if isinstance(pricing, list) else [pricing]
    texts = [str(part) for part in parts[:50] if isinstance(part, str | int | float) and not isinstance(part, bool)]
    found = [float(price.replace(",", "")) for text in texts for price in _PRICE.findall(text[:200])]
    return tuple(sorted({min(found), max(found)})) if found else ()


def _rating(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 5:
        return None
    return float(value)


def _options(value: object) -> dict[str, tuple[str, ...]]:
    """`{"color": [{"value": "Red"}]}` or `{"color": ["Red"]}`, in lower case."""
    if not isinstance(value, dict):
        return {}
    options: dict[str, tuple[str, ...]] = {}
    for name, choices in list(value.items())[:MAX_OPTIONS]:
        raw = [choice.get("value") if isinstance(choice, dict) else choice for choice in _list(choices)]
        texts = [text.lower() for text in _lines(raw, MAX_VALUES, MAX_VALUE)]
        if texts:
            options[_line(name, MAX_VALUE).lower()] = tuple(dict.fromkeys(texts))
    return options


def _lines(value: object, count: int, length: int) -> list[str]:
    lines = (_line(part, length) for part in _list(value)[:count])
    return [line for line in lines if line]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _line(value: object, length: int) -> str:
    """A text or number on one line, cut to `length` characters."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return " ".join(str(value)[: 4 * length].split())[:length]
