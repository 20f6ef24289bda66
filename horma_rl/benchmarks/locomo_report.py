"""Counts of what the LoCoMo file holds and of what had to be mended, as a plain mapping for people and programs."""

from __future__ import annotations

from collections import Counter
from typing import Any

from horma_rl.benchmarks.evidence import PROBLEMS
from horma_rl.benchmarks.locomo import CATEGORIES, PAPER_CATEGORIES, Locomo


def describe(locomo: Locomo) -> dict[str, Any]:
    """All counts. Per split, `questions` counts the papers' three categories and `all_categories` all five."""
    turns = [turn for conversation in locomo.conversations for turn in conversation.turns()]
    return {
        "file": str(locomo.path),
        "conversations": len(locomo.conversations),
        "sessions": sum(len(conversation.sessions) for conversation in locomo.conversations),
        "turns": len(turns),
        "questions": len(locomo.questions),
        "by_category": _by_category([question.task.category for question in locomo.questions]),
        "paper_categories": list(PAPER_CATEGORIES),
        "split": {split: _split(locomo, split) for split in ("train", "eval")},
        "per_conversation": [_conversation(locomo, place) for place in range(len(locomo.conversations))],
        "images": {
            "urls": sum(turn.image_url is not None for turn in turns),
            "captions": sum(turn.caption is not None for turn in turns),
            "queries": sum(turn.image_query is not None for turn in turns),
            "captions_without_url": sum(turn.caption is not None and turn.image_url is None for turn in turns),
        },
        "observations": sum(len(conversation.observations) for conversation in locomo.conversations),
        "irregularities": _irregularities(locomo),
        "repairs": [
            {"task": question.task.id, "label": label, "read_as": list(ids)}
            for question in locomo.questions
            for label, ids in question.repair.repaired
        ],
    }


def _by_category(names: list[str]) -> dict[str, int]:
    counts = Counter(names)
    return {name: counts[name] for name in CATEGORIES.values() if counts[name]}


def _split(locomo: Locomo, split: Any) -> dict[str, Any]:
    tasks = locomo.tasks(split)
    return {
        "conversations": list(dict.fromkeys(task.workspace for task in tasks)),
        "questions": len(tasks),
        "by_category": _by_category([task.category for task in tasks]),
        "all_categories": len(locomo.tasks(split, None)),
    }


def _conversation(locomo: Locomo, place: int) -> dict[str, Any]:
    conversation = locomo.conversations[place]
    asked = [question.task.category for question in locomo.questions if question.task.workspace == conversation.name]
    return {
        "name": conversation.name,
        "speakers": list(conversation.speakers),
        "sessions": len(conversation.sessions),
        "turns": len(conversation.turn_ids()),
        "questions": len(asked),
        "paper_questions": sum(category in PAPER_CATEGORIES for category in asked),
    }


def _irregularities(locomo: Locomo) -> dict[str, Any]:
    """Evidence labels are counted label by label, `qa_...` row by row."""
    questions = locomo.questions
    problems: Counter[str] = sum((question.repair.problems for question in questions), Counter())
    labels = sum(len(question.labels) for question in questions)
    wrong = sum(len(question.repair.repaired) for question in questions)
    adversarial = [question for question in questions if question.category == 5]
    texts = Counter((question.task.workspace, question.task.question) for question in questions)
    return {
        "evidence_labels": labels,
        "evidence_resolved_as_they_stand": labels - wrong,
        "evidence_not_resolved_as_they_stand": wrong,
        "evidence": {name: problems[name] for name in PROBLEMS},
        "qa_without_evidence": sum(not question.labels for question in questions),
        "qa_without_resolvable_evidence": sum(not question.task.evidence for question in questions),
        "qa_with_one_evidence_label": sum(len(question.labels) == 1 for question in questions),
        "most_evidence_labels": max((len(question.labels) for question in questions), default=0),
        "integer_answers": _by_category([question.task.category for question in questions if question.integer_answer]),
        "adversarial_without_answer": sum(not question.has_answer for question in adversarial),
        "adversarial_with_both_answers": sum(
            question.has_answer and question.has_adversarial_answer for question in adversarial
        ),
        "duplicate_questions": sum(count - 1 for count in texts.values()),
        "dates_without_session": {name: count for name, count in locomo.dates_without_session.items() if count},
        "observation_labels_repaired": len(locomo.observation_repairs),
    }
