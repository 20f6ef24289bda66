"""Small rows of travel and formal reasoning in MemoryArena's schema, made from a seed: the suite runs with no data.

Rows are interdependent: from the second subtask on, each one uses an answer from before. Shopping and search rows come
with their catalogue (`catalogue.py`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from memory_arena.domain import Grader, Part
from memory_arena.formal import FormalDomain
from memory_arena.make_travel import make_group, make_tables
from memory_arena.rows import MATH, PHYSICS, FormalRow
from memory_arena.travel import TravelDomain

_Chain = Callable[[random.Random, str], FormalRow]


def make_travel(count: int, seed: int, grader: Grader) -> Part:
    """Groups over a small generated world, with flights. The scorer needs no grader."""
    world = make_tables(random.Random(f"travel/{seed}"))
    rows = [make_group(random.Random(f"travel/{seed}/{number}"), world, str(number)) for number in range(count)]
    return Part(TravelDomain(world.tables()), rows)


def make_math(count: int, seed: int, grader: Grader) -> Part:
    """Derivations in arithmetic and algebra, with whole numbers as results."""
    return _formal(MATH, _math, count, seed, grader)


def make_physics(count: int, seed: int, grader: Grader) -> Part:
    """Derivations in mechanics, with whole numbers of SI units as results."""
    return _formal(PHYSICS, _physics, count, seed, grader)


def _formal(domain: str, chain: _Chain, count: int, seed: int, grader: Grader) -> Part:
    rows = [chain(random.Random(f"{domain}/{seed}/{number}"), str(number)) for number in range(count)]
    return Part(FormalDomain(domain, grader), rows)


def _row(number: str, domain: str, background: str, steps: Sequence[tuple[str, int]]) -> FormalRow:
    """The background stands before the first question; those of the others are empty, as most published ones are."""
    questions, answers = zip(*steps, strict=True)
    backgrounds = (background, *[""] * (len(steps) - 1))
    return FormalRow(number, tuple(questions), tuple(map(str, answers)), "generated", backgrounds, domain)


def _math(rng: random.Random, number: str) -> FormalRow:
    """A number, then steps that each use the one before, then a sum of the first and the last."""
    first, factor = rng.randint(3, 9), rng.randint(3, 9)
    results = [first * factor + rng.randint(1, 9)]
    steps = [(f"Let a_1 = {first} \\cdot {factor} + {results[0] - first * factor}. Find a_1.", results[0])]
    for index in range(2, rng.randint(3, 5) + 1):
        question, result = rng.choice(_MATH_STEPS)(rng, index, results[-1])
        results.append(result)
        steps.append((question, result))
    last = len(results)
    steps.append((f"Find a_{last + 1} = a_1 + a_{last}.", results[0] + results[-1]))
    return _row(number, MATH, "All quantities are whole numbers. A result keeps its name in later questions.", steps)


def _linear(rng: random.Random, index: int, previous: int) -> tuple[str, int]:
    times, less = rng.randint(2, 5), rng.randint(1, 9)
    return f"Let a_{index} = {times} a_{index - 1} - {less}. Find a_{index}.", times * previous - less


def _equation(rng: random.Random, index: int, previous: int) -> tuple[str, int]:
    times, root = rng.randint(2, 5), rng.randint(2, 20)
    shift = times * root - previous
    sign = "+" if shift >= 0 else "-"
    return f"Let a_{index} be the x with {times} x = a_{index - 1} {sign} {abs(shift)}. Find a_{index}.", root


def _remainder(rng: random.Random, index: int, previous: int) -> tuple[str, int]:
    modulus = rng.randint(5, 11)
    text = f"Let a_{index} be the remainder of a_{index - 1}^2 on division by {modulus}. Find a_{index}."
    return text, previous**2 % modulus


def _physics(rng: random.Random, number: str) -> FormalRow:
    """A cart that is pushed: force, speed, momentum, energy, and what friction leaves of it."""
    mass, acceleration, seconds = 2 * rng.randint(1, 6), rng.randint(2, 6), rng.randint(2, 6)
    force, speed = mass * acceleration, acceleration * seconds
    momentum, energy, friction = mass * speed, mass * speed**2 // 2, rng.randint(1, 9)
    steps = [
        (f"The cart speeds up at {acceleration} m/s^2. Which net force F_1 acts on it, in newtons?", force),
        (f"F_1 acts for {seconds} s, from rest. Which speed v_2 does the cart reach, in m/s?", speed),
        ("Which momentum p_3 has the cart at the speed v_2, in kg m/s?", momentum),
        ("Which kinetic energy E_4 has it at the momentum p_3, in joules?", energy),
        (
            f"Friction turns {friction} J of E_4 into heat. Which work, in joules, can the cart still do?",
            energy - friction,
        ),
    ]
    return _row(number, PHYSICS, f"A cart of {mass} kg moves along a straight level track.", steps)


_MATH_STEPS = (_linear, _equation, _remainder)
