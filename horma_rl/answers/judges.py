"""Judges: a language model says yes or no to one answer.

LongMemEval's judge has a rubric for each question type and one for questions without an answer, as its
`src/evaluation/evaluate_qa.py` has, here in other words; numbers from another wording are not the official ones, and
reports name this version. LoCoMo's judges are two: `generous` takes any answer that touches the gold (the Mem0 line),
`strict` wants all of it and nothing against it. A judge that gives no readable verdict raises: it is never a no.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from horma_rl.benchmarks.longmemeval.types import TYPES
from horma_rl.llm.types import BudgetSpent, LanguageModel, LlmError, Message, RefusedError
from memory_shell.types import Task

JUDGE_VERSION = "horma-judge-1"
JudgeName = Literal["longmemeval", "generous", "strict"]
MAX_TOKENS = 10
"""A verdict's tokens, as in the official evaluation."""

_WORD = re.compile(r"\b(?:yes|no)\b")
_ASK = "Answer with yes or no only."

_COMPLETE = (
    "Below are a question, its correct answer and the answer of a model. Say yes if the model's answer contains the "
    "correct answer, is equivalent to it, or holds every step that leads to it. Say no otherwise, also if it holds "
    "only a part of what the correct answer asks for."
)
_RUBRICS = {
    "temporal-reasoning": f"{_COMPLETE} Do not count it against the model when a number of days, weeks or months is "
    "off by one (19 days for 18).",
    "knowledge-update": "Below are a question, its correct answer and the answer of a model. Say yes if the model's "
    "answer contains the correct answer, and no otherwise. An answer that also mentions what held earlier is right as "
    "long as the updated answer is the one that it gives.",
    "single-session-preference": "Below are a question, a rubric of what a response suited to this user looks like, "
    "and the response of a model. Say yes if the response is what the rubric wants, and no otherwise. It need not meet "
    "every point: it is right when it recalls the user's personal information and uses it correctly.",
}
_UNANSWERABLE = (
    "Below are a question that cannot be answered, an explanation why, and the answer of a model. Say yes if the model "
    "recognises that the question cannot be answered: it may say that the information is missing, or that something "
    "else is known but not what was asked. Say no otherwise."
)
_GENEROUS = (
    "Below are a question about people's past conversations, a short gold answer and the answer of a model. Be "
    "generous: say yes if the model's answer is about the same thing as the gold answer, however long or differently "
    "put, and, where the question asks for a time, means the same date or period in whatever format, relative ones "
    "included. Say no otherwise."
)
_STRICT = (
    "Below are a question about people's past conversations, its gold answer and the answer of a model. Be strict: say "
    "yes only if the model's answer states everything that the gold answer states (every item, name and date; another "
    "wording or date format is fine) and nothing that contradicts it. Say no otherwise, also for partly right answers."
)
_TRAPPED = (
    "Below are a question about something that never came up in the conversations, a wrong answer that it invites, and "
    "the answer of a model. Say yes if the model says that this was not mentioned or is not known, or corrects the "
    "question's mistake. Say no if it gives the wrong answer, or any other as if it were known."
)


class JudgeError(Exception):
    """There is no verdict: the model failed or could not be read. To be retried, never counted as a no."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's decision and the words in which it came. Tokens are the judge's."""

    right: bool
    reply: str
    tokens: int


class Judge(Protocol):
    """Decides whether an answer is right. Judges know the gold answer and the category; actors know neither."""

    @property
    def name(self) -> JudgeName:
        """As configs and tables have it."""

    async def judge(self, task: Task, answer: str) -> Verdict:
        """Whether `answer` answers `task`. Raises JudgeError when there is no verdict; BudgetSpent and RefusedError
        pass through."""


@dataclass(frozen=True)
class LongMemEvalJudge:
    """One rubric a question type; `_abs` in the question's id takes the one for questions without an answer."""

    model: LanguageModel
    attempts: int = 3
    name: JudgeName = "longmemeval"

    async def judge(self, task: Task, answer: str) -> Verdict:
        """As `Judge.judge` says. Raises ValueError for a task that is none of LongMemEval's types."""
        return await ask(self.model, longmemeval_prompt(task, answer), self.attempts)


@dataclass(frozen=True)
class LocomoJudge:
    """`generous` or `strict`. Adversarial questions without an answer have their own rubric in both."""

    model: LanguageModel
    name: JudgeName
    attempts: int = 3

    async def judge(self, task: Task, answer: str) -> Verdict:
        """As `Judge.judge` says."""
        return await ask(self.model, locomo_prompt(task, answer, strict=self.name == "strict"), self.attempts)


def make_judge(name: JudgeName, model: LanguageModel, attempts: int = 3) -> Judge:
    """The judge called `name`, which asks `model` at most `attempts` times for one verdict."""
    return LongMemEvalJudge(model, attempts) if name == "longmemeval" else LocomoJudge(model, name, attempts)


def longmemeval_prompt(task: Task, answer: str) -> str:
    """What the judge of LongMemEval is asked. Raises ValueError for an unknown type."""
    if task.category not in TYPES:
        raise ValueError(f"{task.id}: no LongMemEval question type: '{task.category}'")
    gold = task.answer or ""
    if "_abs" in task.id:
        return _form(_UNANSWERABLE, task.question, "Explanation", gold, answer)
    label = "Rubric" if task.category == "single-session-preference" else "Correct answer"
    return _form(_RUBRICS.get(task.category, _COMPLETE), task.question, label, gold, answer)


def locomo_prompt(task: Task, answer: str, *, strict: bool) -> str:
    """What a judge of LoCoMo is asked. Without a gold answer, the trap stands in the prompt, as what is wrong."""
    if task.answer is None:
        trap = str(task.meta.get("adversarial_answer", ""))
        return _form(_TRAPPED, task.question, "Wrong answer", trap, answer)
    return _form(_STRICT if strict else _GENEROUS, task.question, "Gold answer", task.answer, answer)


def says_yes(reply: str) -> bool:
    """The official reading of a reply (`evaluate_qa.py`): whether `yes` occurs in it, in either case."""
    return "yes" in reply.strip().lower()


async def ask(model: LanguageModel, prompt: str, attempts: int) -> Verdict:
    """Ask until a reply can be read: one that holds yes or no as a word. It is then read as `says_yes` does.

    Raises:
        JudgeError: the model cannot be had, or no reply in `attempts` could be read.
        BudgetSpent, RefusedError: there is nothing left to ask with, or the server takes no such request.
    """
    messages: list[Message] = [{"role": "user", "content": prompt}]
    tokens, replies = 0, []
    for _ in range(attempts):
        try:
            reply = await model.complete(messages, role="judge", max_tokens=MAX_TOKENS, temperature=0.0)
        except (BudgetSpent, RefusedError):
            raise
        except LlmError as error:
            raise JudgeError(f"no verdict: {error}") from error
        tokens += reply.usage.total
        if _WORD.search(reply.text.lower()):
            return Verdict(says_yes(reply.text), reply.text, tokens)
        replies.append(reply.text)
        # Said anew, since the same request would bring the same reply.
        messages = [*messages, _said("assistant", reply.text or "(nothing)"), _said("user", _ASK)]
    raise JudgeError(f"no verdict in {attempts} replies, the last: {_shown(replies)}")


def _form(rubric: str, question: str, label: str, gold: str, answer: str) -> str:
    return f"{rubric}\n\nQuestion: {question}\n\n{label}: {gold}\n\nModel's answer: {answer}\n\nYes or no? {_ASK}"


def _said(role: Literal["assistant", "user"], content: str) -> Message:
    return {"role": role, "content": content}


def _shown(replies: Sequence[str]) -> str:
    return repr(replies[-1][:80]) if replies else "none"
