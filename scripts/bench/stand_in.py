"""A small policy for the rollout benchmark when no warm-started model is at hand: it wanders, but in real tool calls.

A random model never calls a tool, so its episodes would have one turn. This one is trained for a minute or two on
random walks through the memory (some greps and cats, a select, done) with its own byte-pair vocabulary. It answers
nothing; what matters is that its episodes have several turns of different lengths.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from horma_rl.retrieval.prompt import ChatCodec
from horma_rl.training.tiny_tokenizer import CHAT_TEMPLATE
from memory_shell.episode import MemoryShell
from memory_shell.types import Task, ToolCall

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")


def build_tokenizer(texts: Sequence[str], size: int = 4000) -> PreTrainedTokenizerFast:
    """Byte-pair encoding learnt from `texts`, with ChatML's marks."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    )
    core.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIAL])
    core.add_tokens([AddedToken(name, special=False, normalized=False) for name in TAGS])
    return PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=CHAT_TEMPLATE
    )


def train(codec: ChatCodec, tasks: Sequence[Task], shells: Sequence[MemoryShell], steps: int) -> Qwen3ForCausalLM:
    """A model of half a million weights beside its embeddings, after `steps` steps of four walks each."""
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(codec.tokenizer),
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=32,
            tie_word_embeddings=True,
            max_position_embeddings=8192,
            eos_token_id=codec.end_id,
            pad_token_id=codec.tokenizer.pad_token_id,
        )
    )
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    walks = _walks(codec, tasks, shells)
    for step in range(steps):
        batch = [next(walks) for _ in range(4)]
        loss = _loss(model, batch)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if step % 25 == 0 or step == steps - 1:
            print(f"stand-in policy: step {step + 1}/{steps}, loss {loss.item():.2f}", flush=True)
    return model.eval()


def _loss(model: Any, batch: Sequence[tuple[list[int], list[int]]]) -> torch.Tensor:
    width = max(len(ids) for ids, _ in batch)
    ids = torch.tensor([i + [0] * (width - len(i)) for i, _ in batch])
    mask = torch.tensor([m + [0] * (width - len(m)) for _, m in batch])
    logits = model(input_ids=ids).logits[:, :-1]
    return cross_entropy(logits[mask[:, 1:] == 1], ids[:, 1:][mask[:, 1:] == 1])


def _walks(
    codec: ChatCodec, tasks: Sequence[Task], shells: Sequence[MemoryShell]
) -> Iterator[tuple[list[int], list[int]]]:
    draw = random.Random(0)
    while True:
        place = draw.randrange(len(tasks))
        shell, task = shells[place], tasks[place]
        first, turns = shell.reset(task).text, []
        for call in _walk(draw, task):
            results = shell.step([call])
            ended = results[-1].terminated or results[-1].truncated
            turns.append((codec.format.render([call]), [] if ended else [result.text for result in results]))
            if ended:
                break
        yield codec.transcript(first, turns)


def _walk(draw: random.Random, task: Task) -> list[ToolCall]:
    session, line = f"sessions/session_{draw.randint(1, 9):02d}.md", draw.randint(5, 25)
    words = [word.strip("?'s,.") for word in task.question.split()]
    options = [
        ToolCall("grep", f"-ri {draw.choice(words)} sessions"),
        ToolCall("grep", f"-rin {draw.choice(words)} people"),
        ToolCall("cat", f"{session}:{line}-{line + draw.randint(1, 6)}"),
        ToolCall("ls", draw.choice(["people", "sessions", "dates"])),
    ]
    looking = [draw.choice(options) for _ in range(draw.randint(1, 5))]
    return [*looking, ToolCall("select", f"{session}:{line}"), ToolCall("done")]
