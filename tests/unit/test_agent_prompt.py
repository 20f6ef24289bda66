"""The prompt of an agent: what is left out when it is over its budget, and in which order."""

from __future__ import annotations

from dataclasses import replace

from horma_rl.agent.config import SystemConfig
from horma_rl.agent.prompt import Prompter
from horma_rl.agent.recall import Remembered
from horma_rl.agent.types import Hint, Pair, State
from horma_rl.tokens import Estimate
from memory_shell.types import Turn


def _state(steps: int) -> State:
    return State((), tuple(Pair(n, f"action {n:02d}", f"outcome {n:02d} " + "o" * 30) for n in range(1, steps + 1)), ())


def _turn(node: int, text: str) -> Turn:
    return Turn(f"D1:{node}", None, "agent", text, "raw_logs/traj_0001.jsonl", node)


def _prompter(budget: int | None, preamble: str = "") -> Prompter:
    return Prompter(Estimate(), SystemConfig(prompt_tokens=budget), "Do the task.", preamble)


def test_a_prompt_is_never_over_the_budget_and_never_without_task_and_observation() -> None:
    remembered = Remembered(Estimate(), {}.get)
    for steps in (0, 1, 30):
        state = _state(steps)
        for budget in range(200, 900, 7):
            prompt = _prompter(budget, "p" * 200).prompt(state, remembered, (), "LAST SIGHT", "WARNING")
            assert prompt.tokens <= budget
            assert Estimate().count("p" * 200 + prompt.text) <= prompt.tokens
            assert prompt.text.startswith("Task:\nDo the task.\n")
            assert prompt.text.endswith("Latest observation:\n  LAST SIGHT\n\nNotice: WARNING\n")
            assert not prompt.over


def test_what_is_left_out_first() -> None:
    remembered = Remembered(Estimate(), {}.get)
    remembered.put([_turn(40, "best " + "r" * 80), _turn(41, "worst " + "r" * 80)])
    state = replace(_state(12), hints=(Hint("action", "HINT " + "h" * 60),), feedback="FEEDBACK")
    seen = frozenset(pair.id for pair in state.raw)
    left: list[tuple[bool, ...]] = []
    for budget in range(460, 199, -1):
        prompt = _prompter(budget).prompt(state, remembered, seen, "SIGHT", "").text
        turns, hint, steps = ("worst" in prompt, "best" in prompt), "HINT" in prompt, prompt.count("action ")
        assert ("turns from memory left out" in prompt) == (not all(turns) or "r" * 80 not in prompt.split("worst")[-1])
        assert ("alternatives left out" in prompt) == (not hint)
        assert (f"({12 - steps} earlier steps left out)" in prompt) == (steps < 12)
        assert "FEEDBACK" in prompt
        if not hint:
            assert not any(turns)
        if steps < 12:
            assert not hint
            assert "action 12" in prompt
        left.append((*turns, hint, steps == 12))
    order = list(dict.fromkeys(left))
    assert order == [
        (True, True, True, True), (False, True, True, True), (False, False, True, True),
        (False, False, False, True), (False, False, False, False),
    ]  # fmt: skip


def test_an_observation_over_the_budget_is_shown_whole_and_counted() -> None:
    prompt = _prompter(200).prompt(_state(5), Remembered(Estimate(), {}.get), (), "o" * 2_000, "")
    assert prompt.over
    assert "o" * 2_000 in prompt.text
    assert "action 05" not in prompt.text


def test_the_last_observation_stands_once() -> None:
    state = _state(3)
    prompt = _prompter(None).prompt(state, Remembered(Estimate(), {}.get), (), state.raw[-1].observation, "")
    assert prompt.text.count("outcome 03") == 1
    assert prompt.text.count("outcome 02") == 1
