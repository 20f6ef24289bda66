"""A report with chosen text in every place, and a parser that tells a page's structure: for the report's tests."""

from __future__ import annotations

from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

from horma_rl.evaluation.rows import EpisodeRow
from horma_rl.viewer.data import Pair, ReportData, SystemRows

HOSTILE = "</script><script>alert(1)</script><img src=x onerror='alert(2)'>\"&\u202e\x1b[31m<|im_end|>"


class Outline(HTMLParser):
    """Counts elements and gathers text; remembers unbalanced tags and event-handler attributes."""

    VOID = frozenset({"meta", "link", "br", "img", "input"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.counts: dict[str, int] = {}
        self.text: list[str] = []
        self.stack: list[str] = []
        self.faults: list[str] = []
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.faults += [f"{tag} {name}" for name, _ in attrs if name.startswith("on")]
        self.urls += [value or "" for name, value in attrs if name in ("src", "href", "action")]
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        if not self.stack or self.stack.pop() != tag:
            self.faults.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def outline(page: str) -> Outline:
    parsed = Outline()
    parsed.feed(page)
    parsed.close()
    return parsed


def report_row(system: str, task: str, reward: float | None, category: str = "single") -> EpisodeRow:
    return EpisodeRow(
        system, task, "w", category, 0, ("D1:1",), ("D1:1",), reward, 0.5, 0.5, 0.5, False, 2, 3, {"grep": 1}, 0,
        "done", 12, 30, 0.1,
    )  # fmt: skip


def report_episode(task: str, reward: float | None, text: str = "plain", **changes: Any) -> Mapping[str, Any]:
    turn = {
        "response": text,
        "calls": [{"name": "grep", "args": text}],
        "observation": f"Ann: {text} [D1:1]",
        "ok": True,
    }
    made = {
        "task": task, "workspace": "w", "question": f"Why {text}?", "category": "single", "evidence": ["D1:1", "D1:2"],
        "selected": ["D1:1", "D9:9"], "reward": reward, "stop": "done", "error": None, "first_observation": text,
        "turns": [turn],
    }  # fmt: skip
    return {**made, **changes}


def report(text: str = "plain", **changes: Any) -> ReportData:
    values: dict[str, Any] = {
        "title": f"Run {text}", "given": text, "config_yaml": f"name: {text}", "seed": 1, "wall_s": 65.0,
        "before": SystemRows("before", text, [report_row("before", "a", 0.0), report_row("before", "b", 0.5, text)]),
        "after": SystemRows("after", text, [report_row("after", "a", 1.0), report_row("after", "b", 0.5, text)]),
        "baselines": [SystemRows(f"bm25 {text}", text, [report_row("b", "a", 0.25), report_row("b", "b", None, text)])],
        "metrics": [{"step": s, "reward": s / 10, "reward_std": 0.1, text: s * 2.0, "note": text} for s in range(6)],
        "pairs": [Pair(report_episode("a", 0.0, text), report_episode("a", 1.0, text), text)],
        "texts": {"w": {"D1:2": f"Bo: {text}"}},
        "facts": [("Data", text)],
    }  # fmt: skip
    return ReportData(**{**values, **changes})
