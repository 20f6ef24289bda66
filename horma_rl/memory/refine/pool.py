"""Work on many things at once, and stop in good order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def each(items: Iterable[T], work: Callable[[T], Awaitable[None]], at_once: int) -> None:
    """Do `work` on every item, `at_once` of them at a time, begun in order.

    After a fault no other item is begun, those under way are finished, and the first fault is raised: what was paid
    for is kept.
    """
    waiting = iter(items)
    faults: list[Exception] = []

    async def worker() -> None:
        for item in waiting:
            if faults:
                return
            try:
                await work(item)
            except Exception as fault:
                faults.append(fault)
                return

    await asyncio.gather(*(worker() for _ in range(at_once)))
    if faults:
        raise faults[0]
