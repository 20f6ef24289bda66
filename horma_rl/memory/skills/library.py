"""A library of skills: one versioned JSON file that grows and never replaces.

What was once in it stays, word for word. A near-duplicate is kept too and refers to the skill that it repeats
(`same_as`); a skill whose round lost on validation is kept and `withheld`. Only what is neither is rendered.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError, model_validator

from horma_rl.aside import aside
from horma_rl.config import StrictModel
from horma_rl.errors import UserError
from horma_rl.memory.skills.similarity import similarity
from horma_rl.memory.skills.skill import Skill, free_id

FORMAT = 1
THRESHOLD = 0.5
"""Skills at least this similar say the same."""


class Library(StrictModel):
    """Skills in the order in which they were found. `version` counts the changes."""

    format: int = FORMAT
    version: int = Field(0, ge=0)
    skills: tuple[Skill, ...] = ()
    same_as: dict[str, str] = Field(default_factory=dict)
    """Near-duplicate's id -> id of the earlier skill that says the same."""
    withheld: dict[str, str] = Field(default_factory=dict)
    """Id -> why it is not used."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Library:
        if self.format != FORMAT:
            raise ValueError(f"library format {self.format}, this program reads {FORMAT}")
        place = {skill.id: index for index, skill in enumerate(self.skills)}
        if len(place) != len(self.skills):
            raise ValueError("two skills have the same id")
        for one, other in self.same_as.items():
            if one not in place or other not in place or place[other] >= place[one] or other in self.same_as:
                raise ValueError(
                    f"same_as: '{one}' must refer to an earlier skill that refers to none, not to '{other}'"
                )
        for one in self.withheld:
            if one not in place:
                raise ValueError(f"withheld: there is no skill '{one}'")
        return self

    @property
    def active(self) -> tuple[Skill, ...]:
        """The skills that are in use, in the order in which they were found."""
        return tuple(skill for skill in self.skills if skill.id not in self.same_as and skill.id not in self.withheld)

    def support(self, skill_id: str) -> int:
        """How often the skill was found: once, and once more for every near-duplicate of it."""
        return 1 + sum(other == skill_id for other in self.same_as.values())

    def grow(self, skills: Iterable[Skill], threshold: float = THRESHOLD) -> Growth:
        """This library with `skills` after its own. Each is compared with the active skills before it: the most
        similar one, if at least `threshold`, is what it is `same_as`. Ids that are taken get a number."""
        library, added, merged = self, [], {}
        for skill in skills:
            named = skill.model_copy(update={"id": free_id(skill.title, {one.id for one in library.skills})})
            first = _nearest(named, library.active, threshold)
            same_as = {} if first is None else {named.id: first}
            library = library._with(skills=(*library.skills, named), same_as={**library.same_as, **same_as})
            added.append(named.id)
            merged.update(same_as)
        if added:
            library = library._with(version=self.version + 1)
        return Growth(library, tuple(added), merged)

    def withhold(self, ids: Iterable[str], why: str) -> Library:
        """This library with `ids` out of use. They, and what refers to them, stay on record."""
        new = {one: why for one in ids if one not in self.withheld}
        return self._with(version=self.version + 1, withheld={**self.withheld, **new}) if new else self

    def extends(self, older: Library) -> bool:
        """Whether everything in `older` is in here as it was."""
        return (
            self.skills[: len(older.skills)] == older.skills
            and older.same_as.items() <= self.same_as.items()
            and older.withheld.items() <= self.withheld.items()
        )

    def _with(self, **changes: object) -> Library:
        return Library.model_validate({**{name: getattr(self, name) for name in Library.model_fields}, **changes})


@dataclass(frozen=True, slots=True)
class Growth:
    """A grown library, and what is new in it."""

    library: Library
    added: tuple[str, ...]
    """Ids of all new records, near-duplicates included."""
    merged: Mapping[str, str]
    """Those of them that are near-duplicates -> what they repeat."""


def _nearest(skill: Skill, known: Iterable[Skill], threshold: float) -> str | None:
    scored = [(similarity(skill, other), other.id) for other in known]
    best = max(scored, key=lambda pair: pair[0], default=(0.0, ""))
    return best[1] if best[0] >= threshold else None


def load_library(path: Path) -> Library:
    """Read a library. Raises UserError when the file is missing or is no valid library."""
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"no skill library at {path}") from None
    except ValueError:
        raise UserError(f"{path} is not JSON: restore it, or start from an empty library") from None
    try:
        return Library.model_validate(data)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"]))
        raise UserError(
            f"{path}: {where + ': ' if where else ''}{fault['msg'].removeprefix('Value error, ')}"
        ) from None


def save_library(library: Library, path: Path) -> None:
    """Write `library`, whole or not at all. Raises UserError when `path` holds skills that it would lose."""
    if path.is_file() and not library.extends(load_library(path)):
        raise UserError(f"{path} holds skills that would be lost: a library only grows; write to another file")
    text = json.dumps(library.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"
    with aside(path) as unfinished, unfinished.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
