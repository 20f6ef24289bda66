"""What a config of an evaluation of agents is refused for."""

from __future__ import annotations

from typing import Any

import pytest

from horma_rl.config import validate
from horma_rl.errors import UserError
from horma_rl.evaluation.agents.config import AgentsConfig


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"suite": {"name": "interdependant"}}, "did you mean 'interdependent'"),
        ({"suite": {"name": "interdependent", "options": {"sizes": 3}}}, "did you mean 'size'"),
        ({"suite": {"name": "memory_arena"}, "actor": {"kind": "scripted"}}, "cannot play memory_arena: use llm"),
        (
            {
                "suite": {"name": "memory_arena", "options": {"options": {"x": {"index": "y"}}}},
                "actor": {"kind": "llm"},
            },
            "name their 'files' too",
        ),
        (
            {"suite": {"name": "memory_arena", "options": {"files": {}, "domains": []}}, "actor": {"kind": "llm"}},
            "with 'files', name the files",
        ),
        ({"systems": {}}, "at least 1"),
        ({"systems": {"../up": {}}}, "letters, digits"),
        ({"systems": {"full": {"maintian": False}}}, "did you mean 'maintain'"),
        ({"seeds": []}, "at least 1"),
        ({"retriever": "oracle"}, "no oracle"),
        ({"retriever": "bm26-3"}, "did you mean 'bm25-3'"),
        ({"retriever": "models/none"}, "there is no folder models/none"),
        ({"name": "../up"}, "letters, digits"),
        ({"judge": {"kind": "llm"}}, "name an endpoint"),
        ({"grader": {"kind": "llm"}}, "interdependent grades by itself"),
        ({"judge": {"kind": "none"}, "systems": {"full": {}}}, r"systems\.full: Maintain needs a judge"),
        ({"suite": {"name": "household"}, "actor": {"kind": "llm"}}, "'scripted' cannot judge household"),
        (
            {
                "suite": {"name": "household"},
                "actor": {"kind": "walkthrough"},
                "judge": {"kind": "llm", "llm": {}},
                "systems": {"full": {}},
            },
            "a walkthrough cannot go back",
        ),
    ],
)
def test_configs_are_refused_in_a_line(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        validate(values, AgentsConfig, "test")
