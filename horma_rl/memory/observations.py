"""People's notes from the facts that a benchmark annotates (LoCoMo's `observation`), in place of their own statements.

These annotations were written by a model that saw the whole conversation, so a result that used them says so: the
choice stands in the workspace's manifest, and each such note is tagged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from horma_rl.benchmarks.types import Observation
from horma_rl.memory.archive import Record
from horma_rl.memory.notes import Line, Note
from horma_rl.memory.text import FileNames, display_name, one_line

TAG = "observations"


def observation_notes(
    observations: Iterable[Observation], records: Mapping[str, Record]
) -> tuple[list[Note], list[str]]:
    """`people/NAME.md` with one cited line per fact, and a warning for each fact that cites no archived turn.

    A fact's date is that of its first source. Ids that are not archived are left out of a line, with a warning.
    """
    names = FileNames()
    lines: dict[str, list[Line]] = defaultdict(list)
    warnings: list[str] = []
    for fact in observations:
        known = tuple(source for source in fact.sources if source in records)
        missing = [source for source in fact.sources if source not in records] or ([] if known else ["nothing"])
        if missing:
            warnings.append(
                f"session {fact.session}: an observation about {display_name(fact.speaker)} cites "
                f"{', '.join(missing)}, which is not archived{'' if known else ': left out'}"
            )
        if known:
            day = records[known[0]].time.date().isoformat()
            lines[display_name(fact.speaker)].append(Line(f"{day}: {one_line(fact.text)}", known))
    notes = [
        Note(
            f"people/{names.of(person)}.md",
            person,
            max(records[source].time for line in told for source in line.sources),
            tuple(told),
            TAG,
        )
        for person, told in lines.items()
    ]
    return [part for note in notes for part in note.parts()], warnings
