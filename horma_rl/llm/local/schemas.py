"""Answers that keep to a JSON schema: grammars by llguidance, which say at each token what may come next.

Between the parts of a value there is one space or none, as `json.dumps` writes it: where any number of blanks may
stand, a small model can go on with blanks for ever.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from horma_rl.llm.local import trial

_SPACING: Any = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_TOLD = 300
Array = np.ndarray[Any, Any]


class SchemaError(ValueError):
    """A schema that cannot be kept to; the message says why."""


class Grammars:
    """Compiles schemas for one tokenizer. `vocabulary`: the width of the model's logits.

    Raises SchemaError when the tokenizer's ids cannot be told as bytes.
    """

    def __init__(self, tokenizer: Any, eos_ids: Sequence[int], vocabulary: int) -> None:
        import llguidance
        from llguidance.hf import from_tokenizer

        self._matcher = llguidance.LLMatcher
        self._fault = functools.lru_cache(maxsize=64)(trial.fault)
        try:
            self._tokens = from_tokenizer(tokenizer, n_vocab=vocabulary, eos_token=list(eos_ids))
        except ValueError as error:
            raise SchemaError(f"this model's tokenizer takes no schemas: {_plain(error)}") from None

    def keep_to(self, schema: Any) -> Kept:
        """A new answer that keeps to `schema`. Raises SchemaError for one that cannot be kept to."""
        if not isinstance(schema, Mapping):
            raise SchemaError("the schema is no JSON object")
        try:
            grammar = self._matcher.grammar_from_json_schema(json.dumps(schema), overrides=_SPACING)
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"the schema cannot be kept to: {_plain(error)}") from None
        if fault := self._fault(grammar):
            raise SchemaError(f"the schema cannot be kept to: {_plain(fault)}")
        matcher = self._matcher(self._tokens, grammar, log_level=0)
        if matcher.is_error():
            raise SchemaError(f"the schema cannot be kept to: {_plain(matcher.get_error())}")
        return Kept(matcher, self._tokens.eos_tokens)


class Kept:
    """One answer under a schema: a `Constraint`. `fault`: why it could not be kept to the end, or empty."""

    def __init__(self, matcher: Any, eos_ids: Sequence[int]) -> None:
        self.fault = ""
        self._matcher = matcher
        self._end = np.zeros(max(eos_ids) + 1, dtype=bool)
        self._end[list(eos_ids)] = True

    def allowed(self) -> Array:
        """The ids that may come next; those that end the answer once it is whole, or once the grammar has failed."""
        bits = self._matcher.compute_bitmask() if not self._failed() else b""
        if self._failed():
            return self._end
        allowed: Array = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), bitorder="little").astype(bool)
        return allowed if allowed.any() else self._end

    def take(self, token: int) -> list[int]:
        """`token` was sampled. Gives back what can only follow, which is most of what is no string or number."""
        if self.fault or not self._matcher.consume_token(token):
            self._failed()
            return []
        forced: list[int] = self._matcher.compute_ff_tokens()
        if forced and not self._matcher.consume_tokens(forced):
            self._failed()
            return []
        return forced

    def _failed(self) -> bool:
        """Whether the grammar gave up, for example because it needs too many states."""
        if not self.fault and self._matcher.is_error():
            self.fault = _plain(self._matcher.get_error()) or "the grammar failed"
        return bool(self.fault)


def _plain(told: object) -> str:
    return " ".join(str(told).split())[:_TOLD]
