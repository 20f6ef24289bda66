"""A hard limit on tokens and cost. What a request may take is set aside before it is sent, so that requests in flight
cannot together spend what none of them alone would."""

from __future__ import annotations

import asyncio

from horma_rl.llm.types import BudgetSpent


class Budget:
    """What may be spent; None is without limit. For one event loop.

    A request that does not fit beside those in flight waits for them: they mostly take less than was set aside. One
    that would not fit alone ends in BudgetSpent.
    """

    def __init__(self, tokens: int | None = None, cost: float | None = None) -> None:
        self._tokens, self._cost = tokens, cost
        self._spent_tokens, self._spent_cost = 0, 0.0
        self._held_tokens, self._held_cost, self._in_flight = 0, 0.0, 0
        self._settled = asyncio.Event()

    @property
    def spent_tokens(self) -> int:
        """Tokens spent so far."""
        return self._spent_tokens

    @property
    def spent_cost(self) -> float:
        """Cost run up so far."""
        return self._spent_cost

    async def reserve(self, tokens: int, cost: float) -> None:
        """Set aside what a request may take. Raises BudgetSpent when too little is left."""
        while not self._fits(tokens + self._held_tokens, cost + self._held_cost):
            if not self._in_flight or not self._fits(tokens, cost):
                raise BudgetSpent(self._told(tokens, cost))
            await self._settled.wait()
        self._held_tokens += tokens
        self._held_cost += cost
        self._in_flight += 1

    def settle(self, reserved: tuple[int, float], tokens: int, cost: float) -> None:
        """Give back what was `reserved` (tokens, cost), and enter what was really spent."""
        self._held_tokens -= reserved[0]
        self._held_cost -= reserved[1]
        self._in_flight -= 1
        if not self._in_flight:
            self._held_cost = 0.0  # sums of floats do not always come back to nothing
        self._spent_tokens += tokens
        self._spent_cost += cost
        self._settled.set()
        self._settled = asyncio.Event()

    def _fits(self, tokens: int, cost: float) -> bool:
        return (self._tokens is None or self._spent_tokens + tokens <= self._tokens) and (
            self._cost is None or self._spent_cost + cost <= self._cost
        )

    def _told(self, tokens: int, cost: float) -> str:
        parts = []
        if self._tokens is not None:
            parts.append(f"{self._spent_tokens} of {self._tokens} tokens spent, the next request may take {tokens}")
        if self._cost is not None:
            parts.append(f"cost {self._spent_cost:.4f} of {self._cost:.4f}, the next request may cost {cost:.4f}")
        return "budget: " + "; ".join(parts)
