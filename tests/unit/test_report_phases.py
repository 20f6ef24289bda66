"""Where the time went, from a metrics log to the report."""

from __future__ import annotations

from horma_rl.viewer.data import ReportData
from horma_rl.viewer.phases import phases, time_block
from horma_rl.viewer.report import render_page
from horma_rl.viewer.text import render_text
from tests.report_parts import outline

METRICS = [
    {"step": 1, "reward": 0.1, "turns": 2.0, "time/rollout_s": 1.0, "time/environment_s": 0.5, "time/update_s": 5.0,
     "time/sync_s": 0.0, "time/other_s": 0.0, "tokens_per_s/rollout": 100.0},
    {"step": 2, "reward": 0.2, "turns": 3.0, "time/rollout_s": 3.0, "time/environment_s": 0.5, "time/update_s": 1.0,
     "time/sync_s": 0.0, "time/other_s": 2.0, "tokens_per_s/rollout": 20.0},
]  # fmt: skip


def test_phases_are_added_up_longest_first_and_a_part_is_not_counted_twice() -> None:
    found = phases(METRICS)
    assert [(phase.name, phase.seconds) for phase in found] == [
        ("update", 6.0), ("rollout", 4.0), ("environment", 1.0), ("other", 2.0),
    ]  # fmt: skip
    assert [round(phase.share, 3) for phase in found] == [0.5, 0.333, 0.083, 0.167]
    assert found[1].tokens_per_s == 40.0
    assert found[0].tokens_per_s is None


def test_a_log_without_times_has_none() -> None:
    assert phases([{"step": 1, "reward": 0.5}]) == []


def test_the_report_shows_them_once() -> None:
    data = ReportData(title="run", given="", config_yaml="a: 1", seed=0, wall_s=1.0, metrics=METRICS)
    page = outline(render_page(data))
    assert not page.faults
    text = " ".join(page.text)
    assert "Where the time went" in text
    assert "of which environment" in text
    assert "time/rollout_s" not in text
    assert "turns" in text
    shown = render_text(data)
    assert "rollout                       4.0     33%        40" in shown
    assert 'style="width:50.00%"' in time_block(phases(METRICS))
