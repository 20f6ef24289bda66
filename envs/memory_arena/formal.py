"""Formal reasoning: a derivation in steps, each of which may use the results before it. An answer is judged once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from interactive_env.types import ToolSpec
from memory_arena.domain import Decides, Domain, Grader, Play, Reply, Score, expect, options, shown, step_cap
from memory_arena.rows import MATH, PHYSICS, FormalRow, Row

STEP_CAP = 5
"""An answer takes one step; the others are for actions that are none."""
MAX_ANSWER_CHARS = 20_000
ACTIONS = "answer[TEXT] hands in the final answer of the subtask, as text or LaTeX. It ends the subtask."
INSTRUCTION = """\
Answer a chain of {count} questions that lead up to one result. Later questions use the results of earlier ones by name.
Work each one out, and hand in its final answer alone."""
_ANSWER = re.compile(r"\s*answer\s*\[(.*)\]\s*", re.DOTALL | re.IGNORECASE)


class FormalDomain:
    """Derivations in mathematics or physics. `grader` says whether an answer is equivalent to the gold one."""

    actions = ACTIONS
    tools: Sequence[ToolSpec] = ()
    decides: Decides = "last"

    def __init__(self, name: str, grader: Grader, step_cap: int = STEP_CAP) -> None:
        self.name = name
        self.step_cap = step_cap
        self._grader = grader

    def play(self, row: Row) -> Play:
        """Start a derivation."""
        formal = expect(row, FormalRow)
        if formal.domain != self.name:
            raise ValueError(f"row {row.id} is of domain {row.domain}; expected {self.name}")
        return FormalPlay(formal, self._grader)


def build_math(given: Mapping[str, Any], grader: Grader) -> Domain:
    """Option: `step_cap` (5). Raises ValueError."""
    return FormalDomain(MATH, grader, step_cap(options(given, ("step_cap",), MATH), STEP_CAP, MATH))


def build_physics(given: Mapping[str, Any], grader: Grader) -> Domain:
    """Option: `step_cap` (5). Raises ValueError."""
    return FormalDomain(PHYSICS, grader, step_cap(options(given, ("step_cap",), PHYSICS), STEP_CAP, PHYSICS))


class FormalPlay:
    """One derivation."""

    def __init__(self, row: FormalRow, grader: Grader) -> None:
        self._row = row
        self._grader = grader
        self._index = 0
        self._answer: str | None = None

    @property
    def instruction(self) -> str:
        """What holds for the derivation."""
        return INSTRUCTION.format(count=len(self._row.questions))

    def begin(self, index: int) -> str:
        """The background of this question, where it has one, and the question."""
        self._index, self._answer = index, None
        background = self._row.backgrounds[index] if index < len(self._row.backgrounds) else ""
        return "\n\n".join(part for part in (background.strip(), self._row.questions[index]) if part)

    def act(self, action: str) -> Reply:
        """Hand in an answer."""
        match = _ANSWER.fullmatch(action)
        answer = match[1].strip() if match else ""
        if not answer:
            return Reply(f"Error: '{shown(action, 40)}' is no answer: write answer[TEXT]", valid=False)
        if len(answer) > MAX_ANSWER_CHARS:
            return Reply(f"Error: the answer has over {MAX_ANSWER_CHARS} characters: give the result", valid=False)
        self._answer = answer
        return Reply("The answer is filed.", ended=True)

    def score(self) -> Score:
        """What the grader says; without an answer it is not asked."""
        if self._answer is None:
            return Score(passed=False, answered=False)
        passed = self._grader(self._row.questions[self._index], self._row.answers[self._index], self._answer)
        return Score(bool(passed), answered=True)
