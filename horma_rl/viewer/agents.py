"""The page of an evaluation of agents: a table of systems, the length of contexts by move, and a few state trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from horma_rl.evaluation.agents.metrics import Summary
from horma_rl.evaluation.bootstrap import Interval
from horma_rl.viewer.charts import interval_plot, system_lines
from horma_rl.viewer.markup import Html, join, tag
from horma_rl.viewer.report import footer, render_document, section_block
from horma_rl.viewer.tables import MISSING, interval_text, number

COUNTS = ("compressions", "faults", "revisions", "invalid", "malformed")
"""The columns of means over episodes."""


@dataclass(frozen=True)
class AgentReport:
    """What the page shows. `systems` in the order of the config; `differences` are to the first of them."""

    title: str
    facts: Sequence[tuple[str, str]]
    config_yaml: str
    systems: Mapping[str, Summary]
    differences: Mapping[str, Mapping[str, Interval]]
    unfinished: Mapping[str, int]
    contexts: Mapping[str, Sequence[float]]
    """System -> mean prompt tokens by step."""
    metrics: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    """System -> group -> the suite's own metrics."""
    trees: Sequence[tuple[str, str]] = field(default=())
    """What a tree is of, and its drawing as text."""


def render_agents(report: AgentReport) -> str:
    """The whole page as HTML."""
    sections = list(_sections(report))
    header = tag(
        "header",
        tag("p", "horma-rl report", class_="eyebrow"),
        tag("h1", report.title),
        tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in report.facts], class_="facts"),
        tag("nav", [tag("a", heading, href=f"#{anchor}") for anchor, heading, _, _ in sections], aria_label="Sections"),
    )
    return render_document(
        report.title, tag("main", header, [section_block(*section) for section in sections], footer())
    )


def _sections(report: AgentReport) -> list[tuple[str, str, str, Html]]:
    lead = (
        "Means over tasks, each the mean over its seeds, with 95% bootstrap intervals over tasks and seeds; the "
        "columns on the right are means over episodes. A change is to the first system, on the same tasks and seeds, "
        "and is coloured when its interval excludes zero."
    )
    found = [("systems", "Systems", lead, _systems_table(report))]
    chart = system_lines(report.contexts, "Mean prompt tokens", "move")
    if chart:
        lead = (
            "Tokens of the prompt at each move of the actor: the mean over the episodes that came so far. Where a line "
            "ends, the longest episode of that system ended."
        )
        found.append(("context", "Context length by move", lead, tag("div", chart, class_="panel")))
    families = _families_table(report)
    if families:
        found.append(("families", "By family", "Mean success (and progress) over episodes.", families))
    metrics = _metrics_table(report.metrics)
    if metrics:
        found.append(("metrics", "The benchmark's own metrics", "Over episodes, by group.", metrics))
    if report.trees:
        lead = "State trees of the first task, as they stood at the end."
        drawings = [join(tag("h3", title), tag("pre", text)) for title, text in report.trees]
        found.append(("tree", "Trees", lead, join(drawings)))
    config = tag("details", tag("summary", "Show the resolved configuration"), tag("pre", report.config_yaml))
    found.append(("config", "Configuration", "Running this again in the same folder plays what is missing.", config))
    return found


def _systems_table(report: AgentReport) -> Html:
    heads = [
        ("System", ""), ("Success", "num"), ("", "plot"), ("Change", "num"), ("Progress", "num"), ("Steps", "num"),
        ("Tokens a task", "num"), ("Most context", "num"), *((name.capitalize(), "num") for name in COUNTS),
        ("Unfinished", "num"), ("Episodes", "num"),
    ]  # fmt: skip
    header = tag("thead", tag("tr", [tag("th", text, scope="col", class_=kind or None) for text, kind in heads]))
    body = [_system_row(name, summary, report) for name, summary in report.systems.items()]
    table = tag("table", tag("caption", "All systems on the same tasks"), header, tag("tbody", body), class_="wide")
    return tag("div", table, class_="scroll")


def _system_row(name: str, summary: Summary, report: AgentReport) -> Html:
    means = summary.means
    return tag(
        "tr",
        tag("th", tag("span", name, class_="name"), scope="row"),
        _mean_cell(means["success"], 3),
        tag("td", interval_plot(means["success"], 0.0, 1.0, "other"), class_="plot"),
        _change_cell(report.differences.get(name, {}).get("success")),
        _mean_cell(means["progress"], 3),
        _mean_cell(means["steps"], 1),
        _mean_cell(means["tokens"], 0),
        _mean_cell(means["most_context"], 0),
        [_cell(number(summary.counts[count], 2)) for count in COUNTS],
        _cell(str(report.unfinished.get(name, 0))),
        _cell(str(summary.episodes)),
    )


def _families_table(report: AgentReport) -> Html | None:
    families = sorted({family for summary in report.systems.values() for family in summary.families})
    if len(families) < 2:
        return None
    header = tag("tr", tag("th", "System", scope="col"), [tag("th", f, scope="col", class_="num") for f in families])
    body = [
        tag("tr", tag("th", name, scope="row"), [_family_cell(summary.families.get(family)) for family in families])
        for name, summary in report.systems.items()
    ]
    caption = tag("caption", "Success and progress by family")
    return tag("div", tag("table", caption, tag("thead", header), tag("tbody", body)), class_="scroll")


def _metrics_table(metrics: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Html | None:
    rows = [(system, group, values) for system, groups in metrics.items() for group, values in groups.items()]
    names = list(dict.fromkeys(name for _, _, values in rows for name in values))
    if not rows:
        return None
    header = tag("tr", [tag("th", text, scope="col") for text in ("System", "Group", *names)])
    body = [
        tag("tr", tag("th", system, scope="row"), tag("td", group), [_metric_cell(values.get(name)) for name in names])
        for system, group, values in rows
    ]
    caption = tag("caption", "The benchmark's own metrics")
    return tag("div", tag("table", caption, tag("thead", header), tag("tbody", body)), class_="scroll")


def _metric_cell(value: float | None) -> Html:
    return _cell(MISSING if value is None else f"{value:g}")


def _family_cell(values: Mapping[str, Any] | None) -> Html:
    if values is None:
        return _cell(MISSING)
    return tag("td", tag("b", number(values["success"])), tag("small", number(values["progress"])), class_="num")


def _mean_cell(value: Interval, digits: int) -> Html:
    bounds = f"{value.low:,.{digits}f} to {value.high:,.{digits}f}" if value.n else MISSING
    mean = f"{value.mean:,.{digits}f}" if value.n else MISSING
    return tag("td", tag("b", mean), tag("small", bounds), class_="num")


def _change_cell(value: Interval | None) -> Html:
    if value is None or not value.n:
        return _cell(MISSING)
    verdict = "same" if not value.excludes_zero else "better" if value.mean > 0 else "worse"
    change = tag("span", f"{value.mean:+.3f}", class_=f"delta {verdict}")
    return tag("td", change, tag("small", interval_text(value, signed=True)), class_="num")


def _cell(text: str) -> Html:
    return tag("td", text, class_="num")
