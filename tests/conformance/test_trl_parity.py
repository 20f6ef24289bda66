"""Where TRL's own tool loop and ours do the same thing, they do it with the same ids."""

from __future__ import annotations

import copy
import functools
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch

from horma_rl.retrieval.backends.scripted import ScriptedGenerator
from horma_rl.retrieval.backends.transformers import TransformersGenerator
from horma_rl.retrieval.engine import EpisodeSpec, RolloutConfig, RolloutEngine
from memory_shell.adapters.trl import MemoryShellEnvironment
from memory_shell.episode import MemoryShell
from memory_shell.types import Caps, Stop, ToolCall
from memory_shell.workspace import Workspace
from tests.rollout_parts import TOOLS, codec, saying, tiny_qwen3, tokenizer
from tests.shell_workspace import TASK, write_workspace

FAMILIES = {"qwen3_training": "qwen3_template", "qwen3_5_nothink_training": "qwen3_5_template"}
TURNS = [
    [ToolCall("grep", "-n kiln sessions"), ToolCall("ls", "people")],
    [ToolCall("select", "sessions/session_02.md:6")],
    [ToolCall("cat", "sessions/session_01.md")],
]


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("memory")
    write_workspace(folder / "mem")
    return folder


def ready_tokenizer(family: str) -> Any:
    from trl import chat_template_utils

    made = copy.deepcopy(tokenizer(family))
    made.response_template = getattr(chat_template_utils, FAMILIES[family])
    return made


def make_trainer(family: str, memory: Path, folder: Path, model: Any) -> Any:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    row = {"prompt": [{"role": "user", "content": ""}], "question": TASK.question, "workspace": TASK.workspace,
           "evidence": list(TASK.evidence), "asked_at": TASK.asked_at}  # fmt: skip
    args = GRPOConfig(
        output_dir=str(folder), use_cpu=True, bf16=False, report_to=[], num_generations=2,
        per_device_train_batch_size=2, max_completion_length=4000, max_tool_calling_iterations=len(TURNS) - 1,
        chat_template_kwargs={"enable_thinking": False}, model_init_kwargs=None,
    )  # fmt: skip
    return GRPOTrainer(
        model=model,
        args=args,
        train_dataset=Dataset.from_list([row] * 2),
        processing_class=ready_tokenizer(family),
        environment_factory=functools.partial(MemoryShellEnvironment, str(memory)),
    )


class StoppedError(Exception):
    pass


def stock_rollout(trainer: Any) -> tuple[list[int], list[int], list[int]]:
    """Prompt ids, completion ids and mask of the first episode of TRL's own rollout, with nothing trained on it."""
    found: list[Any] = []
    generate = trainer._generate

    def stopping(prompts: Any) -> None:
        found.extend(generate(prompts))
        raise StoppedError

    trainer._generate = stopping
    with pytest.raises(StoppedError):
        trainer._generate_and_score_completions([copy.deepcopy(row) for row in trainer.train_dataset])
    return found[0][0], found[1][0], found[2][0]


@pytest.mark.parametrize("family", FAMILIES)
def test_an_episode_has_the_ids_and_mask_of_trls_tool_loop(family: str, memory: Path, tmp_path: Path) -> None:
    """The system message, which TRL has not, aside; and TRL never runs the last response's calls, so it ends there."""
    made = codec(family)
    texts = [made.format.render(calls) for calls in TURNS]
    said = [[*made.tokenizer.encode(text, add_special_tokens=False), made.end_id] for text in texts]

    trainer = make_trainer(family, memory, tmp_path, tiny_qwen3())
    turn = itertools.count()
    trainer._generate_single_turn = lambda prompts, *_, **__: ([list(said[next(turn)])] * len(prompts), None)
    prompt_ids, completion_ids, mask = stock_rollout(trainer)

    generator = ScriptedGenerator(saying(made, lambda _, turn: texts[turn]), made.eos_ids)
    shell = MemoryShell(Workspace.load(memory / "mem"), Caps(turns=len(TURNS)))
    (ours,) = RolloutEngine(generator, made).run([EpisodeSpec(TASK, shell, 1)])
    assert ours.stop is Stop.TURN_CAP
    assert completion_ids == ours.completion_ids
    assert mask == ours.mask
    # TRL shows the tools' schema in a system message; the turn of the task is the same.
    question = made.start(ours.first_observation)
    assert prompt_ids[-len(question) :] == question


@pytest.mark.parametrize("family", FAMILIES)
def test_what_trl_reads_as_calls_we_read_as_the_same_calls(family: str) -> None:
    from trl.chat_template_utils import parse_response

    made, reader = codec(family), ready_tokenizer(family)
    for calls in TURNS:
        ids = [*made.tokenizer.encode(made.format.render(calls), add_special_tokens=False), made.end_id]
        read = parse_response(reader, ids, prefix=made.start("Question: who?"), tools=TOOLS)
        theirs = [(c["function"]["name"], c["function"]["arguments"]) for c in read["tool_calls"]]
        assert [
            (c.name, {"args": c.args}) for c in made.format.parse(made.decode(ids)) if isinstance(c, ToolCall)
        ] == theirs


def test_rollout_logprobs_are_the_ones_that_trl_computes(memory: Path, tmp_path: Path) -> None:
    model = tiny_qwen3()
    made = codec("qwen3_training")
    config = RolloutConfig(max_response_tokens=40, max_context_tokens=600)
    engine = RolloutEngine(TransformersGenerator(model, made.eos_ids), made, config)
    shell = MemoryShell(Workspace.load(memory / "mem"), Caps(turns=3))
    (ours,) = engine.run([EpisodeSpec(TASK, shell, 1)])
    trainer = make_trainer("qwen3_training", memory, tmp_path, model)
    ids = torch.tensor([ours.prompt_ids + ours.completion_ids])
    with torch.no_grad():
        theirs, *_ = trainer._get_per_token_logps_and_entropies(
            trainer.model, ids, torch.ones_like(ids), len(ours.completion_ids)
        )
    mask = torch.tensor(ours.mask)
    assert (theirs[0] * mask).tolist() == pytest.approx(ours.logprobs, abs=5e-5)
