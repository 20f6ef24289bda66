"""The `outline` manager: notes about a conversation without a language model, every line citing its turn.

sessions/  one line per turn: the compact, readable view of the raw log
people/    what each speaker said of substance, dated
dates/     what the conversation places in a month (or, where it spans more than one, in a year)
events/    one note per dated happening, with the turns that go on about it
entities/  one note per name or noun that several turns mention
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from horma_rl.memory.archive import Record
from horma_rl.memory.calendar import Span
from horma_rl.memory.dates import Dated
from horma_rl.memory.notes import Note, Utterance, note, utterance
from horma_rl.memory.text import FileNames, sentences, word_set
from horma_rl.memory.vocabulary import Vocabulary
from memory_shell.terms import STOP_WORDS, tokenise

TAG = "outline"
MAX_ENTITIES = 60
_FOLLOW_UP = 6
"""Turns after a happening that may go on about it."""
_PLEASANTRIES = word_set(
    "hey hi hello bye goodbye thanks thank thx wow yeah yep yup yes nope ok okay oh ah aw aww haha lol hmm sure right "
    "great awesome amazing cool nice good glad happy sounds sound really so definitely absolutely totally exactly "
    "congrats congratulations cheers welcome sorry please take care soon later talk chat catch see look looks"
)


def outline(records: Iterable[Record]) -> list[Note]:
    """All notes about the archived turns, by path. The same records always give the same notes."""
    turns = [utterance(record) for record in records]
    people = FileNames()
    for one in turns:
        people.of(one.speaker)
    vocabulary = Vocabulary(turns, dict.fromkeys(one.speaker for one in turns))
    notes = [
        *session_notes(turns),
        *_people(turns, people),
        *_dates(turns),
        *_events(turns, vocabulary),
        *_entities(vocabulary),
    ]
    return sorted((part for one in notes for part in one.parts()), key=lambda part: part.path)


def session_notes(turns: Sequence[Utterance]) -> list[Note]:
    """The compact view of the archive: one note a session, one cited line a turn."""
    by_session: dict[int, list[Utterance]] = defaultdict(list)
    for one in turns:
        by_session[one.record.session].append(one)
    return [
        note(
            f"sessions/session_{number:02d}.md",
            f"Session {number}, {spoken[0].day}",
            TAG,
            [(f"{one.speaker}: {one.told()}".strip(), one) for one in spoken],
        )
        for number, spoken in by_session.items()
    ]


def _people(turns: Sequence[Utterance], names: FileNames) -> list[Note]:
    by_person: dict[str, list[tuple[str, Utterance]]] = defaultdict(list)
    speakers = {word for one in turns for word in tokenise(one.speaker)}
    for one in turns:
        if told := substance(one, speakers):
            by_person[one.speaker].append((f"{one.day}: {told}", one))
    return [note(f"people/{names.of(person)}.md", person, TAG, lines) for person, lines in by_person.items()]


def substance(one: Utterance, speakers: Iterable[str]) -> str:
    """What a turn states: its sentences without questions and pleasantries, or nothing.

    A sentence is kept when it does not end in a question mark and has a word that is neither a function word, nor a
    pleasantry ("thanks", "wow", "great"), nor a speaker's name. A shared photo is always of substance.
    """
    kept = statements(one.text, speakers)
    if not kept and not one.shares:
        return ""
    text = " ".join(kept)
    return one.told([dated for dated in one.dated if dated.phrase in text], text)


def statements(text: str, speakers: Iterable[str]) -> list[str]:
    """The sentences that `substance` keeps."""
    empty = STOP_WORDS | _PLEASANTRIES | set(speakers)
    return [part for part in sentences(text) if not part.endswith("?") and not empty.issuperset(tokenise(part))]


def _dates(turns: Sequence[Utterance]) -> list[Note]:
    by_period: dict[str, list[tuple[Span, str, Utterance]]] = defaultdict(list)
    for one in turns:
        for dated in one.dated:
            start = dated.span.start.isoformat()
            by_period[period(dated.span)].append((dated.span, f"{start}: {one.speaker}: {one.told([dated])}", one))
    notes: list[Note] = []
    for name, entries in by_period.items():
        entries.sort(key=lambda entry: (entry[0].start, entry[0].end))
        notes.append(note(f"dates/{name}.md", f"Dated {name}", TAG, [(line, one) for _, line, one in entries]))
    return notes


def period(span: Span) -> str:
    """The name of its note in dates/: the month in which the span begins; its year where it is longer than a month."""
    whole = span.granularity in ("season", "year", "decade") or (span.end - span.start).days > 31
    return f"{span.start.year:04d}" if whole else f"{span.start:%Y-%m}".rjust(7, "0")


@dataclass
class _Event:
    dated: Dated
    statement: str
    words: set[str]
    turns: dict[str, Utterance] = field(default_factory=dict)


def _events(turns: Sequence[Utterance], vocabulary: Vocabulary) -> list[Note]:
    """Happenings are dated statements; those that mean the same days and share a telling word are one event."""
    speakers = {word for one in turns for word in tokenise(one.speaker)}
    events: dict[tuple[str, str], list[_Event]] = defaultdict(list)
    for index, one in enumerate(turns):
        for statement in statements(one.text, speakers):
            dated = next((dated for dated in one.dated if dated.phrase in statement), None)
            words = _telling(statement, dated, vocabulary)
            if dated is None or not words:
                continue
            same_days = events[dated.span.start.isoformat(), dated.span.granularity]
            event = next((known for known in same_days if known.words & set(words)), None)
            if event is None:
                event = _Event(dated, statement, set(words))
                same_days.append(event)
            event.turns[one.id] = one
            for later in _follow_ups(turns, index, words, vocabulary):
                event.turns.setdefault(later.id, later)
    names = FileNames()
    return [_event_note(event, names, vocabulary) for same_days in events.values() for event in same_days]


def _telling(statement: str, dated: Dated | None, vocabulary: Vocabulary) -> list[str]:
    """The words that tell this happening from others: all content words but those of the date itself."""
    if dated is None:
        return []
    return [w for w in vocabulary.content(statement.replace(dated.phrase, " ")) if w not in _PLEASANTRIES]


def _follow_ups(
    turns: Sequence[Utterance], index: int, words: Iterable[str], vocabulary: Vocabulary
) -> Iterable[Utterance]:
    rare = {word for word in words if vocabulary.frequency(word) <= max(5, len(turns) // 50)}
    for later in turns[index + 1 : index + 1 + _FOLLOW_UP]:
        same_session = later.record.session == turns[index].record.session
        if same_session and rare.intersection(vocabulary.content(f"{later.text}{later.shares}")):
            yield later


def _event_note(event: _Event, names: FileNames, vocabulary: Vocabulary) -> Note:
    words = _telling(event.statement, event.dated, vocabulary)
    chosen = sorted(words, key=lambda word: (word not in vocabulary.nouns, vocabulary.frequency(word)))[:3]
    topic = " ".join(word for word in words if word in chosen)
    day = _stamp(event.dated.span)
    lines = [(f"{one.day}: {one.speaker}: {one.told()}", one) for one in event.turns.values()]
    return note(f"events/{names.of(f'{day} {topic}')}.md", f"{day}: {topic}", TAG, lines)


def _stamp(span: Span) -> str:
    """As much of the start date as the granularity bears out: a day, a month or a year."""
    length = {"decade": 4, "year": 4, "month": 7, "season": 7}.get(span.granularity, 10)
    return span.start.isoformat()[:length]


def _entities(vocabulary: Vocabulary) -> list[Note]:
    names = FileNames()
    return [
        note(
            f"entities/{names.of(entity.name)}.md",
            entity.name,
            TAG,
            [(f"{one.day}: {one.speaker}: {one.told()}", one) for one in entity.turns],
        )
        for entity in vocabulary.entities(MAX_ENTITIES)
    ]
