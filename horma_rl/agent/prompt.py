"""The prompt of one step: task, S, C_t, the latest observation, a notice, and nothing else; within a budget.

What is over the budget is left out in this order: retrieved turns (the worst first), hints, then the oldest steps and
the oldest summaries. Task, observation, feedback and notice are never cut. Texts of environments and of memory are made
harmless: no control characters, no chat tokens.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from horma_rl.agent.config import SystemConfig
from horma_rl.agent.recall import Context, Remembered
from horma_rl.agent.render import StateRenderer
from horma_rl.agent.types import State
from horma_rl.tokens import TokenCounter
from memory_shell.text import neutralise

TASK = "Task:\n"
OBSERVATION = "Latest observation:\n"
NOTICE = "Notice: "


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt. Tokens are the sum of what its parts count each for itself, so that no text is counted at every step
    anew; `tokens` is of the whole with the actor's preamble. `over`: it is longer than the budget all the same."""

    text: str
    tokens: int
    state_tokens: int
    context: Context
    over: bool


class Prompter:
    """Puts together the prompts of one episode. `preamble` is what the actor puts before each."""

    def __init__(self, counter: TokenCounter, system: SystemConfig, instruction: str, preamble: str = "") -> None:
        self._counter = counter
        self._renderer = StateRenderer(counter)
        self._context_tokens = system.context_tokens
        self._budget = system.prompt_tokens
        self._task = f"{TASK}{neutralise(instruction).strip()}\n\n"
        self._fixed = counter.count(preamble) + counter.count(self._task)

    def prompt(
        self, state: State, remembered: Remembered, seen: Collection[int], observation: str, notice: str
    ) -> Prompt:
        """The prompt. `seen`: the bottom nodes that `state` shows, which C_t need not repeat."""
        ending = f"{OBSERVATION}{_indented(observation)}\n"
        if notice:
            ending += f"\n{NOTICE}{neutralise(notice)}\n"
        fixed = self._fixed + self._counter.count(ending)
        told = _once(state, observation)
        shown = self._renderer.render(told)
        context, line, line_tokens = remembered.context(seen, self._context_tokens), "", 0
        if self._budget is not None and fixed + shown.tokens + context.tokens > self._budget:
            room = self._budget - fixed
            context, line, line_tokens = self._less(remembered, seen, room - shown.tokens, context)
            shown = self._renderer.render(told, room - context.tokens - line_tokens)
        tokens = fixed + shown.tokens + context.tokens + line_tokens
        parts = (f"{part.rstrip()}\n\n" for part in (shown.text, f"{context.text}\n{line}".strip()) if part)
        over = self._budget is not None and tokens > self._budget
        return Prompt(f"{self._task}{''.join(parts)}{ending}", tokens, shown.tokens, context, over)

    def _less(
        self, remembered: Remembered, seen: Collection[int], room: int, whole: Context
    ) -> tuple[Context, str, int]:
        """As much of C_t as `room` tokens hold, and the line that tells what they do not, with its tokens."""
        if not whole.text:
            return whole, "", 0
        line = "(turns from memory left out: no room)\n"
        size = self._counter.count(line)
        return remembered.context(seen, max(min(self._context_tokens, room - size), 0)), line, size


def _indented(text: str) -> str:
    """Harmless, and so that no line of it can pass for a heading."""
    return "  " + neutralise(text.replace("\r\n", "\n")).strip().replace("\n", "\n  ")


def _once(state: State, observation: str) -> State:
    """`state` without its last observation where that is the latest one, which is shown whole at the prompt's end."""
    if not state.raw or state.raw[-1].observation != observation:
        return state
    return replace(state, raw=(*state.raw[:-1], replace(state.raw[-1], observation="")))
