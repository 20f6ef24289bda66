"""Where public datasets come from, what they must look like, and how a copy is found or fetched."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO

import yaml

from horma_rl.aside import aside
from horma_rl.errors import UserError, nearest

REPOSITORY = Path(__file__).resolve().parents[2]
MANIFEST = REPOSITORY / "data" / "sources.yaml"
CHUNK = 1 << 20
TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Source:
    """One downloadable file: `file` is its path below a data folder, `bytes` and `sha256` are those of the release.

    `note` is what people should know about these. Several files of one dataset are called `DATASET/FILE`.
    """

    name: str
    title: str
    url: str
    file: str
    bytes: int
    sha256: str
    licence: str
    homepage: str
    note: str = ""


@cache
def sources() -> dict[str, Source]:
    """The manifest `data/sources.yaml`, by name. Raises UserError when it is not there."""
    try:
        rows = yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{MANIFEST}: cannot be read ({error.strerror}); run from a checkout of horma-rl") from None
    return {name: Source(name=name, **row) for name, row in rows.items()}


def source(name: str) -> Source:
    """The source called `name`. Raises UserError for an unknown one, and for a dataset of several files."""
    found = files(name)
    if found[0].name != name:
        raise UserError(f"{name} has several files; name one of {', '.join(one.name for one in found)}")
    return found[0]


def files(name: str) -> list[Source]:
    """The sources that `name` stands for: the one that is called so, or all files of that dataset. Raises UserError
    for an unknown one."""
    known = sources()
    found = [wanted for key, wanted in known.items() if key == name or key.startswith(f"{name}/")]
    if not found:
        datasets = list(dict.fromkeys(key.partition("/")[0] for key in known))
        raise UserError(f"unknown dataset '{name}'{nearest(name, datasets)}: known are {', '.join(datasets)}")
    return found


def cache_dir() -> Path:
    """Where downloads are kept: $HORMA_CACHE, else $XDG_CACHE_HOME/horma_rl, else ~/.cache/horma_rl."""
    if os.environ.get("HORMA_CACHE"):
        return Path(os.environ["HORMA_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "horma_rl"


def find_locomo(path: Path | None = None) -> Path:
    """The released locomo10.json: `path` when given, else $HORMA_DATA, the data folder beside the repository, the
    cache. Raises UserError that says how to get it."""
    return find(source("locomo"), path)


def find(wanted: Source, path: Path | None = None) -> Path:
    """A copy of `wanted` on this machine, in the order that `find_locomo` names. The copy is not read here."""
    if path is not None:
        if path.is_file():
            return path
        raise UserError(f"{path}: no such file; `horma-rl data fetch {wanted.name}` gets one")
    for folder in data_folders():
        if (folder / wanted.file).is_file():
            return folder / wanted.file
    raise UserError(
        f"{wanted.title} is not on this machine: run `horma-rl data fetch {wanted.name}`, or set HORMA_DATA to a "
        f"folder that holds {wanted.file}"
    )


def data_folders() -> list[Path]:
    """Where datasets are looked for, in this order: $HORMA_DATA, the data folder beside the repository, the cache.
    Raises UserError when HORMA_DATA names no folder."""
    folders = [REPOSITORY.parent / "shared" / "data", cache_dir()]
    named = os.environ.get("HORMA_DATA")
    if named and not Path(named).is_dir():
        raise UserError(f"HORMA_DATA names {named}, which is no folder: correct or unset it")
    return [Path(named), *folders] if named else folders


def fetch_all(name: str, local: Path | None = None) -> list[tuple[Source, Path]]:
    """Fetch the files that `name` stands for. `local` is a file, or a folder with the files of the dataset as the
    dataset itself names them. What an earlier call fetched is not fetched again."""
    wanted = files(name)
    if local is None or not local.is_dir():
        if local is not None and len(wanted) > 1:
            raise UserError(f"{local}: no folder; {name} has {len(wanted)} files: give the folder that holds them")
        return [(one, fetch(one, local)) for one in wanted]
    return [(one, fetch(one, local / Path(one.file).relative_to(Path(one.file).parts[0]))) for one in wanted]


def fetch(wanted: Source, local: Path | None = None) -> Path:
    """Put a checked copy of `wanted` into the cache, from `local` or from its URL, and give its path.

    A copy that is there and right is left alone. Nothing is put in place unless its checksum is right. Raises
    UserError when the file cannot be had or is another one.
    """
    target = cache_dir() / wanted.file
    if target.is_file() and _digest(target) == wanted.sha256:
        return target
    with aside(target) as unfinished:
        with unfinished.open("wb") as file:
            digest = _copy(_chunks(wanted, local), file, wanted)
        if digest != wanted.sha256:
            raise UserError(
                f"{local or wanted.url}: sha256 is {digest}, that of {wanted.title} is {wanted.sha256}; "
                "this is another version or a damaged copy, and nothing was kept"
            )
    return target


def _chunks(wanted: Source, local: Path | None) -> Iterator[bytes]:
    if local is not None:
        yield from _local(local)
        return
    try:
        with urllib.request.urlopen(wanted.url, timeout=TIMEOUT_S) as response:
            while chunk := response.read(CHUNK):
                yield chunk
    except (http.client.HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise UserError(
            f"could not download {wanted.url} ({reason}): check the network, or get the file on another machine and "
            f"run `horma-rl data fetch {wanted.name} --from FILE`"
        ) from None


def _local(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                yield chunk
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


def _copy(chunks: Iterable[bytes], file: BinaryIO, wanted: Source) -> str:
    """Write the chunks, and give their digest; stops as soon as there are more bytes than there should be."""
    digest, size = hashlib.sha256(), 0
    for chunk in chunks:
        size += len(chunk)
        if size > wanted.bytes:
            raise UserError(f"more than the {wanted.bytes} bytes of {wanted.title} came; nothing was kept")
        digest.update(chunk)
        file.write(chunk)
    return digest.hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
