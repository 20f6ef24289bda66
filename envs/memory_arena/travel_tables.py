"""TravelPlanner's tables: read once, shared by all episodes.

The small ones are kept in memory, by city; flights, which are millions of rows, in a temporary SQLite file.
"""

from __future__ import annotations

import csv
import io
import lzma
import re
import sqlite3
import tarfile
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ATTRACTIONS = "attractions/attractions.csv"
RESTAURANTS = "restaurants/clean_restaurant_2022.csv"
ACCOMMODATIONS = "accommodations/clean_accommodations_2022.csv"
DISTANCES = "googleDistanceMatrix/distance.csv"
CITIES = "background/citySet_with_states.txt"
FLIGHTS = "flights/clean_Flights_2022.csv"
NEEDED = (ATTRACTIONS, RESTAURANTS, ACCOMMODATIONS, DISTANCES, CITIES)
MAX_BYTES = 64 << 20
"""The most that a table in memory may take as a file; the published ones are below 1 MB."""

COLUMNS = {
    ATTRACTIONS: ("Name", "Latitude", "Longitude", "Address", "Phone", "Website", "City"),
    RESTAURANTS: ("Name", "Average Cost", "Cuisines", "Aggregate Rating", "City"),
    ACCOMMODATIONS: (
        "NAME",
        "price",
        "room type",
        "house_rules",
        "minimum nights",
        "maximum occupancy",
        "review rate number",
        "city",
    ),
    DISTANCES: ("origin", "destination", "duration", "distance"),
    FLIGHTS: (
        "Flight Number",
        "Price",
        "DepTime",
        "ArrTime",
        "ActualElapsedTime",
        "FlightDate",
        "OriginCityName",
        "DestCityName",
        "Distance",
    ),
}
_ABSENT = frozenset({"", "#N/A", "N/A", "NA", "<NA>", "NULL", "null", "NaN", "nan", "None", "n/a"})

Line = tuple[str, ...]
_File = tuple[str, int, IO[bytes]]


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose last column is the city: its rows by city, in the file's order."""

    columns: Line
    by_city: dict[str, list[Line]]

    def rows(self, city: str) -> list[Line]:
        """The rows of a city; case, and a state in parentheses after the name, do not matter."""
        return self.by_city.get(_key(city), [])


class Flights:
    """Flights by origin, destination and date, in a temporary file that goes with this object."""

    columns = COLUMNS[FLIGHTS]

    def __init__(self, rows: Iterable[Line]) -> None:
        self._lock = threading.Lock()
        self._data = sqlite3.connect("", check_same_thread=False)  # the empty name is SQLite's temporary file
        self._data.execute(f"CREATE TABLE flights (origin, destination, date, {_slots('c{}')})")
        keyed = ((_key(row[6]), _key(row[7]), row[5], *row) for row in rows)
        self._data.executemany(f"INSERT INTO flights VALUES (?, ?, ?, {_slots('?')})", keyed)
        self._data.execute("CREATE INDEX by_route ON flights (origin, destination, date)")

    def rows(self, origin: str, destination: str, date: str) -> list[Line]:
        """The flights of a day (`YYYY-MM-DD`), in the file's order."""
        query = f"SELECT {_slots('c{}')} FROM flights WHERE origin = ? AND destination = ? AND date = ? ORDER BY rowid"
        with self._lock:
            return self._data.execute(query, (_key(origin), _key(destination), _plain(date))).fetchall()


@dataclass(frozen=True, slots=True)
class Tables:
    """What the travel tools look things up in. `flights` is None where that file is missing."""

    attractions: Table
    restaurants: Table
    accommodations: Table
    distances: dict[tuple[str, str], Line]
    """(duration, distance) by origin and destination; empty texts where Google gave none."""
    states: dict[str, list[str]]
    """Cities by state."""
    flights: Flights | None = None

    def distance(self, origin: str, destination: str) -> Line | None:
        """(duration, distance) between two cities, or None for a pair that is not in the table."""
        return self.distances.get((_key(origin), _key(destination)))

    def cities(self, state: str) -> list[str]:
        """The cities of a state."""
        return self.states.get(_key(state), [])


def read_tables(path: Path) -> Tables:
    """The tables of a folder or a tar archive (which is not unpacked), at any depth in it.

    Raises ValueError when `path` is neither, when a table or a column is missing, or when a table is too large or no
    CSV.
    """
    if not path.is_dir() and not path.is_file():
        raise ValueError(f"{path}: no such folder or archive; give TravelPlanner's database folder or its tar archive")
    try:
        if path.is_dir():
            return _read(_folder(path), path)
        with tarfile.open(path) as archive:
            return _read(_archive(archive), path)
    except (tarfile.TarError, EOFError, OSError, lzma.LZMAError, zlib.error, sqlite3.Error) as error:
        what = "folder" if path.is_dir() else "tar archive"
        raise ValueError(f"{path}: cannot be read as a {what} ({str(error).partition(':')[0]})") from None


def tables_from_rows(
    rows: Mapping[str, Sequence[Line]], states: Mapping[str, list[str]], flights: Flights | None = None
) -> Tables:
    """Tables from rows in the order of `COLUMNS`, keyed by the names of the files."""
    return Tables(
        attractions=_by_city(COLUMNS[ATTRACTIONS], rows[ATTRACTIONS]),
        restaurants=_by_city(COLUMNS[RESTAURANTS], rows[RESTAURANTS]),
        accommodations=_by_city(COLUMNS[ACCOMMODATIONS], rows[ACCOMMODATIONS]),
        distances={(_key(row[0]), _key(row[1])): row[2:] for row in reversed(rows[DISTANCES])},  # the first one counts
        states={_key(state): cities for state, cities in states.items()},
        flights=flights,
    )


def _folder(root: Path) -> Iterator[_File]:
    for file in sorted(root.rglob("*"), key=lambda file: (len(file.parts), file)):
        if file.is_file() and _table(file.as_posix()):
            with file.open("rb") as opened:
                yield file.as_posix(), file.stat().st_size, opened


def _archive(archive: tarfile.TarFile) -> Iterator[_File]:
    """In the archive's order: going back in a compressed one would unpack it anew."""
    for member in archive:
        opened = archive.extractfile(member) if member.isfile() and _table(member.name) else None
        if opened is not None:
            yield member.name, member.size, opened


def _table(name: str) -> str | None:
    """The table that a file is, by the end of its path."""
    return next((table for table in (*NEEDED, FLIGHTS) if f"/{name}".endswith(f"/{table}")), None)


def _read(files: Iterable[_File], path: Path) -> Tables:
    """Where a table is there twice, the first one counts."""
    rows: dict[str, Sequence[Line]] = {}
    states: dict[str, list[str]] | None = None
    flights: Flights | None = None
    for name, size, file in files:
        table = _table(name)
        if table is None or table in rows:
            continue
        if table != FLIGHTS and size > MAX_BYTES:
            raise ValueError(f"{path}: {name} has {size} bytes; a table of {MAX_BYTES} is the largest")
        text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace", newline="")
        if table == CITIES:
            states = states or _states(text, path)
        elif table == FLIGHTS:
            flights = flights or Flights(_rows(text, table, path, drop=True))
        else:
            rows[table] = list(_rows(text, table, path, drop=table != DISTANCES))
    missing = [table for table in NEEDED if table not in rows and not (table == CITIES and states is not None)]
    if missing or states is None:
        raise ValueError(f"{path}: holds no {missing[0]}; give the folder that TravelPlanner calls `database`")
    return tables_from_rows(rows, states, flights)


def _rows(file: IO[str], table: str, path: Path, drop: bool) -> Iterator[Line]:
    """The columns that are shown. `drop`: leave out rows that lack anything, as TravelPlanner's tools do."""
    reader = csv.reader(file)
    try:
        head = next(reader, [])
        places = _places(head, table, path)
        for row in reader:
            if len(row) == len(head) and not (drop and _ABSENT.intersection(row)):
                yield tuple(row[place] for place in places)
    except csv.Error as error:
        raise ValueError(f"{path}: {table}: line {reader.line_num} is no CSV ({error})") from None


def _places(head: Sequence[str], table: str, path: Path) -> list[int]:
    missing = [column for column in COLUMNS[table] if column not in head]
    if missing:
        raise ValueError(f"{path}: {table}: no column '{missing[0]}'; there are {', '.join(head)[:200]}")
    return [head.index(column) for column in COLUMNS[table]]


def _states(file: IO[str], path: Path) -> dict[str, list[str]]:
    states: dict[str, list[str]] = {}
    for line in file:
        city, tab, state = line.strip().partition("\t")
        if tab:
            states.setdefault(state, []).append(city)
    if not states:
        raise ValueError(f"{path}: {CITIES}: no line has a city, a tab and a state")
    return states


def _by_city(columns: Line, rows: Iterable[Line]) -> Table:
    table: dict[str, list[Line]] = {}
    for row in rows:
        table.setdefault(_key(row[-1]), []).append(row)
    return Table(columns, table)


def _key(name: str) -> str:
    return _plain(re.sub(r"\([^()]*\)", "", name).strip().casefold())  # what is in them has none: linear time


def _plain(text: str) -> str:
    """Half a surrogate pair, which JSON can hold, has no form in UTF-8: SQLite would not take it."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _slots(form: str) -> str:
    return ", ".join(form.format(index) for index in range(len(COLUMNS[FLIGHTS])))
