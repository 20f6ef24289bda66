"""BM25 over raw turns: Okapi with k1 = 1.5, b = 0.75 (rank_bm25), one document a turn.

A document is `speaker: text caption`. The plain variant splits on word characters and lower-cases. The stemmed variant
also drops stop words, drops the speakers' names from the query (they say who spoke, which every second turn matches),
and applies the Snowball English stemmer to both sides. Ties go to the earlier turn.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from horma_rl.baselines.base import Retrieved, turn_texts
from horma_rl.errors import UserError
from memory_shell.terms import STOP_WORDS, tokenise
from memory_shell.types import Task
from memory_shell.workspace import Workspace

Tokenise = Callable[[str], list[str]]
_WORD = re.compile(r"\w+")


@dataclass
class _Index:
    ids: tuple[str, ...]
    scorer: Any
    names: frozenset[str]


@dataclass(eq=False)
class Bm25:
    """The `k` turns that score highest for the question; none when no word of it occurs in the memory."""

    k: int = 1
    stems: bool = False
    captions: bool = True
    _indexes: WeakKeyDictionary[Workspace, _Index] = field(default_factory=WeakKeyDictionary, repr=False)

    @property
    def name(self) -> str:
        """`bm25-1`, `bm25-stems-1`, `bm25-stems-nocaption-1`."""
        return f"bm25{'-stems' if self.stems else ''}{'' if self.captions else '-nocaption'}-{self.k}"

    @property
    def given(self) -> str:
        """What it indexes and how."""
        how = "; stems, no stop words, no speaker names" if self.stems else ""
        return f"all raw turns{'' if self.captions else ' without captions'}, top {self.k}{how}"

    def retrieve(self, task: Task, workspace: Workspace, rng: random.Random) -> Retrieved:
        """The best `k` turns of the whole archive."""
        index = self._index(workspace)
        if index.scorer is None:
            return Retrieved(())
        words = [word for word in self._words(task.question, index.names) if word in index.scorer.idf]
        if not words:
            return Retrieved(())
        scores = np.asarray(index.scorer.get_scores(words))
        order = np.argsort(-scores, kind="stable")[: self.k]
        return Retrieved(tuple(index.ids[i] for i in order))

    def _index(self, workspace: Workspace) -> _Index:
        known = self._indexes.get(workspace)
        if known is None:
            texts = turn_texts(workspace, captions=self.captions)
            documents = [self._words(text) for text in texts.values()]
            scorer = okapi(documents) if any(documents) else None
            known = _Index(tuple(texts), scorer, speaker_words(workspace))
            self._indexes[workspace] = known
        return known

    def _words(self, text: str, without: frozenset[str] = frozenset()) -> list[str]:
        if not self.stems:
            return [str(word) for word in _WORD.findall(text.lower())]
        return stems(text, without)


def speaker_words(workspace: Workspace) -> frozenset[str]:
    """The words of the speakers' names, lower-case."""
    return frozenset(
        word for speaker in {turn.speaker for turn in workspace.turns.values()} for word in tokenise(speaker)
    )


def stems(text: str, without: frozenset[str] = frozenset()) -> list[str]:
    """The Snowball stems of the words of `text`, without stop words and the words in `without`."""
    return [_snowball(word) for word in tokenise(text) if word not in STOP_WORDS and word not in without]


def okapi(documents: list[list[str]]) -> Any:
    """A BM25 scorer over `documents`. Raises UserError when rank-bm25 is not installed."""
    try:
        from rank_bm25 import BM25Okapi
    except ImportError:
        raise UserError("the bm25 baselines need rank-bm25: pip install 'horma-rl[baselines]'") from None
    return BM25Okapi(documents)


@lru_cache(maxsize=1)
def _stemmer() -> Any:
    try:
        import snowballstemmer
    except ImportError:
        raise UserError("the bm25-stems baselines need snowballstemmer: pip install 'horma-rl[baselines]'") from None
    return snowballstemmer.stemmer("english")


@lru_cache(maxsize=65_536)
def _snowball(word: str) -> str:
    return str(_stemmer().stemWord(word))
