"""Object identity chains: several things of one kind ("mug 1", "mug 2") that are moved again and again.

Whoever files these moves without the number ("a mug is in the shed") can no longer answer anything. It is a family of
its own beside the invented lives (`generate`), with its own words and its own random draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from horma_rl.benchmarks.generator import smalltalk as talk
from horma_rl.benchmarks.generator.vocabulary import Part, people
from horma_rl.benchmarks.generator.wordlists import bars, words
from horma_rl.benchmarks.types import Conversation, RawTurn, Session
from memory_shell.types import Task

ChainKind = Literal["identity-now", "identity-before", "identity-which"]

THINGS: dict[Part, tuple[str, ...]] = {
    "train": words("mug crate lantern jar kettle basket drill"),
    "eval": words("vase bucket torch tin ladder satchel hammer"),
}
PLACES: dict[Part, tuple[str, ...]] = {
    "train": bars(
        "pantry shelf|garden shed|attic trunk|hall cupboard|laundry room|window sill|cellar stairs|guest bathroom|"
        "workbench drawer|back porch|boiler room|reading corner|linen closet|garage rafters|kitchen island"
    ),
    "eval": bars(
        "coat rack|tool chest|sewing alcove|front veranda|wine rack|bicycle stand|greenhouse bench|piano lid|"
        "mud room|study bookcase|broom niche|music room|shoe cabinet|barn loft|larder counter"
    ),
}
SAY = (
    "I moved {thing} to the {place} this time.",
    "By the way, {thing} is in the {place} now, I carried it over.",
    "Do not look for {thing} in the old spot, I left it at the {place}.",
    "I finally put {thing} away, it went to the {place}.",
)


class ChainConfig(BaseModel):
    """Sizes of what is generated. The same values give the same memories on every machine."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int = Field(0, description="First ingredient of every random draw.")
    part: Part = Field("train", description="Words to draw from; train and eval share no thing, place or name.")
    memories: int = Field(8, ge=1, le=1_000_000, description="Conversations to make.")
    sessions: int = Field(3, ge=1, le=50, description="Dated sittings in each conversation.")
    turns: int = Field(10, ge=6, le=60, description="Turns in each session.")
    kinds: int = Field(2, ge=1, le=4, description="Kinds of things: mugs and crates are two.")
    copies: int = Field(2, ge=2, le=3, description="Things of each kind, told apart by their number alone.")
    questions: int = Field(6, ge=1, le=50, description="Questions about each memory; fewer when its moves run out.")


@dataclass(frozen=True, slots=True)
class _Move:
    thing: str
    place: str
    turn: str


def chains(config: ChainConfig) -> Iterator[tuple[Conversation, tuple[Task, ...]]]:
    """The memories of `config`, one at a time. Every thing is moved at least once where the turns suffice."""
    for number in range(config.memories):
        yield _memory(config, f"chains-{config.part}-s{config.seed}-{number:04d}")


def _memory(config: ChainConfig, name: str) -> tuple[Conversation, tuple[Task, ...]]:
    rng = Random(f"chains/{name}")
    speakers = tuple(rng.sample(people(config.part), 2))
    moves: list[_Move] = []
    sessions = []
    day = datetime(2022, 1, 3) + timedelta(days=rng.randrange(700))
    things = [
        f"{kind} {n}" for kind in rng.sample(THINGS[config.part], config.kinds) for n in range(1, config.copies + 1)
    ]
    for index in range(1, config.sessions + 1):
        time = day.replace(hour=rng.randrange(8, 22), minute=rng.randrange(60))
        sessions.append(Session(index, time, tuple(_session(rng, config, index, speakers, things, moves))))
        day += timedelta(days=rng.randint(5, 20))
    tasks = tuple(
        Task(f"{name}/q-{place}", question, evidence, name, answer, kind)
        for place, (kind, question, answer, evidence) in enumerate(_questions(rng, moves)[: config.questions])
    )
    return Conversation(name, speakers, tuple(sessions)), tasks


def _session(
    rng: Random, config: ChainConfig, index: int, speakers: tuple[str, ...], things: list[str], moves: list[_Move]
) -> Iterator[RawTurn]:
    """One sitting: as many things as fit are moved, each in a turn of its own between small talk."""
    chat = talk.SmallTalk(rng)
    room = range(2, config.turns - 1)
    told = sorted(rng.sample(room, min(len(room), len(things))))
    moving = dict(zip(told, rng.sample(things, len(told)), strict=True))
    first = rng.randrange(2)
    for position in range(config.turns):
        speaker, other = speakers[(first + position) % 2], speakers[(first + position + 1) % 2]
        turn = f"D{index}:{position + 1}"
        if position in moving:
            place = _free_place(rng, config.part, moves)
            moves.append(_Move(moving[position], place, turn))
            text = rng.choice(SAY).format(thing=moving[position], place=place)
        else:
            text = chat.line(_templates(position, config.turns), other)
        yield RawTurn(turn, speaker, text)


def _templates(position: int, turns: int) -> tuple[str, ...]:
    if position < 2:
        return (talk.OPENINGS, talk.ANSWERS)[position]
    return talk.CLOSINGS if position == turns - 1 else talk.REMARKS


def _free_place(rng: Random, part: Part, moves: list[_Move]) -> str:
    """A place where nothing stands now, so that every question has one answer."""
    standing = {move.place for move in _last(moves).values()}
    return rng.choice([place for place in PLACES[part] if place not in standing])


def _last(moves: list[_Move]) -> dict[str, _Move]:
    """Where each thing is now."""
    return {move.thing: move for move in moves}


def _questions(rng: Random, moves: list[_Move]) -> list[tuple[ChainKind, str, str, tuple[str, ...]]]:
    """Every question about the moves that has one answer, in random order."""
    found: list[tuple[ChainKind, str, str, tuple[str, ...]]] = []
    for thing, move in _last(moves).items():
        kind = thing.rpartition(" ")[0]
        found.append(("identity-now", f"Where is {thing} now?", move.place, (move.turn,)))
        found.append(("identity-which", f"Which {kind} is at the {move.place} now?", thing, (move.turn,)))
        chain = [one for one in moves if one.thing == thing]
        if len(chain) >= 2 and sum(one.place == move.place for one in chain) == 1:
            before = chain[-2]
            question = f"Where was {thing} before it came to the {move.place}?"
            found.append(("identity-before", question, before.place, (before.turn, move.turn)))
    rng.shuffle(found)
    return found
