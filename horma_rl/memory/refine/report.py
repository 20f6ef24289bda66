"""The table and the curve of a refinement, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_BAR = 30
_COLUMNS = (
    ("round", 5), ("memory", 8), ("95% interval", 16), ("change", 8), ("exo", 5), ("endo", 5), ("skills", 7),
    ("notes", 7), ("tokens", 10), ("kept", 5),
)  # fmt: skip


def render_report(name: str, rounds: Sequence[Mapping[str, Any]]) -> str:
    """One line a round, then the curve of scores with raw history beside it."""
    control = rounds[-1]["scores"]["control"]
    lines = [f"{name}: mean score over {control['n']} tasks", ""]
    lines.append("".join(title.rjust(width) for title, width in _COLUMNS))
    lines += [_line(one) for one in rounds]
    lines += ["", "control (raw history without limit): " + _interval(control), ""]
    lines += [_bar(f"round {one['round']}", one["scores"]["memory"]["mean"]) for one in rounds]
    lines.append(_bar("control", control["mean"]))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _line(one: Mapping[str, Any]) -> str:
    scores, pairs = one["scores"], one.get("pairs", {})
    change = scores["change"]["mean"] if scores["change"] else None
    memory = scores["memory"]
    cells = (
        str(one["round"]),
        _number(memory["mean"]),
        _bounds(memory),
        "" if change is None else f"{change:+.3f}",
        str(pairs.get("exogenous", "")),
        str(pairs.get("endogenous", "")),
        str(one["skills"]["active"]),
        str(one["memory"]["notes"]),
        str(int(sum(role.get("tokens", 0) for role in one["spent"].values()))),
        "yes" if one["kept"] else "no",
    )
    return "".join(cell.rjust(width) for cell, (_, width) in zip(cells, _COLUMNS, strict=True))


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _bounds(interval: Mapping[str, Any]) -> str:
    low, high = interval["ci95"]
    return "" if low is None else f"{low:.3f}-{high:.3f}"


def _interval(interval: Mapping[str, Any]) -> str:
    return f"{_number(interval['mean'])} ({_bounds(interval)})"


def _bar(label: str, value: float | None) -> str:
    filled = 0 if value is None else round(value * _BAR)
    return f"{label:<9}{'#' * filled:<{_BAR}} {_number(value)}"
