"""How much of the evidence an episode selected.

HORMA (arXiv 2606.11680) rewards the retriever, at the end of an episode, with the Jaccard overlap of the selected
evidence C and the annotated evidence E:

    J(C, E) = |C n E| / |C u E|

Both are sets. The paper leaves the empty cases open; here an empty selection scores 0, except when nothing is to be
found (E empty): then selecting nothing scores 1 and selecting anything scores 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from memory_shell.types import Unit

if TYPE_CHECKING:
    from memory_shell.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Overlap:
    """Agreement of a selection with the evidence; every number is in [0, 1]."""

    jaccard: float
    precision: float
    recall: float
    f1: float
    exact: bool


def jaccard(selected: Iterable[str], evidence: Iterable[str]) -> float:
    """J(C, E) as in the module's docstring, on whatever ids are passed in."""
    return overlap(selected, evidence).jaccard


def overlap(
    selected: Iterable[str], evidence: Iterable[str], unit: Unit = "turn", workspace: Workspace | None = None
) -> Overlap:
    """Jaccard, precision, recall, F1 and exact match of turn ids, counted in `unit`.

    - `turn`: the ids as they are.
    - `session`: the raw log a turn stands in (without a workspace: the id up to its last colon, `D3:12` -> `D3`).
    - `note`: every note that names a turn among its sources; needs the workspace, else ValueError.
    """
    c, e = as_units(selected, unit, workspace), as_units(evidence, unit, workspace)
    if not c and not e:
        return Overlap(1.0, 1.0, 1.0, 1.0, exact=True)
    common = len(c & e)
    return Overlap(
        jaccard=common / len(c | e),
        precision=common / len(c) if c else 0.0,
        recall=common / len(e) if e else 0.0,
        f1=2 * common / (len(c) + len(e)),
        exact=c == e,
    )


def episode_reward(
    selected: Iterable[str],
    evidence: Iterable[str],
    unit: Unit = "turn",
    workspace: Workspace | None = None,
    *,
    zero_on_cap: bool = False,
    capped: bool = False,
) -> float:
    """The reward of a finished episode. With `zero_on_cap`, one that ran out of turns (`capped`) scores 0 whatever it
    selected; by default what it selected counts."""
    if capped and zero_on_cap:
        return 0.0
    return overlap(selected, evidence, unit, workspace).jaccard


def as_units(ids: Iterable[str], unit: Unit, workspace: Workspace | None = None) -> frozenset[str]:
    """Turn ids as a set of units (see `overlap`). An id that the workspace does not know still counts, as itself."""
    if unit == "turn":
        return frozenset(ids)
    if unit == "session":
        return frozenset(_session(turn_id, workspace) for turn_id in ids)
    if unit != "note":
        raise ValueError(f"unknown unit '{unit}': use turn, session or note")
    if workspace is None:
        raise ValueError("overlap by note needs the workspace: pass workspace=...")
    notes = _notes_by_source(workspace)
    return frozenset(path for turn_id in ids for path in notes.get(turn_id, (turn_id,)))


def _session(turn_id: str, workspace: Workspace | None) -> str:
    turn = workspace.turns.get(turn_id) if workspace is not None else None
    return turn.path if turn is not None else turn_id.rpartition(":")[0] or turn_id


_NOTES_BY_SOURCE: WeakKeyDictionary[Workspace, dict[str, tuple[str, ...]]] = WeakKeyDictionary()


def _notes_by_source(workspace: Workspace) -> dict[str, tuple[str, ...]]:
    known = _NOTES_BY_SOURCE.get(workspace)
    if known is None:
        gathered: dict[str, list[str]] = {}
        for path, note in workspace.notes.items():
            for turn_id in note.sources:
                gathered.setdefault(turn_id, []).append(path)
        known = {turn_id: tuple(paths) for turn_id, paths in gathered.items()}
        _NOTES_BY_SOURCE[workspace] = known
    return known
