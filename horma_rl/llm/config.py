"""The config of one model behind an OpenAI-compatible endpoint (`--llm CONFIG.yaml`)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from horma_rl.config import StrictModel
from horma_rl.errors import UserError

DEFAULT_PORT = 8765
DEFAULT_KEY_VARIABLE = "HORMA_LLM_KEY"
DEFAULT_MODEL = "smollm2"

Structured = Literal["auto", "json_schema", "instructions"]


class LlmConfig(StrictModel):
    """Which model answers, how it is asked, and what it may cost. The key is in the environment, never here."""

    base_url: str = f"http://127.0.0.1:{DEFAULT_PORT}/v1"
    """The endpoint, up to and with `/v1`. The default is where `horma-rl llm up` serves."""
    model: str = Field(DEFAULT_MODEL, min_length=1)
    """The model's name at the endpoint; `horma-rl llm check` lists them."""
    api_key_env: str = DEFAULT_KEY_VARIABLE
    """The environment variable that holds the key. Unset, no key is sent."""
    temperature: float | None = Field(0.0, ge=0, le=2)
    """0 takes the most likely token; null leaves it to the server."""
    max_tokens: int = Field(1024, ge=1)
    """Tokens of one answer, unless the caller says another number."""
    seed: int | None = 0
    """Sent with every request, for servers that sample with a seed; null sends none."""
    timeout_s: float = Field(120.0, gt=0)
    """Seconds until a request is given up, from sending it to the last byte of its answer."""
    concurrency: int = Field(8, ge=1)
    """Requests in flight at once."""
    retries: int = Field(5, ge=0)
    """Times that a request is sent again after 429, 5xx, a time-out, a cut connection or an unreadable answer."""
    backoff_s: float = Field(0.5, gt=0)
    """Wait before the first retry, doubled each time up to `backoff_max_s`, of which a random half is taken off."""
    backoff_max_s: float = Field(30.0, gt=0)
    """The longest wait between two tries. A server's Retry-After that is longer is waited for up to 10 minutes."""
    reasks: int = Field(2, ge=0)
    """Times that an invalid structured answer goes back to the model with what is wrong with it."""
    structured: Structured = "auto"
    """How a JSON schema is asked for: `json_schema` (response_format), `instructions` (in the messages), or `auto`:
    the first until the server refuses it."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Further fields of every request, for example `chat_template_kwargs: {enable_thinking: false}` for vLLM."""
    price_in: float = Field(0.0, ge=0)
    """Price of a million prompt tokens, in your currency."""
    price_out: float = Field(0.0, ge=0)
    """Price of a million completion tokens."""
    budget_tokens: int | None = Field(None, ge=1)
    """Tokens, prompt and completion together, that this process may spend; null is without limit."""
    budget_cost: float | None = Field(None, gt=0)
    """Cost that this process may run up, at the prices above; null is without limit."""
    cache: Path | None = Path("memory/llm-cache.sqlite")
    """Replies on disk, shared by all processes of this machine; null keeps none."""

    @field_validator("base_url")
    @classmethod
    def _is_plain_url(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UserError("llm: base_url is no URL: write http://HOST:PORT/v1")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise UserError("llm: base_url may hold no user, password or query: keys come from the environment")
        return url.rstrip("/")

    @field_validator("api_key_env")
    @classmethod
    def _is_variable(cls, name: str) -> str:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            # Not repeated: it may be a key that was put in the wrong place.
            raise UserError("llm: api_key_env is the name of an environment variable, not a key")
        return name

    @model_validator(mode="after")
    def _cost_has_prices(self) -> LlmConfig:
        if self.budget_cost is not None and not (self.price_in or self.price_out):
            raise UserError("llm: budget_cost needs price_in and price_out, else every request is free")
        return self
