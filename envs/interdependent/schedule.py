"""The `schedule` kind: meetings booked in order, where each one fixed limits those after it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from interdependent import words
from interdependent.schedule_rules import HOURS, Agenda, Booking, Meeting, ScheduleRules, show, slot_name, slot_number
from interdependent.world import Made, Reply

ACTIONS = """One command a step:
calendar PERSON - the slots in which someone is free
book MEETING SLOT ROOM - fix it, such as: book budget-review d1-09 Elm; it must be the meeting whose turn it is
status - which meeting is next
finish - end the task; the bookings are checked"""


@dataclass(frozen=True)
class Schedule:
    """A generated schedule task: rules, the free slots of each person, and a solution."""

    rules: ScheduleRules
    free: Mapping[str, frozenset[int]]
    solution: tuple[Booking, ...]
    actions: str = ACTIONS

    @property
    def count(self) -> int:
        """Meetings."""
        return len(self.rules.meetings)

    @property
    def instruction(self) -> str:
        """The rules in words."""
        return self.rules.text()

    def reply(self, said: list[str], made: Made) -> Reply:
        """See Game."""
        match said:
            case ["calendar", person]:
                return self._calendar(person)
            case ["book", meeting, slot, room]:
                return self._book(meeting, slot, room, made)
            case ["status"]:
                return Reply(f"{len(made)} of {self.count} meetings are booked. {self._next(made)}")
            case ["finish"]:
                return Reply(self._report(made), finished=True)
        return Reply(f"That is no command.\n{ACTIONS}", valid=False)

    def sound(self, made: Made) -> int:
        """See Game."""
        faults = self._faults(made)
        return next((index for index, fault in enumerate(faults) if fault), len(made))

    def optimal(self) -> tuple[str, ...]:
        """Book each meeting as in the solution."""
        booked = zip(self.rules.meetings, self.solution, strict=True)
        return (*(f"book {meeting.name} {slot_name(at.slot)} {at.room}" for meeting, at in booked), "finish")

    def _calendar(self, person: str) -> Reply:
        if person not in self.free:
            return Reply(f"There is no calendar of {person!r}. There are: {', '.join(self.free)}.", valid=False)
        lines = [f"day {day + 1}: {self._day(person, day)}" for day in range(self.rules.days)]
        return Reply("\n".join((f"{person} is free in these slots:", *lines)))

    def _day(self, person: str, day: int) -> str:
        first = day * len(HOURS)
        free = [slot_name(slot) for slot in range(first, first + len(HOURS)) if slot in self.free[person]]
        return ", ".join(free) or "none"

    def _book(self, name: str, slot: str, room: str, made: Made) -> Reply:
        if len(made) == self.count:
            return Reply("All meetings are booked: say finish.", valid=False)
        meeting, at = self.rules.meetings[len(made)], slot_number(slot)
        if name != meeting.name:
            return Reply(f"Meeting {len(made) + 1} is {meeting.name}, not {name!r}.", valid=False)
        if at is None or at >= self.rules.days * len(HOURS):
            return Reply(f"{slot!r} is no slot: d1-09 to d{self.rules.days}-16.", valid=False)
        if room not in self.rules.buildings:
            return Reply(f"There is no room {room!r}. There are: {', '.join(self.rules.buildings)}.", valid=False)
        now = (*made, Booking(at, room))
        said = f"Meeting {len(now)} of {self.count} is booked: {name}, {show(now[-1])}. {self._next(now)}"
        return Reply(said, choice=now[-1])

    def _next(self, made: Made) -> str:
        if len(made) == self.count:
            return "Nothing is left to book: say finish."
        meeting = self.rules.meetings[len(made)]
        return f"Next is meeting {len(made) + 1}: {meeting.name}, with {' and '.join(meeting.people)}."

    def _faults(self, made: Made) -> list[str]:
        agenda, faults = Agenda(), []
        for booking in made:
            faults.append(self.rules.fault(agenda, booking, self.free))
            agenda = self.rules.add(agenda, booking)
        return faults

    def _report(self, made: Made) -> str:
        if len(made) < self.count:
            return f"The schedule is not whole: {len(made)} of {self.count} meetings are booked."
        found = [fault for fault in self._faults(made) if fault]
        return "\n".join(("The schedule breaks the rules:", *found)) if found else "The schedule holds all the rules."


# Generating --------------------------------------------------------------------------------------------------------

_FREE = 0.45
"""How likely somebody is free in a slot that the solution does not need."""


def generate(seed: int, size: int) -> Schedule:
    """The schedule of `size` meetings for `seed`.

    A walk through slots and rooms is the solution, and calendars are free where it needs them. The latest slots are
    then the last that leave a way to the end, from the last meeting to the first. On the last day everybody is free:
    there is always a slot that suits all the people, and is too late.
    """
    rng = random.Random(seed)
    people = rng.sample(words.PEOPLE, min(len(words.PEOPLE), 3 + size // 2))
    buildings = dict(words.ROOMS)
    rooms = [(rng.choice(("Elm", "Oak")), rng.choice(("Fir", "Yew"))) for _ in range(size)]
    groups = [tuple(sorted(rng.sample(people, rng.choice((2, 3))))) for _ in range(size)]
    walk: list[Booking] = []
    for choice in rooms:
        room = rng.choice(choice)
        walk.append(Booking(_after(walk, room, buildings) + rng.randint(0, 1), room))
    days = walk[-1].slot // len(HOURS) + 2
    free = {person: _calendar(rng, days, person, walk, groups) for person in sorted(people)}
    latest = _latest(rooms, groups, free, buildings, walk[-1].slot)
    named = zip(words.meetings(rng, size), groups, latest, strict=True)
    return Schedule(ScheduleRules(days, tuple(Meeting(*each) for each in named), buildings), free, tuple(walk))


def _after(walk: list[Booking], room: str, buildings: Mapping[str, str]) -> int:
    return ScheduleRules(0, (), buildings).earliest(walk[-1] if walk else None, room)


def _calendar(
    rng: random.Random, days: int, person: str, walk: list[Booking], groups: list[tuple[str, ...]]
) -> frozenset[int]:
    """The free slots of `person`."""
    slots = days * len(HOURS)
    needed = {booking.slot for booking, group in zip(walk, groups, strict=True) if person in group}
    return frozenset(
        slot for slot in range(slots) if rng.random() < _FREE or slot in needed or slot >= slots - len(HOURS)
    )


def _latest(
    rooms: list[tuple[str, str]],
    groups: list[tuple[str, ...]],
    free: Mapping[str, frozenset[int]],
    buildings: Mapping[str, str],
    end: int,
) -> list[dict[str, int]]:
    """For each meeting and room, the last slot, at most `end`, from which all later meetings can still be held."""
    latest: list[dict[str, int]] = []
    for choice, group in zip(reversed(rooms), reversed(groups), strict=True):
        common = frozenset.intersection(*(free[person] for person in group))
        by = {
            room: max((s for s in common if s <= _limit(latest, room, buildings, end)), default=-1) for room in choice
        }
        latest.append({room: slot for room, slot in by.items() if slot >= 0})
    return latest[::-1]


def _limit(latest: list[dict[str, int]], room: str, buildings: Mapping[str, str], end: int) -> int:
    """The last slot in `room` that leaves time for the meeting after it, by that one's latest slots."""
    if not latest:
        return end
    rules = ScheduleRules(0, (), buildings)
    return max(by - rules.earliest(Booking(0, room), after) for after, by in latest[-1].items())
