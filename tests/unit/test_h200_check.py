"""The GPU check: what is brought along survives being cut up, and its chat template suits the rollouts."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from types import ModuleType

import pytest
from transformers import AutoTokenizer

from horma_rl.config import load_config
from horma_rl.retrieval.prompt import ChatCodec
from horma_rl.training.config import TrainConfig
from memory_shell.tools import Surface
from memory_shell.types import ToolCall


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("h200_check", "scripts/h200_check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_files_are_the_same_after_they_were_split_and_joined(tmp_path: Path) -> None:
    check, source = script(), tmp_path / "source"
    source.mkdir()
    sizes = {"large.whl": 2_500_001, "small.whl": 10, "middle.json": 600_000}
    for name, size in sizes.items():
        (source / name).write_bytes(random.Random(name).randbytes(size))
    check.split(source, tmp_path / "parts", part_mb=1)
    folders = list((tmp_path / "parts").iterdir())
    assert len(folders) == 4
    assert all(sum(path.stat().st_size for path in folder.iterdir()) <= 1_000_000 for folder in folders)
    check.join(tmp_path / "parts", tmp_path / "joined")
    joined = {path.name: path.read_bytes() for path in (tmp_path / "joined").iterdir()}
    assert joined == {name: (source / name).read_bytes() for name in sizes}


@pytest.mark.parametrize("prompt", ["full", "compact"])
@pytest.mark.parametrize("tools", ["six", "shell"])
def test_the_chat_template_shows_tools_and_keeps_what_it_wrote(prompt: str, tools: Surface) -> None:
    tokenizer = AutoTokenizer.from_pretrained("data/models/tiny")
    tokenizer.chat_template = Path("scripts/smollm2_chat_template.jinja").read_text(encoding="utf-8")
    codec = ChatCodec(tokenizer, "full" if prompt == "full" else "compact", tools=tools)
    text = tokenizer.decode(codec.start("Question: who?"))
    assert ("<tools>" in text) == (prompt == "full")
    assert text.endswith("<|im_start|>assistant\n")
    call = ToolCall("grep", "-i kiln sessions")
    assert codec.format.parse(codec.format.render([call])) == [call]


def test_the_rehearsal_is_a_sound_config() -> None:
    config = load_config("configs/train/smollm2_h200.yaml", script().REHEARSAL, TrainConfig)
    assert config.rollout.max_turns == 2
