"""Counts of a set of conversations and tasks in this project's own format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from horma_rl.benchmarks.types import Conversation
from memory_shell.types import Task


def describe(conversations: Sequence[Conversation], tasks: Sequence[Task]) -> dict[str, Any]:
    """Sizes, categories, evidence turns per task, and evidence that names no turn (it should be none)."""
    known = {conversation.name: frozenset(conversation.turn_ids()) for conversation in conversations}
    turns = [turn for conversation in conversations for turn in conversation.turns()]
    return {
        "conversations": len(conversations),
        "sessions": sum(len(conversation.sessions) for conversation in conversations),
        "turns": len(turns),
        "captions": sum(turn.caption is not None for turn in turns),
        "questions": len(tasks),
        "by_category": dict(sorted(Counter(task.category for task in tasks).items())),
        "by_evidence_turns": dict(sorted(Counter(len(task.evidence) for task in tasks).items())),
        "evidence_without_turn": sum(
            turn not in known.get(task.workspace, frozenset()) for task in tasks for turn in task.evidence
        ),
    }
