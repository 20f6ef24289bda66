"""What the analyst is shown of a disagreement, and may therefore cite: turns, notes, commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from horma_rl.baselines.notes import note_lines
from horma_rl.evaluation.rows import turn_text
from horma_rl.memory.refine.pairs import Pair
from horma_rl.memory.skills.skill import EvidenceKind
from horma_rl.memory.text import one_line
from memory_shell.workspace import Workspace

MAX_TURNS, MAX_LINE, MAX_OUTPUT = 24, 600, 800
"""Turns of a trajectory, characters of one turn or line, and of one command's output."""


@dataclass(frozen=True, slots=True)
class Exhibits:
    """Reference -> what stands there, as shown."""

    turns: Mapping[str, str]
    notes: Mapping[str, str]
    commands: Mapping[str, str]

    def of(self, kind: EvidenceKind) -> Mapping[str, str]:
        """The exhibits of one kind."""
        return {"turn": self.turns, "note": self.notes, "command": self.commands}[kind]


def collect(pair: Pair, workspace: Workspace) -> Exhibits:
    """The annotated and the selected turns, the manager's notes about them, and the retriever's commands."""
    wanted = list(dict.fromkeys((*pair.task.evidence, *pair.memory.selected)))[:MAX_TURNS]
    turns = {
        ident: f"{turn.time or ''} {one_line(turn_text(turn))[:MAX_LINE]}".strip()
        for ident in wanted
        if (turn := workspace.turns.get(ident)) is not None
    }
    notes: dict[str, list[str]] = {}
    for line in note_lines(workspace):
        if any(ident in turns for ident in line.sources):
            notes.setdefault(line.path, []).append(one_line(line.text)[:MAX_LINE])
    commands = {line: one_line(output)[:MAX_OUTPUT] for line, output in pair.memory.commands}
    return Exhibits(turns, {path: "\n".join(lines) for path, lines in notes.items()}, commands)
