"""Counting and cutting text by tokens: with a model's own tokenizer, or by an estimate that says it is one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from horma_rl.errors import UserError

CHARACTERS = 4
"""Characters a token by the estimate. English chat runs at 4.0 to 4.5 with the vocabularies of current models."""


class TokenCounter(Protocol):
    """Counts and cuts text. `name` goes into reports, beside every number that it gave."""

    @property
    def name(self) -> str:
        """Which tokenizer this is, or that it is an estimate."""

    def count(self, text: str) -> int:
        """Tokens of `text`, without special tokens."""

    def head(self, text: str, tokens: int) -> str:
        """The longest beginning of `text` of at most `tokens` tokens."""

    def tail(self, text: str, tokens: int) -> str:
        """The longest end of `text` of at most `tokens` tokens."""


@dataclass(frozen=True)
class Estimate:
    """A token for every four characters begun."""

    name: str = f"estimate, {CHARACTERS} characters a token"

    def count(self, text: str) -> int:
        """Characters by four, rounded up."""
        return -(-len(text) // CHARACTERS)

    def head(self, text: str, tokens: int) -> str:
        """The first `4 * tokens` characters."""
        return text[: max(tokens, 0) * CHARACTERS]

    def tail(self, text: str, tokens: int) -> str:
        """The last `4 * tokens` characters."""
        return text[-tokens * CHARACTERS :] if tokens > 0 else ""


@dataclass(frozen=True)
class FileTokenizer:
    """A tokenizer as `tokenizer.json` describes it. `tokenizer` is a `tokenizers.Tokenizer`."""

    name: str
    tokenizer: Any

    def count(self, text: str) -> int:
        """Tokens of `text`, without special tokens."""
        return len(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def head(self, text: str, tokens: int) -> str:
        """Cut where a token ends, so that no character is lost or changed on the way."""
        offsets = self._offsets(text)
        if len(offsets) <= tokens:
            return text
        return self._shrunk(text[: offsets[tokens - 1][1]], tokens, first=0, last=-1) if tokens > 0 else ""

    def tail(self, text: str, tokens: int) -> str:
        """Cut where a token begins."""
        offsets = self._offsets(text)
        if len(offsets) <= tokens:
            return text
        return self._shrunk(text[offsets[-tokens][0] :], tokens, first=1, last=None) if tokens > 0 else ""

    def _offsets(self, text: str) -> list[tuple[int, int]]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).offsets)

    def _shrunk(self, text: str, tokens: int, first: int, last: int | None) -> str:
        """A cut can make more tokens than it was cut from: words are split otherwise at an edge."""
        while text and self.count(text) > tokens:
            text = text[first:last]
        return text


def token_counter(path: Path | None) -> TokenCounter:
    """The tokenizer at `path` (a `tokenizer.json`, or a folder that holds one); the estimate without a path.

    Raises:
        UserError: there is none, or it cannot be read.
    """
    if path is None:
        return Estimate()
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise UserError(
            f"{path}: no tokenizer.json there; name the model's folder, or leave `tokenizer` out to estimate"
        )
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises plain Exceptions
        raise UserError(f"{file}: not a tokenizer ({' '.join(str(error).split())[:200]})") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return FileTokenizer(f"{file.parent.name}/{file.name}", tokenizer)
