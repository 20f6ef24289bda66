"""Maintain's judge and the summaries by fallback, by a language model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from pydantic import BaseModel, Field

from horma_rl.agent.types import Pair, Summarised, Verdict
from horma_rl.llm.extract import InvalidError, extract
from horma_rl.llm.types import Attempt, LanguageModel, Message, ModelT, NoValidAnswer, Role, Usage
from horma_rl.memory.text import one_line
from horma_rl.tokens import TokenCounter
from memory_shell.text import neutralise

JUDGE_VERSION = "horma-maintain-1"
_JUDGE = (
    "You check the work of an agent. It has worked at a task, and says that it has completed a part of it. You are "
    "given the task, what it did in that part and what came of it, and its summary. The part has passed if the summary "
    "is true to the steps, misses nothing that later steps need, and no step contradicts what the task demands of it; "
    "the rest of the task need not be done. Answer with a JSON object: "
    '{"passed": true} or {"passed": false, "feedback": "what is wrong, and what to do instead"}.'
)
_SUMMARISE = (
    "You keep the notes of an agent that works at a task. You are given the task, and steps of its work with what came "
    "of each. Write in at most five sentences what was done, what holds now, and every fact (names, numbers, places) "
    "that later steps need. Write nothing else."
)
_REASK = "That cannot be read: {}. Answer with the JSON object alone."
_SMALLEST = 16
_CUT = " [cut]"
_SAID_BEFORE = 2_000
"""Characters of an answer that the model is shown again."""
_FALLBACK_STEPS = 12


class UnreadError(NoValidAnswer):
    """NoValidAnswer, with the tokens that the tries took."""

    def __init__(self, attempts: Sequence[Attempt], usage: Usage) -> None:
        super().__init__(attempts)
        self.usage = usage


class _Found(BaseModel):
    passed: bool
    feedback: str = Field("", max_length=4_000)


@dataclass(frozen=True)
class LlmJudge:
    """Maintain by `model`. `trace_tokens` bounds the trace that it is shown, `attempts` the answers that it is asked
    for."""

    model: LanguageModel
    counter: TokenCounter
    trace_tokens: int = 4_000
    attempts: int = 3
    max_tokens: int = 256

    async def validate(self, instruction: str, trace: Sequence[Pair], summary: str) -> Verdict:
        """The verdict on a summary. Raises UnreadError when no answer can be read, and other LlmErrors."""
        content = (
            f"Task:\n{neutralise(instruction)}\n\nSteps:\n{trace_text(trace, self.counter, self.trace_tokens)}\n\n"
            f"Summary:\n{neutralise(summary)}"
        )
        found, usage = await ask(
            self.model, _messages(_JUDGE, content), _Found, role="judge", check=_reasoned,
            attempts=self.attempts, max_tokens=self.max_tokens,
        )  # fmt: skip
        return Verdict(found.passed, "" if found.passed else found.feedback.strip(), usage)


@dataclass(frozen=True)
class LlmSummariser:
    """Summaries by `model`. One that says nothing is answered for: the actions are listed, with the last observation,
    so that an episode goes on."""

    model: LanguageModel
    counter: TokenCounter
    trace_tokens: int = 4_000
    max_tokens: int = 256

    async def summarise(self, instruction: str, trace: Sequence[Pair]) -> Summarised:
        """The summary. Raises LlmError when the model cannot be had."""
        steps = trace_text(trace, self.counter, self.trace_tokens)
        content = f"Task:\n{neutralise(instruction)}\n\nSteps:\n{steps}\n\nNotes:"
        reply = await self.model.complete(
            _messages(_SUMMARISE, content), role="manager", max_tokens=self.max_tokens, temperature=0.0
        )
        text = reply.text.rpartition("</think>")[2].strip()
        return Summarised(text or listed(trace), reply.usage)


async def ask(
    model: LanguageModel,
    messages: Sequence[Message],
    schema: type[ModelT],
    *,
    role: Role,
    check: Callable[[ModelT], str | None],
    attempts: int,
    max_tokens: int,
) -> tuple[ModelT, Usage]:
    """A valid value, as `LanguageModel.structured` gives one, and the tokens of all the answers that it took.

    Raises:
        UnreadError: there was none in `attempts` answers.
        LlmError: the model cannot be had.
    """
    form = schema.model_json_schema()
    asked, tried, usage = list(messages), list[Attempt](), Usage()
    for _ in range(attempts):
        reply = await model.complete(asked, role=role, max_tokens=max_tokens, temperature=0.0, schema=form)
        usage = Usage(
            usage.prompt_tokens + reply.usage.prompt_tokens, usage.completion_tokens + reply.usage.completion_tokens
        )
        try:
            return extract(reply.text, schema, check, cut=reply.finish == "length"), usage
        except InvalidError as error:
            tried.append(Attempt(reply.text, str(error)))
        said = reply.text[:_SAID_BEFORE] or "(nothing)"
        asked = [*messages, _said("assistant", said), _said("user", _REASK.format(tried[-1].reason))]
    raise UnreadError(tried, usage)


def trace_text(trace: Sequence[Pair], counter: TokenCounter, budget: int) -> str:
    """Steps for a reader, one after the other, in about `budget` tokens: long observations are cut to an equal share,
    and where that is not enough the oldest steps are left out, which a line says."""
    share = max(budget // max(len(trace), 1), _SMALLEST)
    told = [_step(pair, counter, share) for pair in trace]
    left, kept = budget, 0
    for text in reversed(told):
        left -= counter.count(text)
        if left < 0 and kept:
            break
        kept += 1
    gone = len(told) - kept
    head = [f"({gone} earlier steps left out)"] if gone else []
    return "\n".join([*head, *told[gone:]])


def listed(trace: Sequence[Pair]) -> str:
    """What `trace` did, without a model: its last actions and the last observation."""
    actions = "; ".join(one_line(pair.action)[:80] for pair in trace[-_FALLBACK_STEPS:])
    before = f"{len(trace) - _FALLBACK_STEPS} steps, then: " if len(trace) > _FALLBACK_STEPS else ""
    return f"Did {before}{actions}. Last observation: {one_line(trace[-1].observation)[:200]}"


def _step(pair: Pair, counter: TokenCounter, share: int) -> str:
    text = f"[{pair.id}] > {neutralise(pair.action)}\n  {neutralise(pair.observation).strip()}"
    return text if counter.count(text) <= share else f"{counter.head(text, share - counter.count(_CUT))}{_CUT}"


def _reasoned(found: _Found) -> str | None:
    return None if found.passed or found.feedback.strip() else "`feedback` must say what is wrong"


def _messages(system: str, content: str) -> list[Message]:
    return [_said("system", system), _said("user", content)]


def _said(role: str, content: str) -> Message:
    return cast("Message", {"role": role, "content": content})
