"""One row per episode: the line an evaluation writes, and everything its tables are computed from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from horma_rl.errors import UserError
from horma_rl.retrieval.types import Trajectory
from memory_shell.reward import overlap
from memory_shell.types import Turn

CountTokens = Callable[[str], int]


def count_words(text: str) -> int:
    """Words separated by white space: the unit of C_t's size where no tokenizer is given."""
    return len(text.split())


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """How one system did on one task.

    `reward` is None when the episode could not be scored; such a row is counted and never averaged. `precision` to
    `exact` compare turn ids whatever unit the reward counts in. `context_tokens` is the size of C_t, the text of the
    selected turns.
    """

    system: str
    task: str
    workspace: str
    category: str
    seed: int
    selected: tuple[str, ...]
    evidence: tuple[str, ...]
    reward: float | None
    precision: float
    recall: float
    f1: float
    exact: bool
    turns: int
    commands: int
    calls: Mapping[str, int]
    """How often each verb was called."""
    invalid: int
    stop: str
    context_tokens: int
    model_tokens: int
    wall_s: float
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        """A plain mapping; `from_json` reads it back."""
        return asdict(self)


def row_from_trajectory(
    system: str, trajectory: Trajectory, turns: Mapping[str, Turn], count_tokens: CountTokens = count_words
) -> EpisodeRow:
    """The row of a finished episode. `turns` are the workspace's archived turns by id."""
    task = trajectory.task
    agreement = overlap(trajectory.selected, task.evidence)
    return EpisodeRow(
        system=system,
        task=task.id,
        workspace=task.workspace,
        category=task.category,
        seed=trajectory.seed,
        selected=tuple(trajectory.selected),
        evidence=task.evidence,
        reward=trajectory.reward,
        precision=agreement.precision,
        recall=agreement.recall,
        f1=agreement.f1,
        exact=agreement.exact,
        turns=len(trajectory.turns),
        commands=trajectory.commands,
        calls=_count_calls(trajectory),
        invalid=trajectory.invalid,
        stop=trajectory.stop.value,
        context_tokens=context_size(trajectory.selected, turns, count_tokens),
        model_tokens=sum(trajectory.mask),
        wall_s=round(trajectory.wall_s, 4),
        error=trajectory.error,
    )


def context_size(selected: Iterable[str], turns: Mapping[str, Turn], count_tokens: CountTokens = count_words) -> int:
    """Tokens of C_t: each selected turn once, as `speaker: text` with its caption. Ids not in `turns` add nothing."""
    return sum(count_tokens(turn_text(turns[turn_id])) for turn_id in dict.fromkeys(selected) if turn_id in turns)


def turn_text(turn: Turn) -> str:
    """A turn as a reader sees it on one line."""
    caption = f" (shares {turn.caption})" if turn.caption else ""
    return f"{turn.speaker}: {turn.text}{caption}"


def failures(system: str, rows: Sequence[EpisodeRow]) -> str | None:
    """How many episodes of a system could not be scored, and the first one's fault, in one line; None if all were."""
    failed = [row for row in rows if row.reward is None]
    if not failed:
        return None
    fault = " ".join(str(failed[0].error).split())[:300]
    return f"{system}: {len(failed)} of {len(rows)} episodes failed, the first ({failed[0].task}): {fault}"


def row_from_json(data: Mapping[str, Any], where: str) -> EpisodeRow:
    """A row as `EpisodeRow.as_json` wrote it.

    Raises:
        UserError: a field is missing or unknown; `where` names the file and line.
    """
    known = {field.name for field in fields(EpisodeRow)}
    if set(data) - known or known - set(data) - {"error"}:
        raise UserError(f"{where}: not an evaluation row of this version; choose another `out`, or delete the file")
    values = {**data, "selected": tuple(data["selected"]), "evidence": tuple(data["evidence"])}
    return EpisodeRow(**values)


def _count_calls(trajectory: Trajectory) -> dict[str, int]:
    counts: dict[str, int] = {}
    for turn in trajectory.turns:
        for call in turn.calls:
            name = str(call.get("name", "unreadable"))
            counts[name] = counts.get(name, 0) + 1
    return counts
