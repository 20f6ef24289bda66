"""`horma-rl view tree`: a state tree as text and as a page."""

from __future__ import annotations

import io
import os
import re
from contextlib import closing
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
    with closing(EventLog(folder / "tree.jsonl")) as log:
        log.record(tree)


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


def test_a_node_below_many_branches_still_shows_its_text() -> None:
    tree = StateTree()
    for number in range(30):
        tree.grow("go", str(number))
        tree.compress(f"sub {number}")
    for number in range(29, 0, -1):
        tree.fail(f"bad {number}")
        tree.revise("back", number)
        tree.grow("try", str(number))
        tree.compress(f"alt {number}")
    drawn = draw_text(tree, 60)
    assert max(map(len, drawn.splitlines())) == 60
    deepest = next(line for line in drawn.splitlines() if "sub 29" in line)
    assert deepest == "…  │  │  │  │  │  │  │  │  ├─ ○ [29] step 30: sub 29"
    assert all(f"sub {number}" in drawn and f"go | {number}" in drawn for number in range(30))
    assert all(f"found wrong: bad {number}" in drawn for number in range(2, 30))


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
    (rule,) = re.findall(r"\.tree summary \{[^}]*}", text)  # the page's own is as pale as what is abandoned
    assert "color: var(--ink)" in rule
    assert [path.name for path in page.parent.iterdir()] == ["page.html"]


@pytest.mark.parametrize("page", ["", "/", "out", "run/tree.jsonl", "other/tree.jsonl", "link.html"])
def test_a_page_takes_the_place_of_no_folder_and_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], page: str
) -> None:
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "run", revised_tree())
    Path("out").mkdir()
    Path("link.html").hardlink_to("run/tree.jsonl")
    before = sorted(tmp_path.rglob("*")), Path("run/tree.jsonl").read_bytes()
    assert view("run", "--html", page) == 2
    assert "--html" in capsys.readouterr().err
    assert (sorted(tmp_path.rglob("*")), Path("run/tree.jsonl").read_bytes()) == before


def test_a_page_takes_the_place_of_no_pipe_and_is_written_through_a_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor of a device: a test must not try that, as it would be gone."""
    save(tmp_path / "run", revised_tree())
    pipe, link, target = tmp_path / "pipe", tmp_path / "link.html", tmp_path / "target.html"
    os.mkfifo(pipe)
    (tmp_path / "to_pipe").symlink_to(pipe)
    for name in ("pipe", "to_pipe"):
        assert view(tmp_path / "run", "--html", tmp_path / name) == 2
        assert "is a device or a pipe" in capsys.readouterr().err
    assert pipe.is_fifo()
    assert (tmp_path / "to_pipe").is_symlink()
    link.symlink_to(target)
    for _ in range(2):
        assert view(tmp_path / "run", "--html", link) == 0
        assert link.is_symlink()
        assert "lamp off" in target.read_text(encoding="utf-8")
        target.write_text("old")


def test_a_page_may_take_the_place_of_an_old_one(tmp_path: Path) -> None:
    save(tmp_path / "run", revised_tree())
    (tmp_path / "old.html").write_text("old")
    assert view(tmp_path / "run", "--html", tmp_path / "old.html") == 0
    assert "lamp off" in (tmp_path / "old.html").read_text(encoding="utf-8")


def test_a_folder_of_the_logs_name_is_no_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tree.jsonl").mkdir()
    assert view(tmp_path) == 2
    assert "no tree.jsonl there or below" in capsys.readouterr().err


def test_an_output_without_box_characters_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path / "run", revised_tree())
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert view(tmp_path / "run") == 2
    assert "encoding, ascii, lacks characters of what is shown" in capsys.readouterr().err


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
