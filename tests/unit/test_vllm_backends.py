"""All backends keep one contract; what is particular to vLLM in process."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from horma_rl.errors import UserError
from horma_rl.retrieval.backends.scripted import ScriptedGenerator
from horma_rl.retrieval.backends.server import Endpoint, ServerGenerator
from horma_rl.retrieval.backends.transformers import TransformersGenerator
from horma_rl.retrieval.backends.vllm import VllmGenerator, load_llm, prefix_cache_note
from horma_rl.retrieval.checkpoint import has_vision, stored_dtype
from horma_rl.retrieval.types import Generator, Request, Sampling
from tests.fake_vllm import EOS, FakeEngine, FakeServer, modules, serving
from tests.generator_contract import (
    Make,
    check_answers,
    check_generator,
    check_release,
    check_turns,
)
from tests.rollout_parts import tiny_qwen3

PROMPTS = [tuple(random.Random(e).choices(range(2, 24), k=3 + 5 * e)) for e in range(6)]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    for name, module in modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    return FakeEngine()


def over(engine: FakeEngine, sampling: Sampling | None = None) -> VllmGenerator:
    return VllmGenerator(SimpleNamespace(llm_engine=engine), [EOS], sampling)


@pytest.fixture(params=["transformers", "vllm", "server"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    if request.param == "transformers":
        model = tiny_qwen3()
        yield lambda sampling: TransformersGenerator(model, [EOS], sampling, max_rows=4)
    elif request.param == "vllm":
        engine = request.getfixturevalue("engine")
        yield lambda sampling: over(engine, sampling)
    else:
        with serving(FakeServer()) as server:
            yield lambda sampling: ServerGenerator(Endpoint(server.url, "toy"), [EOS], sampling, concurrency=4)


def test_every_backend_keeps_the_contract(make: Make) -> None:
    check_generator(make, PROMPTS, [EOS])


def test_a_script_keeps_what_of_the_contract_is_not_sampling() -> None:
    def make(sampling: Sampling) -> Generator:
        return ScriptedGenerator(lambda request, turn: [5 + turn, *request.prompt_ids[:9], EOS], [EOS])

    check_answers(make, PROMPTS, [EOS])
    check_turns(make, PROMPTS[0], PROMPTS[1])
    check_release(make, PROMPTS)


def test_vllm_requests_join_while_others_decode(engine: FakeEngine) -> None:
    generator = over(engine)
    generator.submit(Request(0, PROMPTS[0], 60, 3))
    engine.step()
    generator.submit(Request(1, PROMPTS[1], 4, 5))
    first = generator.poll()
    assert [completion.episode for completion in first] == [1]
    assert engine.steps <= 5, "the short request did not wait for the long one"
    assert generator.pending == len(engine.running) == 1


def test_vllm_aborts_what_is_released_and_nothing_else(engine: FakeEngine) -> None:
    generator = over(engine)
    for episode in (4, 7):
        generator.submit(Request(episode, PROMPTS[0], 60, 3))
    generator.release(4)
    generator.release(4)
    assert len(engine.aborted) == 1
    assert engine.aborted[0].startswith("4.")
    assert list(engine.running) == [name for name in engine.running if name.startswith("7.")]


def test_vllm_outputs_of_a_released_request_are_dropped(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = over(engine)
    generator.submit(Request(0, PROMPTS[0], 1, 3))
    monkeypatch.setattr(engine, "abort_request", lambda names: None)  # too late: the engine answers all the same
    generator.release(0)
    generator.submit(Request(0, PROMPTS[1], 3, 4))
    (completion,) = generator.poll() or generator.poll()
    assert len(completion.token_ids) > 1 or completion.finished


def test_vllm_tells_how_a_request_failed(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = over(engine)
    generator.submit(Request(0, PROMPTS[0], 1, 3))
    (output,) = engine.step()
    output.outputs[0].finish_reason = "abort"
    engine.running["left"] = None
    monkeypatch.setattr(engine, "step", lambda: [output])
    (completion,) = generator.poll()
    assert completion.error == "vLLM ended the request: abort"


def test_vllm_without_the_logprobs_of_the_sampling_distribution_is_refused() -> None:
    with pytest.raises(UserError, match="processed_logprobs"):
        over(FakeEngine(logprobs_mode="raw_logprobs"))


def test_a_missing_prefix_cache_is_told() -> None:
    assert prefix_cache_note(SimpleNamespace(llm_engine=FakeEngine())) is None
    note = prefix_cache_note(SimpleNamespace(llm_engine=FakeEngine(prefix_caching=False)))
    assert note is not None
    assert "no prefix cache for toy" in note


def test_a_missing_vllm_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(UserError, match=r"no config\.json"):
        load_llm(tmp_path, max_context=64, concurrency=2)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match=r"pip install 'horma-rl\[vllm\]'"):
        load_llm(tmp_path, max_context=64, concurrency=2)


@pytest.mark.parametrize(
    ("text", "dtype", "vision"),
    [
        ('{"dtype": "float32"}', "float32", False),
        ('{"torch_dtype": "bfloat16"}', "bfloat16", False),
        ('{"text_config": {"dtype": "bfloat16"}, "vision_config": {"depth": 1}}', "bfloat16", True),
        ("{}", "auto", False),
    ],
)
def test_what_a_checkpoints_config_says(tmp_path: Path, text: str, dtype: str, vision: bool) -> None:
    (tmp_path / "config.json").write_text(text)
    assert stored_dtype(tmp_path) == dtype
    assert has_vision(tmp_path) is vision
