"""What can happen in a generated life, and how it is told and asked about.

A template names its slots in braces: `{item}` is the value, `{a_item}` has its article, `{item_tail}` is its last
word, `{when}` the time phrase. A statement, with its caption, names every slot of its topic, so that each question's
answer stands in that one turn. In questions `{who}` is the person; the slots a question names are what it gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from string import Formatter
from typing import Literal

Shape = Literal["event", "state", "lasting", "photo"]
"""event: happens on a date. state: holds until the next one. lasting: true throughout. photo: told by a caption."""


def fields(template: str) -> frozenset[str]:
    """The slots that `template` names, articles aside."""
    return frozenset(
        name.removeprefix("a_").removesuffix("_tail") for _, name, _, _ in Formatter().parse(template) if name
    )


@dataclass(frozen=True)
class Ask:
    """One way to ask for the value of slot `want` ("date" asks when)."""

    want: str
    text: str

    @cached_property
    def given(self) -> frozenset[str]:
        """The slots whose values the question names."""
        return fields(self.text) - {"who"}


@dataclass(frozen=True)
class Topic:
    """One kind of fact. `slots` maps each slot to the pool of its values; `key` is unique within a memory."""

    name: str
    shape: Shape
    slots: Mapping[str, str]
    key: str
    say: tuple[str, ...]
    asks: tuple[Ask, ...]
    replies: tuple[str, ...]
    captions: tuple[str, ...] = ()
    when: tuple[str, ...] = ()
    """Questions for the date."""
    base: str = ""
    """"buy the lamp": for questions of order."""
    past: str = ""
    """"bought the lamp", likewise."""
    listing: tuple[Ask, ...] = ()
    """Questions for every value of a slot over the whole memory."""
    change: tuple[str, ...] = ()
    """How a state's next value is told, without a word of the old one."""
    now: tuple[Ask, ...] = ()
    """Questions for a state's present value."""
    before: tuple[Ask, ...] = ()
    """Questions for a state's value before the one the question names."""
    same: tuple[Ask, ...] = ()
    """Yes-no: do `{who}` and `{other}` have the same value of a slot?"""
    more: tuple[Ask, ...] = ()
    """Yes-no: is `{who}`'s number larger than `{other}`'s?"""
    near: bool = False
    """Whether slot `friend` takes names that are easily confused."""
    decoys: tuple[str, ...] = ()
    """Things said that share words with the topic and are nobody's fact."""


def asks(want: str, *texts: str) -> tuple[Ask, ...]:
    """Several ways to ask for one slot."""
    return tuple(Ask(want, text) for text in texts)
