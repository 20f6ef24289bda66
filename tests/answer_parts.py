"""A language model that is a function: what the tests of answers and judges put in place of a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from horma_rl.llm.types import LlmError, Message, ModelT, NoValidAnswer, Reply, Role, Usage

Say = Callable[[Sequence[Message], Role], str | LlmError]


class ScriptedModel:
    """Answers with what `say` gives for the messages, or raises it. `requests` keeps every call."""

    def __init__(self, say: Say) -> None:
        self.say = say
        self.requests: list[tuple[Role, list[Message]]] = []

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        role: Role,
        max_tokens: int | None = None,
        temperature: float | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> Reply:
        """One reply; words stand for tokens."""
        self.requests.append((role, list(messages)))
        said = self.say(messages, role)
        if isinstance(said, LlmError):
            raise said
        prompt = sum(len(message["content"].split()) for message in messages)
        return Reply(said, Usage(prompt, len(said.split())), False, "stop")

    async def structured(self, messages: Sequence[Message], schema: type[ModelT], **options: Any) -> ModelT:
        """Nothing that is tested here asks for structures."""
        raise NoValidAnswer([])


def replies(*texts: str | LlmError) -> ScriptedModel:
    """A model that says `texts` one after the other."""
    left = iter(texts)
    return ScriptedModel(lambda messages, role: next(left))
