"""Many questions to one trained retriever: gathered into rounds, each answered or failed on its own. No model."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from horma_rl.agent.recall import PolicyRecaller
from horma_rl.errors import UserError
from horma_rl.retrieval.engine import EpisodeSpec
from horma_rl.retrieval.types import Trajectory
from horma_rl.serving.retrieve import Answer, Question, QuestionError, Retriever
from memory_shell.types import Caps, Stop, Turn
from memory_shell.workspace import Workspace

WORKSPACE = cast(Workspace, SimpleNamespace(name="w", turns={f"D1:{n}": f"turn {n}" for n in range(300)}, files=()))


class Engine:
    """Selects the turn that the question names, the last question first. `long`, `fault`, `gone` and `ended` do as they
    say.

    With a gate, a run begins when the test lets it: `begun` counts runs up, `go` lets one end.
    """

    def __init__(self, gated: bool = False) -> None:
        self.rounds: list[list[str]] = []
        self.begun, self.go = threading.Semaphore(0), threading.Semaphore(0)
        self._gated, self._busy = gated, threading.Lock()

    def run(self, specs: Sequence[EpisodeSpec]) -> Iterator[Trajectory]:
        assert self._busy.acquire(blocking=False), "two runs at once"
        try:
            self.rounds.append([spec.task.question for spec in specs])
            self.begun.release()
            if self._gated:
                assert self.go.acquire(timeout=20)
            if "gone" in self.rounds[-1]:
                raise UserError("the server is gone")
            if "ended" in self.rounds[-1]:
                raise asyncio.CancelledError
            for spec in reversed(specs):
                yield self._played(spec)
        finally:
            self._busy.release()

    def wait(self) -> None:
        """Wait until the engine is idle."""
        assert self._busy.acquire(timeout=20)
        self._busy.release()

    @staticmethod
    def _played(spec: EpisodeSpec) -> Trajectory:
        made = Trajectory(spec.task, spec.seed, [0] * 9, stop=Stop.DONE, index=spec.index)
        if spec.task.question == "fault":
            made.stop, made.error = Stop.ERROR, "OSError: disk"
        elif spec.task.question == "long":
            made.stop = Stop.CONTEXT_FULL
        else:
            made.selected = [spec.task.question]
        return made


def retriever(engine: Engine) -> Retriever:
    shell = SimpleNamespace(caps=Caps(), unit="turn", overview="none")
    manifest = SimpleNamespace(shell=shell, rollout=SimpleNamespace(max_context_tokens=8))
    return Retriever(cast(Any, engine), cast(Any, manifest))


def told(found: Any) -> str:
    """An outcome as one line: what was raised, or the turn that was selected."""
    if isinstance(found, BaseException):
        return f"{type(found).__name__}: {found}"
    return str((found.turns if isinstance(found, Answer) else found)[0])


Ask = Callable[[str], "asyncio.Task[Sequence[Turn]]"]


def played(engine: Engine, play: Callable[[Ask], Coroutine[Any, Any, None]]) -> None:
    """Run `play`, which is given what asks a question in a task of its own. Who hangs fails it after 20 seconds."""
    recaller = PolicyRecaller(retriever(engine))

    def ask(question: str) -> asyncio.Task[Sequence[Turn]]:
        return asyncio.create_task(recaller.recall(WORKSPACE, question))

    async def main() -> None:
        await asyncio.wait_for(play(ask), 20)

    asyncio.run(main())


async def begun(engine: Engine) -> None:
    """Wait until the engine is busy with its next run."""
    assert await asyncio.to_thread(engine.begun.acquire, timeout=20)


def test_answers_and_errors_are_in_the_order_of_the_questions() -> None:
    asked = ["D1:1", " ", "long", " D1:2 ", "fault", "D1:3"]
    engine = Engine()
    questions = [*(Question(WORKSPACE, text) for text in asked), Question(WORKSPACE, "D1:4", "yesterday")]
    found = retriever(engine).ask_all(questions)
    assert [told(one) for one in found] == [
        "turn 1",
        "QuestionError: the question is empty",
        "QuestionError: the question is too long: its prompt takes 9 tokens, and the model's context, answer "
        "included, 8",
        "turn 2",
        "RuntimeError: the episode failed: OSError: disk",
        "turn 3",
        "UserError: --asked-at: 'yesterday' is no date: write 2024-05-31 or 2024-05-31T18:30",
    ]
    assert engine.rounds == [["D1:1", "long", "D1:2", "fault", "D1:3"]]
    assert retriever(engine).ask_all([]) == []


def test_one_question_raises_what_many_are_given() -> None:
    model = retriever(Engine())
    assert told(model.ask(WORKSPACE, "D1:7")) == "turn 7"
    with pytest.raises(QuestionError, match="too long"):
        model.ask(WORKSPACE, "long")
    with pytest.raises(RuntimeError, match="the episode failed: OSError: disk"):
        model.ask(WORKSPACE, "fault")


def test_questions_that_come_while_the_engine_is_busy_are_asked_together() -> None:
    engine = Engine(gated=True)

    async def play(ask: Ask) -> None:
        first = ask("D1:0")
        await begun(engine)
        later = [ask(f"D1:{n}") for n in range(1, 200)]
        await asyncio.sleep(0)
        assert engine.rounds == [["D1:0"]]
        engine.go.release()
        assert told(await first) == "turn 0"
        await begun(engine)
        last = ask("D1:200")
        engine.go.release(2)
        assert [told(turns) for turns in await asyncio.gather(*later)] == [f"turn {n}" for n in range(1, 200)]
        assert told(await last) == "turn 200"
        engine.go.release()
        assert told(await ask("D1:201")) == "turn 201", "an idle engine is asked at once"

    played(engine, play)
    assert engine.rounds == [["D1:0"], [f"D1:{n}" for n in range(1, 200)], ["D1:200"], ["D1:201"]]


def test_a_bad_question_fails_its_asker_alone() -> None:
    engine = Engine()

    async def play(ask: Ask) -> None:
        asked = ["", "D1:1", "fault", "D1:2", "long"]
        found = await asyncio.gather(*(ask(text) for text in asked), return_exceptions=True)
        assert [told(one).split(":")[0] for one in found] == [
            "QuestionError", "turn 1", "RuntimeError", "turn 2", "QuestionError",
        ]  # fmt: skip

    played(engine, play)
    assert engine.rounds == [["D1:1", "fault", "D1:2", "long"]]


def test_a_round_that_fails_as_a_whole_fails_all_of_it_and_no_later_one() -> None:
    engine = Engine(gated=True)

    async def play(ask: Ask) -> None:
        lost = [ask("D1:1"), ask("gone"), ask("D1:2")]
        await begun(engine)
        later = ask("D1:3")
        engine.go.release(2)
        found = await asyncio.gather(*lost, return_exceptions=True)
        assert [told(one) for one in found] == ["UserError: the server is gone"] * 3
        assert told(await later) == "turn 3"

    played(engine, play)


def test_who_is_cancelled_takes_nobody_along() -> None:
    """The one who began the round, one who is in it, and one who waits for the next, which is asked without it."""
    engine = Engine(gated=True)

    async def play(ask: Ask) -> None:
        now = [ask(f"D1:{n}") for n in range(3)]
        await begun(engine)
        later = [ask(f"D1:{n}") for n in range(3, 6)]
        await asyncio.sleep(0)
        for task in (now[0], now[2], later[0]):
            task.cancel()
        engine.go.release(2)
        found = await asyncio.gather(*now, *later, return_exceptions=True)
        assert [told(one).split(":")[0] for one in found] == [
            "CancelledError", "turn 1", "CancelledError", "CancelledError", "turn 4", "turn 5",
        ]  # fmt: skip

    played(engine, play)
    assert engine.rounds == [["D1:0", "D1:1", "D1:2"], ["D1:4", "D1:5"]]


@pytest.mark.parametrize("seed", range(3))
def test_whoever_stays_is_answered(seed: int) -> None:
    """Three hundred come at any time, a third of them with a bad question, and a third give up at any time."""
    engine, rng = Engine(), random.Random(seed)

    async def play(ask: Ask) -> None:
        async def come(number: int) -> None:
            for _ in range(rng.randrange(100)):
                await asyncio.sleep(0)
            bad = number % 3 == 1
            task = ask("fault" if bad else f"D1:{number}")
            if number % 3 == 2:
                for _ in range(rng.randrange(100)):
                    await asyncio.sleep(0)
                task.cancel()
            (found,) = await asyncio.gather(task, return_exceptions=True)
            wanted = ("RuntimeError",) if bad else (f"turn {number}", "CancelledError")[: 1 + (number % 3 == 2)]
            assert told(found).split(":")[0] in wanted

        await asyncio.gather(*(come(number) for number in range(300)))

    played(engine, play)
    assert 1 < len(engine.rounds) < 300


def test_another_event_loop_may_ask_later() -> None:
    recaller = PolicyRecaller(retriever(Engine()))
    for number in (1, 2):
        assert told(asyncio.run(recaller.recall(WORKSPACE, f"D1:{number}"))) == f"turn {number}"


def test_a_round_that_is_ended_leaves_nobody_waiting() -> None:
    """Neither those in it nor those who wait for the next one; who comes later is answered."""
    engine = Engine(gated=True)

    async def play(ask: Ask) -> None:
        lost = [ask("D1:1"), ask("ended")]
        await begun(engine)
        lost.append(ask("D1:2"))
        await asyncio.sleep(0)
        engine.go.release(2)
        found = await asyncio.gather(*lost, return_exceptions=True)
        assert [type(one) for one in found] == [asyncio.CancelledError] * 3
        assert told(await ask("D1:3")) == "turn 3"

    played(engine, play)


def test_a_loop_that_was_closed_in_the_middle_holds_up_no_other() -> None:
    engine = Engine(gated=True)
    recaller = PolicyRecaller(retriever(engine))
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # it would tell of the tasks that are left in it
    lost = [loop.create_task(recaller.recall(WORKSPACE, "D1:1"))]
    loop.run_until_complete(begun(engine))
    lost.append(loop.create_task(recaller.recall(WORKSPACE, "D1:2")))
    loop.run_until_complete(asyncio.sleep(0))
    engine.go.release(2)
    engine.wait()
    loop.close()

    async def later() -> Sequence[Turn]:
        return await asyncio.wait_for(recaller.recall(WORKSPACE, "D1:3"), 20)

    assert told(asyncio.run(later())) == "turn 3"
    assert engine.rounds == [["D1:1"], ["D1:3"]]
    assert not any(task.done() for task in lost)
