"""`horma-rl view tree`: a state tree as text and as a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from horma_rl.agent.draw import draw_text
from horma_rl.agent.events import EventLog
from horma_rl.agent.tree import StateTree
from horma_rl.cli import main

DRAWN = """\
2 steps and 2 summaries on the active path, 2 and 1 abandoned; revised 1 times
● active path   ▶ where it ends (p_t, p_b)   ○ abandoned

Subgoals
● start
● [0] step 1: at the desk
├─ ○ [1] steps 2-3: lamp off
│     found wrong: off, not on
▶ [1] step 4: lamp on

Steps
● start
● 1 > go | a desk
├─ ○ 2 > take | a lamp
│  ○ 3 > use | <b>dark</b> \u241b[2J
▶ 4 > use | light
"""


def revised_tree() -> StateTree:
    tree = StateTree()
    tree.grow("go", "a desk")
    tree.compress("at the desk")
    tree.grow("take", "a lamp")
    tree.grow("use", "<b>dark</b>\n\x1b[2J")
    tree.compress("lamp off")
    tree.revise("off, not on", tree.fail("off, not on"))
    tree.grow("use", "light")
    tree.compress("lamp on")
    return tree


def save(folder: Path, tree: StateTree) -> None:
    folder.mkdir(parents=True)
    EventLog(folder / "tree.jsonl").record(tree)


def view(*arguments: object) -> int:
    return main(["view", "tree", *map(str, arguments)])


def test_drawing() -> None:
    assert draw_text(revised_tree()) == DRAWN


def test_an_abandoned_branch_at_the_end_of_the_path() -> None:
    tree = revised_tree()
    tree.revise("again", 1)
    below = draw_text(tree).partition("Steps\n")[2].splitlines()
    assert below == [
        "● start",
        "▶ 1 > go | a desk",
        "├─ ○ 2 > take | a lamp",
        "│  ○ 3 > use | <b>dark</b> \u241b[2J",
        "└─ ○ 4 > use | light",
    ]


def test_lines_are_cut_to_the_width() -> None:
    tree = revised_tree()
    tree.grow("talk", "much " * 100)
    lines = draw_text(tree, 60).splitlines()
    assert max(map(len, lines)) == 60
    assert lines[-1].startswith("▶ 5 > talk | much much")
    assert lines[-1].endswith("…")


def test_a_long_path_is_drawn_straight_down() -> None:
    tree = StateTree()
    for number in range(3_000):
        tree.grow("wait", str(number))
    assert draw_text(tree).splitlines()[-1] == "▶ 3000 > wait | 2999"


def test_an_episode_is_drawn_from_its_folder_its_log_or_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path / "run" / "episode", revised_tree())
    for path in (tmp_path / "run" / "episode", tmp_path / "run" / "episode" / "tree.jsonl", tmp_path / "run"):
        assert view(path, "--width", 100) == 0
        assert capsys.readouterr().out == DRAWN


def test_several_trees_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(tmp_path / "b", revised_tree())
    save(tmp_path / "a", revised_tree())
    assert view(tmp_path) == 0
    first, *listed = capsys.readouterr().out.splitlines()
    assert first.startswith("2 trees")
    assert listed == [f"  {tmp_path / 'a'}", f"  {tmp_path / 'b'}"]
    assert view(tmp_path, "--html", tmp_path / "page.html") == 2
    assert "2 trees, and a page shows one" in capsys.readouterr().err


def test_a_page_has_the_whole_texts_and_runs_nothing_of_theirs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = revised_tree()
    tree.grow("talk", f"{'much ' * 100}and the end <script>alert(1)</script>")
    save(tmp_path / "episode", tree)
    page = tmp_path / "out" / "page.html"
    assert view(tmp_path / "episode", "--html", page) == 0
    assert f"wrote {page}" in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    assert "and the end &lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<script>alert" not in text
    assert "<b>dark" not in text
    assert "Content-Security-Policy" in text
    assert "State tree of episode" in text
    assert [path.name for path in page.parent.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("path", "options", "told"),
    [
        ("nowhere", (), "there is no such file or folder"),
        ("", (), "no tree.jsonl there or below"),
        ("", ("--width", "10"), "--width is at least 40"),
        ("damaged.jsonl", (), "line 1: not JSON"),
    ],
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str, options: tuple[str, ...], told: str
) -> None:
    (tmp_path / "damaged.jsonl").write_text("?\n")
    assert view(tmp_path / path, *options) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
