"""Make note text harmless to a tokenizer and to a terminal.

A note may contain anything that anybody ever wrote in a conversation: escape sequences, invisible direction marks, or
`<|im_end|>`. Inside an observation these would close the tool message or repaint the terminal, so they are shown
instead of sent.
"""

from __future__ import annotations

import re

_CONTROL = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without \t and \n, DEL, C1
    "\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"  # bidi, invisible, separators
    "\U000e0000-\U000e007f"  # tag characters
    "\ud800-\udfff"  # lone surrogates: bytes that are not UTF-8, as surrogateescape decodes them
)
_TAGS = "tool_calls?|tool_responses?|tools?|think|tool_use|tool_result|function_calls?|function_results?|im_start|im_end|im_sep"
# Every alternative starts with a character class of its own, so that the search skips ordinary text quickly.
_RISKY = re.compile(
    f"[{_CONTROL}]"
    r"|<(?=\|)|(?<=\|)>"  # <|anything|>, also when cut short
    rf"|<(?=/?(?:{_TAGS})\s*/?>)"
    r"|<(?=/?(?:function|parameter)(?:\s*=|\s*>))"
    r"|<(?=/?s>)|<(?=(?:bos|eos|pad|unk|mask|start_of_turn|end_of_turn)>)"
    r"|\[(?=/?INST\])"
    r"|[\uff5c\u2581](?=[^<>]{0,40}>)|<(?=\uff5c)",
    re.IGNORECASE,
)


def neutralise(text: str) -> str:
    """`text` with control characters and chat special tokens replaced by visible look-alikes.

    `\\n` and `\\t` stay; other control characters become their picture (`␛`) or `\\uXXXX`-style names; the opening `<`
    of a special token becomes `‹`. Ordinary text comes back unchanged, and doing it twice changes nothing more.
    """
    if text.isascii() and "<" not in text and "|>" not in text and "[" not in text and text.isprintable():
        return text
    return _RISKY.sub(_visible, text)


def _visible(match: re.Match[str]) -> str:
    char = match[0]
    if char == "<":
        return "‹"
    if char == ">":
        return "›"
    if char == "[":
        return "❲"
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if code in (0xFF5C, 0x2581):
        return "¦"
    return "\ufffd"
