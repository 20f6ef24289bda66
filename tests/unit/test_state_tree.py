"""Algorithm 1 of Mage (arXiv:2606.06090), written out: what S = (C, R, H) is after each operation."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from horma_rl.agent.events import EventLog, replay
from horma_rl.agent.tree import (
    TOP_ROOT_ID,
    Node,
    NoSuchBoundaryError,
    NothingToCompressError,
    StateTree,
)
from horma_rl.agent.types import Hint, Pair, State, Summary
from horma_rl.errors import UserError

DESK, LAMP, BED = ("go to desk", "a desk"), ("take lamp", "a lamp"), ("go to bed", "a bed")
ONE, TWO, THREE = Summary(0, "one"), Summary(1, "two"), Summary(2, "three")


def three_summaries() -> StateTree:
    """Steps 1, 2 and 3, each under a summary of its own: their ids are those of the boundaries, 0, 1 and 2."""
    tree = StateTree()
    for step, summary in ((DESK, "one"), (LAMP, "two"), (BED, "three")):
        tree.grow(*step)
        tree.compress(summary)
    return tree


def tried(action: str) -> Hint:
    return Hint("action", action)


def test_the_start() -> None:
    tree = StateTree()
    assert tree.state == State((), (), ())
    assert (tree.step, tree.p_b.id, tree.p_t.id, tree.boundaries) == (1, 0, TOP_ROOT_ID, ())
    assert tree.p_b.content is None
    assert list(tree.p_t.cover_nodes) == [tree.p_b]
    assert tree.covered == tree.path() == ()


def test_grow_and_compress() -> None:
    tree = StateTree()
    one, two, three = Pair(1, *DESK), Pair(2, *LAMP), Pair(3, *BED)
    tree.grow(*DESK)
    assert tree.state == State((), (one,), ())
    tree.grow(*LAMP)
    assert tree.state == State((), (one, two), ())
    summary = tree.compress("at the desk, with the lamp")
    assert tree.state == State((Summary(0, "at the desk, with the lamp"),), (), ())
    assert [node.id for node in summary.cover_nodes] == [1, 2]
    assert tree.covered == (one, two)
    tree.grow(*BED)
    assert tree.state == State((Summary(0, "at the desk, with the lamp"),), (three,), ())
    tree.compress("at the bed")
    assert tree.state == State((Summary(0, "at the desk, with the lamp"), Summary(2, "at the bed")), (), ())
    assert (tree.boundaries, tree.step) == ((0, 2), 4)
    assert tree.path() == (one, two, three)


def test_the_same_step_again_is_a_new_node_below_the_first() -> None:
    """Merging is with a child of p_b, not with p_b itself."""
    tree = StateTree()
    first, second = tree.grow(*DESK), tree.grow(*DESK)
    assert (first.id, second.id, second.parent) == (1, 2, first)
    assert tree.state == State((), (Pair(1, *DESK), Pair(2, *DESK)), ())


@pytest.mark.parametrize(
    ("target", "left", "boundary", "hints", "summaries", "steps"),
    [
        (0, (), 0, (tried("go to desk"), Hint("subgoal", "one")), ["one", "two", "three"], [1, 2, 3]),
        (1, (ONE,), 1, (tried("take lamp"), Hint("subgoal", "two")), ["two", "three"], [2, 3]),
        (2, (ONE, TWO), 2, (tried("go to bed"), Hint("subgoal", "three")), ["three"], [3]),
    ],
    ids=["first", "middle", "last"],
)
def test_revise(
    target: int,
    left: tuple[Summary, ...],
    boundary: int,
    hints: tuple[Hint, ...],
    summaries: list[str],
    steps: list[int],
) -> None:
    tree = three_summaries()
    assert tree.state == State((ONE, TWO, THREE), (), ())
    done = tree.revise("no lamp", target)
    assert tree.state == State(left, (), hints, "no lamp")
    assert done.boundary is tree.p_b
    assert tree.p_b.id == boundary
    assert [node.text for node in done.summaries] == summaries
    assert [node.id for node in done.steps] == steps
    assert tree.boundaries == tuple(summary.id for summary in left)
    assert tree.step == 4


def test_revise_also_drops_the_steps_since_the_last_boundary() -> None:
    tree = three_summaries()
    tree.grow("open drawer", "empty")
    done = tree.revise("wrong room", 2)
    assert [node.id for node in done.steps] == [3, 4]
    assert tree.state == State((ONE, TWO), (), (tried("go to bed"), Hint("subgoal", "three")), "wrong room")


def test_a_failed_summary_is_a_hint_with_its_diagnosis_after_revise() -> None:
    tree = three_summaries()
    assert tree.fail("the bed is not made") == 2
    assert tree.state == State((ONE, TWO, THREE), (), ())  # Maintain alone changes no part of S
    tree.revise("the bed is not made", 2)
    hints = (tried("go to bed"), Hint("subgoal", "three", "the bed is not made"))
    assert tree.state == State((ONE, TWO), (), hints, "the bed is not made")


def test_new_steps_branch_off_and_feedback_stays_until_compress() -> None:
    tree = three_summaries()
    tree.revise("no lamp", 1)
    new = tree.grow("take book", "a book")
    assert (new.id, new.parent and new.parent.id) == (4, 1)
    hints = (Hint("subgoal", "two"),)
    assert tree.state == State((ONE,), (Pair(4, "take book", "a book"),), hints, "no lamp")
    tree.compress("two, otherwise")
    assert tree.state == State((ONE, Summary(1, "two, otherwise")), (), ())
    tree.revise("neither", 1)
    both = (tried("take lamp"), tried("take book"), Hint("subgoal", "two"), Hint("subgoal", "two, otherwise"))
    assert tree.state == State((ONE,), (), both, "neither")


def test_walking_an_abandoned_path_again_merges_into_it() -> None:
    tree = three_summaries()
    tree.fail("wrong")
    (old,) = (node for node in tree.revise("wrong", 1).summaries if node.text == "two")
    assert tree.grow(*LAMP).id == 2
    assert tree.step == 4  # no node was made
    hints = (tried("go to bed"), Hint("subgoal", "two"))
    assert tree.state == State((ONE,), (Pair(2, *LAMP),), hints, "wrong")
    assert tree.compress("two, better told") is old
    # Its content is the new one, and what was tried after it is known again, with the diagnosis.
    hints = (tried("go to bed"), Hint("subgoal", "three", "wrong"))
    assert tree.state == State((ONE, Summary(1, "two, better told")), (), hints)


def test_the_same_action_with_another_observation_does_not_merge() -> None:
    tree = three_summaries()
    tree.revise("again", 0)
    assert tree.grow(DESK[0], "another desk").id == 4


def test_a_summary_of_other_steps_is_a_sibling_with_the_same_id() -> None:
    tree = three_summaries()
    tree.revise("too short", 0)
    tree.grow(*DESK)
    tree.grow(*LAMP)
    longer = tree.compress("one and two")
    assert longer.id == 0
    assert [node.text for node in tree.top_root.children] == ["one", "one and two"]
    assert tree.state == State((Summary(0, "one and two"),), (), (tried("go to bed"),))


def test_a_merged_summary_keeps_its_note() -> None:
    tree = three_summaries()
    tree.revise("wrong", tree.fail("wrong"))
    tree.grow(*BED)
    assert tree.compress("three, again").note == "wrong"


REFUSED: list[tuple[Callable[[StateTree], object], type[ValueError], str]] = [
    (lambda tree: tree.compress("nothing"), NothingToCompressError, "since the last boundary, step 3"),
    (lambda tree: tree.revise("back", TOP_ROOT_ID), NoSuchBoundaryError, "there are: 0, 1, 2$"),
    (lambda tree: tree.revise("back", 3), NoSuchBoundaryError, "step 3 is no boundary"),
    (lambda tree: tree.revise("back", 99), NoSuchBoundaryError, "step 99 is no boundary"),
]


@pytest.mark.parametrize(("operation", "error", "told"), REFUSED)
def test_what_is_refused_changes_nothing(
    operation: Callable[[StateTree], object], error: type[ValueError], told: str
) -> None:
    tree = three_summaries()
    before = (tree.state, tree.p_b, tree.p_t, tree.step, len(tree.operations))
    with pytest.raises(error, match=told):
        operation(tree)
    assert (tree.state, tree.p_b, tree.p_t, tree.step, len(tree.operations)) == before


def test_at_the_start_there_is_nothing_to_compress_revise_or_find_wrong() -> None:
    tree = StateTree()
    with pytest.raises(NothingToCompressError):
        tree.compress("nothing")
    with pytest.raises(NoSuchBoundaryError, match="none, as nothing is compressed"):
        tree.revise("back", 0)
    with pytest.raises(ValueError, match="no summary"):
        tree.fail("wrong")
    tree.grow(*DESK)
    with pytest.raises(NoSuchBoundaryError):
        tree.revise("past the root", 0)


def test_a_long_task_visits_each_node_a_bounded_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 steps, compressed at every 20: walks count, and these go along `parent`."""
    slot: Any = Node.__dict__["parent"]
    visits = [0]

    def count(node: Node) -> Node | None:
        visits[0] += 1
        parent: Node | None = slot.__get__(node, Node)
        return parent

    monkeypatch.setattr(Node, "parent", property(count, slot.__set__))
    tree = StateTree()
    for number in range(20_000):
        tree.grow("wait", f"time passes {number}")
        if number % 20 == 19:
            tree.compress(f"waited until {number}")
    assert visits[0] == 20_000  # Compress walks over what it covers, once
    visits[0] = 0
    for number in range(5):
        tree.grow("look", f"{number}")
    assert visits[0] == 0
    state = tree.state
    assert len(state.compressed) == 1_000
    assert visits[0] == len(state.raw) == 5
    last = tree.boundaries[-1]
    visits[0] = 0
    tree.revise("back", last)
    assert visits[0] == 1 + 25  # the summary that goes; its steps and the five after


# On disk -------------------------------------------------------------------------------------------------------------


def logged(tmp_path: Path) -> Path:
    path = tmp_path / "tree.jsonl"
    tree = three_summaries()
    tree.revise("wrong", tree.fail("wrong"))
    with closing(EventLog(path)) as log:
        log.record(tree)
    return path


def test_a_log_grows_by_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "tree.jsonl"
    tree, log = StateTree(), EventLog(path)
    log.record(tree)
    assert not path.exists()
    tree.grow("look", "\udcff, no UTF-8, and\na line")
    log.record(tree)
    first = path.read_bytes()
    tree.compress("looked")
    tree.grow("wait", "")
    log.record(tree)
    log.record(tree)
    log.close()
    assert path.read_bytes().startswith(first)
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    assert [line["op"] for line in lines] == ["grow", "compress", "grow"]
    assert lines[1] == {"op": "compress", "summary": "looked", "step": 2, "p_b": 1, "p_t": 0}
    assert replay(path).operations == tree.operations
    assert replay(path).state == tree.state


@pytest.mark.parametrize("text", ["\ud83d\ude00 \udcff\ud800", "\x00\x1b\x85\u2028\r\n"])
def test_any_text_comes_back_as_it_was(tmp_path: Path, text: str) -> None:
    """Two lone surrogates side by side are not the character that they would be a pair of."""
    path = tmp_path / "tree.jsonl"
    tree = StateTree()
    tree.grow(text, text)
    tree.compress(text)
    tree.revise(text, tree.fail(text))
    tree.grow("\U0001f600", "\U0001f600")
    with closing(EventLog(path)) as log:
        log.record(tree)
    assert replay(path).operations == tree.operations


def test_a_log_is_not_continued_by_another_episode(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the log of another episode"):
        EventLog(logged(tmp_path))


@pytest.mark.parametrize("kept", [1, 20, -1])
def test_an_unfinished_last_line_is_dropped(tmp_path: Path, kept: int) -> None:
    path = logged(tmp_path)
    *whole, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole) + last[:kept])
    assert len(replay(path).operations) == len(whole)
    assert replay(path).state == State((ONE, TWO, THREE), (), ())


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"{", "line 3: not JSON"),
        (b"\xff", "line 3: not JSON"),
        (b"[" * 100_000, "line 3: not JSON"),
        (b"[]", "line 3: no operation; 'op' is one of grow, compress, fail, revise"),
        (b'{"op": "state"}', "line 3: no operation"),
        (b'{"op": ["grow"]}', "line 3: no operation"),
        (b'{"op": "compress", "summary": "x"}', "line 3: compress has the fields summary, step, p_b, p_t"),
        (b'{"op": "compress", "summary": 1, "step": 3, "p_b": 2, "p_t": 0}', "line 3: summary is a text"),
        (b'{"op": "compress", "summary": "x", "step": true, "p_b": 2, "p_t": 0}', "line 3: step is a whole number"),
        (b'{"op": "compress", "summary": "x", "step": 2, "p_b": 1, "p_t": 0}', "line 3: no step was taken since"),
        (b'{"op": "revise", "feedback": "x", "target": 7, "step": 2, "p_b": 1, "p_t": 0}', "line 3: step 7 is no"),
        (b'{"op": "grow", "action": "x", "observation": "y", "step": 4, "p_b": 2, "p_t": 0}', "lines are missing"),
    ],
)
def test_a_damaged_log_is_refused_with_the_line(tmp_path: Path, line: bytes, told: str) -> None:
    path = logged(tmp_path)
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([*lines[:2], line, *lines[2:]]) + b"\n")
    with pytest.raises(UserError) as error:
        replay(path)
    assert told in str(error.value)


def test_a_missing_line_is_noticed(tmp_path: Path) -> None:
    path = logged(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[1:]))
    with pytest.raises(UserError, match="line 1: no step was taken"):
        replay(path)
    path.unlink()
    with pytest.raises(UserError, match="there is no such log"):
        replay(path)
