"""vLLM in training, as far as no engine is needed: what is refused, how the engine is made, who waits for whom."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors import safe_open
from trl.generation import vllm_generation

from horma_rl.config import validate
from horma_rl.errors import UserError
from horma_rl.retrieval.backends.server import ServerGenerator
from horma_rl.retrieval.backends.transformers import TransformersGenerator
from horma_rl.retrieval.backends.vllm import VllmGenerator
from horma_rl.retrieval.checkpoint import has_vision
from horma_rl.retrieval.engine import RolloutConfig
from horma_rl.retrieval.types import Sampling
from horma_rl.training import generators, kernels
from horma_rl.training.config import TrainConfig
from horma_rl.training.generators import (
    check_vllm,
    engine_options,
    generation_notes,
    rollout_generator,
    wait_after_sync,
)
from horma_rl.training.grpo_config import grpo_args
from horma_rl.training.kernels import KERNELS, kernel_warnings, missing_kernels
from horma_rl.training.policies import load, start_folder
from tests.fake_vllm import FakeEngine, FakeServer, serving
from tests.rollout_parts import tiny_qwen3, tiny_qwen3_5, tiny_qwen3_5_vision, tokenizer


def config(**grpo: Any) -> TrainConfig:
    return validate({"name": "t", "grpo": {"use_vllm": True, **grpo}}, TrainConfig, "t.yaml")


@pytest.mark.parametrize(
    ("grpo", "told"),
    [
        ({"vllm_tensor_parallel_size": 2}, "uneven length"),
        ({"vllm_enable_sleep_mode": True}, "lower vllm_gpu_memory_utilization"),
    ],
)
def test_what_cannot_be_driven_without_a_barrier_is_refused(grpo: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        config(**grpo)


def test_a_run_on_vllm_needs_vllm_and_room_for_an_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    made = config()
    args = grpo_args(made)
    assert args.vllm_max_model_length == made.rollout.max_context_tokens
    monkeypatch.setattr(generators.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"use_vllm: vLLM is not installed"):
        check_vllm(made, args)
    check_vllm(made, SimpleNamespace(use_vllm=False))
    monkeypatch.setattr(generators.importlib.util, "find_spec", lambda name: object())
    check_vllm(made, args)
    short = config(vllm_max_model_length=100)
    with pytest.raises(UserError, match="an episode may have 8192 tokens"):
        check_vllm(short, grpo_args(short))


@pytest.fixture
def cpu_layers(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The module of vLLM that decides how a layer multiplies on a CPU, in place of the real one."""
    layers = types.ModuleType("vllm.model_executor.layers")
    layers.utils = types.ModuleType("utils")  # type: ignore[attr-defined]
    layers.utils.dispatch_cpu_unquantized_gemm = lambda layer, remove_weight: delattr(layer, "weight")
    for name in ("vllm", "vllm.model_executor"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "vllm.model_executor.layers", layers)
    utils: types.ModuleType = layers.utils
    return utils


@pytest.mark.parametrize(
    ("bf16", "fp16", "dtype"), [(False, False, "float32"), (True, False, "bfloat16"), (False, True, "float16")]
)
def test_trls_engine_computes_as_the_trainer_does(
    monkeypatch: pytest.MonkeyPatch, cpu_layers: types.ModuleType, bf16: bool, fp16: bool, dtype: str
) -> None:
    made: list[dict[str, Any]] = []
    engine = lambda **options: made.append(options)  # noqa: E731
    monkeypatch.setattr(vllm_generation, "LLM", engine, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    packing = cpu_layers.dispatch_cpu_unquantized_gemm
    args = SimpleNamespace(use_vllm=True, vllm_mode="colocate", bf16=bf16, fp16=fp16)
    with engine_options(args, tiny_qwen3()):
        vllm_generation.LLM(model="m", seed=3)
        layer = torch.nn.Linear(4, 5)
        cpu_layers.dispatch_cpu_unquantized_gemm(layer, remove_weight=True)
        x = torch.ones(2, 4)
        assert torch.equal(layer.cpu_linear(x, layer.weight, layer.bias), layer(x)), "the weight is still there"
    assert made == [{"model": "m", "seed": 3, "dtype": dtype, "enable_prefix_caching": True, "enforce_eager": True}]
    assert vllm_generation.LLM is engine
    assert cpu_layers.dispatch_cpu_unquantized_gemm is packing


def trainer(mode: str, **args: Any) -> Any:
    """What of a trainer the generators look at."""
    model = tiny_qwen3()
    return SimpleNamespace(
        args=SimpleNamespace(use_vllm=mode != "transformers", vllm_mode=mode, **args),
        model=model,
        accelerator=SimpleNamespace(device=torch.device("cpu")),
        vllm_generation=SimpleNamespace(llm=SimpleNamespace(llm_engine=FakeEngine())),
    )


def test_each_mode_has_its_generator() -> None:
    limits = RolloutConfig(max_context_tokens=512)
    own = trainer("transformers")
    assert isinstance(rollout_generator(own, own.model, [1], Sampling(), limits), TransformersGenerator)
    assert isinstance(rollout_generator(trainer("colocate"), None, [1], Sampling(), limits), VllmGenerator)
    with serving(FakeServer()) as server:
        remote = trainer("server", vllm_server_base_url=server.url)
        assert isinstance(rollout_generator(remote, None, [1], Sampling(), limits), ServerGenerator)
        host, port = server.url.removeprefix("http://").split(":")
        by_port = trainer("server", vllm_server_base_url=None, vllm_server_host=host, vllm_server_port=int(port))
        assert isinstance(rollout_generator(by_port, None, [1], Sampling(), limits), ServerGenerator)
        assert generation_notes(by_port) == [f"rollouts: vLLM server at {server.url}"]
        with pytest.raises(UserError, match="takes 4096 tokens"):
            rollout_generator(remote, None, [1], Sampling(), RolloutConfig(max_context_tokens=5000))


def test_all_processes_wait_for_the_servers_new_weights_and_for_nothing_else() -> None:
    for mode, expected in (("server", ["sent", "waited"]), ("colocate", ["sent"])):
        done: list[str] = []
        made = trainer(mode)
        made.accelerator.wait_for_everyone = lambda done=done: done.append("waited")
        made.vllm_generation.sync_weights = lambda done=done: done.append("sent")
        wait_after_sync(made)
        made.vllm_generation.sync_weights()
        assert done == expected


def test_a_run_says_what_generates() -> None:
    assert generation_notes(trainer("transformers")) == []
    made = trainer("colocate")
    assert generation_notes(made) == ["rollouts: vLLM in each process, float32, prefix cache on"]
    made.vllm_generation.llm.llm_engine = FakeEngine(prefix_caching=False)
    assert "WARNING: vLLM keeps no prefix cache" in generation_notes(made)[0]


def test_missing_kernels_are_named_with_their_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernel_warnings(tiny_qwen3(), "cuda") == []
    hybrid = tiny_qwen3_5()
    for name in ("fla", "causal_conv1d"):
        monkeypatch.setitem(sys.modules, name, None)
    lines = kernel_warnings(hybrid, "cuda")
    assert len(lines) == 2
    for line, kernel in zip(lines, KERNELS, strict=True):
        assert line.startswith(f"WARNING: {kernel.distribution} is not usable")
        assert kernel.cost in line
        assert "3 of 4 layers" in line
        assert line.endswith(f"pip install {kernel.distribution}")
    (line,) = kernel_warnings(hybrid, "cpu")
    assert "3 of 4 layers" in line
    assert "WARNING" not in line


def test_present_kernels_are_found_and_halves_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for kernel in KERNELS:
        module = types.ModuleType(kernel.module)
        for name in kernel.functions:
            setattr(module, name, lambda: None)
        for depth in range(kernel.module.count(".")):
            parent = ".".join(kernel.module.split(".")[: depth + 1])
            monkeypatch.setitem(sys.modules, parent, types.ModuleType(parent))
        monkeypatch.setitem(sys.modules, kernel.module, module)
    assert missing_kernels(tiny_qwen3_5()) == []
    del sys.modules["causal_conv1d"].causal_conv1d_update
    ((kernel, fault),) = missing_kernels(tiny_qwen3_5())
    assert kernel.distribution == "causal-conv1d"
    assert fault == "causal_conv1d has no causal_conv1d_update"


def test_the_kernels_are_those_that_transformers_asks_for() -> None:
    import transformers.models.qwen3_5.modeling_qwen3_5 as modeling

    source = Path(modeling.__file__).read_text()
    for kernel in kernels.KERNELS:
        package = kernel.module.partition(".")[0]
        for name in kernel.functions:
            assert f'use_kernel_func_from_hub_with_fallback("{name}", "{package}")' in source


def test_a_start_with_a_vision_tower_is_stored_as_its_language_model(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    tiny_qwen3_5_vision().save_pretrained(whole)
    tokenizer("simple").save_pretrained(whole)
    assert has_vision(whole)
    folder = start_folder(TrainConfig(name="t", model=str(whole), runs=tmp_path / "runs"))
    assert not has_vision(folder)
    names = [name for path in folder.glob("*.safetensors") for name in safe_open(path, "pt").keys()]  # noqa: SIM118
    assert names
    assert not [name for name in names if "visual" in name]
    _, model = load(folder)
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        assert torch.equal(model(ids).logits, tiny_qwen3_5_vision()(input_ids=ids).logits)
    assert start_folder(TrainConfig(name="u", model=str(folder), runs=tmp_path / "runs")) == folder
