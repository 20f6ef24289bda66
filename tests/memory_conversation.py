"""A small conversation of any length for the tests of the write path, and a folder's content as one value."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from horma_rl.benchmarks.types import Conversation, Observation, RawTurn, Session

START = datetime(2023, 5, 8, 13, 56)
TOPICS = ("kiln", "garden", "marathon", "New York", "violin")


def conversation(sessions: int = 6, name: str = "conv") -> Conversation:
    """A small invented conversation with dates, names, captions and questions in it."""
    made: list[Session] = []
    for number in range(1, sessions + 1):
        topic = TOPICS[number % len(TOPICS)]
        lines = (
            f"Hey! Yesterday I worked on the {topic}.",
            f"Nice! How is the {topic}? I went to Paris last week.",
            f"The {topic} is fine, and my plan is to go on in June.",
            "Bye!",
        )
        turns = tuple(
            RawTurn(f"D{number}:{at}", ("Ana", "Ben")[at % 2], text, "a photo of a dog" if at == 3 else None)
            for at, text in enumerate(lines, start=1)
        )
        made.append(Session(number, START + timedelta(days=9 * number), turns))
    facts = (Observation(1, "Ana", "Ana has a kiln.", ("D1:1", "D1:3")), Observation(2, "Ben", "Ben ran.", ("D2:2",)))
    return Conversation(name, ("Ana", "Ben"), tuple(made), facts)


def tree(root: Path) -> dict[str, bytes]:
    """Every file, and every folder (with a slash)."""
    return {
        f"{path.relative_to(root)}{'/' if path.is_dir() else ''}": b"" if path.is_dir() else path.read_bytes()
        for path in root.rglob("*")
    }
