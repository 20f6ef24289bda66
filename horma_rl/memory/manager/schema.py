"""The JSON schema of one request: what an answer to it may hold, for servers that can be told.

It names the turns of the batch, the notes that the prompt shows and the folders that there are, and bounds every list
and text, so that what it lets through is refused for its content only. Without such a server the same checks find the
same faults afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from horma_rl.llm.types import Message
from horma_rl.memory.archive import Record
from horma_rl.memory.manager.config import ManagerConfig
from horma_rl.memory.manager.operations import MAX_TURNS, Proposal
from horma_rl.memory.manager.tree import Tree, stems
from horma_rl.memory.notes import Utterance, utterance
from horma_rl.memory.text import one_line, slug
from memory_shell.terms import STOP_WORDS, tokenise

_NAME = r"[^\W_]{1,20}(-[^\W_]{1,20}){0,2}"
_SENTENCE = re.compile(r"\S.*?(?:[.!?]+(?=\s|$)|$)")
_FILED = ("events", "topics", "places", "entities")
_TITLE = 60
_TOPIC = 30
_CLAIM = 120
_SAID = 20
_TELLING = 3
_NAMING = 4
_WORDS = 30
"""Words of a batch that notes may be named after."""

Schema = dict[str, Any]


def answer_to(
    asked: Sequence[Message], batch: Sequence[Record], tree: Tree, config: ManagerConfig, least: int
) -> type[Proposal]:
    """What an answer to `asked`, which is about `batch`, is validated as; its schema asks for `least` operations or
    more."""
    told = "\n".join(message["content"] for message in asked)
    notes = [path for path, note in tree.notes.items() if note.superseded_by is None and path in told]
    operations = (
        _plain_operations(batch, notes, tree, config) if config.plain else _operations(batch, notes, tree, config)
    )
    schema = _object({"operations": _list({"anyOf": operations}, config.max_operations, least)})

    class Answer(Proposal):
        @classmethod
        def model_json_schema(cls, *args: Any, **kwargs: Any) -> Schema:
            return schema

    return Answer


def _operations(batch: Sequence[Record], notes: Sequence[str], tree: Tree, config: ManagerConfig) -> list[Schema]:
    """Those that can be carried out: without notes there is nothing to append to."""
    new = {"type": "string", "pattern": f"^({'|'.join(sorted(tree.folders))})/{_NAME}\\.md$"}
    about = {"title": _text(_TITLE), "topics": _list(_text(_TOPIC), 3)}
    # The turn first: what is written then can be copied from it.
    turns = _list(_one_of([record.id for record in batch]), MAX_TURNS)
    lines = _list(_object({"turns": turns, "text": _text(config.line_characters)}), config.lines)
    operations = [_operation("create", {"path": new, **about, "lines": lines}, optional=about)]
    if notes:
        old = _one_of(notes)
        to = _one_of([*notes, f"sessions/session_{batch[0].session:02d}.md"])
        operations += [
            _operation("append", {"path": old, "lines": lines}),
            _operation("supersede", {"path": old, "new_path": new, **about, "lines": lines}, optional=about),
            _operation("link", {"path": old, "to": to}),
        ]
    return [
        *operations,
        _operation("mkdir", {"path": {"type": "string", "pattern": f"^{_NAME}(/{_NAME})?$"}}),
        _operation("absence", {"claim": _text(_CLAIM), "words": _list(_text(_TOPIC), 4)}),
    ]


# Plain: everything is a choice ---------------------------------------------------------------------------------------


def _plain_operations(batch: Sequence[Record], notes: Sequence[str], tree: Tree, config: ManagerConfig) -> list[Schema]:
    """Which sentences of the batch are filed, and then under which of its words."""
    turns = [utterance(record) for record in batch]
    said = {turn.id: _sentences(turn) for turn in turns}
    telling = {turn: kept for turn, texts in said.items() if (kept := [one for one in texts if _tells(one)])} or said
    lines = _list({"anyOf": [_quoting(turn, telling, config) for turn in turns if turn.id in telling]}, config.lines)
    people = [f"people/{slug(turn.speaker)}.md" for turn in turns]
    words = [word for texts in telling.values() for text in texts for word in tokenise(text) if _names(word)]
    things = [f"{folder}/{slug(word)}.md" for word in list(dict.fromkeys(words))[:_WORDS] for folder in _FILED]
    paths = dict.fromkeys([*people, *things])
    new = [path for path in paths if path not in tree.notes]
    old = notes or [path for path in paths if path in tree.notes]
    ways = {"create": new, "append": old}
    return [_operation(op, {"lines": lines, "path": _one_of(known)}) for op, known in ways.items() if known]


def _sentences(turn: Utterance) -> list[str]:
    told = one_line(turn.text + turn.shares)
    return _SENTENCE.findall(told) or [told]


def _tells(sentence: str) -> bool:
    """Whether it says more than a greeting does."""
    return len(set(stems(sentence))) >= _TELLING


def _names(word: str) -> bool:
    return len(word) >= _NAMING and word.isalpha() and word not in STOP_WORDS


def _quoting(turn: Utterance, telling: Mapping[str, Sequence[str]], config: ManagerConfig) -> Schema:
    """A line that is one of the turn's own sentences, with who said it."""
    who = f"{turn.speaker}: "
    most = max(config.line_characters, len(who) + _SAID)
    texts = [f"{who}{one}"[:most].rstrip() for one in telling[turn.id]]
    return _object({"turns": _list(_one_of([turn.id]), 1), "text": _one_of(list(dict.fromkeys(texts)))})


# Parts ---------------------------------------------------------------------------------------------------------------


def _operation(op: str, fields: Schema, optional: Collection[str] = ()) -> Schema:
    return _object({"op": _one_of([op]), **fields}, optional)


def _object(fields: Schema, optional: Collection[str] = ()) -> Schema:
    required = [name for name in fields if name not in optional]
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}


def _list(items: Schema, most: int, least: int = 1) -> Schema:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def _text(most: int) -> Schema:
    return {"type": "string", "minLength": 1, "maxLength": most}


def _one_of(values: Sequence[str]) -> Schema:
    return {"type": "string", "enum": list(values)}
