"""M_theta: a ReAct actor (Yao et al., arXiv:2210.03629) over any OpenAI-compatible endpoint.

It is sent two messages: how to act, which is the same all through an episode, and the prompt of the moment. It keeps
nothing itself: what it may know of its past is in the prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from horma_rl.agent.moves import LONGEST, read_action, read_answer
from horma_rl.agent.types import Decision, Malformed, MemoryMove, Move, View
from horma_rl.llm.extract import InvalidError, extract
from horma_rl.llm.types import LanguageModel, Message, Reply

ACTOR_VERSION = "horma-react-2"
Style = Literal["text", "json"]

_RULES = "You work at a task in an environment, one move at a time. You see what the last move brought before the next."
_FORMS = {
    "text": "Answer with two lines and nothing else:\nThought: what you know, and what to do next\nAction: one move",
    "json": 'Answer with a JSON object: {"thought": "what you know, and what to do next", "action": "one move"}.',
}
_MEMORY: dict[MemoryMove, str] = {
    "compress": "compress[SUMMARY] when a subgoal is complete. The summary takes the place of its steps, so say what "
    "was done and all that later steps need.",
    "revise": "revise[STEP: REASON] to undo a completed subgoal and all after it, when it turns out to be wrong: STEP "
    "is the number in brackets before the subgoal, REASON what to do otherwise.",
    "recall": "recall[QUESTION] to ask your memory for earlier steps that you do not see.",
}


class _Answer(BaseModel):
    thought: str
    action: str


@dataclass(frozen=True)
class LlmActor:
    """Acts by `model`. `style`: how it is asked to answer; `json` asks for structured output where the server has it.

    `max_tokens` bounds one answer, the thought included.
    """

    model: LanguageModel
    style: Style = "text"
    max_tokens: int = 384
    temperature: float | None = None

    async def act(self, view: View) -> Decision:
        """The next move; an answer that is none is Malformed. Raises LlmError when there is no answer to be had."""
        reply = await self.model.complete(
            self.messages(view),
            role="actor",
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            schema=self._schema() if self.style == "json" else None,
        )
        thought, move = self._read(reply)
        return Decision(move, thought, reply.usage)

    def messages(self, view: View) -> list[Message]:
        """The whole request."""
        return [
            {"role": "system", "content": self.preamble(view.actions, view.moves)},
            {"role": "user", "content": view.prompt},
        ]

    def preamble(self, actions: str, moves: Sequence[MemoryMove]) -> str:
        """How to act: the form of an answer, the environment's actions, and the moves on memory that there are."""
        parts = [_RULES, _FORMS[self.style], actions.strip()]
        if moves:
            parts.append("\n".join(["A move on your memory is also possible:", *(_MEMORY[move] for move in moves)]))
        return "\n\n".join(parts)

    def _schema(self) -> dict[str, Any]:
        """The form of an answer. Its lengths, at some four characters a token, leave room for the action after the
        thought: a model that is held to a schema can go on within it until it is cut off."""
        form = _Answer.model_json_schema()
        form["properties"]["thought"]["maxLength"] = self.max_tokens
        form["properties"]["action"]["maxLength"] = 2 * self.max_tokens
        return form

    def _read(self, reply: Reply) -> tuple[str, Move]:
        cut = reply.finish == "length"
        if self.style == "text":
            return read_answer(reply.text, cut)
        try:
            answer = extract(reply.text, _Answer, cut=cut)
        except InvalidError as error:
            return "", Malformed(reply.text[:LONGEST], str(error))
        return answer.thought.strip(), read_action(answer.action)
