"""Parts that the rollout tests share: chat tokenizers of known families, tiny random models, and a scripted shell."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen3_5Config,
    Qwen3_5ForCausalLM,
    Qwen3_5ForConditionalGeneration,
    Qwen3_5TextConfig,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from horma_rl.retrieval.engine import EpisodeSpec
from horma_rl.retrieval.prompt import ChatCodec
from horma_rl.retrieval.types import Request
from memory_shell.tools import schemas
from memory_shell.types import Coverage, Result, Stop, Task, ToolCall

TOOLS = schemas()
FAMILIES = ("qwen3_training", "qwen3_5_nothink_training", "qwen3_5_think_training")
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
SIMPLE_TEMPLATE = (
    "{%- for m in messages %}{%- if m.role == 'tool' %}"
    "{%- if messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{%- endif %}"
    "{{ '\n<tool_response>\n' + m.content + '\n</tool_response>' }}"
    "{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\n' }}{%- endif %}"
    "{%- else %}{{ '<|im_start|>' + m.role + '\n' + m.content }}"
    "{%- for c in m.tool_calls or [] %}{%- set f = c.function %}"
    "{{ ('\n' if not loop.first or m.content else '') + '<tool_call>\n{\"name\": \"' + f.name }}"
    '{{ \'", "arguments": \' }}'
    "{{ f.arguments | tojson }}{{ '}\n</tool_call>' }}{%- endfor %}"
    "{{ '<|im_end|>\n' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%- endif %}"
)


def template(name: str) -> str:
    """A chat template that ships with TRL, or the project's own kind of plain ChatML ("simple")."""
    if name == "simple":
        return SIMPLE_TEMPLATE
    spec = importlib.util.find_spec("trl")
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / "chat_templates" / f"{name}.jinja").read_text(encoding="utf-8")


@functools.cache
def tokenizer(family: str) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer (id = place in the byte alphabet, specials from 256 on) with a family's chat template."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIAL])
    core.add_tokens([AddedToken(name, special=False, normalized=False) for name in TAGS])
    made = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    made.chat_template = template(family)
    return made


def codec(family: str = "simple", prompt: Any = "compact", thinking: bool = False, tools: Any = "six") -> ChatCodec:
    """A codec over one of the tokenizers above and the memory shell's tools."""
    return ChatCodec(tokenizer(family), prompt, thinking, tools)


def tiny_qwen3(vocabulary: int = 300, attention: str = "sdpa", seed: int = 0) -> Qwen3ForCausalLM:
    """Random weights, large enough that the next token is far from uniform."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=vocabulary, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, initializer_range=0.2, attn_implementation=attention,
    )  # fmt: skip
    return Qwen3ForCausalLM(config).eval()


def tiny_qwen3_5(vocabulary: int = 300, seed: int = 0) -> Qwen3_5ForCausalLM:
    """A hybrid: three Gated DeltaNet layers and one of full attention."""
    torch.manual_seed(seed)
    config = Qwen3_5TextConfig(
        vocab_size=vocabulary, hidden_size=32, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8,
        linear_value_head_dim=8, layer_types=["linear_attention"] * 3 + ["full_attention"], initializer_range=0.1,
    )  # fmt: skip
    return Qwen3_5ForCausalLM(config).eval()


def tiny_qwen3_5_vision(vocabulary: int = 300) -> Any:
    """The class that Qwen3.5 checkpoints name, with a vision tower that text does not use."""
    text = tiny_qwen3_5(vocabulary).config.to_dict()
    text["rope_parameters"] = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 0, 0],
                               "partial_rotary_factor": 0.25}  # fmt: skip
    vision = {"depth": 1, "hidden_size": 16, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 32}
    torch.manual_seed(0)
    return Qwen3_5ForConditionalGeneration(Qwen3_5Config(text_config=text, vision_config=vision)).eval()


def tiny_lora() -> Any:
    """An adapter around a model."""
    peft = pytest.importorskip("peft")
    return peft.get_peft_model(tiny_qwen3(), peft.LoraConfig(task_type="CAUSAL_LM", init_lora_weights=False)).eval()


MODELS: dict[str, Callable[[], Any]] = {
    "qwen3": tiny_qwen3,
    "qwen3-eager": lambda: tiny_qwen3(attention="eager"),
    "qwen3-lora": tiny_lora,
    "qwen3.5": tiny_qwen3_5,
    "qwen3.5-vision": tiny_qwen3_5_vision,
}


def full_logprobs(
    model: Any, prompt: Sequence[int], completion: Sequence[int], temperature: float = 1.0
) -> list[float]:
    """The log-probability of each completion token, from one plain forward over everything."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[*prompt, *completion]])).logits[0].float() / temperature
    table = torch.log_softmax(logits, dim=-1)[len(prompt) - 1 : -1]
    return table.gather(1, torch.tensor(completion)[:, None]).squeeze(1).tolist()


def task(name: str = "t", evidence: tuple[str, ...] = ("D1:1",)) -> Task:
    """A task of no particular workspace."""
    return Task(name, f"Who is {name}?", evidence, "w")


class FakeShell:
    """A shell that echoes its calls, selects what `select` names, and counts what happens to it."""

    def __init__(self, turns: int = 10, echo: Callable[[ToolCall], str] | None = None) -> None:
        self.turns = turns
        self.echo = echo or (lambda call: f"{call.name} {call.args}")
        self.selection: tuple[str, ...] = ()
        self.commands = self.invalid = self.turns_used = 0
        self.closed = 0
        self.ran: list[ToolCall | str] = []
        self.stop: Stop | None = None

    def reset(self, task: Task, seed: int = 0) -> Result:
        """The question."""
        self.task = task
        return Result(f"Question: {task.question}")

    def step(self, calls: Sequence[ToolCall | str]) -> list[Result]:
        """One result a call, up to `done`."""
        self.turns_used += 1
        results = list(self._results(calls)) or [Result("no tool call", ok=False)]
        if self.stop is None and self.turns_used >= self.turns:
            self.stop = Stop.TURN_CAP
        if self.stop is not None:
            done = self.stop is Stop.DONE
            last = results[-1]
            results[-1] = Result(last.text, self.score(), terminated=done, truncated=not done, ok=last.ok)
        return results

    def _results(self, calls: Sequence[ToolCall | str]) -> Iterator[Result]:
        for call in calls:
            self.ran.append(call)
            self.commands += 1
            if isinstance(call, str):
                self.invalid += 1
                yield Result(call, ok=False)
                continue
            if call.name == "select":
                self.selection += (call.args,)
            if call.name == "done":
                self.stop = Stop.DONE
            yield Result(self.echo(call))
            if call.name == "done":
                return

    def end(self, stop: Stop) -> Result:
        """End from outside."""
        self.stop = stop
        return Result("ended", reward=self.score(), truncated=True)

    def score(self) -> float:
        """Jaccard."""
        chosen, wanted = set(self.selection), set(self.task.evidence)
        return len(chosen & wanted) / len(chosen | wanted) if chosen | wanted else 1.0

    def coverage(self) -> Coverage:
        """Nothing."""
        return Coverage()

    def close(self) -> None:
        """Counted."""
        self.closed += 1


def spec(shell: Any, index: int = 0, name: str = "t") -> EpisodeSpec:
    """An episode with this shell (or this function that makes one)."""
    return EpisodeSpec(task(name), shell, 100 + index, index)


def saying(codec: ChatCodec, replies: Callable[[Request, int], str]) -> Callable[[Request, int], list[int]]:
    """A script for `ScriptedGenerator` from a function that gives texts; each is ended by the end token."""
    return lambda request, turn: [
        *codec.tokenizer.encode(replies(request, turn), add_special_tokens=False),
        codec.end_id,
    ]
