"""What a request's schema lets through: the turns of the batch, the notes that are shown, the folders there are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from horma_rl.memory.archive import Record
from horma_rl.memory.manager.check import check
from horma_rl.memory.manager.config import ManagerConfig
from horma_rl.memory.manager.operations import Refused, read
from horma_rl.memory.manager.prompt import messages
from horma_rl.memory.manager.schema import answer_to
from horma_rl.memory.manager.tree import Tree
from tests.unit.test_manager_operations import START, TURNS, create, tree, verdict

PLAIN = ManagerConfig(plain=True, lines=1, line_characters=60, max_operations=2)


def schema(made: Tree, config: ManagerConfig, batch: Sequence[Record] = TURNS[2:], least: int = 0) -> dict[str, Any]:
    asked = messages(batch, made, "", config)
    return answer_to(asked, batch, made, config, least).model_json_schema()


def operations(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The fields of each operation."""
    kinds = found["properties"]["operations"]["items"]["anyOf"]
    return {kind["properties"]["op"]["enum"][0]: kind["properties"] for kind in kinds}


def test_without_notes_there_is_nothing_to_append_to() -> None:
    assert set(operations(schema(tree(), ManagerConfig()))) == {"create", "mkdir", "absence"}
    found = operations(schema(tree(create("people/kiln.md")), ManagerConfig()))
    assert set(found) == {"create", "append", "supersede", "link", "mkdir", "absence"}
    assert found["append"]["path"]["enum"] == ["people/kiln.md"]
    assert found["link"]["to"]["enum"] == ["people/kiln.md", "sessions/session_02.md"]


def test_only_turns_of_the_batch_and_shown_notes_are_named() -> None:
    made = tree(create("people/kiln.md"), *(create(f"people/ana-{at}.md") for at in range(60)))
    supersede = {"op": "supersede", "path": "people/ana-59.md", "new_path": "people/eva.md", "lines": create()["lines"]}
    assert verdict(supersede, made) is None
    config = ManagerConfig(tree_tokens=60, notes_tokens=0, lines=2, line_characters=50, max_operations=3)
    found = schema(made, config, least=1)
    fields = operations(found)
    assert fields["append"]["lines"]["items"]["properties"]["turns"]["items"]["enum"] == ["D2:1"]
    assert fields["append"]["lines"]["maxItems"] == 2
    assert fields["append"]["lines"]["items"]["properties"]["text"]["maxLength"] == 50
    assert "people/ana-58.md" in fields["append"]["path"]["enum"]
    assert "people/ana-59.md" not in fields["append"]["path"]["enum"]
    assert len(fields["append"]["path"]["enum"]) < 20
    every = found["properties"]["operations"]
    assert (every["minItems"], every["maxItems"]) == (1, 3)


@pytest.mark.parametrize(
    ("path", "fits"),
    [
        ("people/ana.md", True),
        ("projects/Ana-Smith-2.md", True),
        ("people/\u00e9va.md", True),
        ("ana.md", False),
        ("raw_logs/ana.md", False),
        ("people/../ana.md", False),
        ("people/ana", False),
        (f"people/{'a' * 30}.md", False),
    ],
)
def test_paths_are_folder_and_name(path: str, fits: bool) -> None:
    made = tree({"op": "mkdir", "path": "projects"})
    pattern = operations(schema(made, ManagerConfig()))["create"]["path"]["pattern"]
    assert bool(re.search(pattern, path)) is fits
    assert not fits or verdict(create(path), made) is None


def test_a_plain_line_is_a_sentence_of_the_turn_that_it_cites() -> None:
    batch = [TURNS[0], TURNS[1], Record("D1:3", START, "Ana", "Oh wow!", 1)]
    found = operations(schema(tree(), PLAIN, batch))
    assert set(found) == {"create"}
    lines = found["create"]["lines"]["items"]["anyOf"]
    offered = {line["properties"]["turns"]["items"]["enum"][0]: line["properties"]["text"]["enum"] for line in lines}
    assert offered == {
        "D1:1": ["Ana: I bought a kiln last week."],
        "D1:2": ["Ben: In my teens I fired pots.", "Ben: We moved the week before my exam."],
    }
    assert "events/kiln.md" in found["create"]["path"]["enum"]
    assert "people/ben.md" in found["create"]["path"]["enum"]


def test_whatever_a_plain_schema_offers_is_let_through() -> None:
    odd = [Record("D3:1", START, "Ana", "", 3), Record("D3:2", START, "B" * 90, "\n".join(["Hm ..."] * 300), 3)]
    for batch in (TURNS[:2], TURNS[2:], odd):
        made = tree(create("people/ana.md"), create("events/kiln.md"))
        made.see(odd)
        for op, fields in operations(schema(made, PLAIN, batch)).items():
            for path in fields["path"]["enum"]:
                for line in fields["lines"]["items"]["anyOf"]:
                    turns, texts = (line["properties"][name] for name in ("turns", "text"))
                    told = {"turns": turns["items"]["enum"], "text": texts["enum"][0]}
                    operation = read({"op": op, "path": path, "lines": [told]})
                    assert not isinstance(operation, Refused)
                    assert check(operation, made) in (None, f"{path} says that already")


def test_there_is_always_something_to_choose() -> None:
    batch = [Record("D1:9", START, "Ana", "Oh wow!", 1)]
    made = tree(create("people/ana.md"))
    made.see(batch)
    hidden = ManagerConfig(plain=True, tree_tokens=0, notes_tokens=0)
    assert operations(schema(made, hidden, batch))["append"]["path"]["enum"] == ["people/ana.md"]
