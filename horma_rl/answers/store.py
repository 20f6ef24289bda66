"""Answers and verdicts on disk: append-only JSON Lines that survive a kill, and know what is finished."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from horma_rl.errors import UserError
from horma_rl.evaluation.store import append_line, check_identity, drop_unfinished_line, read_lines

ANSWERS = "answers.jsonl"
VERDICTS = "verdicts.jsonl"


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """What the actor said to one task with one system's context.

    `context_tokens` and `input_tokens` (the whole request) are by the actor's tokenizer as configured, `usage_tokens`
    as the server counted the request. `asked` is False when there was no context, and the answer is an abstention
    without a request. `left_out`: turns that the system selected and the budget had no room for.
    """

    system: str
    task: str
    workspace: str
    category: str
    answer: str
    asked: bool
    turns_shown: int
    left_out: int
    cut: bool
    context_tokens: int
    input_tokens: int
    usage_tokens: int
    scores: Mapping[str, float]


class AnswerStore:
    """The folder of one evaluation of answers. A last line that a kill cut short is dropped, and asked for again.

    Raises:
        UserError: the folder holds results of another evaluation, or lines that cannot be read.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        check_identity(folder, identity)
        for name in (ANSWERS, VERDICTS):
            drop_unfinished_line(folder / name)
        rows = [_row(data, f"{folder / ANSWERS}, line {number}") for number, data in read_lines(folder / ANSWERS)]
        self._answers = {(row.system, row.task): row for row in rows}
        self._verdicts: dict[tuple[str, str], dict[str, bool]] = {}
        for _, data in read_lines(folder / VERDICTS):
            self._verdicts.setdefault((data["system"], data["task"]), {})[data["judge"]] = data["right"]

    def answer(self, system: str, task: str) -> AnswerRow | None:
        """The finished answer, if there is one."""
        return self._answers.get((system, task))

    def verdicts(self, system: str, task: str) -> dict[str, bool]:
        """Judge -> whether it found the answer right, as far as they have judged."""
        return dict(self._verdicts.get((system, task), {}))

    def add_answer(self, row: AnswerRow) -> None:
        """Append one answer."""
        append_line(self.folder / ANSWERS, asdict(row))
        self._answers[row.system, row.task] = row

    def add_verdict(self, row: AnswerRow, judge: str, right: bool, reply: str, tokens: int) -> None:
        """Append one verdict, with the judge's words."""
        line = {
            "system": row.system,
            "task": row.task,
            "judge": judge,
            "right": right,
            "reply": reply,
            "tokens": tokens,
        }
        append_line(self.folder / VERDICTS, line)
        self._verdicts.setdefault((row.system, row.task), {})[judge] = right


def _row(data: Mapping[str, Any], where: str) -> AnswerRow:
    if set(data) != {field.name for field in fields(AnswerRow)}:
        raise UserError(f"{where}: not an answer of this version; choose another `out`, or delete the file")
    return AnswerRow(**data)
