"""`report.html`: one static page, nothing fetched, that opens from disk; and `report.txt`, the same in plain text."""

from __future__ import annotations

import base64
import hashlib
import os
from importlib import resources
from pathlib import Path

from horma_rl.evaluation.metrics import compare, summarise
from horma_rl.viewer.charts import learning_curve, small_curves
from horma_rl.viewer.data import ReportData
from horma_rl.viewer.episodes import pair_block
from horma_rl.viewer.markup import Html, join, tag, trusted
from horma_rl.viewer.phases import phases, time_block
from horma_rl.viewer.tables import change_table, interval_text, number, stops_block, systems_table
from horma_rl.viewer.text import render_text

_CURVE_COLUMNS = frozenset({"step", "time", "reward", "reward_std"})


def write_report(path: Path, data: ReportData) -> None:
    """Write the page to `path`, and its plain-text form beside it with the suffix `.txt`. Each appears whole or not at
    all. Raises OSError when the folder cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for target, text in ((path, render_page(data)), (path.with_suffix(".txt"), render_text(data))):
        unfinished = target.with_name(f".{target.name}.tmp")
        unfinished.write_text(text, encoding="utf-8", errors="replace")
        os.replace(unfinished, target)


def render_page(data: ReportData) -> str:
    """The whole page as HTML."""
    sections = _sections(data)
    return render_document(
        data.title,
        tag("a", "Skip to the episodes", href="#episodes", class_="skip") if data.pairs else None,
        tag("main", _header(data, sections), [section_block(*section) for section in sections], footer()),
    )


def render_document(title: str, *body: Html | None) -> str:
    """A page that holds its style and its script, and may fetch nothing."""
    style, script = _asset("page.css"), _asset("page.js")
    # Even if markup from data ever slipped through, nothing but this very script may run and nothing be fetched.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", trusted(style)),
    )
    whole = tag("html", head, tag("body", body, tag("script", trusted(script))), lang="en")
    return f"<!doctype html>\n{whole}\n"


_Section = tuple[str, str, str, Html]
"""Anchor, heading, one line that says how to read it, and the content."""


def _sections(data: ReportData) -> list[_Section]:
    found: list[_Section] = []
    if data.before and data.after and data.before.rows and data.after.rows:
        lead = (
            "Mean Jaccard overlap of the selected turns with the annotated evidence, on the same tasks. The interval "
            "is a paired bootstrap over tasks; a change is coloured when it excludes zero."
        )
        found.append(("change", "Before and after", lead, change_table(data.before, data.after, data.seed)))
    if data.baselines or (data.after and data.after.rows):
        lead = "The same tasks under every system, best first. What each is given stands under its name."
        found.append(("systems", "Beside other retrievers", lead, systems_table(data)))
    curve = learning_curve(data.metrics)
    if curve:
        timed = {key for row in data.metrics for key in row if key.startswith(("time/", "tokens_per_s/"))}
        small = small_curves(data.metrics, _CURVE_COLUMNS | timed)
        content = join(tag("div", curve, class_="panel"), tag("div", small, class_="smalls") if small else None)
        found.append(("curve", "Learning curve", "Mean reward of the rollouts of each training step.", content))
    spent = phases(data.metrics)
    if spent:
        lead = "Seconds of all training steps; warm start and evaluation at the ends of the run are not among them."
        found.append(("time", "Where the time went", lead, time_block(spent)))
    own = [system for system in (data.before, data.after) if system and system.rows]
    if own:
        lead = (
            "A policy should end its episodes itself; caps that end them cost it nothing but are a sign of wandering."
        )
        found.append(("stops", "How episodes ended", lead, stops_block(own, data.seed)))
    if data.pairs:
        lead = "\u2605 lines cite gold evidence. Selections: \u2713 hit, \u2717 false, \u25cb missed."
        found.append(("episodes", "Episodes", lead, _episodes(data)))
    config = tag("details", tag("summary", "Show the resolved configuration"), tag("pre", data.config_yaml))
    found.append(("config", "Configuration", "Running this again with the same seed repeats the run.", config))
    return found


def section_block(anchor: str, heading: str, lead: str, content: Html) -> Html:
    """One section of a page."""
    return tag("section", tag("h2", heading), tag("p", lead, class_="lead"), content, id=anchor, class_=anchor)


def _header(data: ReportData, sections: list[_Section]) -> Html:
    facts = [("Seed", str(data.seed)), ("Wall time", duration(data.wall_s)), *data.facts]
    return tag(
        "header",
        tag("p", "horma-rl report", class_="eyebrow"),
        tag("h1", data.title),
        tag("p", tag("b", "The policy is given: "), data.given, class_="given") if data.given else None,
        _headline(data),
        tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts], class_="facts"),
        tag("nav", [tag("a", heading, href=f"#{anchor}") for anchor, heading, _, _ in sections], aria_label="Sections"),
    )


def _headline(data: ReportData) -> Html | None:
    if not data.after or not data.after.rows:
        return None
    if not data.before or not data.before.rows:
        summary = summarise(data.after.rows, data.seed)
        words = f"{data.after.name}: mean Jaccard, 95% {interval_text(summary.jaccard)}, {summary.jaccard.n} tasks"
        return tag("div", _figure(number(summary.jaccard.mean), words, "after"), class_="headline")
    comparison = compare(data.before.rows, data.after.rows, data.seed)
    delta = comparison.delta
    verdict = "same" if not delta.n or not delta.excludes_zero else "better" if delta.mean > 0 else "worse"
    change = f"{delta.mean:+.3f}" if delta.n else number(delta.mean)
    return tag(
        "div",
        _figure(number(comparison.before), f"{data.before.name}: mean Jaccard", "before"),
        _figure(number(comparison.after), f"{data.after.name}: mean Jaccard", "after"),
        _figure(change, f"change, 95% {interval_text(delta, signed=True)}, {delta.n} tasks", verdict),
        class_="headline",
    )


def _figure(value: str, words: str, kind: str) -> Html:
    return tag("div", tag("b", value), tag("span", words), class_=f"figure {kind}")


def _episodes(data: ReportData) -> Html:
    options = [("all", "All"), ("better", "Better"), ("same", "Same"), ("worse", "Worse")]
    both = any(pair.change is not None for pair in data.pairs)
    filters = [tag("button", text, type="button", data_show=key, aria_pressed=str(key == "all").lower())
               for key, text in options] if both else []  # fmt: skip
    unfold = tag("button", "Unfold all output", type="button", data_unfold=True, aria_pressed="false")
    blocks = [pair_block(number, pair, data.texts, data.pair_labels) for number, pair in enumerate(data.pairs, 1)]
    return join(tag("div", filters, unfold, class_="filters"), blocks)


def duration(seconds: float) -> str:
    """`42 s`, `7 min 3 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def footer() -> Html:
    """The last lines of a page."""
    return tag("footer", tag("p", "Made by horma-rl. This page fetches nothing and works offline."))


def _asset(name: str) -> str:
    return resources.files("horma_rl.viewer").joinpath(name).read_text(encoding="utf-8")
