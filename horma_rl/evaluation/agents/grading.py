"""The language model that says whether an answer in MemoryArena's formal and search domains is right."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from horma_rl.answers.judges import ask
from horma_rl.llm.types import LanguageModel

GRADER_VERSION = "horma-grader-1"
_RUBRIC = (
    "Below are a question, its correct answer and the answer of an agent. Say yes if the agent's answer is equivalent "
    "to the correct one: the same value, formula, name or fact, however written (for formulas, mathematically equal "
    "under the question's definitions). Say no if it differs, is incomplete, or leaves the choice between answers."
)


@dataclass(frozen=True)
class LlmGrader:
    """A `memory_arena.domain.Grader` that asks `model`, on the event loop `loop`. Environments call it from threads of
    their own, and wait.

    Raises JudgeError when there is no verdict: that is no 0.
    """

    model: LanguageModel
    loop: asyncio.AbstractEventLoop
    attempts: int = 3

    def __call__(self, question: str, gold: str, answer: str) -> bool:
        """Whether `answer` is right."""
        prompt = (
            f"{_RUBRIC}\n\nQuestion: {question}\n\nCorrect answer: {gold}\n\nAgent's answer: {answer}\n\n"
            "Yes or no? Answer with yes or no only."
        )
        asked = asyncio.run_coroutine_threadsafe(ask(self.model, prompt, self.attempts), self.loop)
        return asked.result().right
