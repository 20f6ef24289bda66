"""Whole episodes in every chat family: ids, masks and log-probabilities hold together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from horma_rl.retrieval.backends.scripted import ScriptedGenerator
from horma_rl.retrieval.backends.transformers import TransformersGenerator
from horma_rl.retrieval.engine import EpisodeSpec, RolloutConfig, RolloutEngine, in_order
from horma_rl.retrieval.types import Trajectory
from memory_shell.episode import MemoryShell
from memory_shell.types import Caps, Stop, ToolCall
from memory_shell.workspace import Workspace
from tests.rollout_parts import FAMILIES, codec, full_logprobs, saying, tiny_qwen3, tiny_qwen3_5
from tests.shell_workspace import TASK, write_workspace


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.load(write_workspace(tmp_path_factory.mktemp("memory") / "mem"))


@pytest.mark.parametrize("thinking", [False, True])
@pytest.mark.parametrize("family", [*FAMILIES, "simple"])
def test_a_scripted_episode_finds_its_evidence_in_every_family(
    family: str, thinking: bool, workspace: Workspace
) -> None:
    made = codec(family, "full" if family != "simple" else "compact", thinking and family != "simple")
    turns = [
        [ToolCall("grep", "-n paint sessions")],
        [ToolCall("cat", "sessions/session_02.md:6-7"), ToolCall("select", "sessions/session_02.md:6")],
        [ToolCall("done")],
    ]
    generator = ScriptedGenerator(saying(made, lambda _, turn: made.format.render(turns[turn])), made.eos_ids)
    (got,) = RolloutEngine(generator, made).run([EpisodeSpec(TASK, lambda: MemoryShell(workspace), 1)])
    assert (got.stop, got.reward, got.selected) == (Stop.DONE, 1.0, ["D2:1"])
    assert got.error is None
    sampled = [i for i, m in zip(got.completion_ids, got.mask, strict=True) if m]
    assert made.tokenizer.decode(sampled) == "".join(made.format.render(calls) + "<|im_end|>" for calls in turns)
    assert made.tokenizer.decode(got.completion_ids).count("<|im_end|>") == 3 + 2
    # A note of this workspace says `<|im_end|>`: what cat showed of it closed nothing.
    assert "he said" in got.turns[1].observation


def roll(model: Any, family: str, workspace: Workspace, concurrency: int) -> list[Trajectory]:
    made = codec(family)
    config = RolloutConfig(max_response_tokens=40, max_context_tokens=700, concurrency=concurrency)
    engine = RolloutEngine(TransformersGenerator(model, made.eos_ids, max_rows=concurrency), made, config)
    shells = [MemoryShell(workspace, Caps(turns=4)) for _ in range(6)]
    return in_order(engine.run(EpisodeSpec(TASK, shell, 50 + i, i) for i, shell in enumerate(shells)))


@pytest.mark.parametrize(
    ("make", "family"),
    [(tiny_qwen3, "simple"), (tiny_qwen3, "qwen3_training"), (tiny_qwen3_5, "qwen3_5_nothink_training")],
)
def test_a_models_episodes_are_exact_and_repeat(make: Any, family: str, workspace: Workspace) -> None:
    model = make()
    first = roll(model, family, workspace, 6)
    for trajectory in first:
        plain = full_logprobs(model, trajectory.prompt_ids, trajectory.completion_ids)
        kept = [lp if m else 0.0 for lp, m in zip(plain, trajectory.mask, strict=True)]
        assert trajectory.logprobs == pytest.approx(kept, abs=5e-5)
        assert trajectory.stop is Stop.TURN_CAP
        assert len(trajectory.turns) == 4
        assert sum(trajectory.mask) == sum(turn.completion_tokens for turn in trajectory.turns)
    again = roll(make(), family, workspace, 2)
    assert [t.completion_ids for t in again] == [t.completion_ids for t in first]
    assert len({tuple(t.completion_ids) for t in first}) == 6


def test_a_trajectory_can_be_logged(workspace: Workspace, tmp_path: Path) -> None:
    import json

    trajectory = roll(tiny_qwen3(), "simple", workspace, 6)[0]
    path = tmp_path / "trajectories.jsonl"
    path.write_text(json.dumps(trajectory.as_json()) + "\n")
    assert json.loads(path.read_text())["model_tokens"] == sum(trajectory.mask)
