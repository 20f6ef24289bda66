"""What the language models of tests have in common: they say something, and values come out of it as from a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from horma_rl.llm.extract import InvalidError, extract
from horma_rl.llm.types import Attempt, Message, ModelT, NoValidAnswer, Reply, Role, Usage


class Double:
    """A `LanguageModel`: a subclass says what it answers, in `say`. `reasks`: times that an invalid value goes back."""

    reasks = 0

    async def say(self, messages: Sequence[Message], role: Role) -> str:
        """The text of one reply."""
        raise NotImplementedError

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
        said = await self.say(messages, role)
        prompt = sum(len(message["content"].split()) for message in messages)
        return Reply(said, Usage(prompt, len(said.split())), False, "stop")

    async def structured(
        self,
        messages: Sequence[Message],
        schema: type[ModelT],
        *,
        role: Role,
        check: Callable[[ModelT], str | None] | None = None,
        max_tokens: int | None = None,
        describe: bool = True,
    ) -> ModelT:
        """A value of type `schema` that `check` has nothing against."""
        asked, attempts = list(messages), list[Attempt]()
        while len(attempts) <= self.reasks:
            text = (await self.complete(asked, role=role)).text
            try:
                return extract(text, schema, check)
            except InvalidError as error:
                attempts.append(Attempt(text, str(error)))
                asked += [{"role": "assistant", "content": text}, {"role": "user", "content": str(error)}]
        raise NoValidAnswer(attempts)
