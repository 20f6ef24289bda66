"""Make note text harmless to a tokenizer and to a terminal.

A note may contain anything that anybody ever wrote in a conversation: escape sequences, invisible direction marks, or
`<|im_end|>`. Inside an observation these would close the tool message or repaint the terminal, so they are shown
instead of sent.
"""

from __future__ import annotations

import re

# What ASCII text may hold unseen: a translation that deletes these leaves nothing of ordinary text.
_ORDINARY = bytes([9, 10, *range(32, 127)])
# Characters beyond ASCII that are invisible or turn the line around: C1, zero width, bidirectional marks, separators,
# tags, and lone surrogates (bytes that are not UTF-8, as surrogateescape decodes them).
_WIDE = (
    "\x7f-\x9f\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff"
)
_CONTROL = re.compile(f"[\x00-\x08\x0b-\x1f{_WIDE}]")
_NAMES = (
    "tool_calls?|tool_responses?|tools?|tool_use|tool_result|think|thinking|function_calls?|function_results?|"
    "im_start|im_end|im_sep|start_of_turn|end_of_turn|s|bos|eos|pad|unk|mask"
)
_TOKEN = re.compile(
    r"<(?=\|)|(?<=\|)>"  # <|anything|>, also when cut short
    rf"|<(?=/?(?:{_NAMES})[ \t]*/?>)"
    r"|<(?=/?(?:function|parameter|invoke)[ \t]*[=>])"
    r"|<(?=\uff5c)|(?<=\uff5c)>",
    re.IGNORECASE,
)
_INSTRUCTION = re.compile(r"\[(?=/?(?:INST|SYS|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])")
_LOOKALIKES = {"<": "\u2039", ">": "\u203a", "[": "\u2772", "\x7f": "\u2421"}


def neutralise(text: str) -> str:
    """`text` with control characters and chat special tokens replaced by visible look-alikes.

    `\\n` and `\\t` stay; other control characters become their picture (`\u241b` for an escape), invisible ones and
    bytes that are not UTF-8 become `\ufffd`; the `<` of a special token becomes `\u2039`. Ordinary text comes back
    unchanged, and doing it twice changes nothing more.
    """
    if text.isascii():
        if text.encode("ascii").translate(None, _ORDINARY):
            text = _CONTROL.sub(_visible, text)
    elif _CONTROL.search(text):
        text = _CONTROL.sub(_visible, text)
    if "<" in text or "|>" in text or "\uff5c>" in text:
        text = _TOKEN.sub(_visible, text)
    if "]" in text and ("INST]" in text or "S]" in text):
        text = _INSTRUCTION.sub(_visible, text)
    return text


def _visible(match: re.Match[str]) -> str:
    char = match[0]
    if char in _LOOKALIKES:
        return _LOOKALIKES[char]
    return chr(0x2400 + ord(char)) if char < " " else "\ufffd"
