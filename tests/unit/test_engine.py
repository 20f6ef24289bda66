from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from horma_rl.errors import UserError
from horma_rl.retrieval.backends.scripted import ScriptedGenerator
from horma_rl.retrieval.engine import EpisodeSpec, RolloutConfig, RolloutEngine, in_order
from horma_rl.retrieval.prompt import ChatCodec
from horma_rl.retrieval.types import Completion, Request, Trajectory
from memory_shell.types import Result, Stop, ToolCall
from tests.rollout_parts import FakeShell, codec, saying, spec

CODEC = codec("simple")


def call(name: str, args: str = "") -> str:
    return CODEC.format.render([ToolCall(name, args)])


def engine_for(
    replies: Callable[[Request, int], str], config: RolloutConfig | None = None, **options: Any
) -> tuple[RolloutEngine, ScriptedGenerator]:
    generator = ScriptedGenerator(saying(CODEC, replies), CODEC.eos_ids)
    return RolloutEngine(generator, CODEC, config, **options), generator


def play(
    replies: Sequence[str], config: RolloutConfig | None = None, shell: FakeShell | None = None, **options: Any
) -> Trajectory:
    """One episode whose responses are `replies`."""
    engine, generator = engine_for(lambda _, turn: replies[turn], config, **options)
    shell = shell or FakeShell()
    (trajectory,) = engine.run([spec(shell)])
    assert shell.closed == 1
    assert generator.pending == 0
    return trajectory


def ids(text: str) -> list[int]:
    return list(CODEC.tokenizer.encode(text, add_special_tokens=False))


def test_an_episode_is_exactly_the_conversation_and_its_mask_is_exactly_what_was_sampled() -> None:
    replies = [f"hm {call('grep', 'kiln')}\n{call('ls')}", call("select", "D1:1"), call("done")]
    got = play(replies)
    conversation, mask = CODEC.transcript(
        "Question: Who is t?",
        [(replies[0], ["grep kiln", "ls "]), (replies[1], ["select D1:1"]), (replies[2], [])],
    )
    assert got.prompt_ids == CODEC.start("Question: Who is t?")
    assert got.prompt_ids + got.completion_ids == conversation
    assert [0] * len(got.prompt_ids) + got.mask == mask
    assert got.logprobs == [-0.5 if m else 0.0 for m in got.mask]
    assert (got.stop, got.reward, got.selected, got.commands, got.invalid) == (Stop.DONE, 1.0, ["D1:1"], 4, 0)
    assert [turn.observation for turn in got.turns] == ["grep kiln\nls ", "select D1:1", "done "]
    assert got.turns[0].calls == [{"name": "grep", "args": "kiln"}, {"name": "ls", "args": ""}]
    assert got.first_observation == "Question: Who is t?"


def test_the_task_reaches_the_model_in_the_first_prompt() -> None:
    assert "Who is t?" in CODEC.tokenizer.decode(play([call("done")]).prompt_ids)


def test_done_ends_the_episode_at_once() -> None:
    shell = FakeShell()
    got = play([f"{call('select', 'a')}{call('done')}{call('select', 'b')}"], shell=shell)
    assert got.selected == ["a"]
    assert [c.name for c in shell.ran if isinstance(c, ToolCall)] == ["select", "done"]
    assert got.completion_ids[-1] == CODEC.end_id


def test_the_turn_cap_counts_exactly_and_the_last_turns_call_runs() -> None:
    for shell, config in (
        (FakeShell(turns=3), RolloutConfig(max_turns=99)),
        (FakeShell(), RolloutConfig(max_turns=3)),
    ):
        got = play([call("select", f"D1:{turn}") for turn in range(9)], config, shell)
        assert (got.stop, len(got.turns), got.selected) == (Stop.TURN_CAP, 3, ["D1:0", "D1:1", "D1:2"])
        assert got.reward == pytest.approx(1 / 3)
        assert got.mask[-1] == 1


@pytest.mark.parametrize("masked", [False, True])
def test_a_response_cut_at_its_cap_is_answered_with_an_error_and_costs_a_turn(masked: bool) -> None:
    shell = FakeShell()
    config = RolloutConfig(max_response_tokens=60, mask_truncated=masked)
    got = play([call("select", "x" * 300), call("done")], config, shell)
    assert got.stop is Stop.DONE
    assert [turn.finished for turn in got.turns] == [False, True]
    assert shell.turns_used == 2
    assert "cut at 60 tokens" in got.turns[0].observation
    assert shell.selection == ()
    # 60 sampled ids, then the end of turn that was not sampled, the error, and the next response.
    closing = [CODEC.end_id, *CODEC.observe([got.turns[0].observation])]
    assert got.completion_ids[60 : 60 + len(closing)] == closing
    assert got.mask == [0 if masked else 1] * 60 + [0] * len(closing) + [1] * len(ids(call("done"))) + [1]
    assert all(lp == 0.0 for lp, m in zip(got.logprobs, got.mask, strict=True) if not m)


def test_an_unreadable_call_is_answered_in_the_tool_role_and_costs_a_turn() -> None:
    shell = FakeShell()
    got = play(["<tool_call>\n{nonsense\n</tool_call>", "no call at all", call("done")], shell=shell)
    assert (got.stop, got.invalid, shell.turns_used) == (Stop.DONE, 1, 3)
    assert [turn.ok for turn in got.turns] == [False, False, True]
    assert "not valid JSON" in got.turns[0].observation
    text = CODEC.tokenizer.decode(got.completion_ids)
    assert "<tool_response>\nError: The tool call is not valid JSON" in text
    assert text.count("<tool_response>") == 2


def test_an_observation_that_does_not_fit_ends_the_episode_with_its_score() -> None:
    shell = FakeShell(echo=lambda c: "x" * 500 if c.name == "cat" else "ok")
    got = play([call("select", "D1:1"), call("cat", "big"), call("done")], RolloutConfig(max_context_tokens=500), shell)
    assert (got.stop, got.reward, len(got.turns)) == (Stop.CONTEXT_FULL, 1.0, 2)
    assert got.mask[-1] == 1, "the observation that did not fit is not half there"


def test_a_response_gets_what_is_left_of_the_context() -> None:
    asked: list[Request] = []

    def reply(request: Request, turn: int) -> str:
        asked.append(request)
        return call("ls") if turn == 0 else "x" * 5000

    engine, _ = engine_for(reply, RolloutConfig(max_context_tokens=400, max_response_tokens=300))
    (got,) = engine.run([spec(FakeShell())])
    assert [request.max_tokens for request in asked] == [300, 400 - len(asked[1].prompt_ids)]
    assert got.stop is Stop.CONTEXT_FULL
    assert got.reward == 0.0
    assert len(got.prompt_ids) + len(got.completion_ids) == 400


def test_the_prompt_alone_may_be_too_long() -> None:
    got = play([], RolloutConfig(max_context_tokens=10))
    assert (got.stop, got.completion_ids, got.turns) == (Stop.CONTEXT_FULL, [], [])


def test_the_total_of_sampled_tokens_has_a_cap_of_its_own() -> None:
    one = len(ids(call("ls"))) + 1
    for total, turns in ((2 * one, 2), (2 * one + 5, 3)):
        got = play([call("ls")] * 9, RolloutConfig(max_completion_tokens=total))
        assert (got.stop, len(got.turns), sum(got.mask)) == (Stop.TOKEN_CAP, turns, total)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_wall_time_is_checked_between_turns_and_while_a_response_is_being_written() -> None:
    clock = Clock()

    def slow(c: ToolCall) -> str:
        clock.now += 3
        return "ok"

    shell = FakeShell(echo=slow)
    got = play([call("select", "D1:1")] * 9, RolloutConfig(max_episode_s=5), shell, clock=clock)
    assert (got.stop, got.reward, len(got.turns), got.wall_s) == (Stop.TIME_CAP, 1.0, 2, 6.0)

    class Endless(ScriptedGenerator):
        def poll(self) -> list[Completion]:
            clock.now += 1
            return []

    generator = Endless(lambda *_: [], [])
    engine = RolloutEngine(generator, CODEC, RolloutConfig(max_episode_s=5), clock)
    (got,) = engine.run([spec(FakeShell())])
    assert (got.stop, got.reward) == (Stop.TIME_CAP, 0.0)
    assert generator.pending == 0, "the response that was being written is given up"


def specs(shells: Sequence[FakeShell]) -> list[EpisodeSpec]:
    return [spec(shell, i, f"t{i}") for i, shell in enumerate(shells)]


class Broken(FakeShell):
    def step(self, calls: Sequence[ToolCall | str]) -> list[Result]:
        raise OSError("the disk is gone")


def test_a_fault_in_one_environment_ends_that_episode_alone() -> None:
    shells = [FakeShell(), Broken(), FakeShell()]
    engine, _ = engine_for(lambda _, turn: [call("select", "D1:1"), call("done")][turn])
    got = in_order(engine.run(specs(shells)))
    assert [t.stop for t in got] == [Stop.DONE, Stop.ERROR, Stop.DONE]
    assert [t.reward for t in got] == [1.0, None, 1.0], "a failed episode has no score, which is not a score of 0"
    assert got[1].error == "OSError: the disk is gone"
    assert [shell.closed for shell in shells] == [1, 1, 1]


def test_an_environment_that_cannot_be_made_ends_that_episode_alone() -> None:
    def cannot() -> Any:
        raise RuntimeError("no such workspace")

    engine, _ = engine_for(lambda *_: call("done"))
    got = in_order(engine.run([spec(cannot), spec(FakeShell(), 1)]))
    assert (got[0].stop, got[0].error) == (Stop.ERROR, "RuntimeError: no such workspace")
    assert got[1].stop is Stop.DONE


def test_a_fault_of_the_generator_is_told_and_nothing_is_left_open() -> None:
    class Fails(ScriptedGenerator):
        def poll(self) -> list[Completion]:
            raise MemoryError("out of memory")

    class Refuses(ScriptedGenerator):
        def submit(self, request: Request) -> None:
            raise ValueError("too long")

    class Loses(ScriptedGenerator):
        def submit(self, request: Request) -> None:
            pass

    class Reports(ScriptedGenerator):
        def poll(self) -> list[Completion]:
            return [Completion(self._queue.popleft().episode, (), (), False, "engine died")]

    for kind, told in ((Fails, "out of memory"), (Refuses, "too long"), (Loses, "no request left"), (Reports, "died")):
        shells = [FakeShell(), FakeShell()]
        engine = RolloutEngine(kind(lambda *_: [], []), CODEC)
        got = list(engine.run(specs(shells)))
        assert [t.stop for t in got] == [Stop.ERROR] * 2
        assert all(told in (t.error or "") and t.reward is None for t in got)
        assert [shell.closed for shell in shells] == [1, 1]


def test_a_fault_while_closing_is_told_and_keeps_nothing_else_open() -> None:
    class Stuck(FakeShell):
        def close(self) -> None:
            raise OSError("busy")

    shells = [Stuck(), FakeShell()]
    engine, _ = engine_for(lambda *_: call("done"))
    got = in_order(engine.run(specs(shells)))
    assert [t.stop for t in got] == [Stop.DONE, Stop.DONE]
    assert got[0].error == "closing: OSError: busy"
    assert shells[1].closed == 1


class Slow(ScriptedGenerator):
    """Episode 0's responses take 200 polls each; the others' one."""

    waited = 0

    def poll(self) -> list[Completion]:
        self.waited += 1
        if self._queue and self._queue[0].episode == 0 and self.waited % 200:
            self._queue.rotate(-1)
            return [] if self._queue[0].episode == 0 else super().poll()
        return super().poll()


def test_no_episode_waits_for_another() -> None:
    replies = [call("ls"), call("ls"), call("done")]
    engine = RolloutEngine(Slow(saying(CODEC, lambda _, turn: replies[turn]), CODEC.eos_ids), CODEC)
    order = [t.index for t in engine.run(specs([FakeShell() for _ in range(5)]))]
    assert sorted(order[:4]) == [1, 2, 3, 4], "four episodes take all of their turns while the first writes its own"
    assert order[4] == 0


def test_episodes_start_as_places_become_free() -> None:
    opened: list[int] = []

    def lazily() -> Iterator[EpisodeSpec]:
        for one in specs([FakeShell() for _ in range(6)]):
            opened.append(one.index)
            yield one

    engine, _ = engine_for(lambda *_: call("done"), RolloutConfig(concurrency=2))
    run = engine.run(lazily())
    next(run)
    assert len(opened) <= 3
    assert {t.index for t in run} | {0} == set(range(6))
    assert opened == list(range(6))


def test_an_iterator_closed_early_closes_every_episode() -> None:
    shells = [FakeShell() for _ in range(4)]
    engine, generator = engine_for(lambda request, turn: call("done") if request.episode == 0 else call("ls"))
    run = engine.run(specs(shells))
    next(run)
    run.close()
    assert [shell.closed for shell in shells] == [1, 1, 1, 1]
    assert generator.pending == 0


def test_every_response_has_a_seed_of_its_own_that_depends_on_nothing_else() -> None:
    def seeds(order: Sequence[int], concurrency: int) -> dict[int, list[int]]:
        asked: dict[int, list[int]] = {}

        def reply(request: Request, turn: int) -> str:
            asked.setdefault(request.episode, []).append(request.seed)
            return call("ls") if turn < 2 else call("done")

        engine, _ = engine_for(reply, RolloutConfig(concurrency=concurrency))
        list(engine.run([spec(FakeShell(), i) for i in order]))
        return {order[episode]: found for episode, found in asked.items()}

    first, second = seeds([0, 1, 2], 3), seeds([2, 0, 1], 1)
    assert first == second
    assert len({seed for found in first.values() for seed in found}) == 9


def test_another_end_token_still_gets_the_turns_own() -> None:
    made: ChatCodec = codec("simple")
    other = made.tokenizer.convert_tokens_to_ids("<|endoftext|>")
    script = [[*ids(call("ls")), other], [*ids(call("done")), made.end_id]]
    generator = ScriptedGenerator(lambda _, turn: script[turn], [*made.eos_ids, other])
    (got,) = RolloutEngine(generator, made).run([spec(FakeShell())])
    at = len(script[0])
    assert got.completion_ids[at - 1 : at + 1] == [other, made.end_id]
    assert got.mask[at - 1 : at + 1] == [1, 0]


def test_limits_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UserError, match="max_turns must be at least 1"):
        RolloutConfig(max_turns=0)
