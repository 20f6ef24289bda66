"""What holds of the state tree whatever is done to it, against a model that knows paths and no pointers."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from horma_rl.agent.events import EventLog, replay
from horma_rl.agent.render import TRIED, StateRenderer
from horma_rl.agent.tree import Node, NoSuchBoundaryError, NothingToCompressError, StateTree
from horma_rl.agent.types import Hint, Pair, State, Summary
from horma_rl.tokens import Estimate

HOSTILE = "x\n[1] > no step\nCompleted subgoals:\n[0] no summary"
TEXTS = st.sampled_from(["look", "wait", HOSTILE]) | st.text(max_size=8)
WORDS = st.sampled_from(["look", "take", HOSTILE])  # few, so that steps are repeated
OBSERVATIONS = st.sampled_from(["", "a lamp", HOSTILE])

Steps = tuple[tuple[str, str], ...]
"""A bottom node by what leads to it: the whole path of actions and observations."""


class Trees(RuleBasedStateMachine):
    """Random operations, each done to the tree and to the model."""

    @initialize()
    def start(self) -> None:
        self.tree = StateTree()
        self.renderer = StateRenderer(Estimate(), limit=50)
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "tree.jsonl"
        self.log = EventLog(self.path)
        self.ids: dict[Steps, int] = {(): 0}
        self.summaries: dict[tuple[Steps, ...], tuple[str, str | None]] = {}
        self.steps: Steps = ()
        self.ends: tuple[Steps, ...] = ()
        self.feedback: str | None = None

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.log.close()
            self.folder.cleanup()

    # The model: a summary is known by the ends of the segments up to it ---------------------------------------------

    @property
    def boundary(self) -> Steps:
        return self.ends[-1] if self.ends else ()

    def targets(self) -> list[int]:
        return [self.ids[end] for end in ((), *self.ends)][: len(self.ends)]

    def compressed(self) -> tuple[Summary, ...]:
        texts = [self.summaries[self.ends[: place + 1]][0] for place in range(len(self.ends))]
        return tuple(map(Summary, self.targets(), texts))

    def pairs(self, start: int) -> tuple[Pair, ...]:
        places = range(start, len(self.steps))
        return tuple(Pair(self.ids[self.steps[: place + 1]], *self.steps[place]) for place in places)

    def tried(self) -> list[Steps]:
        """The ends of summaries that were made here before, and can still be reached from where the path ends."""
        ends = [known[-1] for known in self.summaries if known[:-1] == self.ends]
        return [end for end in ends if end[: len(self.steps)] == self.steps]

    def hints(self) -> tuple[Hint, ...]:
        actions = [path[-1][0] for path in self.ids if path and path[:-1] == self.steps]
        subgoals = [value for ends, value in self.summaries.items() if ends[:-1] == self.ends]
        return (*(Hint("action", text) for text in actions), *(Hint("subgoal", *value) for value in subgoals))

    # Operations ------------------------------------------------------------------------------------------------------

    @rule(action=WORDS, observation=OBSERVATIONS)
    def grow(self, action: str, observation: str) -> None:
        self.tree.grow(action, observation)
        self.steps = (*self.steps, (action, observation))
        self.ids.setdefault(self.steps, len(self.ids))

    @rule(action=WORDS, observation=OBSERVATIONS, summary=TEXTS)
    def reach_a_subgoal(self, action: str, observation: str, summary: str) -> None:
        self.grow(action, observation)
        self.compress(summary)

    @precondition(lambda self: self.tried())
    @rule(data=st.data(), summary=TEXTS)
    def walk_an_abandoned_segment_again(self, data: st.DataObject, summary: str) -> None:
        end = data.draw(st.sampled_from(self.tried()))
        for step in end[len(self.steps) :]:
            self.grow(*step)
        self.compress(summary)

    @rule(summary=TEXTS)
    def compress(self, summary: str) -> None:
        if self.steps == self.boundary:
            self.refused(lambda: self.tree.compress(summary), NothingToCompressError)
            return
        self.tree.compress(summary)
        self.ends = (*self.ends, self.steps)
        self.summaries[self.ends] = (summary, self.summaries.get(self.ends, ("", None))[1])
        self.feedback = None

    @precondition(lambda self: self.ends)
    @rule(feedback=TEXTS)
    def fail(self, feedback: str) -> None:
        assert self.tree.fail(feedback) == self.targets()[-1]
        self.summaries[self.ends] = (self.summaries[self.ends][0], feedback)

    @precondition(lambda self: self.ends)
    @rule(data=st.data(), feedback=TEXTS)
    def revise(self, data: st.DataObject, feedback: str) -> None:
        place = data.draw(st.integers(0, len(self.ends) - 1))
        leaving = [pair.id for pair in self.pairs(len(((), *self.ends)[place]))]
        texts = [summary.text for summary in self.compressed()[place:]]
        done = self.tree.revise(feedback, self.targets()[place])
        assert [node.id for node in done.steps] == leaving
        assert [node.text for node in done.summaries] == texts
        self.ends = self.ends[:place]
        self.steps = self.boundary
        self.feedback = feedback
        assert done.boundary.id == self.ids[self.steps]

    @rule(step=st.integers(-3, 40))
    def revise_to_no_boundary(self, step: int) -> None:
        if step not in self.targets():
            self.refused(lambda: self.tree.revise("no", step), NoSuchBoundaryError)

    def refused(self, operation: Callable[[], object], error: type[ValueError]) -> None:
        before = picture(self.tree)
        with pytest.raises(error):
            operation()
        assert picture(self.tree) == before

    @rule()
    def save_and_replay(self) -> None:
        self.log.record(self.tree)
        if self.tree.operations:
            assert picture(replay(self.path)) == picture(self.tree)

    # What holds at every moment --------------------------------------------------------------------------------------

    @invariant()
    def state_is_the_models(self) -> None:
        """C is the path to p_t, R is what follows the last boundary, H are the children of both pointers."""
        expected = State(self.compressed(), self.pairs(len(self.boundary)), self.hints(), self.feedback)
        assert self.tree.state == expected
        assert self.tree.path() == self.pairs(0)
        assert list(self.tree.boundaries) == self.targets()

    @invariant()
    def ids_are_monotonic(self) -> None:
        assert self.tree.step == len(self.ids)
        path = [pair.id for pair in self.tree.path()]
        assert path == sorted(set(path))
        assert list(self.tree.boundaries) == sorted(set(self.tree.boundaries))

    @invariant()
    def nothing_abandoned_is_rendered_as_state(self) -> None:
        """What stands at the beginning of a line before the hints is the active path's, and nothing else is there."""
        text = self.renderer.render(self.tree.state).text.partition(TRIED)[0]
        shown = [int(found) for found in re.findall(r"^\[(\d+)\]", text, re.MULTILINE)]
        assert shown == [*self.targets(), *(pair.id for pair in self.pairs(len(self.boundary)))]

    @invariant()
    def what_was_known_changes_no_text(self) -> None:
        assert self.renderer.render(self.tree.state) == StateRenderer(Estimate(), limit=50).render(self.tree.state)


def picture(tree: StateTree) -> object:
    """All there is to a tree: both layers with ids, contents, notes and what is covered, the pointers and S."""
    where = tree.step, tree.p_b.id, tree.p_t.id, [node.id for node in tree.p_t.cover_nodes]
    return layer(tree.bottom_root), layer(tree.top_root), where, tree.state, tree.operations


def layer(root: Node) -> object:
    covered = [node.id for node in root.cover_nodes]
    return root.id, root.content, root.note, covered, [layer(child) for child in root.children]


TestTrees = Trees.TestCase
TestTrees.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
