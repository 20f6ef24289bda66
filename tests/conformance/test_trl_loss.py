"""One GRPO step of ours against TRL's own trainer on the same episodes, and what may not change a gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from trl import GRPOTrainer

from horma_rl.retrieval.engine import EpisodeSpec
from horma_rl.retrieval.types import Trajectory
from horma_rl.training.trainer import RetrieverTrainer, by_length, trimmed
from memory_shell.cache import WorkspaceCache
from memory_shell.types import Stop, Task
from tests.trainer_parts import GROUP, Gradients, Play, apart, episode, loss_and_gradient, played, trainer_of
from tests.training_parts import memory, tiny_model, world


@pytest.fixture(scope="module")
def workspaces(tmp_path_factory: pytest.TempPathFactory) -> WorkspaceCache:
    return memory(tmp_path_factory.mktemp("memory"))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tiny_model().save_pretrained(folder)
    return folder


Make = Callable[..., Any]


@pytest.fixture
def make(workspaces: WorkspaceCache, checkpoint: Path, tmp_path: Path) -> Make:
    """A function that makes a trainer of one step over two groups of four."""

    def made(kind: Any, play: Play = episode, **others: Any) -> Any:
        return trainer_of(kind, checkpoint, workspaces, tmp_path, play, **others)

    return made


def step(trainer: Any) -> dict[str, torch.Tensor]:
    """The gradient of one whole step, all its micro-batches summed."""
    kept = Gradients()
    trainer.add_callback(kept)
    trainer.train()
    return kept.found


LOSSES: dict[str, dict[str, Any]] = {
    "dapo": {},
    "grpo": {"loss_type": "grpo"},
    "bnpo": {"loss_type": "bnpo"},
    "dr_grpo": {"loss_type": "dr_grpo"},
    "cispo": {"loss_type": "cispo", "epsilon_high": 5.0},
    "with KL": {"beta": 0.1},
    "by sequence": {"importance_sampling_level": "sequence"},
    "temperature": {"temperature": 0.7},
    "off policy": {"steps_per_generation": 2, "per_device_train_batch_size": 4},
    "entropy bonus": {"entropy_coef": 0.1},
}


@pytest.mark.parametrize("name", LOSSES)
def test_loss_and_gradient_are_those_of_trls_trainer(name: str, make: Make) -> None:
    ours, theirs = make(RetrieverTrainer, **LOSSES[name]), make(GRPOTrainer, **LOSSES[name])
    batch = played(theirs)
    again = played(ours)
    assert batch.keys() == again.keys()
    assert all(
        torch.equal(batch[key], again[key]) for key in batch if torch.is_tensor(batch[key]) and "per_token" not in key
    )
    loss, gradient = loss_and_gradient(ours, batch)
    expected, expected_gradient = loss_and_gradient(theirs, batch)
    assert loss == pytest.approx(expected, abs=1e-5)
    assert apart(expected_gradient, gradient) < 1e-5


@pytest.mark.parametrize("name", ["dapo", "grpo", "dr_grpo", "with KL"])
def test_a_step_does_not_depend_on_how_it_is_cut_into_micro_batches(name: str, make: Make) -> None:
    """8 rows at once, in two parts, one by one; by length or not; and as TRL's own trainer cuts them."""
    whole = step(make(RetrieverTrainer, **LOSSES[name]))
    for kind, rows in ((RetrieverTrainer, 1), (RetrieverTrainer, 4), (GRPOTrainer, 2)):
        cut = {"per_device_train_batch_size": rows, "gradient_accumulation_steps": 8 // rows}
        assert apart(whole, step(make(kind, **LOSSES[name], **cut))) < 2e-5, (kind, rows)


def test_logits_before_an_observation_token_get_no_gradient(make: Make) -> None:
    trainer = make(RetrieverTrainer)
    batch = trimmed(played(trainer))
    kept: list[torch.Tensor] = []

    def keep(_: Any, __: Any, output: Any) -> None:
        output.last_hidden_state.retain_grad()
        kept.append(output.last_hidden_state)

    trainer.model.model.register_forward_hook(keep)
    loss_and_gradient(trainer, batch)
    prompt = batch["prompt_ids"].shape[1]
    own = batch["tool_mask"] * batch["completion_mask"] == 1
    gradient = kept[0].grad
    assert gradient is not None
    reached = gradient[:, prompt - 1 : -1].abs().sum(-1) > 0
    assert float(gradient[:, : prompt - 1].abs().max()) == 0.0
    assert not bool(reached[~own].any())
    moving = batch["advantages"] != 0
    assert bool(reached[moving][own[moving]].all())


def test_the_softmax_is_taken_over_the_models_own_tokens_only(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from trl.trainer import utils

    scored: list[int] = []
    apply = utils._ChunkedLogProbFunction.apply

    def counted(hidden: torch.Tensor, *others: Any) -> Any:
        scored.append(len(hidden))
        return apply(hidden, *others)

    monkeypatch.setattr(utils._ChunkedLogProbFunction, "apply", counted)
    trainer = make(RetrieverTrainer)
    batch = played(trainer)
    loss_and_gradient(trainer, batch)
    assert scored == [int((batch["tool_mask"] * batch["completion_mask"]).sum())]


def test_sorting_and_trimming_keep_every_row_and_change_no_loss(make: Make) -> None:
    trainer = make(RetrieverTrainer, beta=0.1)
    batch = played(trainer)
    pieces = [
        {k: v[i : i + 2] if torch.is_tensor(v) and v.dim() else v for k, v in batch.items()} for i in range(0, 8, 2)
    ]
    ordered = by_length(pieces)
    assert [len(piece["completion_ids"]) for piece in ordered] == [2] * 4
    lengths = [int(n) for piece in ordered for n in piece["completion_mask"].sum(1)]
    assert lengths == sorted(lengths)

    def rows(parts: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
        """Each row's own numbers, without padding."""
        found = []
        for part in map(trimmed, parts):
            for i in range(len(part["completion_ids"])):
                n, p = int(part["completion_mask"][i].sum()), int(part["prompt_mask"][i].sum())
                tokens = [part[k][i, :n].tolist() for k in ("completion_ids", "tool_mask", "ref_per_token_logps")]
                found.append((part["prompt_ids"][i, -p:].tolist(), *tokens, float(part["advantages"][i])))
        return sorted(found)

    assert rows(ordered) == rows([batch])
    assert max(part["completion_ids"].shape[1] for part in map(trimmed, ordered[:1])) < batch["completion_ids"].shape[1]
    total = sum(loss_and_gradient(trainer, piece)[0] for piece in ordered)
    plain = sum(GRPOTrainer._compute_loss(trainer, trainer.model, piece).item() for piece in pieces)
    assert total == pytest.approx(plain, abs=1e-5)


def test_two_tasks_with_the_same_question_are_two_groups(make: Make) -> None:
    one, two = world().train[:2]
    same = Task("twin", one.question, two.evidence, two.workspace)

    def play(spec: EpisodeSpec) -> Trajectory:
        made = episode(spec)
        made.reward = 1.0 if spec.task.id == "twin" else 0.0
        return made

    batch = played(make(RetrieverTrainer, play, tasks=[one, same]), [one, same])
    assert batch["advantages"].tolist() == [0.0] * 8


FAILED = 2
"""The place in the group whose episode fails."""


def failing(seed: str, longest: int) -> Play:
    """Episode FAILED of the first task fails, after tokens that depend on the arguments."""

    def play(spec: EpisodeSpec) -> Trajectory:
        if spec.task.id != world().train[0].id or spec.index % GROUP != FAILED:
            return episode(spec)
        made = episode(spec, seed, longest)
        made.reward, made.stop = None, Stop.ERROR
        return made

    return play


def nothing(spec: EpisodeSpec) -> Trajectory:
    """The same failure before the first token: not even a prompt."""
    made = failing("x", 9)(spec)
    if made.reward is None:
        made.prompt_ids, made.completion_ids, made.mask, made.logprobs = [], [], [], []
    return made


@pytest.mark.parametrize("name", ["dapo", "grpo", "with KL"])
def test_a_failed_episode_moves_nothing(name: str, make: Make) -> None:
    """Its tokens and their number have no part in the gradient, and its siblings are compared without it."""
    trainer = make(RetrieverTrainer, failing("a", 9), **LOSSES[name])
    batch = played(trainer)
    rewards = [
        r for i in range(GROUP) if (r := failing("a", 9)(EpisodeSpec(world().train[0], None, 0, i)).reward) is not None
    ]
    advantages = batch["advantages"][:GROUP].tolist()
    assert len(rewards) == GROUP - 1
    assert advantages.pop(FAILED) == 0.0
    mean, spread = torch.tensor(rewards).mean(), torch.tensor(rewards).std()
    assert advantages == pytest.approx([float((r - mean) / (spread + 1e-4)) for r in rewards], abs=1e-5)
    first = step(trainer)
    for play in (failing("b", 60), nothing):
        assert apart(first, step(make(RetrieverTrainer, play, **LOSSES[name]))) < 2e-5


def all_failed(spec: EpisodeSpec) -> Trajectory:
    made = episode(spec)
    made.reward = None
    return made


def all_empty(spec: EpisodeSpec) -> Trajectory:
    return Trajectory(spec.task, spec.seed, [5], stop=Stop.CONTEXT_FULL, reward=0.0, index=spec.index)


def only_observations(spec: EpisodeSpec) -> Trajectory:
    made = episode(spec)
    made.mask = [0] * len(made.mask)
    return made


@pytest.mark.parametrize("play", [all_failed, all_empty, only_observations])
@pytest.mark.parametrize("rows", [8, 1])
def test_nothing_to_learn_from_is_no_nan(play: Play, rows: int, make: Make, tmp_path: Path) -> None:
    from horma_rl.training.progress import Live, MetricsLog, read_metrics

    cut = {"per_device_train_batch_size": rows, "gradient_accumulation_steps": 8 // rows}
    trainer = make(RetrieverTrainer, play, beta=0.1, **cut)
    before = [p.detach().clone() for p in trainer.model.parameters()]
    trainer.add_callback(MetricsLog(tmp_path / "metrics.jsonl", Live(every=1)))
    gradient = step(trainer)
    assert all(bool((tensor == 0).all()) for tensor in gradient.values())
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.model.parameters(), strict=True))
    (row,) = read_metrics(tmp_path / "metrics.jsonl")
    assert "NaN" not in (tmp_path / "metrics.jsonl").read_text()
    assert row["unscored"] == (1.0 if play is all_failed else 0.0)
