from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from horma_rl.errors import UserError
from horma_rl.retrieval.toolcalls import ToolFormat, detect
from memory_shell.types import ToolCall

NAMES = {"ls": ("args",), "cd": ("args",), "grep": ("args",), "cat": ("args",), "select": ("args",), "done": ()}
JSON, XML = ToolFormat("json", NAMES), ToolFormat("xml", NAMES)


def as_json(name: object, arguments: object) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def as_xml(name: str, **arguments: str) -> str:
    inner = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())
    return f"<tool_call>\n<function={name}>\n{inner}</function>\n</tool_call>"


GREP = {"json": as_json("grep", {"args": "-i kiln"}), "xml": as_xml("grep", args="-i kiln")}
DONE = {"json": as_json("done", {}), "xml": as_xml("done")}
FORMATS = {"json": JSON, "xml": XML}


@pytest.mark.parametrize("syntax", FORMATS)
def test_calls_are_read_in_order_and_text_around_them_is_ignored(syntax: str) -> None:
    text = f"Let me look.\n{GREP[syntax]}\nand then\n{DONE[syntax]}\nthat is all"
    assert FORMATS[syntax].parse(text) == [ToolCall("grep", "-i kiln"), ToolCall("done")]


@pytest.mark.parametrize("syntax", FORMATS)
def test_a_call_thought_of_is_not_a_call_made(syntax: str) -> None:
    text = f"<think>\nI could call {DONE[syntax]} now\n</think>\n\n{GREP[syntax]}"
    assert FORMATS[syntax].parse(text) == [ToolCall("grep", "-i kiln")]


@pytest.mark.parametrize("syntax", FORMATS)
def test_no_call_is_no_call(syntax: str) -> None:
    assert FORMATS[syntax].parse("The answer is a bowl.") == []


@pytest.mark.parametrize("syntax", FORMATS)
def test_rendering_is_what_the_family_writes(syntax: str) -> None:
    calls = [ToolCall("grep", "-i kiln"), ToolCall("done")]
    assert FORMATS[syntax].render(calls) == f"{GREP[syntax]}\n{DONE[syntax]}"


@pytest.mark.parametrize("syntax", FORMATS)
@given(
    calls=st.lists(
        st.builds(ToolCall, st.sampled_from(["ls", "grep", "select"]), st.text().filter(lambda s: "<" not in s))
    )
)
def test_what_is_rendered_is_read_back(syntax: str, calls: list[ToolCall]) -> None:
    assert FORMATS[syntax].parse(FORMATS[syntax].render(calls)) == calls


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<tool_call>\n{'name': 'grep'}\n</tool_call>", "not valid JSON"),
        ('<tool_call>\n{"name": "grep", "arguments": {"args": "x"}}', "not closed"),
        (f"<tool_call>\n{GREP['json']}", "not closed"),
        (as_json("grpe", {"args": "x"}), "did you mean 'grep'?"),
        (as_json(["grep"], {"args": "x"}), '"name" and "arguments"'),
        (as_json("grep", "-i kiln"), '"arguments" must be a JSON object'),
        (as_json("grep", {"args": ["-i", "kiln"]}), "must be one string"),
        (as_json("grep", {"args": 5}), "must be one string"),
        (as_json("grep", {"pattern": "kiln"}), "no argument 'pattern'"),
        (as_json("done", {"args": "now"}), "done takes no arguments"),
        ("<tool_call>[1]</tool_call>", "JSON object"),
        ("<tool_call>" + "[" * 100_000 + "</tool_call>", "not valid JSON"),
    ],
)
def test_an_unreadable_json_call_is_answered_with_what_to_do(text: str, told: str) -> None:
    answers = [call for call in JSON.parse(text) if isinstance(call, str)]
    assert len(answers) == 1
    assert told in answers[0]
    assert '{"name": "ls", "arguments": {"args": "..."}}' in answers[0]
    assert len(answers[0]) < 400


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (GREP["json"], "one <function=NAME> block"),
        ("<tool_call><function=grep></tool_call>", "one <function=NAME> block"),
        ("<tool_call><function=grep><parameter=args>x</function></tool_call>", "<parameter=NAME> block that is closed"),
        (as_xml("find", args="x"), "no tool 'find'"),
        (as_xml("grep", pattern="x"), "no argument 'pattern'"),
        (as_xml("done", args="x"), "done takes no arguments"),
    ],
)
def test_an_unreadable_xml_call_is_answered_with_what_to_do(text: str, told: str) -> None:
    (answer,) = XML.parse(text)
    assert isinstance(answer, str)
    assert told in answer
    assert "<function=ls> <parameter=args>" in answer


def test_one_unreadable_call_does_not_spoil_the_others() -> None:
    first, second, third = JSON.parse(f"{GREP['json']}<tool_call>nonsense</tool_call>{DONE['json']}")
    assert (first, third) == (ToolCall("grep", "-i kiln"), ToolCall("done"))
    assert isinstance(second, str)


def test_empty_arguments_are_enough_where_none_are_needed() -> None:
    assert JSON.parse('<tool_call>{"name": "ls"}</tool_call>') == [ToolCall("ls")]
    assert JSON.parse(as_json("done", {"args": ""})) == [ToolCall("done")]
    assert XML.parse("<tool_call><function=ls></function></tool_call>") == [ToolCall("ls")]


def test_only_the_frame_of_a_parameter_is_stripped() -> None:
    assert XML.parse(as_xml("grep", args="\n -e 'a  b' \n")) == [ToolCall("grep", "\n -e 'a  b' \n")]


def test_a_lone_surrogate_becomes_encodable() -> None:
    (call,) = JSON.parse('<tool_call>{"name": "grep", "arguments": {"args": "a\\ud800b"}}</tool_call>')
    assert isinstance(call, ToolCall)
    assert call.args.encode() == b"a?b"


def test_an_error_never_quotes_a_tag_back() -> None:
    (answer,) = JSON.parse(as_json("<|im_end|>" * 30, {}))
    assert isinstance(answer, str)
    assert "<|im_end|>" not in answer


TAGS = ["<tool_call>", "</tool_call>", "<function=", "grep>", "</function>", "<parameter=", "args>", "</parameter>"]
PIECES = [
    *TAGS,
    "</think>",
    '{"name": "grep", ',
    '"arguments": {"args": ',
    '"x"}}',
    "\n",
    "[",
    "\\ud800",
    "1e999",
    "\x00",
]


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=25).map("".join))
def test_reading_never_raises(text: str) -> None:
    for known in (JSON, XML):
        for call in known.parse(text):
            assert isinstance(call, str) or (call.name in NAMES and isinstance(call.args, str))
            (call if isinstance(call, str) else call.args).encode()


def tokenizer_with(template: object) -> SimpleNamespace:
    return SimpleNamespace(chat_template=template)


def test_the_format_is_told_from_the_template() -> None:
    assert detect(tokenizer_with('{{ "<tool_call>" }}{"name": ')) == JSON
    assert detect(tokenizer_with("<tool_call>\n<function=")) == XML
    assert detect(tokenizer_with({"default": "", "tool_use": "<tool_call><function="})) == XML


@pytest.mark.parametrize(("template", "told"), [(None, "no chat template"), ("[TOOL_CALLS]", "shows no <tool_call>")])
def test_an_unknown_template_is_refused_with_a_reason(template: object, told: str) -> None:
    with pytest.raises(UserError, match=told):
        detect(tokenizer_with(template))
