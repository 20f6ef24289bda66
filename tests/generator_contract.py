"""What every `Generator` must do: checks that tests run on each backend, and scripts/vllm_cpu_check.py on real vLLM."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from horma_rl.retrieval.types import Completion, Generator, Request, Sampling

Make = Callable[[Sampling], Generator]


def collect(generator: Generator, requests: Sequence[Request]) -> dict[int, Completion]:
    """All in flight together; the completions by episode. An answered episode is released, which frees its place."""
    for request in requests:
        generator.submit(request)
    assert generator.pending == len(requests)
    found: dict[int, Completion] = {}
    polls = 0
    while generator.pending:
        polls += 1
        assert polls < 5000, f"{generator.pending} requests are never answered"
        for completion in generator.poll():
            assert completion.episode not in found, "answered twice"
            found[completion.episode] = completion
            generator.release(completion.episode)
        assert generator.pending == len(requests) - len(found)
    return found


def check_answers(make: Make, prompts: Sequence[tuple[int, ...]], eos_ids: Sequence[int], cap: int = 12) -> None:
    """Every request is answered once: ids with their log-probabilities, the end token last or the cap reached."""
    found = collect(make(Sampling()), [Request(e, prompt, cap, 7 + e) for e, prompt in enumerate(prompts)])
    assert sorted(found) == list(range(len(prompts)))
    for completion in found.values():
        assert completion.error is None
        assert 1 <= len(completion.token_ids) <= cap
        assert len(completion.logprobs) == len(completion.token_ids)
        assert all(isinstance(token, int) for token in completion.token_ids)
        assert all(logprob <= 1e-5 for logprob in completion.logprobs)
        assert not set(completion.token_ids[:-1]) & set(eos_ids), "nothing comes after the end token"
        assert completion.finished == (completion.token_ids[-1] in eos_ids)
        assert completion.finished or len(completion.token_ids) == cap


def check_seeds(make: Make, prompts: Sequence[tuple[int, ...]]) -> None:
    """A request's tokens follow from its prompt and seed, whatever else is in flight; another seed draws others."""
    together = collect(make(Sampling()), [Request(e, prompt, 12, 50 + e) for e, prompt in enumerate(prompts)])
    generator = make(Sampling())
    for episode, prompt in enumerate(prompts):
        alone = collect(generator, [Request(episode, prompt, 12, 50 + episode)])[episode]
        assert alone.token_ids == together[episode].token_ids
    seeds = collect(make(Sampling()), [Request(seed, prompts[0], 12, seed) for seed in range(8)])
    assert len({completion.token_ids for completion in seeds.values()}) > 1


def check_greedy(make: Make, prompts: Sequence[tuple[int, ...]]) -> None:
    """Temperature 0 takes the most likely token: the same tokens whatever the seed."""
    first, second = (
        collect(make(Sampling(0.0)), [Request(e, prompt, 8, seed) for e, prompt in enumerate(prompts)])
        for seed in (1, 2)
    )
    assert {e: c.token_ids for e, c in first.items()} == {e: c.token_ids for e, c in second.items()}


def check_turns(make: Make, prompt: tuple[int, ...], observation: tuple[int, ...]) -> None:
    """An episode goes on from what it said: its next prompt holds the last one, the answer, and what was observed."""
    generator = make(Sampling())
    context = prompt
    for turn in range(3):
        generator.submit(Request(3, context, 6, turn))
        found: list[Completion] = []
        while generator.pending:
            found += generator.poll()
        (completion,) = found
        context += (*completion.token_ids, *observation)
    generator.release(3)


def check_release(make: Make, prompts: Sequence[tuple[int, ...]]) -> None:
    """Releasing drops what is in flight, twice or unknown is no fault, and the episode's number may be used again."""
    generator = make(Sampling())
    for episode, prompt in enumerate(prompts):
        generator.submit(Request(episode, prompt, 400, episode))
    list(generator.poll())
    for episode in (*range(len(prompts)), 0, 12345):
        generator.release(episode)
    assert generator.pending == 0
    assert list(generator.poll()) == []
    again = collect(generator, [Request(0, prompts[0], 5, 1)])
    assert len(again) == 1


def check_refusals(make: Make, prompt: tuple[int, ...]) -> None:
    """An empty prompt, no room to answer, and a second request of a busy episode are refused at once."""
    generator = make(Sampling())
    generator.submit(Request(0, prompt, 400, 0))
    for request in (Request(1, (), 5, 0), Request(1, prompt, 0, 0), Request(0, prompt, 5, 0)):
        try:
            generator.submit(request)
        except ValueError:
            continue
        raise AssertionError(f"{request} was taken")
    generator.release(0)
    assert generator.pending == 0


def check_generator(make: Make, prompts: Sequence[tuple[int, ...]], eos_ids: Sequence[int]) -> None:
    """All of the above. `prompts`: some of unlike lengths."""
    check_answers(make, prompts, eos_ids)
    check_seeds(make, prompts)
    check_greedy(make, prompts)
    check_turns(make, prompts[0], prompts[-1])
    check_release(make, prompts)
    check_refusals(make, prompts[0])
