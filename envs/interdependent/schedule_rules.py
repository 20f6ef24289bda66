"""The rules of a schedule, as its instruction states them: written as text, read back from it, and applied.

Slots are numbered from 0; `d2-09` is day 2 at 9 o'clock. The latest slots that the instruction gives are exact: who
holds every rule at each meeting can hold them at all the others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

HOURS = range(9, 17)


def slot_name(slot: int) -> str:
    """`d1-09` for 0."""
    day, hour = divmod(slot, len(HOURS))
    return f"d{day + 1}-{HOURS[hour]:02}"


def slot_number(name: str) -> int | None:
    """0 for `d1-09`; None for what names no slot."""
    found = re.fullmatch(r"d([0-9]{1,4})-([0-9]{2})", name)
    if found is None or int(found[2]) not in HOURS or found[1].startswith("0"):
        return None
    return (int(found[1]) - 1) * len(HOURS) + HOURS.index(int(found[2]))


@dataclass(frozen=True, slots=True)
class Booking:
    """Where and when a meeting is."""

    slot: int
    room: str


@dataclass(frozen=True, slots=True)
class Meeting:
    """`latest`: for each room that will do, the last slot that will."""

    name: str
    people: tuple[str, ...]
    latest: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Agenda:
    """What later bookings depend on after `done` of them: the last one; None when there is none, or it is not known."""

    done: int = 0
    last: Booking | None = None


@dataclass(frozen=True, slots=True)
class ScheduleRules:
    """`meetings` in order; `days` that calendars cover; the building of each room."""

    days: int
    meetings: tuple[Meeting, ...]
    buildings: Mapping[str, str]

    def text(self) -> str:
        """The rules as an instruction has them."""
        lines = [
            f"{number}. {meeting.name}: {', '.join(meeting.people)}; "
            + " or ".join(f"{room} by {slot_name(latest)}" for room, latest in meeting.latest.items())
            for number, meeting in enumerate(self.meetings, 1)
        ]
        return "\n".join(
            (
                f"Book {len(self.meetings)} meetings, in the order of the list below, each for one slot of an hour.",
                "Bookings are final, and are not checked against these rules before you say finish.",
                f"Slots: d1-09 is day 1 at 9 o'clock. Each of the {self.days} days has the slots 09 to 16; "
                "09 of the next day follows 16.",
                "People: all who are named for a meeting are free in its slot. Calendars show what was there before; "
                "your bookings are not entered yet.",
                "Order: a meeting comes after the one before it in the list: in the next slot or later if both rooms "
                "are in one building, in the one after that or later if not, to leave time for the walk.",
                "Rooms: " + ", ".join(f"{room} ({building})" for room, building in self.buildings.items()),
                "The list, with the rooms that will do, and the latest slot in each:",
                *lines,
            )
        )

    def earliest(self, last: Booking | None, room: str) -> int:
        """The first slot in which a meeting in `room` can follow `last`."""
        if last is None:
            return 0
        return last.slot + (1 if self.buildings.get(last.room) == self.buildings.get(room) else 2)

    def add(self, agenda: Agenda, booking: Booking) -> Agenda:
        """The agenda with `booking` for the next meeting."""
        return Agenda(agenda.done + 1, booking)

    def fault(self, agenda: Agenda, booking: Booking, free: Mapping[str, Collection[int]]) -> str:
        """What is wrong with `booking` for the next meeting, in words; empty when nothing is. `free`: the free slots of
        each person."""
        number, meeting = agenda.done + 1, self.meetings[agenda.done]
        what = f"meeting {number} ({meeting.name}) is wrong: "
        slot = slot_name(booking.slot)
        if booking.room not in meeting.latest:
            return f"{what}{booking.room} will not do"
        if booking.slot < self.earliest(agenda.last, booking.room):
            return f"{what}{slot} in {booking.room} leaves no time after {show(agenda.last)}"
        if booking.slot > meeting.latest[booking.room]:
            return f"{what}{slot} is too late for {booking.room}: by {slot_name(meeting.latest[booking.room])}"
        busy = [person for person in meeting.people if booking.slot not in free.get(person, ())]
        return f"{what}{', '.join(busy)} cannot come in {slot}" if busy else ""


def show(booking: Booking | None) -> str:
    """`d1-09 in Elm`."""
    return "nothing" if booking is None else f"{slot_name(booking.slot)} in {booking.room}"


_DAYS = re.compile(r"^Slots: .* Each of the (\d+) days", re.MULTILINE)
_ROOMS = re.compile(r"^Rooms: (.+)$", re.MULTILINE)
_ROOM = re.compile(r"(\w+) \((\w+)\)")
_LINE = re.compile(r"^\d+\. ([\w-]+): ([\w, ]+); (.+)$", re.MULTILINE)
_LATEST = re.compile(r"(\w+) by (d\d+-\d\d)")


def read_rules(instruction: str) -> ScheduleRules | None:
    """The rules that an instruction states; None when it is not one of a schedule."""
    days, rooms, lines = _DAYS.search(instruction), _ROOMS.search(instruction), _LINE.findall(instruction)
    if days is None or rooms is None or not lines:
        return None
    return ScheduleRules(
        int(days[1]),
        tuple(Meeting(name, tuple(people.split(", ")), _latest(by)) for name, people, by in lines),
        dict(_ROOM.findall(rooms[1])),
    )


def _latest(text: str) -> dict[str, int]:
    slots = {room: slot_number(name) for room, name in _LATEST.findall(text)}
    return {room: slot for room, slot in slots.items() if slot is not None}
