"""LongMemEval: official files, an evidence-only file, and surrogate haystacks where the official ones are missing."""

from horma_rl.benchmarks.longmemeval.benchmark import LongMemEvalOptions, find_longmemeval, longmemeval
from horma_rl.benchmarks.longmemeval.reader import load_items, load_sittings
from horma_rl.benchmarks.longmemeval.surrogate import make_pool, surrogate
from horma_rl.benchmarks.longmemeval.types import PAPER_TYPES, TYPES, Item, Sitting, Utterance

__all__ = [
    "PAPER_TYPES", "TYPES", "Item", "LongMemEvalOptions", "Sitting", "Utterance", "find_longmemeval", "load_items",
    "load_sittings", "longmemeval", "make_pool", "surrogate",
]  # fmt: skip
