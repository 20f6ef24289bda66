"""Where a run's time went: a bar of the phases of all its steps, and a table of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from horma_rl.viewer.markup import Html, join, tag

WITHIN = {"environment": "rollout"}
"""Phases that are a part of another one's time."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase over all steps: seconds, their share of the whole, and tokens a second (None where it has none)."""

    name: str
    seconds: float
    share: float
    tokens_per_s: float | None


def phases(metrics: Sequence[Mapping[str, Any]]) -> list[Phase]:
    """The phases of a metrics log that took any time, longest first, each followed by its part. Empty without any."""
    names = dict.fromkeys(found[1] for row in metrics for key in row if (found := re.fullmatch(r"time/(\w+)_s", key)))
    seconds = {name: sum(row.get(f"time/{name}_s") or 0.0 for row in metrics) for name in names}
    whole = sum(value for name, value in seconds.items() if name not in WITHIN)
    if not whole:
        return []
    ranked = sorted((n for n in names if n not in WITHIN and seconds[n] > 0), key=lambda n: -seconds[n])
    parts = [part for name in ranked for part in (name, *(p for p in seconds if WITHIN.get(p) == name))]
    return [Phase(name, seconds[name], seconds[name] / whole, _speed(metrics, name, seconds[name])) for name in parts]


def time_block(found: Sequence[Phase]) -> Html:
    """The bar and the table of `phases`."""
    own = [phase for phase in found if phase.name not in WITHIN]
    bar = tag(
        "div",
        [
            tag("span", class_=f"segment phase-{p.name}", style=f"width:{100 * p.share:.2f}%", aria_hidden="true")
            for p in own
        ],
        class_="bar",
    )
    key = tag("ul", [tag("li", tag("i", class_=f"phase-{p.name}", aria_hidden="true"), p.name) for p in own],
              class_="bar-key")  # fmt: skip
    header = tag("tr", [tag("th", text, scope="col", class_=kind or None) for text, kind in
                        (("Phase", ""), ("Seconds", "num"), ("Share", "num"), ("Tokens/s", "num"))])  # fmt: skip
    rows = [
        tag(
            "tr",
            tag("th", _label(phase), scope="row"),
            [tag("td", text, class_="num") for text in _numbers(phase)],
        )
        for phase in found
    ]
    caption = "Seconds of all training steps by phase"
    table = tag("table", tag("caption", caption), tag("thead", header), tag("tbody", rows))
    return join(bar, key, tag("div", table, class_="scroll", role="region", aria_label=caption, tabindex=0))


def time_lines(found: Sequence[Phase]) -> list[str]:
    """The table of `phases` in plain text."""
    lines = [f"{'training time':<24}{'seconds':>9}{'share':>8}{'tokens/s':>10}"]
    for phase in found:
        seconds, share, speed = _numbers(phase)
        lines.append(f"{_label(phase):<24}{seconds:>9}{share:>8}{speed:>10}")
    return lines


def _label(phase: Phase) -> str:
    return f"of which {phase.name}" if phase.name in WITHIN else phase.name


def _numbers(phase: Phase) -> tuple[str, str, str]:
    speed = "" if phase.tokens_per_s is None else f"{phase.tokens_per_s:,.0f}"
    return f"{phase.seconds:,.1f}", f"{phase.share:.0%}", speed


def _speed(metrics: Sequence[Mapping[str, Any]], name: str, seconds: float) -> float | None:
    """Tokens a second over all steps. Each row has the speed of its own seconds."""
    key = f"tokens_per_s/{name}"
    rows = [row for row in metrics if row.get(key) is not None]
    if not rows or not seconds:
        return None
    return float(sum(row[key] * row[f"time/{name}_s"] for row in rows)) / seconds
