"""Tool calls as text: `name {"argument": value}` on one line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

# Spaces are stripped beforehand: `\s*` on both sides of the optional part would take quadratic time.
_CALL = re.compile(r"([A-Za-z_][\w-]{0,63})\s*(\{.*\})?", re.DOTALL)


def format_call(name: str, arguments: Mapping[str, Any]) -> str:
    """The one way to write a call: the same call always gives the same text."""
    return f"{name} {json.dumps(dict(arguments), ensure_ascii=False, sort_keys=True)}"


def parse_call(action: str) -> tuple[str, dict[str, Any]]:
    """Name and arguments of a call. Raises ValueError, in words for the policy, for what is none."""
    match = _CALL.fullmatch(action.strip())
    if match is None:
        raise ValueError('not a tool call: write NAME {"argument": value}')
    name, raw = match[1], match[2] or "{}"
    try:
        arguments = json.loads(raw)
    except (ValueError, RecursionError):
        raise ValueError(f"the arguments of {name} are no JSON object") from None
    return name, arguments
