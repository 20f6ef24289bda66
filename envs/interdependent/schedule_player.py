"""A player of schedules: it reads the rules in the instruction, and the facts in summaries and observations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from interdependent.player import Seen, Step
from interdependent.schedule_rules import HOURS, Agenda, Booking, ScheduleRules, show, slot_name, slot_number


@dataclass(frozen=True, slots=True)
class _Booked:
    """A booking as a text tells of it."""

    number: int
    sentence: str
    booking: Booking


_BOOKED = re.compile(r"Meeting (\d+) of \d+ is booked: [\w-]+, (d\d+-\d\d) in (\w+)\.")
_STATUS = re.compile(r"^(\d+) of \d+ meetings are booked\. ")
_OTHER_TURN = re.compile(r"^Meeting (\d+) is [\w-]+, not ")
_ALL = "All meetings are booked"
_SLOT = re.compile(r"d\d+-\d\d")
_BEFORE = re.compile(r" Before it: (?:(d\d+-\d\d) in (\w+)|nothing|not known)\.")


class SchedulePlayer:
    """See Player."""

    part = "meeting"

    def __init__(self, rules: ScheduleRules) -> None:
        self.rules = rules
        self.count = len(rules.meetings)
        self._slots = range(rules.days * len(HOURS))

    def ended(self, observation: str) -> int | None:
        """See Player."""
        booked = _bookings(observation)
        return booked[-1].number if booked else None

    def now(self, seen: Seen) -> int | None:
        """See Player."""
        done = self._done(seen)
        return None if done is None else done + 1

    def missing(self, seen: Seen) -> str | None:
        """See Player."""
        done = self._done(seen)
        if not done or done >= self.count or self._agenda(seen, done).last:
            return None
        return f"Meeting {done} of {self.count} is booked: {self.rules.meetings[done - 1].name}, its slot and room"

    def act(self, seen: Seen, err: bool) -> str:
        """See Player."""
        done = self._done(seen)
        if done is None:
            return "status"
        if done >= self.count:
            return "finish"
        meeting = self.rules.meetings[done]
        free: dict[str, frozenset[int]] = {}
        for person in meeting.people:
            slots = _free_slots(seen, person)
            if slots is None:
                return f"calendar {person}"
            free[person] = slots
        booking = self._choose(self._agenda(seen, done), free, err)
        return f"book {meeting.name} {slot_name(booking.slot)} {booking.room}"

    def summary(self, seen: Seen) -> str:
        """See Player."""
        last = _bookings(seen.observation)[-1]
        before = self._agenda(seen, last.number - 1).last
        known = show(before) if before or last.number == 1 else "not known"
        return f"{last.sentence} Before it: {known}."

    def digest(self, steps: Sequence[Step]) -> str:
        """See Player."""
        booked = [booked.sentence for _, observation in steps for booked in _bookings(observation)]
        free = [
            f"{action.removeprefix('calendar ')} is free: {', '.join(_SLOT.findall(observation))}."
            for action, observation in steps
            if action.startswith("calendar ")
        ]
        return " ".join((f"Did: {'; '.join(action for action, _ in steps)}.", *booked, *free))

    def check(self, steps: Sequence[Step], summary: str) -> str:
        """See Player. Whose calendar is not in the steps is taken to be free."""
        booked = [booked for _, observation in steps for booked in _bookings(observation)]
        if list(_bookings(summary)) != booked:
            return "the summary is not true to the steps: it tells of other bookings than they made"
        if not booked:
            return ""
        looked = {
            action.removeprefix("calendar "): _free(seen) for action, seen in steps if action.startswith("calendar ")
        }
        everyone = {person for meeting in self.rules.meetings for person in meeting.people}
        free = {person: looked.get(person, self._slots) for person in everyone}
        agenda = Agenda(booked[0].number - 1, _before(summary))
        for each in booked:
            if fault := self.rules.fault(agenda, each.booking, free):
                return fault
            agenda = self.rules.add(agenda, each.booking)
        return ""

    def _choose(self, agenda: Agenda, free: Mapping[str, frozenset[int]], err: bool) -> Booking:
        """The first booking that is right; with `err`, the first that suits all the people and is wrong."""
        rooms = self.rules.meetings[agenda.done].latest
        suits = frozenset.intersection(*free.values())
        ways = [Booking(slot, room) for slot in self._slots for room in rooms if slot in suits]
        after = [way for way in ways if agenda.last is None or way.slot > agenda.last.slot]
        right = [way for way in after if not self.rules.fault(agenda, way, free)]
        wrong = [way for way in after if way not in right]
        choice = (wrong if err else right) or after or ways or [Booking(0, room) for room in rooms]
        return choice[0]

    def _done(self, seen: Seen) -> int | None:
        """The meetings that are booked, by the texts of the path; None when they do not tell."""
        found = [done for text in seen.path() if (done := _told(text, self.count)) is not None]
        return max(found, default=None)

    def _agenda(self, seen: Seen, done: int) -> Agenda:
        """What is to be seen of the agenda after `done` bookings."""
        booked = {each.number: each.booking for text in (*seen.remembered, *seen.path()) for each in _bookings(text)}
        return Agenda(done, booked.get(done))


def _free_slots(seen: Seen, person: str) -> frozenset[int] | None:
    """The free slots of a person, if they are to be seen."""
    calendar = seen.latest(f"calendar {person}")
    if calendar is not None:
        return _free(calendar)
    notes = [found[1] for summary in seen.summaries if (found := re.search(rf"\b{person} is free: ([^.]*)\.", summary))]
    return _free(notes[-1]) if notes else None


@lru_cache(maxsize=4096)
def _bookings(text: str) -> tuple[_Booked, ...]:
    return tuple(_each_booking(text))


def _each_booking(text: str) -> Iterator[_Booked]:
    for found in _BOOKED.finditer(text):
        slot = slot_number(found[2])
        if slot is not None:
            yield _Booked(int(found[1]), found[0], Booking(slot, found[3]))


@lru_cache(maxsize=512)
def _free(calendar: str) -> frozenset[int]:
    slots = (slot_number(name) for name in _SLOT.findall(calendar))
    return frozenset(slot for slot in slots if slot is not None)


def _told(text: str, count: int) -> int | None:
    """How many meetings are booked, by one text."""
    if booked := _bookings(text):
        return booked[-1].number
    if status := _STATUS.match(text):
        return int(status[1])
    if other := _OTHER_TURN.match(text):
        return int(other[1]) - 1
    return count if text.startswith(_ALL) else None


def _before(summary: str) -> Booking | None:
    found = _BEFORE.search(summary)
    slot = slot_number(found[1]) if found and found[1] else None
    return Booking(slot, found[2]) if found and slot is not None else None
