"""How alike two skills are."""

from __future__ import annotations

from horma_rl.memory.skills.skill import Skill
from memory_shell.terms import STOP_WORDS, stem, tokenise


def similarity(one: Skill, other: Skill) -> float:
    """The Jaccard index of the two skills' content words, from 0 to 1; 1 when their titles have the same words.

    Content words are the prefix stems of title, principle and schema change, stop words left out. It is symmetric,
    depends on nothing but the two texts, and knows no synonyms: paraphrases without common words count as different.
    """
    title_a, title_b = _words(one.title), _words(other.title)
    if title_a and title_a == title_b:
        return 1.0
    a = title_a | _words(one.principle) | _words(one.schema_change)
    b = title_b | _words(other.principle) | _words(other.schema_change)
    return len(a & b) / len(a | b) if a | b else 0.0


def _words(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in tokenise(text) if word not in STOP_WORDS)
