"""Charts as inline SVG, drawn here: the learning curve, small curves of other metrics, lines of several systems, and
interval plots.

Text in an SVG shrinks with it, so the learning curve is drawn once for wide and once for narrow screens, and the style
sheet shows one of them. Colours come from the style sheet's classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from horma_rl.evaluation.bootstrap import Interval
from horma_rl.viewer.markup import Html, join, tag

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Frame:
    """The plotting area of an SVG of `width` x `height` pixels, and the data ranges it shows."""

    width: int
    height: int
    x: tuple[float, float]
    y: tuple[float, float]
    left: int = 40
    right: int = 12
    top: int = 12
    bottom: int = 34

    def at(self, x: float, y: float) -> Point:
        span_x, span_y = self.x[1] - self.x[0] or 1.0, self.y[1] - self.y[0] or 1.0
        inner_w, inner_h = self.width - self.left - self.right, self.height - self.top - self.bottom
        return (
            round(self.left + (x - self.x[0]) / span_x * inner_w, 1),
            round(self.height - self.bottom - (y - self.y[0]) / span_y * inner_h, 1),
        )


def learning_curve(metrics: Sequence[Mapping[str, Any]]) -> Html | None:
    """Reward per step with its moving average and a band of one standard deviation; None below two steps."""
    rows = [row for row in metrics if _is_number(row.get("reward")) and _is_number(row.get("step"))]
    if len(rows) < 2:
        return None
    steps = [float(row["step"]) for row in rows]
    rewards = [float(row["reward"]) for row in rows]
    window = max(2, round(len(rows) / 12))
    average = moving_average(rewards, window)
    spread = [float(row["reward_std"]) if _is_number(row.get("reward_std")) else 0.0 for row in rows]
    curve = _Curve(steps, rewards, average, spread)
    label = (
        f"Reward over {len(rows)} training steps: moving average {average[min(window, len(average)) - 1]:.3f} at the "
        f"start, {average[-1]:.3f} at the end."
    )
    charts = [_draw(curve, label, *size) for size in (("wide", 960, 320), ("narrow", 380, 260))]
    keys = [("key raw", "reward of a step"), ("key average", f"mean of the last {window} steps")]
    keys += [("key band", "one standard deviation between rollouts")] if any(spread) else []
    legend = tag("p", [tag("span", text, class_=name) for name, text in keys], class_="legend")
    return join(charts, legend)


def moving_average(values: Sequence[float], window: int) -> list[float]:
    """The mean of the last `window` values at each place (of fewer at the start)."""
    return [math.fsum(values[max(0, i + 1 - window) : i + 1]) / min(window, i + 1) for i in range(len(values))]


def small_curves(metrics: Sequence[Mapping[str, Any]], without: frozenset[str]) -> list[Html]:
    """A small curve for every other metric that has at least two different numbers, in order of appearance."""
    names = dict.fromkeys(key for row in metrics for key in row if key not in without)
    curves = []
    for name in names:
        points = [
            (float(row["step"]), float(row[name]))
            for row in metrics
            if _is_number(row.get(name)) and _is_number(row.get("step"))
        ]
        if len({value for _, value in points}) >= 2:
            curves.append(_small_curve(name, points))
    return curves


SERIES = 10
"""Lines that the style sheet can tell apart; further ones take the colours of the first again."""


def system_lines(series: Mapping[str, Sequence[float]], what: str, unit: str) -> Html | None:
    """A line a system: entry i of a series is its value at `unit` i + 1, and `what` names it. None below two."""
    drawn = {name: values for name, values in series.items() if len(values) >= 2}
    if not drawn:
        return None
    longest = max(len(values) for values in drawn.values())
    highest = max(max(values) for values in drawn.values())
    ends = [f"{name} from {line[0]:,.0f} to {line[-1]:,.0f} at {unit} {len(line)}" for name, line in drawn.items()]
    label = f"{what} by {unit}: {'; '.join(ends)}."
    charts = []
    for size, width, height in (("wide", 960, 360), ("narrow", 380, 300)):
        frame = _Frame(width, height, (1, longest), (0.0, _nice_ceiling(max(highest, 1.0))), left=52)
        lines = [
            tag(
                "polyline",
                points=_points([frame.at(place, value) for place, value in enumerate(values, 1)]),
                class_=f"series series-{index % SERIES}",
            )
            for index, values in enumerate(drawn.values())
        ]
        shape = {"viewBox": f"0 0 {width} {height}", "role": "img", "class_": f"chart {size}"}
        charts.append(tag("svg", tag("title", label), _axes(frame, unit), lines, aria_label=label, **shape))
    keys = [tag("span", name, class_=f"key series-{index % SERIES}") for index, name in enumerate(drawn)]
    return join(charts, tag("p", keys, class_="legend"))


def interval_plot(interval: Interval, low: float, high: float, kind: str) -> Html:
    """A dot with its interval on a line from `low` to `high`; a tick marks zero where it is inside the range."""
    width, height = 160, 20
    frame = _Frame(width, height, (low, high), (0.0, 1.0), left=6, right=6, top=0, bottom=0)
    zero = frame.at(0.0, 0.5)[0]
    middle = height / 2
    parts: list[Html] = [tag("line", x1=6, x2=width - 6, y1=middle, y2=middle, class_="rail")]
    if low <= 0 <= high:
        parts.append(tag("line", x1=zero, x2=zero, y1=3, y2=height - 3, class_="zero"))
    if interval.n:
        left, right = frame.at(max(low, interval.low), 0)[0], frame.at(min(high, interval.high), 0)[0]
        parts.append(tag("line", x1=left, x2=right, y1=middle, y2=middle, class_="whisker"))
        parts.append(tag("circle", cx=frame.at(interval.mean, 0)[0], cy=middle, r=4, class_="dot"))
    return tag("svg", parts, viewBox=f"0 0 {width} {height}", class_=f"interval {kind}", aria_hidden="true")


@dataclass(frozen=True, slots=True)
class _Curve:
    """Four series of the same length [steps]."""

    steps: Sequence[float]
    rewards: Sequence[float]
    average: Sequence[float]
    spread: Sequence[float]

    def frame(self, width: int, height: int) -> _Frame:
        highest = max(reward + std for reward, std in zip(self.rewards, self.spread, strict=True))
        top = _nice_ceiling(max(highest, 0.05))
        if max(self.rewards) <= 1:
            top = min(top, 1.0)
        return _Frame(width, height, (min(self.steps), max(self.steps)), (min(0.0, *self.rewards), top))

    def band(self, frame: _Frame) -> list[Point]:
        rows = list(zip(self.steps, self.rewards, self.spread, strict=True))
        upper = [frame.at(x, min(y + std, frame.y[1])) for x, y, std in rows]
        return upper + [frame.at(x, max(y - std, frame.y[0])) for x, y, std in reversed(rows)]


def _draw(curve: _Curve, label: str, name: str, width: int, height: int) -> Html:
    frame = curve.frame(width, height)
    raw = [frame.at(x, y) for x, y in zip(curve.steps, curve.rewards, strict=True)]
    smooth = [frame.at(x, y) for x, y in zip(curve.steps, curve.average, strict=True)]
    dots = [
        tag("circle", tag("title", f"step {step:g}: reward {reward:.3f}"), cx=x, cy=y, r=2)
        for step, reward, (x, y) in zip(curve.steps, curve.rewards, raw, strict=True)
    ]
    return tag(
        "svg",
        tag("title", label),
        _axes(frame, "step"),
        tag("polygon", points=_points(curve.band(frame)), class_="band") if any(curve.spread) else None,
        tag("polyline", points=_points(raw), class_="raw"),
        tag("g", dots, class_="raw-dots"),
        tag("polyline", points=_points(smooth), class_="average"),
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_label=label,
        class_=f"chart {name}",
    )


def _axes(frame: _Frame, unit: str) -> Html:
    parts: list[Html] = []
    for value in _ticks(*frame.y, 4):
        x, y = frame.at(frame.x[0], value)
        parts.append(tag("line", x1=x, x2=frame.width - frame.right, y1=y, y2=y, class_="grid"))
        parts.append(tag("text", f"{value:g}", x=x - 6, y=y + 4, text_anchor="end"))
    for value in _ticks(*frame.x, 8 if frame.width > 500 else 4):
        x, y = frame.at(value, frame.y[0])
        parts.append(tag("text", f"{value:g}", x=x, y=y + 18, text_anchor="middle"))
    middle = (frame.left + frame.width - frame.right) / 2
    parts.append(tag("text", unit, x=middle, y=frame.height - 4, text_anchor="middle", class_="axis-name"))
    return tag("g", parts, class_="axes")


def _small_curve(name: str, points: Sequence[Point]) -> Html:
    values = [value for _, value in points]
    frame = _Frame(200, 56, (points[0][0], points[-1][0]), (min(values), max(values)), left=2, right=2, top=4, bottom=4)
    line = tag("polyline", points=_points([frame.at(x, y) for x, y in points]), class_="average")
    text = f"{values[0]:.3g} \u2192 {values[-1]:.3g}"
    svg = tag("svg", line, viewBox="0 0 200 56", class_="spark", aria_hidden="true", preserveAspectRatio="none")
    return tag("figure", tag("figcaption", tag("b", name), tag("span", text)), svg, class_="small")


def _ticks(low: float, high: float, about: int) -> list[float]:
    """Round numbers from `low` to `high`, about `about` of them."""
    if high <= low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 10) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _nice_ceiling(value: float) -> float:
    step = next(s for s in (0.05, 0.1, 0.2, 0.5, 1.0, 10.0, 100.0, math.inf) if value <= s * 5)
    return value if math.isinf(step) else math.ceil(value / step) * step


def _points(points: Sequence[Point]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
