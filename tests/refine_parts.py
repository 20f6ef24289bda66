"""Doubles for refinement: a scripted language model that files, answers and analyses by rule, and a manager without a
model. Both lose object identity ("mug 1" becomes "a mug") until a skill in their prompt tells them not to."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from horma_rl.benchmarks.generator.chains import PLACES, THINGS
from horma_rl.benchmarks.types import Conversation
from horma_rl.llm.types import Message, Role
from horma_rl.memory import archive, files
from horma_rl.memory.notes import Line, Note
from horma_rl.memory.refine.parts import Answer, Built
from memory_shell.types import Task
from tests.llm_double import Double

TITLE = "Preserve Object Identity Chains"
PRINCIPLE = "Never abstract a numbered object into its kind: each keeps its identity through every move."
CHANGE = "Name every object with its number in every line about it."
THING = re.compile(rf"\b({'|'.join((*THINGS['train'], *THINGS['eval']))}) (\d)\b")
PLACE = re.compile("|".join((*PLACES["train"], *PLACES["eval"])))
UNKNOWN = "No information available"


def file_line(text: str, skills: str) -> str | None:
    """What the careless manager notes about a turn; None for small talk."""
    if not (THING.search(text) and PLACE.search(text)):
        return None
    return text if TITLE in skills else THING.sub(r"a \1", text)


def read_answer(question: str, context: str) -> str:
    """The answer that the context gives, line by line in the order of time."""
    dated = [line for line in context.split("\n") if line.startswith("[") and PLACE.search(line)]
    moves = [
        (f"{thing[1]} {thing[2]}", PLACE.search(line))
        for line in sorted(dated, key=lambda line: line.partition("]")[0])
        if (thing := THING.search(line))
    ]
    places = [(thing, place[0]) for thing, place in moves if place]
    if which := re.match(r"Which (\w+) is at the (.+) now", question):
        found = [thing for thing, place in places if place == which[2]]
        return found[-1] if found else UNKNOWN
    asked = THING.search(question)
    chain = list(dict.fromkeys(place for thing, place in places if asked and thing == asked[0]))
    wanted = chain[-2:-1] if " before " in question else chain[-1:]
    return wanted[0] if wanted else UNKNOWN


class KilledError(BaseException):
    """Stands for the end of the process: nothing catches it."""


class ScriptedModel(Double):
    """A language model that follows rules. `calls` keeps the role and the messages of every request.

    As analyst it writes what the exhibits show; `lies` first answers cite a turn that does not exist. `dies_after`
    requests it raises what a killed process would be.
    """

    reasks = 2

    def __init__(self, lies: int = 0, dies_after: int | None = None) -> None:
        self.calls: list[tuple[Role, str]] = []
        self._lies, self._dies_after = lies, dies_after

    async def say(self, messages: Sequence[Message], role: Role) -> str:
        if self._dies_after is not None and len(self.calls) >= self._dies_after:
            raise KilledError
        prompt = "\n".join(message["content"] for message in messages)
        self.calls.append((role, prompt))
        return {"manager": self._file, "actor": self._answer, "analyst": self._analyse}[role](prompt)

    def spent(self) -> dict[str, dict[str, float]]:
        """Words as tokens, by role."""
        spent: dict[str, dict[str, float]] = {}
        for role, prompt in self.calls:
            account = spent.setdefault(role, {"requests": 0, "tokens": 0, "cost": 0})
            account["requests"] += 1
            account["tokens"] += len(prompt.split())
        return spent

    def count(self, role: Role) -> int:
        """Requests of a role."""
        return sum(one == role for one, _ in self.calls)

    def _file(self, prompt: str) -> str:
        lines = []
        for turn, text in re.findall(r"^(D\d+:\d+) (.*)$", prompt.partition("New turns")[2], re.MULTILINE):
            noted = file_line(text, prompt)
            if noted:
                lines.append({"text": noted, "turns": [turn]})
        if not lines:
            return json.dumps({"operations": []})
        path = f"entities/moves-{lines[0]['turns'][0].replace(':', '-').lower()}.md"
        operation = {"op": "create", "path": path, "title": "Where things are", "lines": lines}
        return json.dumps({"operations": [operation]})

    def _answer(self, prompt: str) -> str:
        context, _, asked = prompt.rpartition("Question: ")
        return read_answer(asked.partition("\n")[0], context)

    def _analyse(self, prompt: str) -> str:
        self._lies -= 1
        turns = re.findall(r"^(D\d+:\d+) \| (.*)$", prompt, re.MULTILINE)
        numbered = [(turn, thing[0]) for turn, text in turns if (thing := THING.search(text))]
        turn, thing = numbered[0]
        cites = [{"kind": "turn", "ref": "D99:1" if self._lies >= 0 else turn, "quote": thing}]
        notes = re.search(rf"^(\w+/[\w-]+\.md) \| .*\ba {thing.split()[0]}\b", prompt, re.MULTILINE)
        if notes is None:
            return json.dumps({"diagnosis": "The notes keep it.", "citations": cites, "skill": None})
        cites.append({"kind": "note", "ref": notes[1], "quote": f"a {thing.split()[0]}"})
        skill = {"title": TITLE, "principle": PRINCIPLE, "schema_change": CHANGE}
        return json.dumps({"diagnosis": "The number was lost.", "citations": cites, "skill": skill})


class PlainManager:
    """Files like the scripted model, without one: for tests of what is around the manager."""

    def __init__(self) -> None:
        self.built: list[str] = []

    async def build(self, conversations: Sequence[Conversation], out: Path, skills: str) -> Built:
        turns = notes = 0
        for conversation in conversations:
            self.built.append(conversation.name)
            workspace = out / conversation.name
            archived = archive.merge(workspace, conversation)
            archived.write(workspace)
            records = list(archived.records())
            told = [(file_line(record.text, skills), record.id) for record in records]
            lines = tuple(Line(text, (ident,)) for text, ident in told if text)
            note = Note("entities/moves.md", "Where things are", datetime(2022, 1, 1), lines, "test")
            files.write(workspace / note.path, note.render())
            turns, notes = turns + len(records), notes + 1
        return Built(turns, notes, 0)


class PlainActor:
    """Answers from the context by rule; a word is a token, and only whole lines count."""

    def __init__(self) -> None:
        self.limits: list[int | None] = []

    async def answer(self, task: Task, context: str, limit: int | None) -> Answer:
        self.limits.append(limit)
        words = context.split(" ")
        seen = context if limit is None else " ".join(words[:limit])
        return Answer(read_answer(task.question, seen), len(seen.split()))


class ExactScorer:
    """1 for the very answer."""

    async def score(self, task: Task, answer: str) -> float:
        return float(answer == task.answer)
