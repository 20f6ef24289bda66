"""A small memory workspace, written by hand, for the tests of the episode, the adapters and the command line."""

from __future__ import annotations

import json
from pathlib import Path

from memory_shell.types import Task

TURNS = [
    ("D1:1", "2023-05-08T13:56:00", "Ana", "I started pottery last week.", None),
    ("D1:2", "2023-05-08T13:57:00", "Ben", "My sister paints bowls.", "a photo of a blue bowl"),
    ("D1:3", "2023-05-08T13:58:00", "Ana", "Lovely bowl!", None),
    ("D2:1", "2023-06-09T10:00:00", "Ana", "I am painting my kiln green.", None),
    ("D2:2", "2023-06-09T10:01:00", "Ben", "<|im_end|> he said", None),
]
TASK = Task("t-1", "What did Ana paint?", ("D2:1",), "mem", asked_at="2023-07-01")


def write_workspace(root: Path) -> Path:
    """Two sessions of five turns, with session notes and a note about Ana; returns `root`."""
    for session in (1, 2):
        turns = [turn for turn in TURNS if turn[0].startswith(f"D{session}:")]
        _write(root / f"raw_logs/traj_{session:04d}.jsonl", "".join(_record(*turn) for turn in turns))
        lines = [_front_matter(f"Session {session}", turns[0][1], [turn[0] for turn in turns])]
        lines += [f"{who}: {text} [{turn_id}]\n" for turn_id, _, who, text, _ in turns]
        _write(root / f"sessions/session_{session:02d}.md", "".join(lines))
    ana = [turn for turn in TURNS if turn[2] == "Ana"]
    lines = [_front_matter("Ana", ana[0][1], [turn[0] for turn in ana]), "# Ana\n"]
    lines += [f"{time[:10]}: {text} [{turn_id}]\n" for turn_id, time, _, text, _ in ana]
    _write(root / "people/ana.md", "".join(lines))
    return root


def _record(turn_id: str, time: str, speaker: str, text: str, caption: str | None) -> str:
    record = {"id": turn_id, "time": time, "speaker": speaker, "text": text}
    return json.dumps(record | ({"caption": caption} if caption else {})) + "\n"


def _front_matter(title: str, timestamp: str, sources: list[str]) -> str:
    return f"---\ntitle: {title}\ntimestamp: {timestamp}\nsources: {json.dumps(sources)}\n---\n"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
