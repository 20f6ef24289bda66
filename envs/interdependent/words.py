"""Names that the generated tasks are made of."""

from __future__ import annotations

import random

COLOURS = ("amber", "blue", "coral", "green", "ivory", "plum", "silver", "teal")
SIZES = ("small", "large")
MAKERS = ("Harbour", "Juniper", "Lantern", "Meadow", "Northgate", "Orchard", "Pebble", "Quill", "Rowan", "Sable")
MATERIALS = ("beech wood", "brushed steel", "cotton cord", "glazed clay", "pressed paper", "waxed linen")
PEOPLE = ("Ana", "Ben", "Cleo", "Dev", "Edda", "Finn", "Gita", "Hugo", "Ines", "Jon", "Kaya", "Luis")
ROOMS = (("Elm", "north"), ("Oak", "north"), ("Fir", "south"), ("Yew", "south"))

_THINGS = (
    "table party garden window paper kitchen travel winter summer desk wall market picnic guest story music",
    "lamp stand cloth tray box frame basket banner bowl clock cover hook mirror rack ribbon vase",
)
_MEETINGS = (
    "budget design field grant harvest intake launch library market office press quality safety supply roof code",
    "review briefing planning talk handover check workshop vote debate drill hearing reading session demo trial quiz",
)
MOST_NAMES = 256
"""Subtasks of one task, at most: so many different names there are."""


def things(rng: random.Random, count: int) -> list[str]:
    """`count` different kinds of thing to buy, such as `garden-lamp`."""
    return _pairs(rng, count, *_THINGS)


def meetings(rng: random.Random, count: int) -> list[str]:
    """`count` different meetings, such as `budget-review`."""
    return _pairs(rng, count, *_MEETINGS)


def _pairs(rng: random.Random, count: int, first: str, second: str) -> list[str]:
    return rng.sample([f"{one}-{two}" for one in first.split() for two in second.split()], count)
