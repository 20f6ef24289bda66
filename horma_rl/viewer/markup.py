"""HTML that is escaped by construction: a plain `str` is text, and only `tag` makes markup.

Text in a report comes from datasets and from models, and may be hostile. Besides escaping, characters that a browser
would act on without any markup (control characters, bidirectional overrides) are made visible.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_VOID = frozenset({"meta", "link", "br", "line", "polyline", "polygon"})


class Html(str):
    """Finished markup. Made by `tag`, `join` and `trusted` only."""

    __slots__ = ()


Child = str | None | Iterable["Child"]


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Html:
    """`<name attributes>children</name>`. Strings are escaped, Html is not, None adds nothing.

    Attribute names: a trailing underscore is dropped (`class_`), others become dashes. None and False leave an
    attribute out; True writes it bare.
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{name}{written}>" if name in {"meta", "link", "br"} else f"<{name}{written}/>")
    return Html(f"<{name}{written}>{''.join(map(_render, children))}</{name}>")


def join(*children: Child) -> Html:
    """Children one after the other, without an element around them."""
    return Html("".join(map(_render, children)))


def trusted(markup: str) -> Html:
    """Markup that ships with this package, such as its style sheet. Never for text from data."""
    return Html(markup)


def visible(text: str) -> str:
    """`text` with control and bidirectional characters replaced by something that can be seen."""
    return _CONTROL.sub(_name_character, text.replace("\r\n", "\n"))


def _name_character(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else f"\u27e8U+{code:04X}\u27e9"


def _render(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, str):
        return html.escape(visible(child), quote=True)
    return "".join(map(_render, child))


def _attribute(name: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f' {name}="{html.escape(visible(text), quote=True)}"'
