"""Planning: shapes of models against the real classes, and the defaults that a plan assumes against TRL's."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Qwen3_5Config, Qwen3_5ForConditionalGeneration, Qwen3Config
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5ForCausalLM
from trl import GRPOConfig

from horma_rl.errors import UserError
from horma_rl.planning import shapes
from horma_rl.planning.facts import DEFAULTS
from horma_rl.planning.hardware import hardware, match, table
from horma_rl.planning.shapes import ModelShape, model_shape

TINY = "data/models/tiny"
QWEN = "Qwen/Qwen3.5-4B"
KNOWN: dict[str, Any] = yaml.safe_load(Path(shapes.__file__).with_name("models.yaml").read_text(encoding="utf-8"))


def parameters(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def qwen_config() -> Qwen3_5Config:
    return Qwen3_5Config(**{key: value for key, value in KNOWN[QWEN].items() if key != "model_type"})


def test_qwen3_5_is_counted_as_transformers_builds_it() -> None:
    shape = model_shape(QWEN)
    with torch.device("meta"):
        text = Qwen3_5ForCausalLM(qwen_config().text_config)
        whole = Qwen3_5ForConditionalGeneration(qwen_config())
    assert shape.parameters == parameters(text)
    assert shape.vision == parameters(whole.model.visual)
    assert (shape.full_layers, shape.linear_layers, shape.vocab, shape.tied) == (8, 24, 248320, True)


@pytest.mark.parametrize("name", sorted(set(KNOWN) - {QWEN}))
def test_other_known_models_are_counted_as_transformers_builds_them(name: str) -> None:
    from transformers import CONFIG_MAPPING

    config = CONFIG_MAPPING[KNOWN[name]["model_type"]](**KNOWN[name])
    with torch.device("meta"):
        assert model_shape(name).parameters == parameters(AutoModelForCausalLM.from_config(config))


def test_linear_states_are_those_of_the_real_layers() -> None:
    config = qwen_config().text_config
    linear = model_shape(QWEN).linear
    assert linear is not None
    with torch.device("meta"):
        layer = Qwen3_5ForCausalLM(config).model.layers[0].linear_attn
    assert linear.channels == layer.conv1d.weight.shape[0]
    assert linear.state == layer.num_v_heads * layer.head_k_dim * layer.head_v_dim + layer.conv1d.weight.numel()


def test_weights_in_a_folder_are_counted_from_their_headers(tmp_path: Path) -> None:
    counted = model_shape(TINY)
    (tmp_path / "config.json").write_bytes(Path(TINY, "config.json").read_bytes())
    derived = model_shape(str(tmp_path))
    assert counted.counted == derived.parameters
    assert derived.counted is None
    assert counted.stored_bytes == 4


def test_a_truncated_weights_file_is_a_clear_line(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(Path(TINY, "config.json").read_bytes())
    (tmp_path / "model.safetensors").write_bytes(Path(TINY, "model.safetensors").read_bytes()[:100])
    with pytest.raises(UserError, match="no whole safetensors file"):
        model_shape(str(tmp_path))


@pytest.mark.parametrize("modules", ["all-linear", ["q_proj", "v_proj"]])
def test_adapters_are_counted_as_peft_adds_them(modules: Any) -> None:
    config = Qwen3Config(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, tie_word_embeddings=True,
    )  # fmt: skip
    adapted = get_peft_model(
        AutoModelForCausalLM.from_config(config), LoraConfig(r=4, target_modules=modules, task_type="CAUSAL_LM")
    )
    trained = sum(parameter.numel() for parameter in adapted.parameters() if parameter.requires_grad)
    shape = shapes._shape("x", "x", {**config.to_dict(), "model_type": "qwen3"}, None)
    assert shape.lora_parameters(4, None if modules == "all-linear" else modules) == trained


def test_an_unknown_model_is_answered_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"did you mean 'Qwen/Qwen3.5-4B'"):
        model_shape("Qwen/Qwen3.5-4b")


def test_an_unknown_architecture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mixtral"}), encoding="utf-8")
    with pytest.raises(UserError, match="does not know the architecture 'mixtral'"):
        model_shape(str(tmp_path))


def test_a_config_without_a_needed_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}), encoding="utf-8")
    with pytest.raises(UserError, match="num_hidden_layers"):
        model_shape(str(tmp_path))


def test_a_model_in_the_hubs_cache_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = tmp_path / "hub" / "models--me--mine" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_bytes(Path(TINY, "config.json").read_bytes())
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    shape: ModelShape = model_shape("me/mine")
    assert shape.layers == 4


def test_assumed_defaults_are_those_of_trl() -> None:
    known = {field.name: field for field in fields(GRPOConfig)}
    for name, value in DEFAULTS.items():
        default = known[name].default
        assert default is not MISSING
        assert default == value, name


@pytest.mark.parametrize("name", sorted(table()))
def test_every_entry_of_the_hardware_table_is_whole(name: str) -> None:
    entry = hardware(name)
    assert entry.memory_gib > 0
    assert entry.source


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("NVIDIA H200, 143771", "h200"),
        ("NVIDIA H100 80GB HBM3, 81559", "h100"),
        ("NVIDIA A100-SXM4-80GB, 81920", "a100-80gb"),
        ("NVIDIA A100-PCIE-40GB, 40960", "a100-40gb"),
        ("NVIDIA L40S, 46068", "l40s"),
        ("NVIDIA GeForce RTX 4090, 24564", "rtx4090"),
        ("NVIDIA L4, 23034", "l4"),
        ("Tesla T4, 15360", None),
    ],
)
def test_gpus_are_recognised_by_the_line_that_nvidia_smi_prints(line: str, name: str | None) -> None:
    assert match(line) == name


def test_hardware_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**table()["h100"], "memory_gib": 64}), encoding="utf-8")
    assert (hardware(str(path)).name, hardware(str(path)).memory_gib) == ("mine", 64)
    path.write_text(yaml.safe_dump({**table()["h100"], "link": 0}), encoding="utf-8")
    with pytest.raises(UserError, match="needs link as a number"):
        hardware(str(path))
    with pytest.raises(UserError, match="did you mean 'h200'"):
        hardware("h20")
