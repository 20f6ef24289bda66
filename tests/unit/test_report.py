"""The report page and its parts, without a browser: structure, escaping, marks, choice of episodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from horma_rl.evaluation.bootstrap import Interval
from horma_rl.viewer.charts import interval_plot, learning_curve, moving_average, small_curves
from horma_rl.viewer.data import Pair, ReportData, choose_pairs
from horma_rl.viewer.episodes import free_text, mark_line
from horma_rl.viewer.markup import join, tag, visible
from horma_rl.viewer.report import duration, render_page, write_report
from tests.report_parts import HOSTILE, outline, report, report_episode

GOLD, SELECTED = frozenset({"D1:1", "D1:2"}), frozenset({"D1:1", "D9:9"})


def test_strings_are_text_and_only_tag_makes_markup() -> None:
    assert tag("p", "<b>", tag("i", "x & y"), None, ["a", ["b"]]) == "<p>&lt;b&gt;<i>x &amp; y</i>ab</p>"
    assert tag("a", class_='"><script>', data_x=True, hidden=False, title=None) == (
        '<a class="&quot;&gt;&lt;script&gt;" data-x></a>'
    )
    assert join("<", tag("br")) == "&lt;<br>"


def test_characters_that_act_without_markup_become_visible() -> None:
    assert visible("a\x1b\u202eb\x00\ud800") == "a\u241b\u27e8U+202E\u27e9b\u2400\u27e8U+D800\u27e9"
    assert visible("tab\tand\nnewline \u00e9 \U0001f600") == "tab\tand\nnewline \u00e9 \U0001f600"


def test_hostile_text_everywhere_leaves_the_structure_alone() -> None:
    plain, hostile = outline(render_page(report())), outline(render_page(report(HOSTILE)))
    assert hostile.counts == plain.counts
    assert hostile.faults == []
    assert hostile.stack == []
    assert "<script>alert(1)</script>" in "".join(hostile.text)
    assert "img" not in hostile.counts


def test_the_page_fetches_nothing_and_only_its_own_script_may_run() -> None:
    page = render_page(report(HOSTILE))
    assert all(url.startswith(("#", "data:")) for url in outline(page).urls)
    assert "default-src &#x27;none&#x27;" in page
    assert "script-src &#x27;sha256-" in page
    assert outline(page).counts["script"] == 1


def test_page_shows_the_figures() -> None:
    text = " ".join(outline(render_page(report())).text)
    for part in ("0.250", "0.750", "+0.500", "1 min 5 s", "Gold evidence: D1:1, D1:2", "missed", "false selection"):
        assert part in text


def test_one_system_alone_and_nothing_at_all_still_make_a_page() -> None:
    alone = outline(render_page(report(before=None, pairs=[Pair(None, report_episode("a", 1.0))])))
    assert alone.faults == []
    assert alone.counts["article"] == 1
    bare = ReportData("empty", "", "", 0, 0.0)
    assert outline(render_page(bare)).faults == []


def test_both_files_are_written_whole(tmp_path: Path) -> None:
    write_report(tmp_path / "new" / "report.html", report("lone \ud800 surrogate"))
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["report.html", "report.txt"]
    text = (tmp_path / "new" / "report.txt").read_text(encoding="utf-8")
    for part in ("category", "+0.500", "* Ann: lone", "+ D1:1", "x D9:9", "o D1:2 Bo: lone"):
        assert part in text


def test_lines_are_marked_by_the_ids_they_cite() -> None:
    assert mark_line("nothing here", GOLD, SELECTED) == '<span class="line">nothing here</span>'
    hit, missed, false = (mark_line(f"x [{i}]", GOLD, SELECTED) for i in ("D1:1", "D1:2", "D9:9"))
    assert 'class="line gold"' in hit
    assert '<b class="id hit">D1:1</b>' in hit
    assert '<b class="id miss">D1:2</b>' in missed
    assert 'class="line"' in false
    assert '<b class="id false">D9:9</b>' in false


def test_an_id_inside_a_longer_one_is_not_marked() -> None:
    assert "id hit" not in mark_line("[D1:11] [XD1:1]", GOLD, SELECTED)
    assert "gold" not in mark_line("[D1:11] [XD1:1]", GOLD, SELECTED)


def test_model_text_is_shown_without_its_calls() -> None:
    response = 'I look.\n<tool_call>\n{"name": "grep"}\n</tool_call><|im_end|>'
    assert free_text(response) == "I look."
    assert free_text("<tool_call>{broken") == ""


def test_an_unreadable_call_is_shown_as_written() -> None:
    turn = {"response": "<tool_call>{broken", "calls": [{"error": "no JSON"}], "observation": "no JSON", "ok": False}
    page = render_page(report(pairs=[Pair(None, report_episode("a", 0.0, turns=[turn]))]))
    assert '<code class="command unreadable">&lt;tool_call&gt;{broken</code>' in page


def test_pairs_show_losses_as_well_as_gains() -> None:
    before = [report_episode(f"t{i}", 0.5) for i in range(40)]
    after = [report_episode(f"t{i}", 1.0 if i < 10 else 0.0 if i < 20 else 0.5) for i in range(40)]
    pairs = choose_pairs(before, after, count=10, seed=1)
    changes = [pair.change for pair in pairs]
    assert len(pairs) == 10
    assert changes[:7] == [0.5] * 4 + [-0.5] * 3
    assert len({pair.after["task"] for pair in pairs if pair.after}) == 10
    assert pairs == choose_pairs(before, after, count=10, seed=1)
    assert pairs != choose_pairs(before, after, count=10, seed=2)


def test_pairs_with_one_side_or_few_tasks() -> None:
    assert [pair.before for pair in choose_pairs([], [report_episode("a", 1.0)])] == [None]
    assert choose_pairs([report_episode("a", None)], [report_episode("a", 1.0)])[0].change is None
    assert choose_pairs([report_episode("gone", 1.0)], [report_episode("a", 1.0)])[0].before is None
    assert choose_pairs([], []) == []


def test_moving_average_trails() -> None:
    assert moving_average([1.0, 3.0, 5.0, 7.0], 2) == [1.0, 2.0, 4.0, 6.0]


@pytest.mark.parametrize("rewards", [[0.2], [], [None, 0.3], [float("nan"), 0.3], ["x", True]])
def test_no_curve_without_two_numbers(rewards: list[Any]) -> None:
    assert learning_curve([{"step": i, "reward": reward} for i, reward in enumerate(rewards)]) is None


def test_curves_stay_inside_their_frame() -> None:
    metrics = [{"step": i, "reward": r, "reward_std": 0.6} for i, r in enumerate((0.0, 1.0, 0.5, 0.9))]
    curve = learning_curve(metrics)
    assert curve is not None
    points = curve.split('points="')[1].split('"')[0].split()
    assert all(40 <= float(x) <= 948 and 12 <= float(y) <= 286 for x, y in (point.split(",") for point in points))


def test_small_curves_skip_constants_and_texts() -> None:
    metrics = [{"step": i, "kl": i * 0.1, "lr": 1e-4, "name": "x", "flag": bool(i)} for i in range(3)]
    (only,) = small_curves(metrics, frozenset({"step"}))
    assert "<b>kl</b>" in only


def test_interval_plot_marks_zero_only_inside_its_range() -> None:
    assert 'class="zero"' in interval_plot(Interval(0.1, 0.0, 0.2, 5), -1.0, 1.0, "own")
    assert 'class="zero"' not in interval_plot(Interval(0.6, 0.5, 0.7, 5), 0.5, 1.0, "own")
    nothing = Interval(float("nan"), float("nan"), float("nan"), 0)
    assert "nan" not in interval_plot(nothing, 0.0, 1.0, "own")


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (59.6, "1 min 0 s"), (3599.0, "59 min 59 s"), (7500, "2 h 5 min")]
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words
