"""What the rest of the project knows of a language model: messages in, a reply or a validated value out, typed errors.

Everything that needs a model depends on the `LanguageModel` protocol; `horma_rl.llm.client.Llm` is the one over HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypedDict, TypeVar, get_args

from pydantic import BaseModel

Role = Literal["manager", "retriever", "actor", "judge", "analyst"]
"""Whose account a request goes to."""
ROLES: tuple[Role, ...] = get_args(Role)

ModelT = TypeVar("ModelT", bound=BaseModel)


class Message(TypedDict):
    """One message of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request, by the tokenizer of the model that answered."""

    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def total(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model said. `cached`: taken from the disk, so that it cost nothing now. `finish`: why it ended, in the
    server's word: `stop`, `length` (cut off at `max_tokens`), `tool_calls`, ..."""

    text: str
    usage: Usage
    cached: bool
    finish: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """An answer that was not taken, and why."""

    text: str
    reason: str


class LlmError(Exception):
    """The base of what `complete` and `structured` raise. Messages never hold a key."""


class NoValidAnswer(LlmError):  # noqa: N818 - it names the outcome, as StopIteration does
    """The model answered, but in no answer was there a valid value. `attempts`: every answer, with what was wrong."""

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        self.attempts = tuple(attempts)
        last = self.attempts[-1].reason if self.attempts else "no answer"
        super().__init__(f"no valid answer in {len(self.attempts)} tries, the last: {last}")


class BudgetSpent(LlmError):  # noqa: N818
    """A request was not sent because it would not fit in what is left of the budget."""


class UnreachableError(LlmError):
    """The server gave no usable answer in all tries: time-outs, cut connections, 429, 5xx, answers that do not parse.
    The same request may well succeed later."""


class RefusedError(LlmError):
    """The server refuses the request itself (bad key, unknown model, prompt too long): sending it again is no use.
    `status`: the HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        self.status = status
        super().__init__(message)


class LanguageModel(Protocol):
    """A chat model. Both methods may be called many times at once from one event loop."""

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        role: Role,
        max_tokens: int | None = None,
        temperature: float | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> Reply:
        """One reply. `schema`: a JSON schema that the text is asked to match; nothing checks that it does.

        Raises:
            BudgetSpent, UnreachableError, RefusedError.
        """

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
        """One value of type `schema`. `check` returns what is wrong with a value, or None.

        `describe`: tell the model the JSON schema where the server cannot be told; False when the messages say already
        what to answer with.

        Raises:
            NoValidAnswer: the model was told what was wrong as often as it may be, and gave no valid value.
            BudgetSpent, UnreachableError, RefusedError: as `complete` does.
        """
