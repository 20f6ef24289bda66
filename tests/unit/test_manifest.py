"""`horma.json`: what it refuses, and that the line says both values."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from horma_rl.errors import UserError
from horma_rl.evaluation.config import EvalConfig, PolicyConfig
from horma_rl.evaluation.trained import as_trained, settle
from horma_rl.memory.build import MANIFEST, read_manifest
from horma_rl.retrieval import manifest as horma
from horma_rl.retrieval.engine import RolloutConfig
from horma_rl.retrieval.manifest import FILE, Manifest
from horma_rl.retrieval.prompt import PROMPT_VERSION
from memory_shell.types import Caps
from tests.export_parts import edit
from tests.rollout_parts import codec

CAPS = Caps(turns=4, lines=8)
ROLLOUT = RolloutConfig(max_turns=4, max_response_tokens=64, max_context_tokens=1200)


def manifest(**changes: Any) -> Manifest:
    made = codec("simple", "compact")
    fields: dict[str, Any] = {
        "format": horma.FORMAT, "prompt_version": PROMPT_VERSION, "prompt": "compact", "thinking": False,
        "tools": "six", "tool_schema_sha256": horma.schema_sha256("six"), "prompt_ids_sha256": horma.ids_sha256(made),
        "shell": {"overview": "terms", "caps": CAPS, "unit": "turn", "zero_on_cap": True}, "rollout": ROLLOUT,
        "memory": {"format": 1, "notes": "outline"},
        "trained_from": {
            "run": "r", "checkpoint": "final", "kind": "plain", "step": 3, "seed": 0, "base": "b", "benchmark": "x",
        },
        "precision": {"trained": "float32", "exported": "float32"}, "files": {},
    }  # fmt: skip
    return Manifest(**{**fields, **changes})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    manifest(files=horma.hash_files(tmp_path, ["model.safetensors"])).write(tmp_path)
    return tmp_path


def test_what_was_written_is_read(folder: Path) -> None:
    found = Manifest.read(folder)
    assert found is not None
    assert found == manifest(files=found.files)
    found.check_files(folder)
    found.check_prompt(codec("simple", "compact"), folder)
    assert Manifest.read(folder / "elsewhere") is None


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"prompt_version": 7}, f"prompt_version is 7, but here it is {PROMPT_VERSION}"),
        ({"tool_schema_sha256": "ab"}, f"tool_schema_sha256 is ab, but here it is {horma.schema_sha256('six')}"),
        ({"tools": "shell"}, f"but here it is {horma.schema_sha256('shell')}"),
        ({"prompt": "full"}, "was changed after the export"),
        ({"shell": {"overview": "tree", "caps": {}, "unit": "turn", "zero_on_cap": True}}, "was changed after the exp"),
        ({"rollout": {"max_turns": 9}}, "was changed after the export"),
        ({"prompt": "long"}, "'prompt': Input should be 'full' or 'compact'"),
        ({"format": 2}, "format 2, this program reads 1"),
        ({"sha256": None}, "was changed after the export"),
    ],
)
def test_a_changed_manifest_is_refused(folder: Path, changes: dict[str, Any], told: str) -> None:
    edit(folder / FILE, **changes)
    with pytest.raises(UserError) as error:
        Manifest.read(folder)
    assert told in str(error.value)
    assert str(folder / FILE) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": 1}'])
def test_what_is_no_manifest_is_refused(folder: Path, text: str) -> None:
    (folder / FILE).write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match="export"):
        Manifest.read(folder)


def test_a_manifest_nested_too_deep_is_no_json(folder: Path) -> None:
    for name in (FILE, MANIFEST):
        (folder / name).write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(UserError, match="cannot be read"):
        Manifest.read(folder)
    with pytest.raises(UserError, match="is not JSON"):
        read_manifest(folder)


def test_a_program_with_another_prompt_or_schema_refuses(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other way round: the folder is sound, and the program has moved on."""
    monkeypatch.setattr(horma, "PROMPT_VERSION", 99)
    with pytest.raises(UserError, match="prompt_version is 1, but here it is 99"):
        Manifest.read(folder)
    monkeypatch.undo()
    monkeypatch.setattr(horma, "schemas", lambda surface: [{"function": {"name": "ls"}}])
    with pytest.raises(UserError, match="tool_schema_sha256 is"):
        Manifest.read(folder)


def test_changed_or_missing_weights_are_refused(folder: Path) -> None:
    found = Manifest.read(folder)
    assert found is not None
    (folder / "model.safetensors").write_bytes(b"weighty")
    with pytest.raises(UserError, match="is not the exported file: its sha256 is"):
        found.check_files(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(UserError, match="is missing"):
        found.check_files(folder)


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (codec("simple", "full"), "prompt is compact, but here it is full"),
        (codec("simple", "compact", tools="shell"), "tools is six, but here it is shell"),
        (codec("qwen3_training", "compact", thinking=True), "thinking is false, but here it is true"),
        (codec("qwen3_training", "compact"), "prompt_ids_sha256 is"),
    ],
)
def test_a_codec_that_writes_other_ids_is_refused(folder: Path, other: Any, told: str) -> None:
    with pytest.raises(UserError, match=told):
        manifest().check_prompt(other, folder)


def test_other_limits_are_named_and_those_of_speed_are_not(folder: Path) -> None:
    found = manifest()
    assert found.other_limits("terms", CAPS, replace(ROLLOUT, concurrency=3, max_episode_s=9.0)) == []
    assert found.other_limits("none", replace(CAPS, lines=9), replace(ROLLOUT, max_turns=10)) == [
        "shell.overview is none, in training terms",
        "shell.caps.lines is 9, in training 8",
        "rollout.max_turns is 10, in training 4",
    ]


def config(model: Path, **policy: Any) -> EvalConfig:
    shell = {"overview": "terms", "caps": CAPS}
    return EvalConfig(policies={"it": PolicyConfig(model=model, **policy)}, shell=shell, rollout=ROLLOUT)


def test_settings_left_out_come_from_the_export(folder: Path) -> None:
    settled = as_trained(config(folder)).policies["it"]
    assert (settled.prompt, settled.thinking, settled.tools) == ("compact", False, "six")
    assert settle(settled, config(folder)) == settled
    plain = PolicyConfig(model=folder / "elsewhere")
    assert settle(plain, config(folder)) == plain


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"prompt": "full"}, "was trained with prompt: compact, the config says full"),
        ({"tools": "shell"}, "was trained with tools: six, the config says shell"),
        ({"thinking": True, "other_limits": True}, "was trained with thinking: false, the config says true"),
    ],
)
def test_a_contradiction_is_refused_whatever_else_is_allowed(folder: Path, said: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        as_trained(config(folder, **said))


def test_other_limits_need_to_be_allowed(folder: Path) -> None:
    wide = {"rollout": replace(ROLLOUT, max_response_tokens=65)}
    with pytest.raises(UserError, match=r"rollout\.max_response_tokens is 65, in training 64: take those of training"):
        as_trained(config(folder).model_copy(update=wide))
    as_trained(config(folder, other_limits=True).model_copy(update=wide))


def test_the_checksum_covers_every_setting(folder: Path) -> None:
    """Whichever value is changed, reading fails: the control that no field escapes."""
    data = json.loads((folder / FILE).read_text(encoding="utf-8"))
    for name in set(data) - {"sha256"}:
        changed = {
            **data,
            name: {"int": 5, "str": "full", "bool": True, "dict": {}, "NoneType": "x"}[type(data[name]).__name__],
        }
        if changed[name] == data[name]:
            continue
        (folder / FILE).write_text(json.dumps(changed), encoding="utf-8")
        with pytest.raises(UserError):
            Manifest.read(folder)
