"""YAML as configs are written: numbers as people mean them, no key twice, no endless nesting. No torch here."""

from __future__ import annotations

import re
from typing import Any

import yaml

MOST_LEVELS = 100
"""Mappings and lists within each other; a config has a handful, and Python's stack bears some hundreds."""
MOST_VALUES = 100_000
"""Values once every alias is written out: nine lines of aliases of aliases can stand for billions."""


class _Fault(yaml.YAMLError):
    """What is valid YAML, and no config."""


class _Loader(yaml.SafeLoader):
    """YAML 1.1 reads `1e-6` as a string, where people mean a number, and takes the last of two equal keys."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._open: list[str | None] = []
        """Anchors of the nodes around the present one."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        line = event.start_mark.line + 1
        anchor = getattr(event, "anchor", None)
        if isinstance(event, yaml.AliasEvent) and anchor in self._open:
            raise _Fault(f"line {line}: *{anchor} stands within itself")
        if len(self._open) >= MOST_LEVELS:
            raise _Fault(f"line {line}: more than {MOST_LEVELS} levels of nesting")
        self._open.append(anchor)
        try:
            return super().compose_node(parent, index)
        finally:
            self._open.pop()

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            line = key.start_mark.line + 1
            if key.value in seen:
                raise _Fault(f"line {line}: the key '{key.value}' stands twice, first in line {seen[key.value]}")
            seen[key.value] = line
        return node


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^[-+]?(?:\d[\d_]*(?:\.[\d_]*)?(?:[eE][-+]?\d+)|\d[\d_]*\.[\d_]*|\.\d+(?:[eE][-+]?\d+)?|\.(?:inf|nan))$"
    ),
    list("-+0123456789."),
)


def read_yaml(text: str) -> Any:
    """The plain values in `text`. Raises yaml.YAMLError, or ValueError for an impossible date."""
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        if _values(root, {}) > MOST_VALUES:
            raise _Fault(f"more than {MOST_VALUES:,} values, aliases written out")
        return loader.construct_document(root)
    finally:
        loader.dispose()


def _values(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values `node` stands for, each alias counted as what it names."""
    if id(node) not in known:
        parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        below = 0 if isinstance(node, yaml.ScalarNode) else sum(_values(part, known) for part in parts)
        known[id(node)] = 1 + below
    return known[id(node)]
