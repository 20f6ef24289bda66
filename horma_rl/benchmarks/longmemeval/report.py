"""Counts of a LongMemEval file and of its surrogate haystacks, as a plain mapping for people and programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from horma_rl.benchmarks.longmemeval.benchmark import LongMemEvalOptions, conversation, surrogates
from horma_rl.benchmarks.longmemeval.reader import load_items
from horma_rl.benchmarks.longmemeval.surrogate import sitting_tokens
from horma_rl.benchmarks.longmemeval.types import PAPER_TYPES, TYPES, Item
from horma_rl.tokens import TokenCounter, token_counter
from memory_shell.workspace import Limits


def describe(path: Path, options: LongMemEvalOptions) -> dict[str, Any]:
    """All counts of the file at `path`; those of surrogates too when it holds no haystacks."""
    items = load_items(path)
    report = {
        "file": str(path),
        "haystacks": "in the file" if all(item.complete for item in items) else "evidence only",
        "questions": len(items),
        "by_type": _types(items),
        "abstention": sum(item.abstention for item in items),
        "abstention_by_type": _types([item for item in items if item.abstention]),
        "paper_subset": sum(item.type in PAPER_TYPES for item in items),
        "integer_answers": sum(item.integer_answer for item in items),
        "evidence": _evidence(items),
        "asked_before_last_session": sum(
            bool(item.sittings) and item.asked_at < item.sittings[-1].time for item in items
        ),
    }
    if not any(item.complete for item in items):
        report["surrogate"] = _surrogates(items, path, options)
    return report


def _types(items: Sequence[Item]) -> dict[str, int]:
    counts = Counter(item.type for item in items)
    return {name: counts[name] for name in TYPES}


def _evidence(items: Sequence[Item]) -> dict[str, Any]:
    sittings = [sitting for item in items for sitting in item.sittings if sitting.is_evidence]
    roles = Counter(turn.role for sitting in sittings for turn in sitting.turns if turn.has_answer)
    without = [item for item in items if not any(sitting.is_evidence for sitting in item.sittings)]
    return {
        "questions_with": len(items) - len(without),
        "questions_without": len(without),
        "abstention_without": sum(item.abstention for item in without),
        "sessions": len(sittings),
        "turns": sum(roles.values()),
        "turns_by_role": dict(sorted(roles.items())),
        "sessions_per_question": dict(
            sorted(Counter(sum(sitting.is_evidence for sitting in item.sittings) for item in items).items())
        ),
    }


def _surrogates(items: Sequence[Item], path: Path, options: LongMemEvalOptions) -> dict[str, Any]:
    """Sizes over all questions, and the raw logs' sizes against what the shell admits."""
    counter = token_counter(options.tokenizer)
    tokens, sessions, turns, largest, total = [], [], [], [], []
    for item in surrogates(items, items, options, path, counter):
        sizes = [session_bytes(item, number) for number in range(len(item.sittings))]
        tokens.append(item_tokens(item, counter))
        sessions.append(len(sizes))
        turns.append(len(conversation(item).turn_ids()))
        largest.append(max(sizes))
        total.append(sum(sizes))
    limits = Limits()
    return {
        "label": "SURROGATE: not the official haystacks",
        "haystacks": len(tokens),
        "seed": options.seed,
        "tokens_asked": options.tokens,
        "counted_by": counter.name,
        "tokens": _spread(tokens),
        "sessions": _spread(sessions),
        "turns": _spread(turns),
        "bytes": _spread(total),
        "largest_session_bytes": max(largest),
        "over_file_limit": sum(size > limits.file_bytes for size in largest),
        "over_workspace_limit": sum(size > limits.bytes for size in total),
    }


def item_tokens(item: Item, counter: TokenCounter) -> int:
    """Tokens of a question's whole haystack."""
    return sum(sitting_tokens(sitting, counter) for sitting in item.sittings)


def session_bytes(item: Item, number: int) -> int:
    """UTF-8 bytes of the texts of one session."""
    return sum(len(turn.text.encode()) for turn in item.sittings[number].turns)


def _spread(values: Sequence[int]) -> dict[str, float]:
    return {"least": min(values), "mean": round(mean(values), 1), "most": max(values)}
