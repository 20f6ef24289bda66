"""An episode played by a program: commands typed into the real shell, and what a person would read off its output."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from horma_rl.baselines.base import Retrieved
from horma_rl.retrieval.types import TurnRecord
from memory_shell.episode import MemoryShell
from memory_shell.terms import STOP_WORDS, stem, tokenise
from memory_shell.types import Caps, Stop, Task
from memory_shell.workspace import Workspace

_TERM = re.compile(r"([^\s,]+) (\d+)(?:,|$)")
_ASIDES = re.compile(r"(?:\s*(?:\([^()]*\)|\{[^{}]*\}))+\s*$")
_CITED = re.compile(r"^(?:[\w./-]+\.md:)?(?:(?P<speaker>[^:\[\]]{1,60}): )?(?P<text>.*)\[(?P<id>[\w.-]+:\d+)\]$")


@dataclass(frozen=True, slots=True)
class Line:
    """A cited line of output: who spoke (lower-case), what it says (lower-case), and the turn it cites."""

    id: str
    speaker: str
    text: str

    @property
    def asks(self) -> bool:
        """Whether the words end in a question mark, notes in brackets after them aside."""
        return _ASIDES.sub("", self.text).rstrip().endswith("?")

    @property
    def next_id(self) -> str:
        """The id of the turn after this one: turns of a session are numbered in order."""
        session, _, number = self.id.rpartition(":")
        return f"{session}:{int(number) + 1}"

    def holds(self, term: str) -> bool:
        """Whether a word of the line starts with `term`."""
        return re.search(rf"\b{re.escape(term)}", self.text) is not None


@dataclass
class Play:
    """One episode in progress. `terms` are the question's stems with the number of lines that hold each, rarest
    first, as the first observation tells them."""

    shell: MemoryShell
    first_observation: str
    terms: dict[str, int]
    turns: list[TurnRecord] = field(default_factory=list)

    @classmethod
    def start(cls, workspace: Workspace, task: Task, seed: int, lines: int) -> Play:
        """Open an episode whose commands print at most `lines` lines each."""
        shell = MemoryShell(workspace, Caps(turns=20, lines=lines, bytes=64_000), overview="terms")
        first = shell.reset(task, seed).text
        _, _, listed = first.rpartition("\nTerms: ")
        return cls(shell, first, {term: int(count) for term, count in _TERM.findall(listed)})

    def run(self, verb: str, args: str = "") -> str:
        """Type one command as one turn and give back what it printed."""
        result = self.shell.run(f"{verb} {args}")
        self.turns.append(TurnRecord("", [{"name": verb, "args": args}], result.text, result.ok, 0, True))
        return result.text

    def grep(self, *terms: str) -> list[Line]:
        """The cited lines of sessions/ in which every one of `terms` begins a word, as far as they are shown."""
        # A cited line ends in its citation; this keeps the notes' front matter, where every title says "Session", out.
        patterns = [f"'\\b{term}.*\\]$'" for term in terms]
        wanted = patterns[0] if len(terms) == 1 else " --and ".join(f"-e {pattern}" for pattern in patterns)
        return read_lines(self.run("grep", f"-r -h -i {wanted} sessions"))

    def names(self) -> frozenset[str]:
        """The words of the names that `people/` files are kept under, as stems."""
        listing = self.run("ls", "people").removesuffix("\n").split("\n")
        return frozenset(
            stem(word) for name in listing for word in tokenise(name.removesuffix(".md").replace("_", " "))
        )

    def finish(self, *ids: str) -> Retrieved:
        """Select `ids`, say done, and report."""
        if ids:
            self.run("select", " ".join(ids))
        self.run("done")
        shell = self.shell
        return Retrieved(
            shell.selection,
            tuple(self.turns),
            shell.commands,
            shell.invalid,
            shell.stop or Stop.ERROR,
            self.first_observation,
        )


def read_lines(output: str) -> list[Line]:
    """The lines of `output` that end in a citation; the last citation names the line's turn."""
    found = (_CITED.match(line) for line in output.split("\n"))
    return [
        Line(match["id"], (match["speaker"] or "").lower(), f"{match['speaker'] or ''}: {match['text']}".lower())
        for match in found
        if match
    ]


def question_stems(question: str) -> list[str]:
    """The stems of the question's words that are worth a search, each once."""
    return list(dict.fromkeys(stem(word) for word in tokenise(question) if word not in STOP_WORDS))
