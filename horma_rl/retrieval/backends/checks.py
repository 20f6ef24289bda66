"""What every backend refuses at `submit`, so that a fault shows where it is made; and what is no server's URL."""

from __future__ import annotations

from urllib.parse import urlsplit

from horma_rl.errors import UserError
from horma_rl.retrieval.types import Request


def check_request(request: Request, *, busy: bool) -> None:
    """Raise ValueError for an empty prompt, no room to answer, or an episode whose last request is not answered."""
    if not request.prompt_ids or request.max_tokens < 1:
        raise ValueError("a request needs a prompt and at least one token to generate")
    if busy:
        raise ValueError(f"episode {request.episode} has a request in flight")


def check_url(url: str) -> None:
    """Raise UserError for what is no URL of a server: another scheme, no host, or no such port."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise UserError(f"server: '{url}' is no URL: write http://HOST:PORT")
