"""One scripted trajectory through every adapter, with the same observations, rewards and stops; and TRL's trainer."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from memory_shell.adapters.trl import MemoryShellEnvironment
from memory_shell.episode import OVER, MemoryShell
from memory_shell.types import Caps
from memory_shell.workspace import Workspace
from tests.shell_workspace import TASK, write_workspace

CAPS = Caps(turns=6)
DONE = [
    "grep -ril kiln sessions",
    "ls --nosuch",
    "cd sessions",
    "cat session_02.md:6-7",
    "select session_02.md:6-7",
    "done",
]
CAPPED = ["ls", "grep zebra", "select D2:1", "select D2:1", "python", "cat people/ana.md:7"]


class Replay(NamedTuple):
    """What one adapter gave for one trajectory; None where the adapter's convention has no such thing."""

    first: str
    observations: list[str]
    reward: float
    ended: tuple[bool, bool] | None
    stop: str | None


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("memory")
    write_workspace(root / "mem")
    return root


def replay_shell(memory: Path, commands: list[str]) -> Replay:
    shell = MemoryShell(Workspace.load(memory / "mem"), CAPS, overview="terms")
    first = shell.reset(TASK).text
    results = [shell.run(command) for command in commands]
    last = results[-1]
    return Replay(
        first,
        [result.text for result in results],
        last.reward,
        (last.terminated, last.truncated),
        last.info["stop"].value,
    )


def replay_trl(memory: Path, commands: list[str]) -> Replay:
    environment = MemoryShellEnvironment(memory, caps=CAPS, overview="terms")
    first = environment.reset(prompt=[{"role": "user", "content": ""}], **asdict(TASK))
    observations = []
    for command in commands:
        verb, _, args = command.partition(" ")
        tool = getattr(environment, verb, None)
        if tool is None:  # TRL answers unknown tools itself; the shell's own words are compared elsewhere
            observations.append(environment._run(verb, args))
        else:
            observations.append(tool(args) if args else tool())
    return Replay(first, observations, environment.get_reward(), None, None)


def replay_gymnasium(memory: Path, commands: list[str]) -> Replay:
    gymnasium = pytest.importorskip("gymnasium")
    from memory_shell.adapters.gymnasium import ENV_ID, register

    register()
    env = gymnasium.make(ENV_ID, memory_dir=memory, tasks=[TASK], caps=CAPS, overview="terms")
    first, _ = env.reset(seed=1)
    steps = [env.step(command) for command in commands]
    env.close()
    _, reward, terminated, truncated, info = steps[-1]
    assert all(step[1:4] == (0.0, False, False) for step in steps[:-1])
    return Replay(first, [step[0] for step in steps], reward, (terminated, truncated), info["stop"].value)


@pytest.mark.parametrize("replay", [replay_trl, replay_gymnasium])
@pytest.mark.parametrize(
    ("commands", "end"),
    [(DONE, (0.5, (True, False), "done")), (CAPPED, (1.0, (False, True), "turn_cap"))],
    ids=["done", "turn_cap"],
)
def test_adapters_agree(
    memory: Path,
    replay: Callable[[Path, list[str]], Replay],
    commands: list[str],
    end: tuple[float, tuple[bool, bool], str],
) -> None:
    expected = replay_shell(memory, commands)
    assert (expected.reward, expected.ended, expected.stop) == end
    found = replay(memory, commands)
    assert found.first == expected.first
    assert found.observations == expected.observations
    assert found.reward == expected.reward
    assert found.ended in (None, expected.ended)
    assert found.stop in (None, expected.stop)


# Gymnasium


def test_gymnasium_env_checker_is_content(memory: Path) -> None:
    pytest.importorskip("gymnasium")
    from gymnasium.utils.env_checker import check_env

    from memory_shell.adapters.gymnasium import MemoryShellEnv

    check_env(MemoryShellEnv(memory, [TASK], caps=CAPS))


def test_gymnasium_reset_draws_by_seed_or_takes_the_named_task(memory: Path) -> None:
    pytest.importorskip("gymnasium")
    from memory_shell.adapters.gymnasium import MemoryShellEnv

    tasks = [type(TASK)(f"t-{i}", f"Question {i}?", (), "mem") for i in range(50)]
    env = MemoryShellEnv(memory, tasks)
    drawn = [env.reset(seed=seed)[1]["task"] for seed in (1, 2, 1)]
    assert drawn[0] == drawn[2] != drawn[1]
    assert env.reset(options={"task": "t-7"})[0] == "Question: Question 7?"
    with pytest.raises(ValueError, match="no task 'nosuch'"):
        env.reset(options={"task": "nosuch"})


def test_gymnasium_is_neither_imported_nor_registered_by_the_package() -> None:
    heavy = "{'gymnasium', 'torch', 'trl'} & set(sys.modules)"
    code = f"import sys, memory_shell.episode, memory_shell.adapters; assert not {heavy}"
    subprocess.run([sys.executable, "-c", code], check=True)


# TRL


def test_trl_environment_survives_pickling_in_the_middle_of_an_episode(memory: Path) -> None:
    fresh = pickle.loads(pickle.dumps(MemoryShellEnvironment(memory)))
    fresh.reset(**asdict(TASK))
    fresh.cd("sessions")
    fresh.select("session_02.md:6")
    copy = pickle.loads(pickle.dumps(fresh))
    assert copy.get_reward() == fresh.get_reward() == 1.0
    assert copy.cat("session_02.md:6") == fresh.cat("session_02.md:6")
    copy.done()
    assert copy.ls() == OVER
    assert fresh.ls() != OVER


def test_trl_row_without_a_task_is_refused(memory: Path) -> None:
    with pytest.raises(ValueError, match="lacks question, evidence"):
        MemoryShellEnvironment(memory).reset(prompt=[], workspace="mem")


def test_trl_tools_have_the_schemas_of_the_shell(memory: Path) -> None:
    from transformers.utils import get_json_schema

    environment = MemoryShellEnvironment(memory)
    for schema in MemoryShell.tools():
        found = get_json_schema(getattr(environment, schema["function"]["name"]))
        found["function"].pop("return")
        assert found == schema


@pytest.mark.slow
def test_trl_trainer_sees_six_tools_and_trains_with_them(memory: Path, tmp_path: Path) -> None:
    """TRL's trainer on a random Qwen3: it takes the factory, exposes six tools, resets, rolls out and scores."""
    trainer = _trainer(memory, tmp_path)
    assert sorted(tool.__name__ for tool in trainer.tools) == ["cat", "cd", "done", "grep", "ls", "select"]
    assert trainer.reward_func_names == ["MemoryShellEnvironment"]
    assert trainer.train().global_step == 1


def _trainer(memory: Path, out: Path) -> Any:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    row = {"prompt": [{"role": "user", "content": "Find the evidence.\n"}], **asdict(TASK)}
    row.pop("meta")
    config = GRPOConfig(
        output_dir=str(out),
        max_steps=1,
        per_device_train_batch_size=2,
        num_generations=2,
        max_completion_length=8,
        report_to=[],
        use_cpu=True,
        bf16=False,
        save_strategy="no",
        disable_tqdm=True,
    )
    return GRPOTrainer(
        model=_random_qwen3(),
        args=config,
        train_dataset=Dataset.from_list([row, row]),
        processing_class=_byte_tokenizer(),
        environment_factory=partial(MemoryShellEnvironment, memory, caps=CAPS),
    )


def _random_qwen3() -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=300,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=8,
            tie_word_embeddings=True,
        )
    )


def _byte_tokenizer() -> Any:
    """One token per byte, Qwen3's special tokens, and Qwen3's chat template as TRL ships it."""
    import trl
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={char: i for i, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
    )
    wrapped.chat_template = (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text(encoding="utf-8")
    return wrapped
