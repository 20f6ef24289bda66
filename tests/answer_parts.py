"""A language model that is a function: what the tests of answers and judges put in place of a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from horma_rl.llm.types import LlmError, Message, Role
from tests.llm_double import Double

Say = Callable[[Sequence[Message], Role], str | LlmError]


class ScriptedModel(Double):
    """Answers with what `answer` gives for the messages, or raises it. `requests` keeps every call."""

    def __init__(self, answer: Say) -> None:
        self.answer = answer
        self.requests: list[tuple[Role, list[Message]]] = []

    async def say(self, messages: Sequence[Message], role: Role) -> str:
        self.requests.append((role, list(messages)))
        said = self.answer(messages, role)
        if isinstance(said, LlmError):
            raise said
        return said


def replies(*texts: str | LlmError) -> ScriptedModel:
    """A model that says `texts` one after the other."""
    left = iter(texts)
    return ScriptedModel(lambda messages, role: next(left))
