"""The report's tables: before and after by category, every system side by side, and how episodes ended."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from horma_rl.evaluation.bootstrap import Interval
from horma_rl.evaluation.metrics import OVERALL, Comparison, Summary, by_category, compare_by_category
from horma_rl.viewer.charts import interval_plot
from horma_rl.viewer.data import ReportData, SystemRows
from horma_rl.viewer.markup import Html, join, tag

MISSING = "\u2013"


def change_table(before: SystemRows, after: SystemRows, seed: int) -> Html:
    """Mean Jaccard by category before and after, the paired difference, and its interval."""
    comparisons = compare_by_category(before.rows, after.rows, seed)
    reach = max((abs(x) for c in comparisons.values() if c.delta.n for x in (c.delta.low, c.delta.high)), default=0.0)
    reach = max(reach, 0.05)
    header = _header(
        ("Category", ""), (before.name, "num"), (after.name, "num"), ("Change", "num"), ("95% interval", "num"),
        ("", "plot"), ("Tasks", "num"),
    )  # fmt: skip
    body = [_change_row(name, comparison, reach) for name, comparison in comparisons.items()]
    return _table(header, body, "Mean Jaccard by category, before and after")


def systems_table(data: ReportData) -> Html:
    """Every system of the report, best first: mean Jaccard with its interval, categories, and what it cost."""
    systems = list(compared_systems(data))
    summaries = {id(system): by_category(system.rows, data.seed) for system in systems}
    categories = list(dict.fromkeys(name for parts in summaries.values() for name in parts if name != OVERALL))
    systems.sort(key=lambda system: sort_key(summaries[id(system)][OVERALL]), reverse=True)
    header = _header(
        ("System", ""), ("Jaccard", "num"), ("", "plot"), *((name, "num") for name in categories),
        ("Precision", "num"), ("Recall", "num"), ("Exact", "num"), ("Commands", "num"), ("C_t tokens", "num"),
    )  # fmt: skip
    own = {id(data.before), id(data.after)}
    body = [
        _system_row(
            s, "given as above" if s.given == data.given else s.given, summaries[id(s)], categories, id(s) in own
        )
        for s in systems
    ]
    return _table(header, body, "All systems on the same tasks", "wide")


def compared_systems(data: ReportData) -> list[SystemRows]:
    """The systems of a report that have rows, the trained ones first."""
    return [s for s in (data.after, data.before, *data.baselines) if s is not None and s.rows]


def sort_key(summary: Summary) -> float:
    """The mean, with systems that were never scored last."""
    return summary.jaccard.mean if summary.jaccard.n else -1.0


def stops_block(systems: Sequence[SystemRows], seed: int) -> Html:
    """How episodes of each system ended, with turns, commands and refused commands."""
    parts = []
    for system in systems:
        summary = by_category(system.rows, seed, resamples=1)[OVERALL]
        facts = (
            f"{number(summary.turns, 1)} turns, {number(summary.commands, 1)} commands an episode; "
            f"{100 * summary.invalid_rate:.1f}% of commands refused"
        )
        unscored = f"; {summary.unscored} episodes could not be scored" if summary.unscored else ""
        parts.append(
            tag(
                "div",
                tag("h3", system.name),
                _stacked_bar(summary.stops),
                tag("p", facts + unscored, class_="note"),
                class_="ending",
            )
        )
    return tag("div", parts, class_="endings")


def number(value: float, digits: int = 3) -> str:
    """`0.302`, or a dash for NaN."""
    return MISSING if math.isnan(value) else f"{value:.{digits}f}"


def interval_text(interval: Interval, signed: bool = False) -> str:
    """`0.264 to 0.341`, or a dash when there is nothing to average."""
    form = "+.3f" if signed else ".3f"
    return f"{interval.low:{form}} to {interval.high:{form}}" if interval.n else MISSING


def _change_row(name: str, comparison: Comparison, reach: float) -> Html:
    delta = comparison.delta
    verdict = "same"
    if delta.n and delta.excludes_zero:
        verdict = "better" if delta.mean > 0 else "worse"
    return tag(
        "tr",
        tag("th", "All categories" if name == OVERALL else name, scope="row"),
        _number_cell(number(comparison.before)),
        _number_cell(number(comparison.after)),
        _number_cell(f"{delta.mean:+.3f}" if delta.n else MISSING, f"delta {verdict}"),
        _number_cell(interval_text(delta, signed=True), "quiet"),
        tag("td", interval_plot(delta, -reach, reach, verdict), class_="plot"),
        _number_cell(str(delta.n)),
        class_="total" if name == OVERALL else None,
    )


def _system_row(
    system: SystemRows, given: str, parts: Mapping[str, Summary], categories: Sequence[str], highlighted: bool
) -> Html:
    total = parts[OVERALL]
    nan = float("nan")
    by_name = [_number_cell(number(parts[name].jaccard.mean if name in parts else nan)) for name in categories]
    return tag(
        "tr",
        tag("th", tag("span", system.name, class_="name"), tag("small", given), scope="row"),
        tag("td", tag("b", number(total.jaccard.mean)), tag("small", interval_text(total.jaccard)), class_="num"),
        tag("td", interval_plot(total.jaccard, 0.0, 1.0, "own" if highlighted else "other"), class_="plot"),
        by_name,
        _number_cell(number(total.precision)),
        _number_cell(number(total.recall)),
        _number_cell(number(total.exact)),
        _number_cell(number(total.commands, 1) if any(row.commands for row in system.rows) else MISSING),
        _number_cell(number(total.context_tokens, 0)),
        class_="own" if highlighted else None,
    )


def _stacked_bar(stops: Mapping[str, int]) -> Html:
    total = sum(stops.values()) or 1
    ranked = sorted(stops.items(), key=lambda item: -item[1])
    segments = [
        tag("span", class_=f"segment stop-{_slug(name)}", style=f"width:{100 * count / total:.2f}%", aria_hidden="true")
        for name, count in ranked
    ]
    labels = [
        tag("li", tag("i", class_=f"stop-{_slug(name)}", aria_hidden="true"), f"{name} {100 * count / total:.0f}%")
        for name, count in ranked
    ]
    return join(tag("div", segments, class_="bar"), tag("ul", labels, class_="bar-key"))


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() and c.isascii() else "-" for c in name)


def _header(*cells: tuple[str, str]) -> Html:
    empty = [tag("td", class_=kind or None) if not text else tag("th", text, scope="col", class_=kind or None)
             for text, kind in cells]  # fmt: skip
    return tag("thead", tag("tr", empty))


def _number_cell(text: str, kind: str = "") -> Html:
    return tag("td", text, class_=f"num {kind}".rstrip())


def _table(header: Html, body: Sequence[Html], caption: str, kind: str | None = None) -> Html:
    table = tag("table", tag("caption", caption), header, tag("tbody", body), class_=kind)
    return tag("div", table, class_="scroll", role="region", aria_label=caption, tabindex=0)
