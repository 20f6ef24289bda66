"""Scripted navigators: programs that play a real episode through the shell, with no learning.

They are given what a policy with the `terms` overview is given: the question, and for each of its stems the number of
note lines that hold it. They search `sessions/` (one cited line a turn), select one turn and say done. A line is scored
by the stems of the question that it holds, each weighted by log(1 + 1000 / lines that hold it), with a small bonus when
its speaker is named in the question. The bonus was chosen on LoCoMo's training conversations.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from horma_rl.baselines.base import Retrieved
from horma_rl.baselines.play import Line, Play
from memory_shell.types import Task
from memory_shell.workspace import Workspace

SPEAKER_BONUS = 1.0
_NOMINAL_LINES = 1000
_TERMS_TRIED = 5


@dataclass(frozen=True, slots=True)
class Clues:
    """A question's stems that occur in the memory: `content` with line counts, rarest first, and `named` speakers."""

    content: dict[str, int]
    named: tuple[str, ...]

    def score(self, line: Line, bonus: float) -> float:
        """How much of the question a line holds."""
        held = sum(math.log(1 + _NOMINAL_LINES / count) for stem, count in self.content.items() if line.holds(stem))
        return held + (bonus if any(line.speaker.startswith(name) for name in self.named) else 0.0)

    def best(self, lines: Iterable[Line], bonus: float = SPEAKER_BONUS) -> Line | None:
        """The best line, the first among equals; None when there are no lines."""
        return max(lines, key=lambda line: self.score(line, bonus), default=None)


Strategy = Callable[[Play, random.Random], Sequence[str]]


@dataclass(frozen=True)
class Scripted:
    """A navigator: `strategy` types commands and gives back the ids to select."""

    name: str
    given: str
    strategy: Strategy
    lines: int
    """Lines of output that each of its commands may print."""

    def retrieve(self, task: Task, workspace: Workspace, rng: random.Random) -> Retrieved:
        """Play one episode."""
        play = Play.start(workspace, task, rng.randrange(2**31), self.lines)
        return play.finish(*self.strategy(play, rng))


def rarest_stem(play: Play, _rng: random.Random) -> Sequence[str]:
    """grep the rarest stem; of the lines shown, take the one that holds most of the question."""
    clues = _clues(play)
    if not clues.content:
        return ()
    return _ids(clues.best(play.grep(next(iter(clues.content))), bonus=0.0))


def three_stems_and_speaker(play: Play, _rng: random.Random) -> Sequence[str]:
    """grep each of the three rarest stems; of all lines shown, take the one that holds most of the question."""
    clues = _clues(play)
    return _ids(clues.best(line for stem in list(clues.content)[:3] for line in play.grep(stem)))


def both_stems(play: Play, _rng: random.Random) -> Sequence[str]:
    """grep for two stems on one line, rare pairs first, and take the first line there is."""
    stems = list(_clues(play).content)[: _TERMS_TRIED - 1]
    for terms in [*itertools.combinations(stems, 2), *((stem,) for stem in stems[:1])]:
        lines = play.grep(*terms)
        if lines:
            return (lines[0].id,)
    return ()


def narrow_then_broaden(play: Play, _rng: random.Random) -> Sequence[str]:
    """grep for three stems on one line, then for two, then for one; take the best line of the first that finds any."""
    return _ids(_narrow(play))


def narrow_and_reply(play: Play, _rng: random.Random) -> Sequence[str]:
    """As `narrow_then_broaden`, but where the line found asks something, take the turn after it: the reply."""
    line = _narrow(play)
    return _ids(line) if line is None or not line.asks else (line.next_id,)


def random_line(play: Play, rng: random.Random) -> Sequence[str]:
    """grep one of the question's stems, drawn at random, and take a random line of what is shown."""
    if not play.terms:
        return ()
    lines = play.grep(rng.choice(list(play.terms)))
    return (rng.choice(lines).id,) if lines else ()


def _narrow(play: Play) -> Line | None:
    clues = _clues(play)
    stems = list(clues.content)[:_TERMS_TRIED]
    for width in (3, 2, 1):
        for terms in itertools.combinations(stems, width):
            found = clues.best(play.grep(*terms))
            if found:
                return found
    return None


def _ids(line: Line | None) -> tuple[str, ...]:
    return () if line is None else (line.id,)


def _clues(play: Play) -> Clues:
    names = play.names()
    content = {stem: count for stem, count in play.terms.items() if stem not in names}
    return Clues(content, tuple(stem for stem in play.terms if stem in names))


_GIVEN = "question and term counts; plays the shell"

NAVIGATORS: tuple[Scripted, ...] = (
    Scripted("script-rarest", f"{_GIVEN}: rarest stem, best of 8 lines", rarest_stem, 8),
    Scripted("script-both", f"{_GIVEN}: two stems on one line, first line", both_stems, 8),
    Scripted(
        "script-three-speaker", f"{_GIVEN}: three rarest stems, named speaker, best line", three_stems_and_speaker, 60
    ),
    Scripted("script-narrow", f"{_GIVEN}: three stems, then two, then one, best of 8 lines", narrow_then_broaden, 8),
    Scripted(
        "script-reply", f"{_GIVEN}: as script-narrow, and the reply where the line asks something", narrow_and_reply, 8
    ),
    Scripted("random-grep", f"{_GIVEN}: a random line of a random stem", random_line, 60),
)
"""Narrowing can take 25 greps in the worst case, more than a policy's ten turns; the tables show commands spent."""
