"""The tokenizer of the project's own tiny model: whole stems, split suffixes, one token for a turn id.

A two-million-parameter model copies one token from its prompt far more reliably than it spells a word out of five.
So: a common word is one stem token and the rest in pieces (`paint`, `paint|ed`, `paint|ing` share a stem, the one that
the overview of the memory prints), case is folded, a turn id (`D3:12`) is one token, and the fixed parts of a tool
call are one token each. Everything else can still be spelled from pieces.

Text is written as words that carry the space before them (`▁paint`); a word without a space before it is marked with
a glue character (`⁀▁paint`), so that a stem is the same token wherever it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from memory_shell.terms import stem

SPACE, GLUE, PIECE = "▁", "⁀", "‿"
PAD, UNKNOWN, START, END = "<|pad|>", "<|unknown|>", "<|im_start|>", "<|im_end|>"

CHAT_TEMPLATE = (
    "{%- for m in messages %}"
    "{%- set last_tool = m.role == 'tool' and (loop.last or messages[loop.index0 + 1].role != 'tool') %}"
    "{%- set first_tool = m.role == 'tool' and (loop.first or messages[loop.index0 - 1].role != 'tool') %}"
    "{%- if m.role == 'tool' %}"
    "{%- if first_tool %}{{ '<|im_start|>user' }}{% endif %}"
    "{{ '\n<tool_response>\n' + m.content + '\n</tool_response>' }}"
    "{%- if last_tool %}{{ '<|im_end|>\n' }}{% endif %}"
    "{%- else %}"
    "{{ '<|im_start|>' + m.role + '\n' + (m.content or '') }}"
    "{%- for call in m.tool_calls or [] %}"
    "{%- set call = call.function or call %}"
    "{{ ('\n' if m.content or not loop.first else '') + '<tool_call>\n{\"name\": \"' + call.name + "
    '\'", "arguments": \' + (call.arguments if call.arguments is string else call.arguments | tojson)'
    " + '}\n</tool_call>' }}"
    "{%- endfor %}"
    "{{ '<|im_end|>\n' }}"
    "{%- endif %}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""ChatML with Qwen3's tool-call and tool-response markup, and no preamble."""

CALL_PARTS = (
    '<tool_call>\n{"name": "grep", "arguments": {"args": "',
    '<tool_call>\n{"name": "select", "arguments": {"args": "',
    '<tool_call>\n{"name": "cat", "arguments": {"args": "',
    '<tool_call>\n{"name": "ls", "arguments": {"args": "',
    '<tool_call>\n{"name": "cd", "arguments": {"args": "',
    '<tool_call>\n{"name": "done", "arguments": {}}\n</tool_call>',
    '"}}\n</tool_call>',
    "-rhi -e '\\\\b",
    "' --and -e '\\\\b",
    "' sessions",
    "sessions/session_",
    ".md",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
)
CONTRACTIONS = ("'", "'s", "'m", "'t", "'d", "'re", "'ve", "'ll")
MAX_SESSION, MAX_TURN, MAX_NUMBER = 35, 50, 400


def build_tokenizer(words: Sequence[str], pieces: Sequence[str]) -> PreTrainedTokenizerFast:
    """A WordPiece tokenizer over the stems of `words` (most frequent first); `pieces` spell the rest of a word.

    Only stems are in the vocabulary, so that greedy longest-match splits every inflection after its stem.
    """
    characters = [chr(c) for c in range(33, 127) if not chr(c).isupper()]
    alphanumeric = [c for c in characters if c.isalnum()]
    vocabulary = [PAD, UNKNOWN, SPACE, GLUE, " ", "\n", "\t", " [", "]\n", *characters]
    vocabulary += [PIECE + c for c in (*alphanumeric, *CONTRACTIONS)] + [SPACE + c for c in alphanumeric]
    vocabulary += [SPACE + str(n) for n in range(MAX_NUMBER)]
    vocabulary += [SPACE + stem(word) for word in words]
    vocabulary += [PIECE + piece for piece in pieces]
    ids = {token: i for i, token in enumerate(dict.fromkeys(vocabulary))}

    tokenizer = Tokenizer(
        models.WordPiece(ids, unk_token=UNKNOWN, continuing_subword_prefix=PIECE, max_input_chars_per_word=1000)
    )
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.NFKD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
            normalizers.Replace(Regex(" (?=[a-z0-9])"), SPACE),
            normalizers.Replace(Regex(f"(?<![a-z0-9{SPACE}])(?<![a-z]')(?=[a-z0-9])"), GLUE + SPACE),
        ]
    )
    word = f"{SPACE}[a-z]+(?:'[a-z]+)*|{SPACE}[0-9]+|[a-z]+|[0-9]+"
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(f" \\[|\\]\\n|{word}|[\\s\\S]"), "isolated")
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace(PIECE, ""),
            decoders.Fuse(),
            decoders.Replace(GLUE + SPACE, ""),
            decoders.Replace(SPACE, " "),
        ]
    )
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in (PAD, UNKNOWN, START, END)])
    turn_ids = [f"D{s}:{t}" for s in range(1, MAX_SESSION + 1) for t in range(1, MAX_TURN + 1)]
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in (*CALL_PARTS, *turn_ids)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=END,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=4096,
    )


def read_word_list(vocab: Path, max_words: int = 18_000, max_pieces: int = 1_400) -> tuple[list[str], list[str]]:
    """The most frequent words and continuation pieces of a WordPiece `vocab.txt` (one token a line, by frequency)."""
    tokens = vocab.read_text(encoding="utf-8").split("\n")
    words = [t for t in tokens if len(t) > 1 and t.isascii() and t.isalpha()]
    pieces = [t[2:] for t in tokens if t.startswith("##") and t[2:].isascii() and t[2:].isalpha()]
    return words[:max_words], pieces[:max_pieces]
