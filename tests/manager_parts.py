"""A scripted language model for the tests of the manager, and what must hold of any workspace that it led to."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from horma_rl.benchmarks.types import Conversation
from horma_rl.llm.types import Message, Role
from horma_rl.memory import BuildReport
from horma_rl.memory.manager.config import ManagerConfig
from horma_rl.memory.manager.journal import Batch
from horma_rl.memory.manager.manager import Writer
from horma_rl.memory.manager.run import build_one
from memory_shell.notes import citations
from memory_shell.workspace import Workspace
from tests.llm_double import Double

Answer = Callable[[str], object]
"""The user message in, the JSON value of the answer out."""
TURN = re.compile(r"^(D\d+:\d+) (\w+): (.*)$", re.MULTILINE)


class Scripted(Double):
    """Answers by a function of the last user message; it counts what it was asked."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[list[Message]] = []

    async def say(self, messages: Sequence[Message], role: Role) -> str:
        self.asked.append(list(messages))
        await asyncio.sleep(0)
        return json.dumps(self.answer(messages[-1]["content"]))


def diligent(prompt: str) -> object:
    """Files every new turn under its speaker, and now and then uses each other operation."""
    operations: list[Mapping[str, Any]] = []
    if "refused" in prompt:
        return {"operations": []}
    for turn, speaker, text in TURN.findall(prompt.partition("New turns")[2]):
        line = {"text": f"{speaker}: {text[:200]}", "turns": [turn]}
        path = f"people/{speaker.lower()}-facts.md"
        operations.append({"op": "append", "path": path, "lines": [line]})
        operations.append({"op": "create", "path": path, "title": speaker, "topics": ["daily life"], "lines": [line]})
        number = int(turn.partition(":")[0][1:])
        if turn.endswith(":1"):
            operations.append({"op": "create", "path": f"events/happening-{number}.md", "lines": [line]})
            operations.append({"op": "link", "path": f"events/happening-{number}.md", "to": path})
            operations.append({"op": "mkdir", "path": f"projects/p{number}"})
            operations.append({"op": "absence", "claim": f"Nobody owns an iPad {number}", "words": ["iPad", "car"]})
        if turn.endswith(":2") and number > 1:
            old, new = f"events/happening-{number - 1}.md", f"events/happened-{number - 1}.md"
            operations.append({"op": "supersede", "path": old, "new_path": new, "lines": [line]})
    return {"operations": operations}


def writer(answer: Answer = diligent, **options: Any) -> Writer:
    return Writer(Scripted(answer), "scripted", ManagerConfig(**options))


def manage(
    talk: Conversation, out: Path, by: Writer, filed: Callable[[Batch], None] = lambda batch: None
) -> BuildReport:
    """Build one workspace to the end."""
    return asyncio.run(build_one(talk, out, by, filed))


def assert_sound(out: Path, talk: Conversation) -> Workspace:
    """The validator finds nothing; every turn is archived and has its session line; every line of every note but the
    absences cites archived turns, and the absences cite none."""
    workspace = Workspace.load(out)
    assert workspace.problems() == []
    assert list(workspace.turns) == list(talk.turn_ids())
    covered: set[str] = set()
    for path, note in workspace.notes.items():
        lines = workspace.files[path].data.decode().split("\n")[note.body_line - 1 : -1]
        assert lines, path
        if path.startswith("absence/"):
            assert workspace.evidence(path) == ()
            continue
        assert note.sources, path
        for line in lines:
            assert citations(line), f"{path}: {line}"
            assert set(citations(line)) <= set(workspace.turns)
        if path.startswith("sessions/"):
            covered.update(note.sources)
    assert covered == set(talk.turn_ids())
    return workspace
