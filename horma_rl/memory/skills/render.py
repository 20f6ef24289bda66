"""A library as a part of the manager's prompt."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from horma_rl.memory.skills.library import Library
from horma_rl.memory.skills.skill import Skill
from memory_shell.text import neutralise

HEADING = "Skills learned from earlier runs. Follow every one of them when you write notes:"
CountTokens = Callable[[str], int]


def estimate_tokens(text: str) -> int:
    """A quarter of the UTF-8 bytes, rounded up: about what byte-pair tokenizers give for English."""
    return math.ceil(len(text.encode()) / 4)


@dataclass(frozen=True, slots=True)
class Rendered:
    """The text (empty without skills), the ids that it shows, and those that found no room."""

    text: str
    shown: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def render_skills(library: Library, budget: int, count: CountTokens = estimate_tokens) -> Rendered:
    """The active skills as text of at most `budget` tokens.

    Skills that were found more often come in first, earlier ones before later ones; one that does not fit is passed
    over. They are shown in the library's order, so that a library that grows leaves the beginning of the text as it
    was. A last line says how many were left out. When not even one fits, the text is empty. Chat control tokens are
    replaced by look-alikes.
    """
    active = library.active
    by_support = sorted(active, key=lambda skill: -library.support(skill.id))
    kept: list[Skill] = []
    for skill in by_support:
        trial = [one for one in active if one in kept or one is skill]
        if count(_text(trial, len(active))) <= budget:
            kept = trial
    shown = tuple(skill.id for skill in kept)
    left_out = tuple(skill.id for skill in active if skill.id not in shown)
    return Rendered(_text(kept, len(active)) if kept else "", shown, left_out)


def _text(skills: list[Skill], total: int) -> str:
    lines = [
        HEADING,
        *(f"- {skill.title}. {_sentence(skill.principle)} {_sentence(skill.schema_change)}" for skill in skills),
    ]
    if missing := total - len(skills):
        lines.append(f"({missing} more {'skill' if missing == 1 else 'skills'} left out for want of room.)")
    return neutralise("\n".join(lines))


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
