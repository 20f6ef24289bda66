"""What every backend refuses at `submit`, so that a fault shows where it is made."""

from __future__ import annotations

from horma_rl.retrieval.types import Request


def check_request(request: Request, *, busy: bool) -> None:
    """Raise ValueError for an empty prompt, no room to answer, or an episode whose last request is not answered."""
    if not request.prompt_ids or request.max_tokens < 1:
        raise ValueError("a request needs a prompt and at least one token to generate")
    if busy:
        raise ValueError(f"episode {request.episode} has a request in flight")
