"""The budgeted actor: a language model that answers from a retrieved context and sees nothing else.

It is given the question, the day on which it is asked, and the context; never the category, the gold answer, the
evidence or the memory. (LoCoMo's own harness adds a hint about dates to temporal questions alone and gives adversarial
ones as a choice of two; both would tell the actor the category, so the hint about dates stands in every prompt here.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from horma_rl.answers.contexts import Context
from horma_rl.llm.types import Attempt, LanguageModel, Message, NoValidAnswer
from horma_rl.tokens import TokenCounter

ACTOR_VERSION = "horma-actor-1"
ABSTENTION = "No information available."
"""What the actor is told to say when the context does not hold the answer, in words that LoCoMo's harness knows."""
Style = Literal["short", "free"]

_RULES = (
    "You answer a question about past conversations. Below are excerpts from them, each with the time at which it was "
    "said and its speaker. Use the excerpts and nothing else. Times such as 'last week' in an excerpt are meant from "
    "the time of that excerpt; where the question asks when, answer with a date. If the excerpts do not hold the "
    f"answer, say exactly: {ABSTENTION}"
)
_STYLES = {
    "short": "Answer in as few words as possible, in the excerpts' own words where you can.",
    "free": "Answer in one to three sentences. If the question asks for advice, suit it to what the excerpts tell of "
    "the person who asks.",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What the actor said. `input_tokens` by the actor's tokenizer as configured, `usage_tokens` as the server counted
    (0 when it was not asked). `asked`: False when there was nothing to answer from, and no request was made."""

    text: str
    input_tokens: int
    usage_tokens: int
    asked: bool


@dataclass(frozen=True)
class Actor:
    """Answers with `model`. `budget` bounds the tokens of a whole request, instructions and question included."""

    model: LanguageModel
    counter: TokenCounter
    budget: int
    style: Style = "short"
    max_tokens: int = 128

    def room(self, question: str, asked_at: str | None) -> int:
        """Tokens that the budget leaves for the context of this question; 0 when it leaves none."""
        return max(self.budget - self._size(self.messages(question, asked_at, "")), 0)

    async def answer(self, question: str, asked_at: str | None, context: Context) -> Answer:
        """The answer. Without a context it abstains, which takes no request.

        Raises:
            LlmError: the model gave no answer; an empty one counts as none.
        """
        if not context.text:
            return Answer(ABSTENTION, 0, 0, asked=False)
        messages = self.messages(question, asked_at, context.text)
        reply = await self.model.complete(messages, role="actor", max_tokens=self.max_tokens)
        text = reply.text.strip()
        if not text:
            raise NoValidAnswer([Attempt(reply.text, "an empty answer")])
        return Answer(text, self._size(messages), reply.usage.prompt_tokens, asked=True)

    def messages(self, question: str, asked_at: str | None, context: str) -> list[Message]:
        """The whole request."""
        day = f"Today is {asked_at.replace('T', ' ')}.\n" if asked_at else ""
        content = f"Excerpts:\n{context}\n\n{day}Question: {question}\nAnswer:"
        return [{"role": "system", "content": f"{_RULES} {_STYLES[self.style]}"}, {"role": "user", "content": content}]

    def _size(self, messages: list[Message]) -> int:
        """Tokens of the messages' texts; what the chat template puts around them is not counted."""
        return sum(self.counter.count(message["content"]) for message in messages)
