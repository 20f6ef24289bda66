"""Retrievers by name, as configs write them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from horma_rl.baselines.base import Oracle, RandomTurn, Retriever
from horma_rl.baselines.bm25 import Bm25
from horma_rl.baselines.dense import Dense
from horma_rl.baselines.notes import NotesBm25
from horma_rl.baselines.scripted import NAVIGATORS
from horma_rl.errors import UserError, nearest

STANDARD: tuple[str, ...] = (
    "oracle", "script-reply", "script-three-speaker", "script-narrow", "script-both", "bm25-stems-nocaption-1",
    "script-rarest", "bm25-stems-1", "bm25-1", "bm25-2", "bm25-3", "dense-1", "bm25-5", "random-grep", "random",
)  # fmt: skip
"""What the papers' table needs, strongest first on LoCoMo."""

_RANKED = re.compile(r"(bm25|bm25-stems|bm25-nocaption|bm25-stems-nocaption|notes-bm25|dense)-([1-9]\d*)")


_LISTED: tuple[Retriever, ...] = (Oracle(), RandomTurn(), *NAVIGATORS)
_FIXED = {retriever.name: retriever for retriever in _LISTED}


def check_retriever(name: str) -> str:
    """`name`, if `make_retriever` knows it; no package is loaded. Raises UserError with the nearest name otherwise."""
    if name not in _FIXED and _RANKED.fullmatch(name) is None:
        raise UserError(f"unknown baseline '{name}'{nearest(name, [*STANDARD, *_FIXED])}: use {', '.join(STANDARD)}")
    return name


def make_retriever(name: str) -> Retriever:
    """The retriever called `name`: one of `STANDARD`, or `bm25[-stems][-nocaption]-K`, `notes-bm25-K`, `dense-K`
    for any K.

    Raises:
        UserError: there is none of that name.
    """
    check_retriever(name)
    ranked = _RANKED.fullmatch(name)
    if ranked is None:
        return _FIXED[name]
    kind, k = ranked[1], int(ranked[2])
    if kind == "dense":
        return Dense(k)
    if kind == "notes-bm25":
        return NotesBm25(k)
    return Bm25(k, stems="-stems" in kind, captions="-nocaption" not in kind)


def make_retrievers(names: Sequence[str]) -> list[Retriever]:
    """Retrievers for `names`, each name once, in order. Raises UserError like `make_retriever`."""
    return [make_retriever(name) for name in dict.fromkeys(names)]
