"""Who spent what: requests, tokens and cost by role."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from horma_rl.llm.types import ROLES, Role, Usage


@dataclass(slots=True)
class Account:
    """What was spent for one role. Tokens and cost are of requests that went to the server, never of cached ones."""

    requests: int = 0
    """Replies that the server gave."""
    cached: int = 0
    """Replies taken from the disk."""
    retries: int = 0
    """Times that a request was sent again."""
    failed: int = 0
    """Requests that had no usable answer in the end."""
    reasks: int = 0
    """Structured answers that went back to the model."""
    estimated: int = 0
    """Replies whose tokens the server did not count: they are estimated from the length of the texts."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    lost_tokens: int = 0
    """Estimated tokens of tries that the server may have worked on and that gave nothing: time-outs, cut or unreadable
    answers. They count against the budget."""
    cost: float = 0.0
    """At the config's prices, lost tokens included."""

    def add(self, other: Account) -> None:
        """Add the numbers of `other`."""
        for name, value in asdict(other).items():
            setattr(self, name, getattr(self, name) + value)


class Ledger:
    """The accounts of all roles, at fixed prices per million tokens."""

    def __init__(self, price_in: float = 0.0, price_out: float = 0.0) -> None:
        self._price_in, self._price_out = price_in / 1e6, price_out / 1e6
        self.accounts: dict[Role, Account] = {role: Account() for role in ROLES}

    def cost(self, usage: Usage) -> float:
        """What `usage` costs."""
        return usage.prompt_tokens * self._price_in + usage.completion_tokens * self._price_out

    def reply(self, role: Role, usage: Usage, estimated: bool) -> None:
        """Enter one reply of the server."""
        account = self.accounts[role]
        account.requests += 1
        account.estimated += estimated
        account.prompt_tokens += usage.prompt_tokens
        account.completion_tokens += usage.completion_tokens
        account.cost += self.cost(usage)

    def lost(self, role: Role, usage: Usage) -> None:
        """Enter a try that gave nothing."""
        account = self.accounts[role]
        account.lost_tokens += usage.total
        account.cost += self.cost(usage)

    @property
    def total(self) -> Account:
        """All roles together."""
        total = Account()
        for account in self.accounts.values():
            total.add(account)
        return total

    def as_json(self) -> dict[str, Any]:
        """`{"total": {...}, "roles": {role: {...}}}`, roles without any request left out."""
        used = {role: asdict(account) for role, account in self.accounts.items() if account != Account()}
        return {"total": asdict(self.total), "roles": used}
