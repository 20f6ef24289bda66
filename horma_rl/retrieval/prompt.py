"""The conversation as token ids: built piece by piece, never re-tokenised.

A chat template renders whole conversations. Rendering again at each turn and tokenising the result would change ids
that the model has already sampled, so the fixed pieces between the variable texts are read off the template once, by
rendering a conversation of marker words, and from then on only ids are appended:

    start(first observation)                     prompt ids, ending where the model begins to write
    + ids sampled by the model, end token included
    + observe([text, ...])                       the rest of the model's turn, the tool messages, the next opening
    + ids sampled by the model ...
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from horma_rl.errors import UserError
from horma_rl.retrieval import toolcalls
from memory_shell.tools import Surface, schemas

PROMPT_VERSION = 1
"""Raised whenever the text below or the way it is put together changes: checkpoints and logs record it."""

PromptStyle = Literal["full", "compact"]

SYSTEM = """\
You find evidence in a memory of past conversations. The memory is a directory tree of text files that you walk with
shell tools: sessions/ holds one note per conversation, one line per turn, and each line ends with the id of its turn
in brackets, like [D3:12]; people/, dates/, events/ and entities/ file the same turns in other ways.

Given a question, find the turns that hold its answer and select them:
1. grep for the rarest words of the question; search word stems, and narrow with a second word when there are many hits.
2. Read around a promising line with cat PATH:M-N.
3. select PATH:M (or the ids themselves, like D3:12) to take exactly the turns that answer the question.
4. Call done when they are selected. If the memory holds no answer, call done with nothing selected.

Each response must make at least one tool call; it may make several, which run in order. Select all of the evidence and
nothing else: every turn too many counts against you like every turn missed."""

_FIRST, _REPLY, _ONE, _TWO, _THOUGHT = "qfirstq", "qreplyq", "qoneq", "qtwoq", "qthoughtq"


class ChatCodec:
    """Turns observations into the ids that a chat model was trained to see, for one tokenizer and prompt style.

    `tools` is the surface through which the model calls: `six` verbs, or one `shell`.

    `full` explains the job in a system message and shows the tools' schema through the template; `compact` gives the
    first observation only, for models that were trained on the format. `thinking` opens the model's turn the way its
    template does for thinking (Qwen3, Qwen3.5); otherwise the thought is closed before the model begins.

    Observations are encoded so that no special token can come out of their text, whatever it says: a note that
    contains `<|im_end|>` yields the ids of those letters.

    Raises UserError when the template is missing or unknown, or when it changes the earlier part of a conversation
    as messages are added (then the ids that the model saw would not be a prefix of what it sees next).
    """

    def __init__(
        self,
        tokenizer: Any,
        prompt: PromptStyle = "full",
        thinking: bool = False,
        tools: Surface = "six",
    ) -> None:
        self.tokenizer = tokenizer
        self.prompt = prompt
        self.thinking = thinking
        self.tools: Surface = tools
        self.format = toolcalls.detect(tokenizer, tools)
        self._tools = schemas(tools) if prompt == "full" else None
        self._read_template()

    def start(self, first_observation: str) -> list[int]:
        """The prompt's ids [P], ending with the opening of the model's turn."""
        return [*self._prompt_head, *self._encode_text(self._inner(self._first, first_observation)), *self._prompt_foot]

    def observe(self, texts: Sequence[str]) -> list[int]:
        """The ids to append after the end token of a response: the rest of that turn, one tool message per text, and
        the opening of the model's next turn. Raises ValueError for no text at all: a turn is always answered."""
        if not texts:
            raise ValueError("a response needs at least one observation")
        ids = list(self._tool_head)
        for position, text in enumerate(texts):
            ids += self._tool_between if position else ()
            ids += self._encode_text(self._inner(self._tool, text))
        return ids + self._tool_foot

    def close_unfinished(self) -> list[int]:
        """The end token of a model's turn, to append when the response was cut before the model sampled one."""
        return [self.end_id]

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """The ids that end a response: the template's end of turn first, then the tokenizer's own end token."""
        own = self.tokenizer.eos_token_id
        return (self.end_id,) if own is None or own == self.end_id else (self.end_id, own)

    def decode(self, ids: Sequence[int]) -> str:
        """A response as text, without its end token; special tokens in the middle are kept as they are spelt."""
        end = len(ids) - 1 if ids and ids[-1] in self.eos_ids else len(ids)
        return str(self.tokenizer.decode(list(ids[:end]), skip_special_tokens=False))

    def transcript(
        self, first_observation: str, turns: Sequence[tuple[str, Sequence[str]]]
    ) -> tuple[list[int], list[int]]:
        """Ids and mask [P+T] of a whole episode whose responses are given as text: what supervised training sees.

        `turns` holds (response, observations) pairs; the last turn's observations may be empty. The mask is 1 on the
        responses and their end tokens.
        """
        ids = self.start(first_observation)
        mask = [0] * len(ids)
        for response, observations in turns:
            said = [*self.tokenizer.encode(response, add_special_tokens=False), self.end_id]
            seen = self.observe(observations) if observations else []
            ids += said + seen
            mask += [1] * len(said) + [0] * len(seen)
        return ids, mask

    def _render(self, messages: Sequence[Mapping[str, Any]], opening: bool) -> str:
        return str(
            self.tokenizer.apply_chat_template(
                list(messages),
                tools=self._tools,
                tokenize=False,
                add_generation_prompt=opening,
                enable_thinking=self.thinking,
            )
        )

    def _read_template(self) -> None:
        """Cut the template's fixed pieces out of one rendered conversation of marker words."""
        system = [{"role": "system", "content": SYSTEM}] if self.prompt == "full" else []
        asked = [*system, {"role": "user", "content": f" {_FIRST} "}]
        reply = f"<think>\n{_THOUGHT}\n</think>\n\n{_REPLY}" if self.thinking else _REPLY
        replied = [*asked, {"role": "assistant", "content": reply}]
        observed = [*replied, {"role": "tool", "content": f" {_ONE} "}, {"role": "tool", "content": f" {_TWO} "}]
        try:
            opened, closed, seen = self._render(asked, True), self._render(replied, False), self._render(observed, True)
        except Exception as error:
            raise UserError(f"the chat template cannot render a conversation with tool messages: {error}") from error
        if not (closed.startswith(opened) and seen.startswith(closed) and _REPLY in closed):
            raise UserError(
                "the chat template rewrites earlier turns when messages are added, so what the model saw would not be "
                "a prefix of what it sees next: use a prefix-preserving template, for Qwen3 the one of "
                "trl.chat_template_utils.get_training_chat_template(tokenizer)"
            )
        self._trims = f" {_FIRST} " not in opened
        head, foot = self._split(opened, _FIRST)
        self._prompt_head, self._prompt_foot, self._first = self._bare(head, foot)
        ending = closed.rpartition(_REPLY)[2]
        self.end_id, rest = self._end_of_turn(ending)
        head, tail = self._split(rest + seen[len(closed) :], _ONE)
        between, foot = self._split(tail, _TWO)
        self._tool_head, self._tool_foot, self._tool = self._bare(head, foot)
        after, before = self._outer(between)
        if (before, after) != self._tool:
            raise UserError("the chat template writes the tool messages of one turn differently from one another")
        self._tool_between = self._encode_fixed(between[len(after) : len(between) - len(before)])

    def _split(self, text: str, marker: str) -> tuple[str, str]:
        padded = f" {marker} "
        head, _, foot = text.partition(padded if padded in text else marker)
        return head, foot

    def _bare(self, head: str, foot: str) -> tuple[list[int], list[int], tuple[str, str]]:
        """The ids of `head` and `foot`, less the ordinary characters next to the text between them; those are given
        back as a pair, because they must be tokenised together with that text, as a whole rendering would be."""
        before, after = self._outer(head)[1], self._outer(foot)[0]
        return (
            self._encode_fixed(head[: len(head) - len(before)]),
            self._encode_fixed(foot[len(after) :]),
            (before, after),
        )

    def _outer(self, piece: str) -> tuple[str, str]:
        """The ordinary characters before the first and after the last added token of a fixed piece."""
        found = list(self._added.finditer(piece))
        if not found:
            raise UserError(
                "the tokenizer has no token of its own for the marks that separate the turns of a conversation, "
                "such as <|im_end|>: add them to it as special tokens"
            )
        return piece[: found[0].start()], piece[found[-1].end() :]

    def _end_of_turn(self, ending: str) -> tuple[int, str]:
        """The token that ends the model's turn, and what the template writes after it."""
        found = self._added.match(ending)
        if found is None:
            raise UserError(
                "the chat template does not end the assistant's turn with a special token such as <|im_end|>"
            )
        return int(self.tokenizer.convert_tokens_to_ids(found.group())), ending[found.end() :]

    def _inner(self, around: tuple[str, str], text: str) -> str:
        return f"{around[0]}{text.strip() if self._trims else text}{around[1]}"

    @cached_property
    def _control(self) -> dict[str, int]:
        """Tokens that structure a conversation: special ones, and those that hold a tag such as `<tool_call>`."""
        added = self.tokenizer.added_tokens_decoder
        named = {t.content: i for i, t in added.items() if t.special or re.search(r"<[^<>\s]+>", t.content)}
        named.pop(self.tokenizer.unk_token or "", None)
        return named

    @cached_property
    def _added(self) -> re.Pattern[str]:
        names = sorted(self._control, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, names)) or r"(?!)", re.IGNORECASE)

    @cached_property
    def _control_ids(self) -> frozenset[int]:
        return frozenset(self._control.values())

    def _encode_fixed(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def _encode_text(self, text: str) -> list[int]:
        """The ids of ordinary text, never a control token: where the text spells one, it is encoded in two parts."""
        ids = self._encode_fixed(text)
        if self._control_ids.isdisjoint(ids):
            return ids
        cuts = [0, *(match.start() + 1 for match in self._added.finditer(text)), len(text)]
        parts = (text[a:b] for a, b in itertools.pairwise(cuts))
        return [i for part in parts for i in self._encode_fixed(part) if i not in self._control_ids]
