"""Scripted expert episodes: what the warm start imitates.

The expert knows the evidence and uses it in two ways only. It picks, among the searches that the question's own words
suggest, one that shows the evidence in few lines (hindsight), and it selects the evidence once it is shown. So every
command can be predicted, at least in distribution, from what the policy has seen. Three styles are mixed:

- narrow first: one search that shows the evidence, then select and done;
- recover from a miss: a search chosen blindly first, as a policy would, and the better one after its result;
- stop on absence: blind searches, then done with nothing selected, when the memory does not hold the answer.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from horma_rl.retrieval.toolcalls import ToolFormat
from memory_shell.episode import MemoryShell
from memory_shell.types import Task, ToolCall

CITED = re.compile(r"\[([\w.-]+:\d+(?:, *[\w.-]+:\d+)*)\]$", re.MULTILINE)
MAX_TERMS = 5
MAX_WALK = 3


@dataclass(frozen=True, slots=True)
class Episode:
    """One demonstration: the first observation and (response, observations) pairs, as `ChatCodec.transcript` takes."""

    first_observation: str
    turns: list[tuple[str, list[str]]]


@dataclass(frozen=True, slots=True)
class Search:
    """One grep over the session notes for lines that hold a word starting with each of `terms`, and what it showed."""

    terms: tuple[str, ...]
    observation: str
    shown: tuple[str, ...]

    @property
    def call(self) -> ToolCall:
        """The tool call that makes this search."""
        return ToolCall("grep", grep_args(self.terms))


def grep_args(terms: Sequence[str]) -> str:
    """Arguments of the grep that finds session-note lines in which every one of `terms` starts a word."""
    patterns = " --and ".join(f"-e '\\b{term}'" for term in terms)
    return f"-rhi {patterns} sessions"


def read_terms(first_observation: str) -> list[tuple[str, int]]:
    """The (stem, line count) pairs of the overview line `Terms: kiln 2, bowl 9`; empty when there are none."""
    for line in first_observation.splitlines():
        if line.startswith("Terms: "):
            pairs = re.findall(r"(\S+) (\d+)(?:, |$)", line.removeprefix("Terms: "))
            return [(term, int(count)) for term, count in pairs]
    return []


def cited_ids(observation: str) -> tuple[str, ...]:
    """The turn ids that end the lines of an observation, in order."""
    return tuple(i for match in CITED.finditer(observation) for i in re.split(r", *", match.group(1)))


class Expert:
    """Makes demonstrations in one shell.

    `narrow`: how often the narrowest search that shows the evidence is taken, and not any that does. `recover`: how
    often a blind search that misses comes first. `complete`: how often evidence that the first search did not show is
    looked for as well. `cascade`: how often, instead of the first two, the suggested searches are made in their order,
    rarest word first, up to the first that shows evidence: the policy that a reader of the overview can follow without
    knowing more. All are probabilities.
    """

    def __init__(
        self,
        shell: MemoryShell,
        form: ToolFormat,
        rng: random.Random,
        *,
        narrow: float = 0.6,
        recover: float = 0.3,
        complete: float = 0.8,
        cascade: float = 0.0,
    ) -> None:
        self._shell = shell
        self._form = form
        self._rng = rng
        self._narrow = narrow
        self._recover = recover
        self._complete = complete
        self._cascade = cascade

    def episode(self, task: Task) -> Episode | None:
        """A demonstration of `task`, or None when none of the searches tried shows any of its evidence."""
        first = self._shell.reset(task).text
        terms = read_terms(first)
        blind = [self._search(choice) for choice in self._blind_choices(terms)]
        if not task.evidence:
            return self._absent(first, blind[: self._rng.randint(1, 2)])
        searches = self._walk(terms, set(task.evidence)) if self._cascade and self._rng.random() < self._cascade else []
        if not searches:
            chosen = self._choose(terms, set(task.evidence))
            if chosen is None:
                return None
            wrong = [search for search in blind[:2] if not set(search.shown) & set(task.evidence)]
            searches = [*(wrong if wrong and self._rng.random() < self._recover else []), chosen]
        found = searches[-1]
        turns = [(self._form.render([search.call]), [search.observation]) for search in searches]
        left = set(task.evidence) - set(found.shown)
        more = self._choose(terms, left) if left and self._rng.random() < self._complete else None
        taken = _select(found, task.evidence)
        if more is not None:
            count = len(taken.args.split())
            seen = [f"selected {count} (total {count})", more.observation]
            turns.append((self._form.render([taken, more.call]), seen))
            taken = _select(more, tuple(left))
        turns.append((self._form.render([taken, ToolCall("done")]), []))
        return Episode(first, turns)

    def _absent(self, first: str, searches: Sequence[Search]) -> Episode:
        turns = [(self._form.render([search.call]), [search.observation]) for search in searches]
        return Episode(first, [*turns, (self._form.render([ToolCall("done")]), [])])

    def _walk(self, terms: Sequence[tuple[str, int]], evidence: set[str]) -> list[Search]:
        """The suggested searches in order up to the first that shows evidence; empty when the first few show none."""
        searches = []
        for choice in search_choices(terms, self._shell.caps.lines)[:MAX_WALK]:
            searches.append(self._search(choice))
            if evidence & set(searches[-1].shown):
                return searches
        return []

    def _choose(self, terms: Sequence[tuple[str, int]], evidence: set[str]) -> Search | None:
        hits = self._hits(terms, evidence)
        if not hits:
            return None
        return hits[0] if self._rng.random() < self._narrow else self._rng.choice(hits)

    def _hits(self, terms: Sequence[tuple[str, int]], evidence: set[str]) -> list[Search]:
        """The searches that show evidence: first those that show the most of it, and among these the shortest."""
        found = [self._search(choice) for choice in search_choices(terms, self._shell.caps.lines)]
        hits = [search for search in found if evidence & set(search.shown)]
        return sorted(hits, key=lambda s: (-len(evidence & set(s.shown)), len(s.shown)))

    def _blind_choices(self, terms: Sequence[tuple[str, int]]) -> Iterator[tuple[str, ...]]:
        """What a policy tries when it knows nothing more: the rarest word, narrowed by the next when it is common."""
        if not terms:
            return
        (rarest, count), rest = terms[0], terms[1:]
        yield (rarest,) if count <= self._shell.caps.lines or not rest else (rarest, rest[0][0])
        yield from ((term,) for term, _ in rest[:2])

    def _search(self, terms: tuple[str, ...]) -> Search:
        self._shell.turns_used = 0
        result = self._shell.run(f"grep {grep_args(terms)}")
        return Search(terms, result.text, cited_ids(result.text))


def _select(search: Search, evidence: Sequence[str]) -> ToolCall:
    return ToolCall("select", " ".join(i for i in dict.fromkeys(search.shown) if i in evidence))


def search_choices(terms: Sequence[tuple[str, int]], lines: int) -> list[tuple[str, ...]]:
    """The searches that the overview's terms suggest: words rare enough to show whole, then pairs of words."""
    few = terms[:MAX_TERMS]
    singles: list[tuple[str, ...]] = [(term,) for term, count in few if count <= lines]
    return singles + [(a, b) for (a, _), (b, _) in itertools.combinations(few, 2)]
