"""Whether two configs are of the same run. No torch is imported here."""

from __future__ import annotations

from typing import Any

import yaml


def same_run(first: str, second: str) -> bool:
    """Whether two resolved configs (YAML) differ at most in what a run may change on its way: alarms decide when it
    stops, not what it learns."""
    return bool(_decisive(first) == _decisive(second))


def _decisive(text: str) -> Any:
    try:
        given = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return {key: value for key, value in given.items() if key != "alarms"} if isinstance(given, dict) else given
