"""What an agent remembers with: which of its two memories it has, and how each is used. No torch is imported here."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from horma_rl.config import StrictModel

ActivePath = Literal["mage", "full", "recent"]
When = Literal["step", "boundary", "ask"]


class SystemConfig(StrictModel):
    """One memory system of an agent. The defaults are the whole: Mage's tree and HORMA's workspace."""

    state: ActivePath = "mage"
    """What the actor sees of its own path: `mage`, the execution state S; `full`, every step so far (the paper's long
    context); `recent`, the last `recent_steps` steps."""
    recent_steps: int = Field(5, ge=0)
    """Steps shown with `state: recent`."""
    compress: bool = True
    """Mage: show summaries in the place of completed traces. Without, boundaries are still set and checked, but the
    whole trace is shown."""
    maintain: bool = True
    """Mage: let a judge check every summary."""
    revise: bool = True
    """Mage: go back when the judge finds a fault, or the actor asks for it. Without, a fault is only told."""
    compress_tokens: int = Field(2_000, ge=50)
    """Mage: the raw trace is compressed by fallback when it is longer than this."""
    revisions: int = Field(20, ge=0)
    """Mage: revisions in one episode; further faults are only told."""
    horma: bool = True
    """Keep a workspace: archive every step, file every summary, and retrieve from it."""
    recall: When = "boundary"
    """HORMA: retrieve before every step, at every boundary (start, Compress, Revise, end of a subtask), or only when
    the actor asks. The actor may ask in any case."""
    context_tokens: int = Field(600, ge=0)
    """HORMA: the most that retrieved turns take in the prompt."""
    prompt_tokens: int | None = Field(None, ge=200)
    """The most that a whole prompt takes (the article's ALFWorld budgets are 1,950 and 2,200); null is no limit. What
    is over is left out, retrieved turns first, then hints, then the oldest steps, with a line that says so."""

    @property
    def mage(self) -> bool:
        """Whether the execution state is Mage's."""
        return self.state == "mage"
