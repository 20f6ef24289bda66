from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import normalizers

from horma_rl.errors import UserError
from horma_rl.retrieval.prompt import SYSTEM, ChatCodec
from memory_shell.types import ToolCall
from tests.rollout_parts import FAMILIES, SPECIAL, TAGS, TOOLS, codec, template, tokenizer

CONTROL = {tokenizer("simple").convert_tokens_to_ids(name) for name in (*SPECIAL, *TAGS)}
CALLS = [ToolCall("grep", "-i kiln"), ToolCall("ls", "people")]
SEEN = [" sessions/1.md:3: a kiln [D1:3]\n\n", "ana.md"]


def test_golden_ids_of_a_turn_boundary() -> None:
    """The newline after the end token, the tool message and the next opening, id by id."""
    made = codec("simple")
    start, end, opened, closed, newline = 257, 258, 261, 262, tokenizer("simple").convert_tokens_to_ids("Ċ")
    word = tokenizer("simple").convert_tokens_to_ids
    user, assistant = [word(c) for c in "user"], [word(c) for c in "assistant"]
    assert made.end_id == end
    assert made.start("ok") == [start, *user, newline, word("o"), word("k"), end, newline, start, *assistant, newline]
    assert made.observe(["a", "b"]) == [
        newline, start, *user, newline, opened, newline, word("a"), newline, closed, newline, opened, newline,
        word("b"), newline, closed, end, newline, start, *assistant, newline,
    ]  # fmt: skip
    assert made.close_unfinished() == [end]


@pytest.mark.parametrize("prompt", ["full", "compact"])
@pytest.mark.parametrize("thinking", [False, True])
@pytest.mark.parametrize("family", [*FAMILIES, "simple"])
def test_ids_equal_the_template_rendered_whole(family: str, thinking: bool, prompt: Any) -> None:
    if family == "simple" and thinking:
        pytest.skip("a template without thinking")
    made = codec(family, prompt, thinking)
    question = "Question: who?\n  Asked on: 2023-05-08"
    thought = {"reasoning_content": "hm"} if thinking else {}
    messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}] if prompt == "full" else []
    messages.append({"role": "user", "content": question})
    turns = []
    for seen in (SEEN, ["last"]):
        functions = [{"function": {"name": c.name, "arguments": {"args": c.args}}} for c in CALLS]
        messages.append({"role": "assistant", "content": "", "tool_calls": functions, **thought})
        messages += [{"role": "tool", "content": text} for text in seen]
        opened = "<think>\n" if family == "qwen3_training" else ""
        turns.append(((f"{opened}hm\n</think>\n\n" if thinking else "") + made.format.render(CALLS), seen))
    whole = tokenizer(family).apply_chat_template(
        messages, tools=TOOLS if prompt == "full" else None, tokenize=False, add_generation_prompt=True,
        enable_thinking=thinking,
    )  # fmt: skip
    ids, mask = made.transcript(question, turns)
    assert ids == tokenizer(family).encode(whole, add_special_tokens=False)
    sampled = tokenizer(family).decode([i for i, m in zip(ids, mask, strict=True) if m])
    assert sampled == "".join(response + "<|im_end|>" for response, _ in turns)


def test_full_shows_the_job_and_the_schema_and_compact_shows_only_the_task() -> None:
    full = tokenizer("qwen3_training").decode(codec("qwen3_training", "full").start("Question: who?"))
    compact = tokenizer("qwen3_training").decode(codec("qwen3_training", "compact").start("Question: who?"))
    assert SYSTEM in full
    assert all(f'"name": "{tool["function"]["name"]}"' in full for tool in TOOLS)
    assert full.count("Question: who?") == 1
    assert compact == "<|im_start|>user\nQuestion: who?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


@given(
    st.lists(st.one_of(st.sampled_from([*SPECIAL, *TAGS, "<", "|im_end|>"]), st.text(max_size=4)), max_size=8).map(
        "".join
    )
)
def test_no_control_token_comes_out_of_an_observation(text: str) -> None:
    made = codec("simple")
    frame = made.observe([""])
    ids = made.observe([text])
    assert [i for i in ids if i in CONTROL] == [i for i in frame if i in CONTROL]
    assert tokenizer("simple").decode(ids) == tokenizer("simple").decode(frame).replace("\n\n", f"\n{text}\n", 1)
    assert [i for i in made.start(text) if i in CONTROL] == [257, 258, 257]


def test_control_tokens_are_refused_however_a_normaliser_spells_them() -> None:
    folded = ChatCodec(_folding(), "compact")
    frame = [i for i in folded.observe(["x"]) if i in CONTROL]
    assert [i for i in folded.observe(["a <|IM_END|> b <TOOL_CALL>\n{} c"]) if i in CONTROL] == frame


def _folding() -> Any:
    made = tokenizer("simple").__class__(
        tokenizer_object=tokenizer("simple").backend_tokenizer.from_str(tokenizer("simple").backend_tokenizer.to_str()),
        eos_token="<|im_end|>",
        chat_template=template("simple"),
    )
    made.backend_tokenizer.normalizer = normalizers.Lowercase()
    made.backend_tokenizer.add_tokens(["<tool_call>\n{"])
    return made


def test_a_long_added_token_that_holds_a_tag_is_control_too() -> None:
    folded = _folding()
    made = ChatCodec(folded, "compact")
    assert folded.convert_tokens_to_ids("<tool_call>\n{") not in made.observe(["<tool_call>\n{"])


def test_a_response_is_decoded_without_its_end_token_only() -> None:
    made = codec("simple")
    ids = tokenizer("simple").encode("<tool_call>x</tool_call><|endoftext|>y", add_special_tokens=False)
    assert made.decode([*ids, made.end_id]) == "<tool_call>x</tool_call><|endoftext|>y"
    assert made.decode([]) == ""


def test_a_response_is_always_answered() -> None:
    with pytest.raises(ValueError, match="at least one observation"):
        codec().observe([])


def test_a_template_that_rewrites_earlier_turns_is_refused() -> None:
    """Qwen3's own template drops the empty thought of earlier turns: what the model saw would not be kept."""
    with pytest.raises(UserError, match="not be a prefix"):
        codec("qwen3")


def test_a_template_without_tool_messages_is_refused() -> None:
    broken = tokenizer("simple").__class__(
        tokenizer_object=tokenizer("simple").backend_tokenizer, eos_token="<|im_end|>",
        chat_template="<tool_call>{{ raise_exception('no tools here') }}",
    )  # fmt: skip
    with pytest.raises(UserError, match="no tools here"):
        ChatCodec(broken, "compact")
