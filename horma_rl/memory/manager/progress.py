"""What a build by the manager came to: counts for its last line, and rejections by kind and reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from horma_rl.memory.manager.journal import Batch

_DETAIL = re.compile(r"'[^']*'|\b[\w-]+(?:/[\w.-]*)+|\b[A-Za-z_]*\d+(?::\d+)?\b")
_SPACES = re.compile(r"\s+")


@dataclass
class Tally:
    """Operations by verdict. Reasons are counted without the names and numbers in them."""

    batches: int = 0
    unanswered: int = 0
    """Batches that ended without a valid answer."""
    accepted: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, batch: Batch) -> None:
        """Count one batch."""
        self.batches += 1
        self.unanswered += batch.outcome != "filed"
        for one in batch.verdicts:
            if one.reason is None:
                self.accepted[one.kind] += 1
            else:
                self.rejected[one.kind] += 1
                self.reasons[one.kind, general(one.reason)] += 1

    def add_all(self, batches: Iterable[Batch]) -> None:
        """Count several."""
        for batch in batches:
            self.add(batch)

    def as_json(self) -> dict[str, Any]:
        """For the last line of a build."""
        return {
            "batches": self.batches,
            "batches_unanswered": self.unanswered,
            "operations_accepted": sum(self.accepted.values()),
            "operations_rejected": sum(self.rejected.values()),
            "accepted": dict(sorted(self.accepted.items())),
            "rejected": dict(sorted(self.rejected.items())),
            "reasons": {f"{kind}: {reason}": count for (kind, reason), count in self.reasons.most_common(20)},
        }


def general(reason: str) -> str:
    """A reason without quoted values, paths, ids and numbers, so that like ones count as one."""
    return _SPACES.sub(" ", _DETAIL.sub("...", reason))[:120]
