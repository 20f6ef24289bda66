"""The report in plain text, for terminals, mail and diffs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from horma_rl.evaluation.metrics import OVERALL, by_category, compare_by_category, summarise
from horma_rl.viewer.data import Episode, Pair, ReportData
from horma_rl.viewer.episodes import call_text, id_kind, reward_text
from horma_rl.viewer.markup import visible
from horma_rl.viewer.phases import phases, time_lines
from horma_rl.viewer.tables import compared_systems, interval_text, number, sort_key

_SHOWN_LINES = 12
_MARKS = {"hit": "+", "false": "x", "miss": "o"}


def render_text(data: ReportData) -> str:
    """The report's tables and episodes, at most about 120 columns wide."""
    return "\n".join(line.rstrip() for line in _lines(data)) + "\n"


def _lines(data: ReportData) -> Iterator[str]:
    yield visible(data.title)
    yield "=" * len(data.title)
    if data.given:
        yield f"The policy is given: {visible(data.given)}"
    yield f"Seed {data.seed}, wall time {data.wall_s:.0f} s"
    yield from (f"{name}: {visible(value)}" for name, value in data.facts)
    if data.before and data.after and data.before.rows and data.after.rows:
        yield ""
        yield from _change(data)
    yield ""
    yield from _systems(data)
    if spent := phases(data.metrics):
        yield from ("", *time_lines(spent))
    if data.pairs:
        yield from ("", "Episodes (* gold line, + hit, x false selection, o missed)")
    for place, pair in enumerate(data.pairs, 1):
        yield ""
        yield from _pair(place, pair, data.texts, data.pair_labels)


def _change(data: ReportData) -> Iterator[str]:
    assert data.before is not None
    assert data.after is not None
    yield f"{'category':<18}{'tasks':>6}{'before':>9}{'after':>9}{'change':>9}  95% interval"
    for name, comparison in compare_by_category(data.before.rows, data.after.rows, data.seed).items():
        delta = comparison.delta
        change = f"{delta.mean:+.3f}" if delta.n else number(delta.mean)
        yield (
            f"{visible(name):<18}{delta.n:>6}{number(comparison.before):>9}{number(comparison.after):>9}{change:>9}  "
            f"{interval_text(delta, signed=True)}"
        )


def _systems(data: ReportData) -> Iterator[str]:
    totals = [(system, by_category(system.rows, data.seed)[OVERALL]) for system in compared_systems(data)]
    if not totals:
        return
    yield f"{'system':<28}{'jaccard':>8}  {'95% interval':<17}{'prec':>6}{'recall':>7}{'exact':>6}  given"
    for system, total in sorted(totals, key=lambda item: sort_key(item[1]), reverse=True):
        yield (
            f"{visible(system.name):<28}{number(total.jaccard.mean):>8}  {interval_text(total.jaccard):<17}"
            f"{number(total.precision, 2):>6}{number(total.recall, 2):>7}{number(total.exact, 2):>6}  "
            f"{visible(system.given)}"
        )
    own = [(side.name, summarise(side.rows, data.seed, 1)) for side in (data.before, data.after) if side and side.rows]
    for name, summary in own:
        yield f"{visible(name)} ended by: " + ", ".join(f"{stop} {count}" for stop, count in summary.stops.items())


def _pair(place: int, pair: Pair, texts: Mapping[str, Mapping[str, str]], labels: tuple[str, str]) -> Iterator[str]:
    episode = pair.after or pair.before
    assert episode is not None
    yield f"{place}. {visible(episode['question'])}"
    evidence = ", ".join(episode["evidence"]) or "none"
    yield f"   {episode['task']}, {episode.get('category') or 'no category'}; evidence {evidence}"
    for name, side in zip(labels, (pair.before, pair.after), strict=True):
        if side is not None:
            yield from _episode(name, side, texts.get(str(side["workspace"]), {}))


def _episode(name: str, episode: Episode, turns: Mapping[str, str]) -> Iterator[str]:
    yield f"   -- {name}: Jaccard {reward_text(episode)}, ended by {episode['stop']}"
    evidence, selected = frozenset(episode["evidence"]), frozenset(episode["selected"])
    for turn in episode["turns"]:
        yield from (f"      $ {visible(call_text(call))}" for call in turn["calls"] if "name" in call)
        if not all("name" in call for call in turn["calls"]) or not turn["calls"]:
            yield f"      ! unreadable: {visible(turn['response'])[:100]!r}"
        yield from _output(turn, evidence)
    for turn_id in [*episode["selected"], *(i for i in episode["evidence"] if i not in selected)]:
        yield f"      {_MARKS[id_kind(turn_id, evidence, selected)]} {turn_id} {visible(turns.get(turn_id, ''))}"


def _output(turn: Mapping[str, Any], evidence: frozenset[str]) -> Iterator[str]:
    lines: Sequence[str] = turn["observation"].split("\n") if turn["observation"] else []
    for line in lines[:_SHOWN_LINES]:
        gold = any(turn_id in line for turn_id in evidence)
        yield f"      {'*' if gold else '|'} {visible(line)[:110]}"
    if len(lines) > _SHOWN_LINES:
        yield f"      | ... {len(lines) - _SHOWN_LINES} more lines"
