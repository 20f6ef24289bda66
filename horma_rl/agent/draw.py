"""A state tree for people: both layers as text with box characters, or as one static page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from horma_rl.agent.tree import Node, StateTree
from horma_rl.viewer.markup import Html, tag, trusted, visible

ACTIVE, END, ABANDONED = "●", "▶", "○"
LEGEND = f"{ACTIVE} active path   {END} where it ends (p_t, p_b)   {ABANDONED} abandoned"
NARROWEST = 40
"""Columns that a drawing takes at least."""

_STYLE = """
.tree { font: .86rem/1.5 var(--mono); background: var(--card); border: 1px solid var(--rule); border-radius: 10px;
  padding: 14px 18px; overflow-x: auto; }
.tree summary { white-space: pre; cursor: pointer; list-style: none; color: var(--ink); font-size: inherit; }
.tree .abandoned { color: var(--soft); }
.tree .end { font-weight: 700; }
.tree .note { white-space: pre; color: var(--bad); font-size: inherit; }
.tree pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 4px 0 10px 4ch; }
"""


@dataclass(frozen=True, slots=True)
class _Line:
    """A node as it is drawn: `prefix` places it in the tree, `label` names it, `texts` are its content."""

    prefix: str
    note_prefix: str
    mark: str
    label: str
    texts: tuple[str, ...]
    note: str | None

    def head(self, width: int) -> str:
        """The node on one line of at most `width` columns."""
        content = " | ".join(one_line(text) for text in self.texts if text.strip())
        return cut(f"{_indent(self.prefix, width // 2)}{self.mark} {self.label}{content}".rstrip(), width)

    def diagnosis(self, width: int) -> str:
        """The note below it on one line; empty without one."""
        if not self.note:
            return ""
        return cut(f"{_indent(self.note_prefix, width // 2 + 1)}  found wrong: {one_line(self.note)}", width)


def draw_text(tree: StateTree, width: int = 100) -> str:
    """Both layers, a node a line, cut to `width` columns (at least `NARROWEST`). Ends with a line end."""
    width = max(width, NARROWEST)
    lines = [cut(line, width) for line in (_facts(tree), LEGEND)]
    for heading, layer in _layers(tree):
        lines += ["", cut(heading, width)]
        lines += [text for line in layer for text in (line.head(width), line.diagnosis(width)) if text]
    return "\n".join(lines) + "\n"


def draw_page(tree: StateTree, title: str) -> str:
    """The same as a page that fetches nothing and runs nothing of the tree's; a node opens to its whole content."""
    from horma_rl.viewer.report import render_document

    sections = [
        tag("section", tag("h2", heading), tag("div", [_block(line) for line in layer], class_="tree"))
        for heading, layer in _layers(tree)
    ]
    lead = tag("p", f"{_facts(tree)}. {LEGEND}", class_="lead")
    return render_document(
        title, tag("style", trusted(_STYLE)), tag("main", tag("header", tag("h1", title), lead), sections)
    )


def one_line(text: str) -> str:
    """`text` without line ends, and without what a terminal or a browser would act on."""
    return visible(" ".join(text.split()))


def cut(text: str, width: int) -> str:
    """The first `width` columns of `text`, with a mark if there is more. Characters count as one column each."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _indent(prefix: str, width: int) -> str:
    """The last `width` columns of `prefix`, with a mark if there is more: far down, a node's own text is still seen."""
    return prefix if len(prefix) <= width else f"…{prefix[1 - width :]}"


def _facts(tree: StateTree) -> str:
    steps, summaries = len(tree.path()), len(tree.boundaries)
    made = sum(1 for _ in _lines(tree.top_root, tree.p_t)) - 1
    revisions = sum(operation.name == "revise" for operation in tree.operations)
    return (
        f"{steps:,} steps and {summaries:,} summaries on the active path, {tree.step - 1 - steps:,} and "
        f"{made - summaries:,} abandoned; revised {revisions:,} times"
    )


def _layers(tree: StateTree) -> Iterator[tuple[str, Iterator[_Line]]]:
    yield "Subgoals", _lines(tree.top_root, tree.p_t)
    yield "Steps", _lines(tree.bottom_root, tree.p_b)


def _lines(root: Node, end: Node) -> Iterator[_Line]:
    """The layer below `root`. A path is drawn straight down; what branches off it is indented. Deep trees are no
    recursion."""
    active = set(_upwards(end))
    waiting = [(root, "", "")]
    while waiting:
        node, prefix, below = waiting.pop()
        mark = END if node is end else ACTIVE if node in active else ABANDONED
        label, texts = _content(node)
        trunk = _trunk(node, active)
        branches = [child for child in node.children if child is not trunk]
        bar = "│" if branches else " "
        yield _Line(prefix, f"{below}{bar}", mark, label, texts, node.note)
        if trunk is not None:
            waiting.append((trunk, below, below))
        for child in reversed(branches):
            last = trunk is None and child is branches[-1]
            waiting.append((child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  ")))


def _trunk(node: Node, active: set[Node]) -> Node | None:
    """The child that goes straight on: the active one; off the active path the latest."""
    children = node.children
    going_on = next((child for child in children if child in active), None)
    return children[-1] if going_on is None and children and node not in active else going_on


def _upwards(node: Node | None) -> Iterator[Node]:
    while node is not None:
        yield node
        node = node.parent


def _content(node: Node) -> tuple[str, tuple[str, ...]]:
    if node.parent is None:
        return "start", ()
    if isinstance(node.content, str):
        return f"[{node.id}] {_span(node.cover_nodes)}: ", (node.content,)
    return f"{node.id} > ", (node.pair.action, node.pair.observation)


def _span(nodes: tuple[Node, ...]) -> str:
    """The covered steps, by the first and the last; after a merge there may be gaps between their ids."""
    first, last = nodes[0].id, nodes[-1].id
    return f"step {first}" if first == last else f"steps {first}-{last}"


def _block(line: _Line) -> Html:
    kind = {ACTIVE: "active", END: "end", ABANDONED: "abandoned"}[line.mark]
    whole = [tag("pre", text) for text in line.texts if text.strip()]
    summary = tag("summary", line.head(140), class_=kind)
    note = tag("div", line.diagnosis(140), class_="note") if line.note else None
    return tag("div", tag("details", summary, whole, tag("pre", line.note) if line.note else None), note)
