"""Mage's two-layer state tree and the operations on it, as Algorithm 1 of arXiv:2606.06090 (section 3.3) writes them.

The bottom layer has a node for every action and what it brought, the top layer one for every summary. Two pointers,
`p_b` and `p_t`, stand at the end of the active path in each. Nothing is ever deleted: what Revise leaves behind stays
in the tree, off the path. Where the paper is silent, docs/mage.md says what was chosen.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from horma_rl.agent.types import Hint, Pair, State, Summary

BOTTOM_ROOT_ID = 0
"""The id of the first boundary: the start of the task, before any action."""
TOP_ROOT_ID = -1
"""An id that no boundary has, so that Revise stops at no root."""


class NothingToCompressError(ValueError):
    """Compress was asked for when no step follows the last boundary."""


class NoSuchBoundaryError(ValueError):
    """Revise was asked to go back to a step that is no boundary of the active path."""


@dataclass(slots=True, eq=False)
class Node:
    """A node of either layer (Table 2). Nodes are equal only to themselves.

    A summary's `id` is that of the boundary before it (Algorithm 1, line 30), so siblings in the top layer share one.
    `cover_nodes`, in execution order, and `note` are of the top layer only. The root of the bottom layer has no
    content; that of the top layer has an empty one, and covers the bottom root.
    """

    id: int
    content: Pair | str | None
    parent: Node | None = field(default=None, repr=False)
    cover_nodes: tuple[Node, ...] = field(default=(), repr=False)
    note: str | None = None
    by_key: dict[Hashable, Node] = field(default_factory=dict, repr=False)
    """The children by what the merge rules compare: (action, observation), or the id of the last covered node. Two
    children of a summary start at the same boundary of a tree, so that they cover the same nodes if the last is the
    same."""

    @property
    def children(self) -> tuple[Node, ...]:
        """The children, oldest first."""
        return tuple(self.by_key.values())

    @property
    def pair(self) -> Pair:
        """The content of a bottom node. Raises TypeError for any other, and for the root."""
        if not isinstance(self.content, Pair):
            raise TypeError(f"node {self.id} holds no action")
        return self.content

    @property
    def text(self) -> str:
        """The content of a top node. Raises TypeError for any other."""
        if not isinstance(self.content, str):
            raise TypeError(f"node {self.id} holds no summary")
        return self.content


@dataclass(frozen=True, slots=True)
class Revised:
    """What Revise did: the bottom node that it went back to, and the nodes that it took off the active path, each in
    execution order."""

    boundary: Node
    summaries: tuple[Node, ...]
    steps: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation that was done, with its arguments, and where it left the global step and the pointers (as ids)."""

    name: str
    """`grow`, `compress`, `fail` or `revise`."""
    arguments: tuple[str | int, ...]
    step: int
    p_b: int
    p_t: int


class StateTree:
    """The tree of one task. An operation that is refused changes nothing.

    Grow costs O(1), Compress O(|R|), Revise what it takes off the path, and `state` O(|R| + |H|); C is only copied.
    """

    def __init__(self) -> None:
        self.bottom_root = Node(BOTTOM_ROOT_ID, None)
        self.top_root = Node(TOP_ROOT_ID, "", cover_nodes=(self.bottom_root,))
        self.operations: list[Operation] = []
        """All that was done so far: what `events.EventLog` saves."""
        self._p_b = self.bottom_root
        self._p_t = self.top_root
        self._step = BOTTOM_ROOT_ID + 1
        self._feedback: str | None = None
        self._compressed: tuple[Summary, ...] = ()
        """C, kept beside the path to `p_t`, so that no step walks it: the same tuple until Compress or Revise changes
        it."""

    @property
    def p_b(self) -> Node:
        """The end of the active path in the bottom layer."""
        return self._p_b

    @property
    def p_t(self) -> Node:
        """The end of the active path in the top layer: the last summary, or the root."""
        return self._p_t

    @property
    def step(self) -> int:
        """The global step: the id of the next bottom node."""
        return self._step

    # The operations of Algorithm 1 ---------------------------------------------------------------------------------

    def grow(self, action: str, observation: str) -> Node:
        """Grow (lines 4 to 17): walk into the child of `p_b` with this content, or make one."""
        node = self._p_b.by_key.get((action, observation))
        if node is None:
            node = Node(self._step, Pair(self._step, action, observation), self._p_b)
            self._p_b.by_key[action, observation] = node
            self._step += 1
        self._p_b = node
        self._did("grow", action, observation)
        return node

    def compress(self, summary: str) -> Node:
        """Compress (lines 19 to 35): put `summary` in the place of the steps since the last boundary.

        A child of `p_t` that covers the same steps is taken again, with the new content and its old note.

        Raises:
            NothingToCompressError: there is no step since the last boundary.
        """
        covered = self._trace(self._boundary, self._p_b)
        if not covered:
            raise NothingToCompressError(f"no step was taken since the last boundary, step {self._boundary.id}")
        node = self._p_t.by_key.get(covered[-1].id)
        if node is None:
            node = Node(self._boundary.id, summary, self._p_t, covered)
            self._p_t.by_key[covered[-1].id] = node
        node.content = summary
        self._p_t = node
        self._feedback = None
        self._compressed = (*self._compressed, Summary(node.id, summary))
        self._did("compress", summary)
        return node

    def fail(self, feedback: str) -> int:
        """The failing half of Maintain (lines 43 and 44): note the diagnosis at `p_t`.

        Returns the target for Revise. Raises ValueError when there is no summary that could be wrong.
        """
        if self._p_t is self.top_root:
            raise ValueError("there is no summary on the active path that could be found wrong")
        self._p_t.note = feedback
        self._did("fail", feedback)
        return self._p_t.id

    def revise(self, feedback: str, target: int) -> Revised:
        """Revise (lines 48 to 56): go back to boundary `target`, which the summary of that id started from.

        Raises:
            NoSuchBoundaryError: no summary on the active path has that id.
        """
        if target not in self.boundaries:
            known = ", ".join(map(str, self.boundaries)) or "none, as nothing is compressed"
            raise NoSuchBoundaryError(f"step {target} is no boundary of the active path; there are: {known}")
        summaries = [self._p_t]
        while summaries[-1].id != target:
            summaries.append(_parent(summaries[-1]))
        self._p_t = _parent(summaries[-1])  # past the failed one
        steps = self._trace(self._boundary, self._p_b)
        self._p_b = self._boundary
        self._feedback = feedback
        self._compressed = self._compressed[: -len(summaries)]
        self._did("revise", feedback, target)
        return Revised(self._p_b, tuple(reversed(summaries)), steps)

    # What there is now ---------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """S = (C, R, H), section 3.2. `feedback` is that of the last Revise, until the next Compress."""
        raw = tuple(node.pair for node in self._trace(self._boundary, self._p_b))
        tried = [Hint("action", node.pair.action) for node in self._p_b.by_key.values()]
        tried += [Hint("subgoal", node.text, node.note) for node in self._p_t.by_key.values()]
        return State(self._compressed, raw, tuple(tried), self._feedback)

    @property
    def boundaries(self) -> tuple[int, ...]:
        """The targets that Revise takes, oldest first: the ids of the summaries on the active path."""
        return tuple(summary.id for summary in self._compressed)

    @property
    def covered(self) -> tuple[Pair, ...]:
        """The trace that the last summary covers (Flatten, line 38); empty when there is none."""
        return tuple(node.pair for node in self._p_t.cover_nodes if node is not self.bottom_root)

    def path(self) -> tuple[Pair, ...]:
        """Every step of the active path, from the start of the task."""
        return tuple(node.pair for node in self._trace(self.bottom_root, self._p_b))

    @property
    def _boundary(self) -> Node:
        return self._p_t.cover_nodes[-1]

    @staticmethod
    def _trace(start: Node, end: Node) -> tuple[Node, ...]:
        """The nodes after `start`, down to `end`."""
        nodes = []
        while end is not start:
            nodes.append(end)
            end = _parent(end)
        return tuple(reversed(nodes))

    def _did(self, name: str, *arguments: str | int) -> None:
        self.operations.append(Operation(name, arguments, self._step, self._p_b.id, self._p_t.id))


def _parent(node: Node) -> Node:
    parent = node.parent
    assert parent is not None
    return parent
