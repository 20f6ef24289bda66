"""Progressive search: sub-queries over a document index, then the query that combines them.

The index is the user's, built with `horma-rl data index documents`. Answers are graded by the grader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interactive_env.calls import parse_call
from interactive_env.types import ToolSpec
from memory_arena.domain import Decides, Grader, Reply, Score, expect, options
from memory_arena.index import Document, TextIndex, open_index, steps_of
from memory_arena.rows import SEARCH, Row, SearchRow

STEPS = 30
"""Steps of one query."""
RESULTS = 5
"""Results of a search."""
EXCERPT = 400
"""Characters of a document that a result shows."""
PAGE = 8_000
"""Characters on a page of a document."""
MAX_ANSWER = 4_000
"""Characters of an answer that count."""

ACTIONS = """One call at a time:
search {"query": "words"}: the best documents, with the beginning of each
get_document {"id": "ID"}: a document; {"id": "ID", "page": 2} gives the next page of a long one
answer {"text": "..."}: hand in the answer, briefly; this ends the query"""


def _tool(name: str, description: str, required: Mapping[str, str], optional: Mapping[str, str]) -> ToolSpec:
    properties = {argument: {"type": kind} for argument, kind in {**required, **optional}.items()}
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return ToolSpec(name, description, schema)


TOOLS = (
    _tool(
        "search", f"Find documents by words: the {RESULTS} best, with the beginning of each.", {"query": "string"}, {}
    ),
    _tool("get_document", "Read a document by its id, a page at a time.", {"id": "string"}, {"page": "integer"}),
    _tool("answer", "Hand in the answer to the query, briefly. This ends the query.", {"text": "string"}, {}),
)
_SCHEMAS = {tool.name: tool.parameters for tool in TOOLS}
_TYPES: dict[str, type] = {"string": str, "integer": int}


class Search:
    """The domain over an index of documents.

    Args:
        index: built with `horma-rl data index documents`.
        grader: whether an answer is right.
        steps: step cap of one query.
    """

    name = SEARCH
    actions = ACTIONS
    tools: Sequence[ToolSpec] = TOOLS
    decides: Decides = "last"

    def __init__(self, index: TextIndex, grader: Grader, steps: int = STEPS) -> None:
        self.index, self.grader = index, grader
        self.step_cap = steps

    def play(self, row: Row) -> SearchPlay:
        """Start a row."""
        return SearchPlay(self, expect(row, SearchRow))


def build(given: Mapping[str, Any], grader: Grader) -> Search:
    """The domain from options: `index` (a path, required) and `steps` (of one query, default 30)."""
    known = options(given, ("index", "steps"), SEARCH)
    return Search(open_index(known, "documents", SEARCH), grader, steps_of(known, STEPS, SEARCH))


class SearchPlay:
    """One row: see `domain.Play`."""

    def __init__(self, domain: Search, row: SearchRow) -> None:
        self._domain, self._row = domain, row
        self._index = 0
        self._answer: str | None = None

    @property
    def instruction(self) -> str:
        """What holds for the whole row."""
        return (
            f"Answer {len(self._row.questions)} queries with what you find in a collection of documents. Later queries "
            "build on the answers to earlier ones, and the last one needs them together."
        )

    def begin(self, index: int) -> str:
        """The query."""
        self._index, self._answer = index, None
        return self._row.questions[index]

    def act(self, action: str) -> Reply:
        """Do a call; see `ACTIONS`."""
        try:
            name, arguments = parse_call(action)
            _check(name, arguments)
        except ValueError as error:
            return Reply(f"That cannot be done: {error}.", valid=False)
        if name == "search":
            return self._search(arguments["query"])
        if name == "get_document":
            return self._document(arguments["id"], arguments.get("page", 1))
        self._answer = arguments["text"].strip()[:MAX_ANSWER]
        return Reply("The answer is handed in.", ended=True)

    def score(self) -> Score:
        """What the grader says of the answer. Without an answer it is not asked."""
        if self._answer is None:
            return Score(passed=False, answered=False)
        question, gold = self._row.questions[self._index], self._row.answers[self._index]
        return Score(passed=self._domain.grader(question, gold, self._answer), answered=True)

    def _search(self, query: str) -> Reply:
        found = self._domain.index.search(query, RESULTS)
        return Reply("\n".join(map(_result, found)) or "No document holds any of these words.")

    def _document(self, document_id: str, page: int) -> Reply:
        document = self._domain.index.get(document_id.strip())
        if document is None:
            return Reply("That cannot be done: there is no document with this id.", valid=False)
        pages = max(1, -(-len(document.text) // PAGE))
        if not 1 <= page <= pages:
            return Reply(f"That cannot be done: this document has the pages 1 to {pages}.", valid=False)
        text = document.text[(page - 1) * PAGE : page * PAGE]
        return Reply(f"{_head(document)} (page {page} of {pages})\n{text}")


def _check(name: str, arguments: Mapping[str, Any]) -> None:
    """Raises ValueError, in words for the policy, for a call that `TOOLS` does not describe."""
    schema = _SCHEMAS.get(name)
    if schema is None:
        raise ValueError(f"there is no tool {name}; there are {', '.join(_SCHEMAS)}")
    for argument, value in arguments.items():
        if argument not in schema["properties"]:
            raise ValueError(f"{name} takes no such argument; it takes {', '.join(schema['properties'])}")
        kind = schema["properties"][argument]["type"]
        if not isinstance(value, _TYPES[kind]) or isinstance(value, bool):
            raise ValueError(f"the argument {argument} of {name} is of type {kind}")
    for argument in schema["required"]:
        if not str(arguments.get(argument, "")).strip():
            raise ValueError(f"{name} needs the argument {argument}, and some text in it")


def _head(document: Document) -> str:
    return f"[{document.id}] {document.title}" if document.title else f"[{document.id}]"


def _result(document: Document) -> str:
    start = " ".join(document.text[: 2 * EXCERPT].split())
    more = len(start) > EXCERPT or len(document.text) > 2 * EXCERPT
    return f"{_head(document)}\n{start[:EXCERPT]}{'...' if more else ''}"
