"""The server backend against a real HTTP server on the loopback that misbehaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from horma_rl.config import validate
from horma_rl.errors import UserError
from horma_rl.evaluation.config import EvalConfig, PolicyConfig
from horma_rl.retrieval.backends import make_generator
from horma_rl.retrieval.backends import server as backend
from horma_rl.retrieval.backends.server import TOKEN_VARIABLE, TRIES, ServerGenerator, connect
from horma_rl.retrieval.engine import RolloutConfig
from horma_rl.retrieval.types import Completion, Request, Sampling
from tests.fake_vllm import EOS, FakeServer, draw, serving

PROMPT = (5, 6, 7)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    with serving(FakeServer()) as running:
        yield running


def generator(server: FakeServer, sampling: Sampling | None = None, concurrency: int = 8) -> ServerGenerator:
    return ServerGenerator(connect(server.url, pause_s=0.01), [EOS], sampling, concurrency)


def ask(generator: ServerGenerator, count: int = 1, cap: int = 6) -> list[Completion]:
    for episode in range(count):
        generator.submit(Request(episode, PROMPT, cap, episode))
    found: list[Completion] = []
    while generator.pending:
        found += generator.poll()
    return sorted(found, key=lambda completion: completion.episode)


def test_everything_that_bears_on_sampling_is_said(server: FakeServer) -> None:
    ask(generator(server, Sampling(0.0)))
    (body,) = server.bodies
    assert body["prompt"] == [5, 6, 7]
    assert (body["seed"], body["max_tokens"], body["temperature"], body["model"]) == (0, 6, 0.0, "toy")
    assert (body["top_p"], body["top_k"], body["min_p"], body["repetition_penalty"]) == (1.0, 0, 0.0, 1.0)
    assert (body["stop_token_ids"], body["ignore_eos"], body["return_token_ids"]) == ([EOS], True, True)


def test_answers_are_the_servers_tokens(server: FakeServer) -> None:
    for completion in ask(generator(server), count=20):
        context: tuple[int, ...] = PROMPT
        for place, (token, logprob) in enumerate(zip(completion.token_ids, completion.logprobs, strict=True)):
            assert (token, pytest.approx(logprob)) == draw(context, completion.episode, place, 1.0)
            context += (token,)
    assert server.requests == 21, "one look at the models, then one request an episode"


@pytest.mark.parametrize("fault", ["cut", "half", "503", "429", "500"])
def test_a_cut_connection_and_a_busy_server_are_tried_again(server: FakeServer, fault: str) -> None:
    undisturbed = ask(generator(server), count=3)
    made = generator(server)
    server.faults = [fault] * (TRIES - 1)
    assert ask(made, count=3) == undisturbed


@pytest.mark.parametrize(("fault", "told"), [("cut", "RemoteProtocolError|ReadError"), ("503", "HTTP 503.*fault 503")])
def test_a_server_that_is_gone_ends_the_run(server: FakeServer, fault: str, told: str) -> None:
    made = generator(server)
    server.faults = [fault] * TRIES
    with pytest.raises(UserError, match=rf"does not answer \({TRIES} tries, the last: .*({told})"):
        ask(made)


def test_a_refused_request_fails_its_own_episode(server: FakeServer) -> None:
    made = generator(server, concurrency=1)
    server.faults = ["400"]
    refused, answered = ask(made, count=2)
    assert refused.error is not None
    assert "HTTP 400" in refused.error
    assert refused.token_ids == ()
    assert answered.error is None


def test_an_answer_that_cannot_be_read_fails_its_episode(server: FakeServer) -> None:
    made = generator(server)
    server.faults = ["garbage"]
    (completion,) = ask(made)
    assert completion.error is not None
    assert "JSONDecodeError" in completion.error


def test_a_server_without_token_ids_is_told(server: FakeServer) -> None:
    made = generator(server)
    server.faults = ["no ids"]
    with pytest.raises(UserError, match="gives no token ids"):
        ask(made)


@pytest.mark.parametrize("answer", ['{"choices": []}', "{}", '{"choices": null}', '{"choices": ["text"]}'])
def test_an_answer_without_choices_ends_the_run(server: FakeServer, answer: str) -> None:
    made = generator(server)
    server.faults = [answer]
    with pytest.raises(UserError, match=rf"{server.url} answers without choices"):
        ask(made)
    server.faults = ["", answer]
    with pytest.raises(UserError, match=rf"{server.url} answers without choices"):
        generator(server, Sampling(0.7))


def test_a_probe_that_is_refused_is_told(server: FakeServer) -> None:
    server.faults = ["", "400"]
    with pytest.raises(UserError, match=r"gives no log-probabilities back: .*HTTP 400"):
        generator(server, Sampling(0.7))


def test_a_silent_server_is_asked_once(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "FIRST_ANSWER_S", 0.2)
    monkeypatch.setattr(backend, "TOKEN_S", 0.0)
    made = generator(server)
    server.faults = ["hang"] * TRIES
    with pytest.raises(UserError, match=r"took the request and was silent for 0\.2 s"):
        ask(made)
    assert server.requests == 2, "one look at the models, one request"


def test_a_server_that_answered_before_may_take_longer(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    made = generator(server)
    assert ask(made)[0].error is None
    monkeypatch.setattr(backend, "FIRST_ANSWER_S", 0.0)
    monkeypatch.setattr(backend, "ANSWER_S", 0.3)
    server.faults = ["hang"]
    with pytest.raises(UserError, match=r"silent for 0\.3 s"):
        ask(made)


@pytest.mark.parametrize("url", ["", "http://", "http://127.0.0.1:99999", "http://:8000", "ftp://host", "host:8000"])
def test_what_is_no_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(UserError, match="is no URL"):
        connect(url)
    with pytest.raises(UserError, match="is no URL"):
        PolicyConfig(model=Path("m"), backend="server", server=url)


def test_the_token_goes_with_every_request(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.token = "secret"
    with pytest.raises(UserError, match=f"refuses the token.*set {TOKEN_VARIABLE}"):
        connect(server.url)
    monkeypatch.setenv(TOKEN_VARIABLE, "secret")
    made = generator(server)
    assert ask(made)[0].error is None
    server.token = "changed"
    with pytest.raises(UserError, match="refuses the token"):
        ask(made)


def test_release_closes_the_connection(server: FakeServer) -> None:
    made = generator(server)
    server.faults = ["hang"]
    made.submit(Request(0, PROMPT, 6, 0))
    assert made.poll() == []
    made.release(0)
    assert made.pending == 0
    assert server.dropped.wait(20), "the server sees the connection close, and aborts the request"
    assert ask(made)[0].error is None


def test_a_server_elsewhere_is_told_in_one_line() -> None:
    with pytest.raises(UserError, match=r"127\.0\.0\.1:9 does not answer"):
        connect("http://127.0.0.1:9", pause_s=0.0)


def test_what_is_served_is_looked_at_first(server: FakeServer) -> None:
    server.models = [{"id": "a", "max_model_len": 1000}, {"id": "b", "max_model_len": 100}]
    assert connect(server.url, models=["x", "a"]).model == "a"
    assert connect(f"{server.url}/v1/", models=["b"], max_context=100).model == "b"
    with pytest.raises(UserError, match="serves a, b, not c or d"):
        connect(server.url, models=["c", "d"])
    with pytest.raises(UserError, match=r"takes 100 tokens, rollout\.max_context_tokens is 101"):
        connect(server.url, models=["b"], max_context=101)
    server.faults = ["garbage"]
    with pytest.raises(UserError, match="is no vLLM server"):
        connect(server.url)


@pytest.mark.parametrize("sampling", [Sampling(0.7), Sampling(1.0, 0.9), Sampling(1.0, 1.0, 5)])
def test_logprobs_of_another_distribution_are_refused(server: FakeServer, sampling: Sampling) -> None:
    server.processed = False
    with pytest.raises(UserError, match="--logprobs-mode processed_logprobs"):
        generator(server, sampling)
    ask(generator(server, Sampling(1.0)))
    ask(generator(server, Sampling(0.0)))


def test_logprobs_of_the_sampling_distribution_are_taken(server: FakeServer) -> None:
    assert ask(generator(server, Sampling(0.7)))[0].error is None


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        ({"backend": "server"}, "needs the key server"),
        ({"server": "http://127.0.0.1:8000"}, "needs the key server"),
        ({"backend": "server", "server": "127.0.0.1:8000"}, "is no URL"),
        ({"backend": "sglang"}, "backend"),
    ],
)
def test_policies_name_their_server(policy: dict[str, str], told: str) -> None:
    with pytest.raises(UserError, match=told):
        validate({"policies": {"p": {"model": "m", **policy}}}, EvalConfig, "eval.yaml")
    good = {"model": "m", "backend": "server", "server": "http://127.0.0.1:8000"}
    assert validate({"policies": {"p": good}}, EvalConfig, "x").policies["p"].model == Path("m")


def test_a_policys_backend_is_chosen_by_name(server: FakeServer) -> None:
    server.models = [{"id": "other"}, {"id": "retriever", "max_model_len": 4096}]
    limits = RolloutConfig(max_context_tokens=4096)
    made = make_generator("server", Path("runs/a/retriever"), [EOS], Sampling(), limits, server=server.url)
    assert isinstance(made, ServerGenerator)
    ask(made)
    assert server.bodies[0]["model"] == "retriever"
    with pytest.raises(UserError, match="cannot be loaded"):
        make_generator("transformers", Path("no/such/folder"), [EOS], Sampling(), limits)
