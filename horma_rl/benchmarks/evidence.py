"""Evidence labels as people wrote them, and the turn ids they mean."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

# "D8:6", and what the released LoCoMo file also has: "D:11:26", "D30:05".
ID = re.compile(r"D:?(\d+):0*(\d+)")
CLEAN_ID = re.compile(r"D(\d+):(\d+)")

PROBLEMS = ("joined_by_semicolon", "joined_by_space", "stray_colon", "leading_zero", "no_id", "absent", "repeated")
"""What can be wrong with a label. One label may have several of these."""


@dataclass(frozen=True, slots=True)
class Repair:
    """Turn ids that exist, first mention first and each once; what was wrong on the way; the labels that were wrong."""

    ids: tuple[str, ...]
    problems: Counter[str]
    repaired: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Each label that did not name one existing turn as it stood, with the ids it was read as."""


def repair_ids(labels: Iterable[str], known: Collection[str]) -> Repair:
    """Read evidence labels. Ids that `known` lacks are dropped; everything dropped or mended is counted in `problems`.

    A label that is a known id is taken as it stands, so repairing what was repaired changes nothing.
    """
    ids: dict[str, None] = {}
    problems: Counter[str] = Counter()
    repaired: list[tuple[str, tuple[str, ...]]] = []
    for label in labels:
        found = (label,) if label in known else _read(label, known, problems)
        if found != (label,):
            repaired.append((label, found))
        for turn in found:
            problems["repeated"] += turn in ids
            ids[turn] = None
    return Repair(tuple(ids), +problems, tuple(repaired))


def _read(label: str, known: Collection[str], problems: Counter[str]) -> tuple[str, ...]:
    """The known ids in one label that is not itself an id."""
    matches = list(ID.finditer(label))
    if not matches:
        problems["no_id"] += 1
        return ()
    if len(matches) > 1:
        problems["joined_by_semicolon" if ";" in label else "joined_by_space"] += 1
    problems["stray_colon"] += any(match[0].startswith("D:") for match in matches)
    problems["leading_zero"] += any(not match[0].endswith(f":{match[2]}") for match in matches)
    ids = [f"D{int(match[1])}:{match[2]}" for match in matches]
    problems["absent"] += sum(turn not in known for turn in ids)
    return tuple(turn for turn in ids if turn in known)
