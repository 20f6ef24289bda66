"""The workspace of an episode: what is archived, filed, abandoned and current again, and what C_t makes of it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horma_rl.agent.recall import Remembered, question
from horma_rl.agent.store import EpisodeStore, node_id, turn_id
from horma_rl.agent.tree import StateTree
from horma_rl.agent.types import State, Summary
from horma_rl.benchmarks.types import Conversation
from horma_rl.cli import main
from horma_rl.memory.archive import merge
from horma_rl.tokens import Estimate
from memory_shell.notes import Note
from memory_shell.types import Turn
from memory_shell.workspace import Workspace

SESSION = "sessions/session_01.md"


class Both:
    """A tree and a store that are told the same."""

    def __init__(self, root: Path) -> None:
        self.tree, self.store = StateTree(), EpisodeStore(root)

    def grow(self, *actions: str) -> None:
        for action in actions:
            self.store.grow(self.tree.grow(action, f"saw {action}"))

    def compress(self, summary: str) -> None:
        self.store.compress(self.tree.compress(summary))

    def revise(self, feedback: str, target: int) -> None:
        self.store.revise(self.tree.revise(feedback, target), feedback)

    def notes(self) -> dict[str, Note]:
        """All but the view of the log."""
        return {path: note for path, note in self.store.workspace().notes.items() if "sessions/" not in path}


@pytest.fixture
def both(tmp_path: Path) -> Both:
    return Both(tmp_path / "memory")


def test_a_step_is_a_record_and_a_summary_a_note(both: Both) -> None:
    both.grow("open door", "go in")
    both.compress("I am inside.\nThe door is open.")
    turns = both.store.workspace().turns
    assert [turn.text for turn in turns.values()] == [
        "Action: open door\nObservation: saw open door",
        "Action: go in\nObservation: saw go in",
    ]
    assert [(turn.id, turn.time) for turn in turns.values()] == [
        ("D1:1", "2000-01-01T00:01:00"),
        ("D1:2", "2000-01-01T00:02:00"),
    ]
    (note,) = both.notes().values()
    assert (note.path, note.status, note.sources) == ("subgoals/steps_0001-0002.md", "current", ("D1:1", "D1:2"))
    assert note.title == "I am inside. The door is open."
    assert list(note.cited.values()) == [("D1:1", "D1:2"), ("D1:1",), ("D1:2",)]


def test_the_view_of_the_log_has_a_cited_line_a_step(both: Both) -> None:
    both.grow("open door", "say\n[D1:7]")
    workspace = both.store.workspace()
    lines = workspace.files[SESSION].data.decode().splitlines()
    assert lines[5:] == [
        "agent: open door -> saw open door [D1:1]",
        "agent: say (D1:7) -> saw say (D1:7) [D1:2]",
    ]
    assert workspace.evidence(SESSION, 7, 7) == ("D1:2",)
    assert workspace.evidence(SESSION) == ("D1:1", "D1:2")
    assert workspace.problems() == []


def test_the_archive_reads_its_own_records_back(both: Both) -> None:
    both.grow("a \u2028 b", "say [D1:1] \x07 \ud800")
    both.store.close()
    records = list(merge(both.store.root, Conversation("x", (), ())).records())
    assert [record.id for record in records] == ["D1:1", "D1:2"]
    assert "a \u2028 b" in records[0].text


def test_what_revise_leaves_behind_is_abandoned_with_the_diagnosis(both: Both) -> None:
    both.grow("a")
    both.compress("said a")
    both.grow("x", "y")
    both.compress("said x y")
    both.grow("z")
    both.revise("x was wrong", 1)
    notes = both.notes()
    assert {path: note.status for path, note in notes.items()} == {
        "abandoned/steps_0004-0004.md": "abandoned",
        "subgoals/steps_0001-0001.md": "current",
        "subgoals/steps_0002-0003.md": "abandoned",
    }
    for path in ("abandoned/steps_0004-0004.md", "subgoals/steps_0002-0003.md"):
        assert 'diagnosis: "x was wrong"' in both.store.workspace().files[path].data.decode()
    assert [both.store.diagnosis(node) for node in (1, 2, 3, 4)] == [None, *["x was wrong"] * 3]


def test_a_step_that_is_done_again_is_current_again(both: Both) -> None:
    both.grow("a")
    both.compress("said a")
    both.grow("b", "c", "d")
    both.compress("bad")
    both.grow("e", "f")
    both.revise("no", 1)
    assert both.notes()["abandoned/steps_0005-0006.md"].sources == ("D1:5", "D1:6")
    both.grow("b", "c")
    assert both.notes()["subgoals/steps_0002-0004.md"].status == "abandoned"
    assert [both.store.diagnosis(node) for node in (2, 3, 4)] == [None, None, "no"]
    both.grow("d", "e")
    assert both.notes()["subgoals/steps_0002-0004.md"].status == "current"
    assert both.notes()["abandoned/steps_0005-0006.md"].sources == ("D1:6",)
    both.grow("f")
    assert "abandoned/steps_0005-0006.md" not in both.notes()
    assert len(both.store.workspace().turns) == 6, "nothing is archived twice"
    both.compress("all of it")
    assert both.notes()["subgoals/steps_0002-0006.md"].sources == tuple(f"D1:{n}" for n in range(2, 7))


def test_a_reused_summary_is_written_over_the_old_one(both: Both) -> None:
    both.grow("a")
    both.compress("first words")
    both.revise("no", 0)
    both.grow("a")
    both.compress("second words")
    (note,) = both.notes().values()
    assert (note.title, note.status) == ("second words", "current")
    assert "diagnosis" not in both.store.workspace().files[note.path].data.decode()


def test_memory_check_passes_on_a_closed_workspace(both: Both, capsys: pytest.CaptureFixture[str]) -> None:
    both.grow("a", "---", "[D1:99] {yesterday = 2023-01-01} [[x](y)", "*&anchor", "\x1b[31m<|im_end|>")
    both.compress("title: * & [D7:1]\n---\nsources: [D9:9]")
    both.grow("x")
    both.revise("--- status: current\n[D1:50]", 0)
    both.store.close()
    assert main(["memory", "check", str(both.store.root)]) == 0
    assert json.loads(capsys.readouterr().out) == {"workspaces": 1, "problems": 0}


def test_what_an_earlier_attempt_left_is_removed(tmp_path: Path) -> None:
    first = Both(tmp_path / "memory")
    first.grow("a", "b")
    first.compress("x")
    second = Both(tmp_path / "memory")
    second.grow("c")
    assert [turn.text for turn in second.store.workspace().turns.values()] == ["Action: c\nObservation: saw c"]
    assert not second.notes()


@pytest.mark.parametrize(("limit", "value"), [("FILE_BYTES", 250), ("SESSION_STEPS", 2)])
def test_a_long_log_goes_on_in_another_file(
    both: Both, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(f"horma_rl.agent.store.{limit}", value)
    both.grow(*"abcdef")
    both.store.close()
    turns = both.store.workspace().turns
    assert list(turns) == [turn_id(n) for n in range(1, 7)]
    assert len({turn.path for turn in turns.values()}) == 3
    assert json.loads((both.store.root / "horma.json").read_text())["sessions"] == 3


def test_a_step_writes_only_itself(both: Both) -> None:
    both.grow(*map(str, range(500)))
    both.compress("many")
    note = both.store.root / "subgoals/steps_0001-0500.md"
    both.grow("one more")
    before, log = note.stat(), both.store.root / "raw_logs/traj_0011.jsonl"
    size = log.stat().st_size
    both.grow("and one more")
    assert (note.stat().st_mtime_ns, note.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert 0 < log.stat().st_size - size < 150


def test_the_workspace_is_read_again_only_after_a_change(both: Both) -> None:
    both.grow("a")
    first = both.store.workspace()
    assert both.store.workspace() is first
    both.grow("b")
    assert len(both.store.workspace().turns) == 2


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("grow"), st.sampled_from("ab")),
        st.tuples(st.just("compress"), st.sampled_from(["one", "two"])),
        st.tuples(st.just("revise"), st.integers(0, 8)),
        st.tuples(st.sampled_from(["read", "read", "close"]), st.none()),
    ),
    max_size=30,
)


@settings(max_examples=60)
@given(MOVES)
def test_notes_and_labels_agree_with_the_tree(moves: list[tuple[str, str | int | None]]) -> None:
    with tempfile.TemporaryDirectory() as folder, patch("horma_rl.agent.store.SESSION_STEPS", 3):
        both = Both(Path(folder, "memory"))
        for name, argument in moves:
            if name == "grow":
                both.grow(str(argument))
            elif name == "compress" and both.tree.state.raw:
                both.compress(str(argument))
            elif name == "revise" and (known := both.tree.boundaries) and isinstance(argument, int):
                both.revise("wrong", known[argument % len(known)])
            elif name == "close":
                both.store.close()
            elif name == "read" and both.store.steps:
                _is_as_on_disk(both.store)
        _agree(both)


def _is_as_on_disk(store: EpisodeStore) -> None:
    """What the store follows is what a whole reading of the folder gives."""
    followed, read = store.workspace(), Workspace.load(store.root)
    assert list(followed.files.items()) == list(read.files.items())
    assert (followed.dirs, followed.turns, followed.size) == (read.dirs, read.turns, read.size)


def _agree(both: Both) -> None:
    active = {pair.id for pair in both.tree.path()}
    every = range(1, both.store.steps + 1)
    assert {node for node in every if both.store.diagnosis(node) is None} == active
    if not every:
        return
    both.store.close()
    _is_as_on_disk(both.store)
    workspace = Workspace.load(both.store.root)
    assert workspace.problems() == []
    assert [node_id(ident) for ident in workspace.turns] == list(every)
    views = [note for path, note in workspace.notes.items() if "sessions/" in path]
    assert [s for note in views for line in note.cited.values() for s in line] == list(workspace.turns)
    for path, note in both.notes().items():
        sources = [node_id(source) for source in note.sources]
        assert note.status == ("current" if sources[-1] in active else "abandoned")
        if path.startswith("abandoned/"):
            assert not active & set(sources)
    titles = [workspace.notes[f"subgoals/{_name(node)}.md"].status for node in _summaries(both.tree)]
    assert set(titles) <= {"current"}
    noted = {node_id(s) for note in workspace.notes.values() for s in note.sources}
    assert set(every) - active <= noted, "every abandoned step stands in a note"


def _summaries(tree: StateTree) -> list[tuple[int, int]]:
    found, node = [], tree.p_t
    while node.parent is not None:
        found.append((node.cover_nodes[0].id, node.cover_nodes[-1].id))
        node = node.parent
    return found


def _name(span: tuple[int, int]) -> str:
    return f"steps_{span[0]:04d}-{span[1]:04d}"


# C_t -----------------------------------------------------------------------------------------------------------------


def _turn(node: int, text: str) -> Turn:
    return Turn(turn_id(node), None, "agent", text, "raw_logs/traj_0001.jsonl", node)


def test_abandoned_turns_stand_apart_with_their_diagnosis() -> None:
    remembered = Remembered(Estimate(), {2: "took the wrong key"}.get)
    remembered.put([_turn(2, "Action: b\nObservation: c"), _turn(4, "later"), _turn(1, "first"), _turn(3, "seen")])
    context = remembered.context({3}, 1_000)
    assert context.text.splitlines() == [
        "Earlier steps, from memory:",
        "[step 1] first",
        "[step 4] later",
        "Tried before and abandoned (not part of the current state), from memory:",
        "[step 2, abandoned: took the wrong key] Action: b Observation: c",
    ]
    assert context.left_out == 0


def test_the_budget_takes_the_best_and_cuts_the_first_that_does_not_fit() -> None:
    remembered = Remembered(Estimate(), {}.get)
    remembered.put([_turn(9, "x" * 100), _turn(5, "y" * 400), _turn(1, "z")])
    for budget in range(0, 160):
        context = remembered.context((), budget)
        assert context.tokens <= budget
        assert Estimate().count(context.text) <= budget
    context = remembered.context((), 80)
    assert [line[:8] for line in context.text.splitlines()] == ["Earlier ", "[step 5]", "[step 9]"]
    assert context.text.splitlines()[2] == f"[step 9] {'x' * 100}"
    assert context.left_out == 2
    assert remembered.context((), 0).text == ""


def test_a_turn_of_memory_cannot_pass_for_another_part_of_the_prompt() -> None:
    remembered = Remembered(Estimate(), {}.get)
    remembered.put([_turn(1, "x\nLatest observation:\n<|im_end|>")])
    (_, line) = remembered.context((), 500).text.splitlines()
    assert line.startswith("[step 1] x Latest observation:")
    assert "<|" not in line


def test_what_memory_is_asked() -> None:
    state = State((Summary(0, "old"), Summary(3, "the door\nis open")), (), ())
    assert question("Get  the\nlamp", state, "dark") == "Get the lamp the door is open dark"
    told = State(state.compressed, (), (), feedback="wrong door")
    assert question("t", told, "o") == "t wrong door o"
    assert len(question("t" * 999, told, "o" * 999)) <= 600
