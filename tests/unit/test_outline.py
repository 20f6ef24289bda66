"""Notes without a language model: their exact lines, what gets a note, and hostile conversations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from horma_rl.memory.archive import Record
from horma_rl.memory.notes import MAX_LINES, Line, Note, utterance
from horma_rl.memory.outline import MAX_ENTITIES, outline, statements
from horma_rl.memory.text import FileNames, display_name, one_line, slug

TIME = datetime(2023, 5, 8, 13, 56)
CITATION = re.compile(r"\[([A-Za-z0-9_.-]+:\d+(?:\s*,\s*[A-Za-z0-9_.-]+:\d+)*)\]")


def records(*turns: tuple[str, str] | tuple[str, str, str], session: int = 1, days: int = 0) -> list[Record]:
    when = TIME + timedelta(days=days)
    return [
        Record(f"D{session}:{number}", when, speaker, text, session, caption[0] if caption else None)
        for number, (speaker, text, *caption) in enumerate(turns, start=1)
    ]


def by_path(notes: Sequence[Note]) -> dict[str, str]:
    return {note.path: note.render().decode() for note in notes}


def body(text: str) -> list[str]:
    return text.split("---\n", 2)[2].splitlines()


def test_a_session_note_has_one_line_per_turn() -> None:
    notes = by_path(
        outline(
            records(
                ("Caroline", "I went to a support group yesterday.\nIt was   powerful."),
                ("Mel", "Lovely! See [D1:1]", "a photo of a dog"),
                ("Caroline", "", "two cups"),
                ("Mel", "Last week I ran."),
            )
        )
    )
    assert notes["sessions/session_01.md"] == (
        "---\n"
        'title: "Session 1, 2023-05-08"\n'
        "timestamp: 2023-05-08T13:56:00\n"
        "tags: [outline]\n"
        "sources: [D1:1, D1:2, D1:3, D1:4]\n"
        "---\n"
        "Caroline: I went to a support group yesterday. It was powerful. {yesterday = 2023-05-07} [D1:1]\n"
        "Mel: Lovely! See (D1:1) (shares a photo of a dog) [D1:2]\n"
        "Caroline: (shares a photo of two cups) [D1:3]\n"
        "Mel: Last week I ran. {Last week = 2023-05-01..2023-05-07 (week)} [D1:4]\n"
    )


def test_people_keep_statements_and_skip_questions_and_pleasantries() -> None:
    notes = by_path(
        outline(
            records(
                ("Caroline", "Hey Mel! Great to see you. I bought a kiln yesterday. How are you?"),
                ("Mel", "Wow, thanks Caroline!"),
                ("Mel", "Did you?"),
                ("Mel", "Yes!", "a photo of a bowl"),
            )
        )
    )
    assert body(notes["people/caroline.md"]) == [
        "2023-05-08: I bought a kiln yesterday. {yesterday = 2023-05-07} [D1:1]"
    ]
    assert body(notes["people/mel.md"]) == ["2023-05-08: (shares a photo of a bowl) [D1:4]"]


def test_statements_are_sentences_of_substance() -> None:
    assert statements("Hi! I paint. Do you? So am I! Wow, a lake.", ["mel"]) == ["I paint.", "Wow, a lake."]


def test_dates_are_filed_where_the_event_happened() -> None:
    notes = by_path(
        outline(
            records(
                ("Ana", "Last month I moved. Last year I married."),
                ("Ana", "I will run tomorrow."),
                ("Ana", "I ran yesterday."),
                ("Ana", "I ski next winter."),
            )
        )
    )
    assert sorted(path for path in notes if path.startswith("dates/")) == [
        "dates/2022.md",
        "dates/2023-04.md",
        "dates/2023-05.md",
        "dates/2023.md",
    ]
    assert body(notes["dates/2023-05.md"]) == [
        "2023-05-07: Ana: I ran yesterday. {yesterday = 2023-05-07} [D1:3]",
        "2023-05-09: Ana: I will run tomorrow. {tomorrow = 2023-05-09} [D1:2]",
    ]
    assert body(notes["dates/2022.md"]) == [
        "2022-01-01: Ana: Last month I moved. Last year I married. {Last year = 2022-01-01..2022-12-31 (year)} [D1:1]"
    ]


def test_an_event_gathers_its_follow_ups_and_later_mentions() -> None:
    filler = [("Ben", f"Filler word{number} here.") for number in range(60)]
    first = records(
        ("Ana", "Yesterday I joined a pottery workshop."),
        ("Ben", "Pottery is soothing."),
        ("Ben", "My cat sleeps."),
        *filler,
    )
    second = records(("Ana", "On 7 May I did pottery."), session=2, days=10)
    events = {path: text for path, text in by_path(outline(first + second)).items() if path.startswith("events/")}
    assert list(events) == ["events/2023-05-07-joined-pottery-workshop.md"]
    (text,) = events.values()
    assert [CITATION.findall(line) for line in body(text)] == [["D1:1"], ["D1:2"], ["D2:1"]]
    assert 'title: "2023-05-07: joined pottery workshop"' in text


def test_a_question_is_no_event() -> None:
    notes = by_path(outline(records(("Ana", "Did you paint the fence yesterday?"))))
    assert not [path for path in notes if path.startswith("events/")]
    assert "dates/2023-05.md" in notes


def test_names_and_nouns_become_entities() -> None:
    notes = by_path(
        outline(
            records(
                ("Ana", "We drove to New York with my kiln."),
                ("Ben", "I love New York, and the kiln."),
                ("Ana", "My kilns are hot."),
                ("Ben", "It was a bright morning in the bright room."),
            )
        )
    )
    entities = [path for path in notes if path.startswith("entities/")]
    assert entities == ["entities/kiln.md", "entities/new-york.md"]
    assert [CITATION.findall(line)[0] for line in body(notes["entities/kiln.md"])] == ["D1:1", "D1:2", "D1:3"]


def test_entities_are_limited() -> None:
    turns = [
        ("Ana", f"I saw the thing{chr(97 + n // 26)}{chr(97 + n % 26)} today.") for n in range(150) for _ in range(4)
    ]
    notes = outline(records(*turns))
    assert sum(note.path.startswith("entities/") for note in notes) == MAX_ENTITIES


def test_similar_names_are_kept_apart_and_stay_where_they_were() -> None:
    first = records(("Ana", "I paint lakes."), ("Aná", "I paint hills."), ("ana", "I paint trees."))
    notes = by_path(outline(first))
    assert body(notes["people/ana.md"])[0].endswith("[D1:1]")
    assert body(notes["people/ana-2.md"])[0].endswith("[D1:2]")
    assert body(notes["people/ana-3.md"])[0].endswith("[D1:3]")
    later = by_path(outline(first + records(("ANA", "I paint roofs."), session=2)))
    assert later["people/ana.md"] == notes["people/ana.md"]
    assert "people/ana-4.md" in later


def test_a_long_note_goes_on_in_parts() -> None:
    lines = tuple(Line(f"line {number}", (f"D1:{number}",)) for number in range(2 * MAX_LINES + 1))
    parts = Note("people/ana.md", "Ana", TIME, lines, "outline").parts()
    assert [part.path for part in parts] == ["people/ana.md", "people/ana_2.md", "people/ana_3.md"]
    assert tuple(line for part in parts for line in part.lines) == lines
    assert parts[1].title == "Ana (2 of 3)"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Caroline", "caroline"),
        ("../../etc/passwd", "etc-passwd"),
        (".hidden", "hidden"),
        ("Aná María", "ana-maria"),
        ("李雷", "李雷"),
        ("\x00\x1b[31m", "31m"),
        ("", "unnamed"),
        ("...", "unnamed"),
        ("a" * 500, "a" * 48),
        ("---", "unnamed"),
    ],
)
def test_slugs(name: str, expected: str) -> None:
    assert slug(name) == expected


@given(st.text())
def test_a_slug_is_always_a_plain_file_name(name: str) -> None:
    made = slug(name)
    assert Path(made).name == made
    assert not made.startswith((".", "-"))
    assert 1 <= len(f"{made}-1000.md".encode()) <= 255
    assert "_" not in made


def test_file_names_are_distinct_even_if_a_name_looks_like_a_numbered_one() -> None:
    names = FileNames()
    made = [names.of(name) for name in ("Ana", "Ana 2", "aná", "Ana")]
    assert made == ["ana", "ana-2", "ana-3", "ana"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\r\nb\tc\x00d\u2028e", "a b c d e"),
        ("[D3:4] and [D3:4, D1:2]", "(D3:4) and (D3:4, D1:2)"),
        ("see [[D1:1]] [x](../y)", "see [(D1:1)] [x] (../y)"),
        ("{yesterday = 2020-01-01}", "(yesterday = 2020-01-01)"),
        ("a {brace} [bracket] stays", "a {brace} [bracket] stays"),
        ("\ud800 \ufffe", "\ufffd \ufffd"),
        ("ordinary words, as they are: é 李 😀", "ordinary words, as they are: é 李 😀"),
    ],
)
def test_one_line(text: str, expected: str) -> None:
    assert one_line(text) == expected


@pytest.mark.parametrize(
    ("name", "expected"), [("# Ana", "Ana"), ("---", "Unknown"), ("", "Unknown"), ("a\nb", "a b"), ("x" * 99, "x" * 80)]
)
def test_display_name(name: str, expected: str) -> None:
    assert display_name(name) == expected


HOSTILE = st.lists(
    st.sampled_from(
        (
            *(
                "[D1:1]",
                "[",
                "]",
                "D1:2",
                ",",
                "[D9:9, ",
                "\n",
                "---\n",
                "---",
                "{today = ",
                "2023-01-01}",
                "](",
                "# h",
            ),
            *("\x00", "\u2028", "\ud800", " ", "yesterday", "Hi! ", "I paint the kiln. ", "../x", "&a *b", "'\"", ": "),
            *("New York", "?"),
        )
    ),
    max_size=12,
).map("".join)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(HOSTILE, HOSTILE, HOSTILE), min_size=1, max_size=5))
def test_hostile_words_never_become_structure(turns: list[tuple[str, str, str]]) -> None:
    """Each line cites exactly the turns it is meant to, the front matter is what was written, one line is one line."""
    archived = records(*turns)
    for note in outline(archived):
        lines = note.render().decode("utf-8").split("\n")
        close = lines.index("---", 1)
        front = yaml.safe_load("\n".join(lines[1:close]))
        assert set(front) == {"title", "timestamp", "sources", "tags"}
        assert front["title"] == note.title
        assert front["timestamp"] == TIME
        assert "&" not in note.title or "*" not in "\n".join(lines[1:close])
        cited = [re.findall(r"[^,\s]+", group) for line in lines[close + 1 : -1] for group in CITATION.findall(line)]
        assert cited == [list(line.sources) for line in note.lines]
        assert set(front["sources"]) == {source for ids in cited for source in ids}
        assert note.path.count("/") == 1


@given(HOSTILE)
def test_one_line_is_idempotent_and_utterances_are_one_line(text: str) -> None:
    assert one_line(one_line(text)) == one_line(text)
    assert len(utterance(Record("D1:1", TIME, text, text, 1, text)).told().splitlines()) <= 1


def test_front_matter_stays_small_when_ids_are_long() -> None:
    ids = [f"{'s' * 60}:{number}" for number in range(3_000)]
    whole = Note("people/ana.md", "Ana", TIME, tuple(Line("said", (turn_id,)) for turn_id in ids), "outline")
    parts = whole.parts()
    assert [part.path for part in parts[:2]] == ["people/ana.md", "people/ana_2.md"]
    assert tuple(line for part in parts for line in part.lines) == whole.lines
    assert all(part.render().index(b"\n---\n", 4) < 64 * 1024 for part in parts)
