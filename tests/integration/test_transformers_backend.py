from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from horma_rl.errors import UserError
from horma_rl.retrieval.backends.sampling import draw, uniforms
from horma_rl.retrieval.backends.transformers import TransformersGenerator, load_model
from horma_rl.retrieval.types import Completion, Request, Sampling
from tests.conftest import REPOSITORY
from tests.rollout_parts import MODELS, full_logprobs, tiny_qwen3, tiny_qwen3_5

EOS = 1
TURNS = 4


@pytest.mark.parametrize("device", ["nonsense", "cuda:99", "meta", ""])
def test_a_device_that_is_not_there_is_told(device: str) -> None:
    with pytest.raises(UserError, match=f"device '{device}' cannot be used"):
        load_model(REPOSITORY / "data" / "models" / "tiny", device)


@dataclass
class Said:
    prompt: tuple[int, ...]
    completion: Completion


def converse(generator: TransformersGenerator, episodes: Sequence[int], cap: int = 12) -> dict[int, list[Said]]:
    """Ragged episodes of four turns whose observations are random ids, all in flight together."""
    observed = {e: random.Random(e) for e in episodes}
    context = {e: [observed[e].randrange(2, 300) for _ in range(3 + 7 * (e % 5))] for e in episodes}
    said: dict[int, list[Said]] = {e: [] for e in episodes}
    for e in episodes:
        generator.submit(Request(e, tuple(context[e]), cap, 1000 * e))
    while generator.pending:
        for completion in generator.poll():
            e = completion.episode
            said[e].append(Said(tuple(context[e]), completion))
            if len(said[e]) == TURNS:
                generator.release(e)
                continue
            context[e] += completion.token_ids
            context[e] += [observed[e].randrange(2, 300) for _ in range(observed[e].randrange(1, 40))]
            generator.submit(Request(e, tuple(context[e]), cap, 1000 * e + len(said[e])))
    return said


def tokens(said: dict[int, list[Said]]) -> dict[int, list[tuple[int, ...]]]:
    return {e: [one.completion.token_ids for one in turns] for e, turns in said.items()}


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("kind", MODELS)
def test_logprobs_equal_a_plain_forward_over_ragged_multi_turn_episodes(kind: str, temperature: float) -> None:
    model = MODELS[kind]()
    said = converse(TransformersGenerator(model, [EOS], Sampling(temperature), max_rows=4), range(9))
    assert sum(len(turns) for turns in said.values()) == 9 * TURNS
    for one in (one for turns in said.values() for one in turns):
        plain = full_logprobs(model, one.prompt, one.completion.token_ids, temperature)
        assert one.completion.logprobs == pytest.approx(plain, abs=5e-5)


@pytest.mark.parametrize("kind", ["qwen3", "qwen3.5"])
def test_a_requests_tokens_do_not_depend_on_its_company(kind: str) -> None:
    model = MODELS[kind]()
    together = tokens(converse(TransformersGenerator(model, [EOS], max_rows=16), range(9)))
    alone = tokens(converse(TransformersGenerator(model, [EOS], max_rows=1), range(9)))
    backwards = tokens(converse(TransformersGenerator(model, [EOS], max_rows=3, prefill_share=0), range(8, -1, -1)))
    assert together == alone == backwards


def generate(model: Any, prompts: Sequence[Sequence[int]], cap: int = 20, **options: Any) -> list[Completion]:
    generator = TransformersGenerator(model, [EOS], **options)
    for episode, prompt in enumerate(prompts):
        generator.submit(Request(episode, tuple(prompt), cap, episode))
    done = []
    while generator.pending:
        done += generator.poll()
    return sorted(done, key=lambda completion: completion.episode)


@pytest.mark.parametrize("make", [tiny_qwen3, tiny_qwen3_5])
def test_greedy_equals_generate(make: Any) -> None:
    model = make()
    prompts = [[5, 6, 7], [8] * 20, [9, 10]]
    for completion, prompt in zip(generate(model, prompts, sampling=Sampling(0.0)), prompts, strict=True):
        out = model.generate(
            torch.tensor([prompt]), do_sample=False, max_new_tokens=20, eos_token_id=EOS, pad_token_id=0
        )
        assert list(completion.token_ids) == out[0, len(prompt) :].tolist()


def test_the_cap_and_the_end_token_end_a_response() -> None:
    said = generate(tiny_qwen3(), [[i, 6, 7] for i in range(2, 60)], cap=60)
    ended = [completion for completion in said if completion.finished]
    assert all(len(c.token_ids) == 60 and EOS not in c.token_ids for c in said if not c.finished)
    assert len(ended) < len(said)
    assert ended, "some of sixty responses sample the end token"
    assert all(c.token_ids[-1] == EOS and EOS not in c.token_ids[:-1] for c in ended)


def test_a_prompt_that_does_not_extend_what_is_held_is_read_again_from_where_it_differs() -> None:
    for model in (tiny_qwen3(), tiny_qwen3_5()):
        generator = TransformersGenerator(model, [EOS])
        base = list(range(2, 40))
        for prompt in (base, [*base[:20], 7, 7, 7], base[:10], base[:10]):
            generator.submit(Request(0, tuple(prompt), 6, 3))
            found: list[Completion] = []
            while not found:
                found = generator.poll()
            plain = full_logprobs(model, prompt, found[0].token_ids)
            assert found[0].logprobs == pytest.approx(plain, abs=5e-5)


def test_a_released_request_is_gone_and_its_row_is_used_again() -> None:
    model = tiny_qwen3()
    generator = TransformersGenerator(model, [EOS], max_rows=2)
    for episode in range(4):
        generator.submit(Request(episode, tuple(range(2, 30)), 10_000, episode))
    generator.poll()
    for episode in (0, 3, 0):
        generator.release(episode)
    assert generator.pending == 2
    for episode in (1, 2):
        generator.release(episode)
    assert generator.pending == 0
    assert generator.poll() == []
    assert len(tokens(converse(generator, range(5)))) == 5


def test_requests_that_cannot_be_are_refused() -> None:
    generator = TransformersGenerator(tiny_qwen3(), [EOS])
    with pytest.raises(ValueError, match="at least one token"):
        generator.submit(Request(0, (), 5, 0))
    generator.submit(Request(0, (5,), 5, 0))
    with pytest.raises(ValueError, match="in flight"):
        generator.submit(Request(0, (5,), 5, 0))


def test_a_model_in_training_generates_as_in_eval_and_is_left_as_it_was() -> None:
    model = tiny_qwen3()
    expected = tokens(converse(TransformersGenerator(model, [EOS]), range(3)))
    model.train()
    model.model.layers[0].eval()
    model.config.attention_dropout = 0.9
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.9
    model.activation_checkpointing_enable()
    modes = [module.training for module in model.modules()]
    assert tokens(converse(TransformersGenerator(model, [EOS]), range(3))) == expected
    assert [module.training for module in model.modules()] == modes
    assert not any(t.is_inference() for t in [*model.parameters(), *model.buffers()])
    model.eval()(input_ids=torch.tensor([[5, 6, 7]]), labels=torch.tensor([[5, 6, 7]])).loss.backward()


def test_new_weights_are_used_at_once() -> None:
    model = tiny_qwen3()
    generator = TransformersGenerator(model, [EOS])
    before = tokens(converse(generator, range(3)))
    model.load_state_dict(tiny_qwen3(seed=1).state_dict())
    after = converse(generator, range(3))
    assert tokens(after) != before
    one = after[2][-1]
    assert one.completion.logprobs == pytest.approx(
        full_logprobs(model, one.prompt, one.completion.token_ids), abs=2e-5
    )


def test_models_that_cannot_be_continued_row_by_row_are_refused() -> None:
    model = tiny_qwen3()
    model.config.layer_types = ["sliding_attention", "full_attention"]
    with pytest.raises(UserError, match="sliding_attention"):
        TransformersGenerator(model, [EOS])
    flash = tiny_qwen3()
    flash.config._attn_implementation = "flash_attention_2"
    with pytest.raises(UserError, match="sdpa"):
        TransformersGenerator(flash, [EOS])


def test_tokens_are_drawn_from_the_distribution() -> None:
    torch.manual_seed(0)
    logits = torch.randn(1, 300).expand(20_000, 300) * 2
    noise = torch.from_numpy(uniforms(11, 20_000))
    for sampling in (Sampling(), Sampling(0.5), Sampling(1.0, 0.6), Sampling(1.0, 1.0, 5)):
        drawn, logprobs = draw(logits, noise, sampling)
        counts = Counter(drawn.tolist())
        reported = dict(zip(drawn.tolist(), logprobs.exp().tolist(), strict=True))
        for token, count in counts.most_common(8):
            share = count / 20_000
            assert share == pytest.approx(reported[token], abs=5 * (reported[token] / 20_000) ** 0.5)
        if sampling.top_k:
            assert len(counts) == 5
        if sampling.top_p < 1:
            likely = torch.softmax(logits[0], 0).sort(descending=True).values.cumsum(0)
            assert len(counts) == int((likely < 0.6).sum()) + 1


def test_what_has_no_probability_is_never_drawn() -> None:
    logits = torch.full((3, 700), -torch.inf)
    logits[:, 400:410] = 0.0
    edges = torch.tensor([0.0, 0.5, 1 - 2**-53], dtype=torch.float64)
    drawn, logprobs = draw(logits, edges, Sampling())
    assert drawn.tolist() == [400, 405, 409]
    assert logprobs.tolist() == pytest.approx([-2.302585] * 3, abs=1e-5)
