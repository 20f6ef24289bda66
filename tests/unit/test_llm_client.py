"""The client over a scripted transport: retries, budgets, cache, structured answers, accounts, and where the key is."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from horma_rl.errors import UserError
from horma_rl.llm.budget import Budget
from horma_rl.llm.client import Llm
from horma_rl.llm.config import LlmConfig
from horma_rl.llm.types import BudgetSpent, Message, NoValidAnswer, RefusedError, UnreachableError, Usage
from tests.faulty_server import completion

httpx = pytest.importorskip("httpx2", reason="the openai package of the extra `llm` brings it")
pytest.importorskip("openai", reason="needs the extra `llm`")

KEY = "sk-very-secret-0123456789"
ASK: list[Message] = [{"role": "user", "content": "which?"}]
Handler = Callable[[dict[str, Any]], Any]


class Choice(BaseModel):
    letter: str
    number: int


class Script:
    """Answers in turn; each is a text, an httpx response, an error to raise, or a function of the request's body that
    gives one of these. The last one repeats."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[Any] = []
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def __call__(self, request: Any) -> Any:
        self.headers.append(request.headers)
        self.bodies.append(body := json.loads(request.content))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        answer = answer(body) if callable(answer) else answer
        await asyncio.sleep(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, str):
            return httpx.Response(200, json=completion(answer, body))
        return answer

    def llm(self, budget: Budget | None = None, **config: Any) -> Llm:
        settings = LlmConfig(**{"cache": None, "model": "m", **config})
        return Llm(settings, budget=budget, transport=httpx.MockTransport(self), sleep=self.sleep)


def status(code: int, text: str = "no", **headers: str) -> Any:
    return httpx.Response(code, json={"error": {"message": text}}, headers=headers)


def ask(llm: Llm, messages: Sequence[Message] = ASK, **options: Any) -> Any:
    async def go() -> Any:
        async with llm:
            return await llm.complete(messages, role="manager", **options)

    return asyncio.run(go())


def ask_choice(llm: Llm, **options: Any) -> Any:
    async def go() -> Any:
        async with llm:
            return await llm.structured(ASK, Choice, role="judge", **options)

    return asyncio.run(go())


def test_a_reply_comes_with_its_tokens_and_is_entered_once() -> None:
    script = Script("yes")
    llm = script.llm(price_in=2.0, price_out=4.0)
    reply = ask(llm, max_tokens=9)
    assert (reply.text, reply.cached, reply.finish) == ("yes", False, "stop")
    assert script.bodies[0] == {"model": "m", "messages": ASK, "max_tokens": 9, "temperature": 0.0, "seed": 0}
    account = llm.ledger.accounts["manager"]
    assert (account.requests, account.prompt_tokens, account.completion_tokens) == (1, 5, 1)
    assert account.cost == pytest.approx((5 * 2 + 1 * 4) / 1e6)
    assert list(llm.ledger.as_json()["roles"]) == ["manager"]


def test_a_server_that_is_busy_is_asked_again_when_it_says() -> None:
    script = Script(status(429, **{"retry-after": "7"}), status(503), httpx.ReadError("cut"), "yes")
    llm = script.llm(backoff_s=1.0)
    assert ask(llm).text == "yes"
    assert script.slept[0] == 7
    assert 1 <= script.slept[1] <= 2
    assert 2 <= script.slept[2] <= 4
    account = llm.ledger.accounts["manager"]
    assert (account.requests, account.retries, account.failed) == (1, 3, 0)
    assert account.lost_tokens > 0  # of the cut answer, never of the refused ones
    assert llm.budget.spent_tokens == account.prompt_tokens + account.completion_tokens + account.lost_tokens


@pytest.mark.parametrize(
    "fault",
    [
        status(500),
        httpx.ReadTimeout("slow"),
        httpx.ConnectError("nobody"),
        httpx.RemoteProtocolError("cut"),
        httpx.Response(200, text="<html>gateway</html>"),
        httpx.Response(200, json=[]),
        httpx.Response(200, json={"choices": []}),
        httpx.Response(200, json={"choices": [{"message": {"content": 7}}]}),
        httpx.Response(200, text="[" * 100_000),
    ],
)
def test_a_server_that_never_answers_ends_in_one_error(fault: Any) -> None:
    script = Script(fault)
    llm = script.llm(retries=2)
    with pytest.raises(UnreachableError, match="3 tries"):
        ask(llm)
    assert len(script.bodies) == 3
    assert llm.ledger.accounts["manager"].failed == 1


@pytest.mark.parametrize("code", [400, 401, 404, 422])
def test_what_the_server_refuses_is_not_sent_again(code: int) -> None:
    script = Script(status(code, "the prompt is too long"))
    with pytest.raises(RefusedError) as raised:
        ask(script.llm())
    assert raised.value.status == code
    assert len(script.bodies) == 1


def test_an_empty_account_is_no_reason_to_wait() -> None:
    script = Script(httpx.Response(429, json={"error": {"code": "insufficient_quota"}}))
    with pytest.raises(RefusedError):
        ask(script.llm())


def test_a_server_that_answers_drop_by_drop_is_given_up() -> None:
    class Slow(Script):
        async def __call__(self, request: Any) -> Any:
            await asyncio.sleep(60)

    with pytest.raises(UnreachableError, match=r"no answer in 0\.05 s"):
        ask(Slow("").llm(timeout_s=0.05, retries=0))


def test_no_more_requests_are_in_flight_than_allowed() -> None:
    most = now = 0

    class Counting(Script):
        async def __call__(self, request: Any) -> Any:
            nonlocal most, now
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.01)
            now -= 1
            return await super().__call__(request)

    async def go() -> None:
        async with Counting("yes").llm(concurrency=3) as llm:
            await asyncio.gather(*(llm.complete(ASK, role="actor", max_tokens=n) for n in range(1, 11)))

    asyncio.run(go())
    assert most == 3


def test_what_was_asked_before_costs_nothing(tmp_path: Path) -> None:
    script = Script("one", "two")
    cache = tmp_path / "replies.sqlite"

    async def twice() -> Llm:
        async with script.llm(cache=cache) as llm:
            replies = await asyncio.gather(*(llm.complete(ASK, role="actor") for _ in range(3)))
            assert [reply.text for reply in replies] == ["one"] * 3
            return llm

    first = asyncio.run(twice())
    assert len(script.bodies) == 1
    assert first.ledger.accounts["actor"].cached == 2
    again = asyncio.run(twice())
    assert len(script.bodies) == 1
    assert again.ledger.total.prompt_tokens == 0
    assert again.budget.spent_tokens == 0
    assert ask(script.llm(cache=cache), temperature=0.5).text == "two"  # another request


def test_a_spent_budget_sends_nothing_more(tmp_path: Path) -> None:
    script = Script("yes")
    llm = script.llm(budget_tokens=100, cache=tmp_path / "c")

    async def go() -> list[Any]:
        async with llm:
            results = [llm.complete(ASK, role="actor", max_tokens=20 + n) for n in range(40)]
            return await asyncio.gather(*results, return_exceptions=True)

    results = asyncio.run(go())
    spent = [result for result in results if isinstance(result, BudgetSpent)]
    assert len(spent) + len(script.bodies) == 40
    assert spent
    assert script.bodies
    assert llm.budget.spent_tokens == 6 * len(script.bodies) <= 100
    assert 100 - llm.budget.spent_tokens < 80  # those that did not fit beside others waited for them
    free = script.llm(budget_tokens=1, cache=tmp_path / "c")
    assert ask(free, max_tokens=20).cached


def test_cost_is_a_budget_too() -> None:
    llm = Script("yes").llm(price_in=1e6, budget_cost=11.0)
    assert ask(llm).text == "yes"
    with pytest.raises(BudgetSpent, match=r"cost 5\.0000 of 11\.0000"):
        ask(Script("yes").llm(budget=llm.budget, price_in=1e6))


def test_a_cancelled_request_gives_its_reservation_back() -> None:
    class Slow(Script):
        async def __call__(self, request: Any) -> Any:
            await asyncio.sleep(60)

    async def go() -> None:
        async with Slow("").llm(budget_tokens=1100) as llm:
            task = asyncio.ensure_future(llm.complete(ASK, role="actor", max_tokens=1000))
            await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await llm.budget.reserve(1000, 0.0)

    asyncio.run(asyncio.wait_for(go(), 10))


def test_a_structured_answer_goes_back_with_what_is_wrong_with_it() -> None:
    script = Script("hm", '{"letter": "a"}', '{"letter": "b", "number": 1}')
    llm = script.llm()
    assert ask_choice(llm) == Choice(letter="b", number=1)
    assert script.bodies[0]["response_format"]["json_schema"]["schema"]["required"] == ["letter", "number"]
    assert "no JSON" in script.bodies[1]["messages"][-1]["content"]
    assert script.bodies[2]["messages"][-2]["content"] == '{"letter": "a"}'
    assert "number: Field required" in script.bodies[2]["messages"][-1]["content"]
    assert len(script.bodies[2]["messages"]) == 3
    assert llm.ledger.accounts["judge"].reasks == 2


def test_re_asks_are_bounded_and_the_error_holds_every_answer() -> None:
    script = Script("a" * 100_000, "", "{}")
    with pytest.raises(NoValidAnswer) as raised:
        ask_choice(script.llm(reasks=2))
    assert [attempt.text[:1] for attempt in raised.value.attempts] == ["a", "", "{"]
    assert all(attempt.reason for attempt in raised.value.attempts)
    assert all(len(m["content"]) < 3000 for body in script.bodies for m in body["messages"])


def test_the_callers_check_is_told_to_the_model() -> None:
    script = Script('{"letter": "z", "number": 1}', '{"letter": "a", "number": 1}')
    found = ask_choice(script.llm(), check=lambda c: "letter: only a or b" if c.letter == "z" else None)
    assert found.letter == "a"
    assert "only a or b" in script.bodies[1]["messages"][-1]["content"]


def test_a_server_without_schemas_is_told_in_words() -> None:
    def answer(body: dict[str, Any]) -> Any:
        refused = "response_format" in body
        return status(400, "response_format is not supported") if refused else '{"letter": "a", "number": 1}'

    script = Script(answer)

    async def go() -> None:
        async with script.llm() as llm:
            await asyncio.gather(*(llm.structured(ASK, Choice, role="judge", max_tokens=n) for n in (5, 6)))
            await llm.structured(ASK, Choice, role="judge", describe=False)

    asyncio.run(go())
    plain = [body for body in script.bodies if "response_format" not in body]
    assert len(plain) == 3
    assert 1 <= len(script.bodies) - len(plain) <= 2  # the second may be asked before or after the first is refused
    assert all('"required":["letter","number"]' in body["messages"][-1]["content"] for body in plain[:2])
    assert plain[2]["messages"] == ASK


def test_a_server_that_wants_the_other_name_of_the_limit_gets_it() -> None:
    script = Script(status(400, "Unsupported parameter: use 'max_completion_tokens' instead"), "yes")
    assert ask(script.llm(), max_tokens=7).text == "yes"
    assert script.bodies[1]["max_completion_tokens"] == 7


def test_a_server_that_does_not_count_is_estimated() -> None:
    llm = Script(httpx.Response(200, json={"choices": [{"message": {"content": "x" * 400}}], "usage": None})).llm()
    assert ask(llm).usage == Usage(9, 101)
    assert llm.ledger.accounts["manager"].estimated == 1


def test_the_key_is_sent_and_is_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HORMA_LLM_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    script = Script(f"your key is {KEY}", status(401, f"wrong key {KEY}"), httpx.ReadError(f"cut at {KEY}"))
    cache = tmp_path / "replies.sqlite"
    llm = script.llm(cache=cache, retries=0)
    told = [ask(llm).text, repr(llm), repr(llm.config), json.dumps(llm.ledger.as_json()), str(vars(llm.budget))]
    assert script.headers[0]["authorization"] == f"Bearer {KEY}"
    for kind in (RefusedError, UnreachableError):
        with pytest.raises(kind) as raised:
            ask(script.llm(cache=cache, retries=0), temperature=1.0)
        error = raised.value
        told += [str(error), repr(error), repr(error.__cause__), repr(error.__context__), repr(vars(error))]
    told += [path.read_bytes().decode("latin-1") for path in tmp_path.iterdir()]
    assert not [text for text in told if KEY in text]
    assert KEY not in caplog.text


def test_without_a_key_none_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HORMA_LLM_KEY", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    script = Script("yes")
    ask(script.llm())
    assert "authorization" not in script.headers[0]


@pytest.mark.parametrize(
    "fields",
    [
        {"base_url": f"http://user:{KEY}@host/v1"},
        {"base_url": f"http://host/v1?key={KEY}"},
        {"base_url": "localhost:8000"},
        {"api_key_env": KEY},
        {"budget_cost": 1.0},
        {"temperature": float("nan")},
    ],
)
def test_unsound_configs_are_refused_without_repeating_a_key(fields: dict[str, Any]) -> None:
    with pytest.raises((UserError, ValidationError)) as raised:
        LlmConfig(**fields)
    assert KEY not in str(raised.value)
