"""The trainer itself: a NaN changes nothing, alarms stop it, and a generation that serves several steps is resumed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, TrainerCallback
from trl import GRPOTrainer

from horma_rl.training.alarms import AlarmConfig, Alarms, Rule
from horma_rl.training.checkpoints import is_complete, newest_checkpoint
from horma_rl.training.progress import Live, MetricsLog, read_metrics
from horma_rl.training.trainer import RetrieverTrainer
from memory_shell.cache import WorkspaceCache
from tests.trainer_parts import trainer_of
from tests.training_parts import memory, same_weights, tiny_model, world


@pytest.fixture(scope="module")
def workspaces(tmp_path_factory: pytest.TempPathFactory) -> WorkspaceCache:
    return memory(tmp_path_factory.mktemp("memory"))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tiny_model().save_pretrained(folder)
    return folder


class Weights(TrainerCallback):
    """Keeps the weights after each step."""

    def __init__(self) -> None:
        self.after: list[dict[str, torch.Tensor]] = []

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self.after.append({name: p.detach().clone() for name, p in model.named_parameters()})


def moved(kept: Weights) -> list[bool]:
    """Whether each step but the first changed any weight."""
    return [
        not all(torch.equal(tensor, after[name]) for name, tensor in before.items())
        for before, after in zip(kept.after, kept.after[1:], strict=False)
    ]


def at_the_loss(trainer: Any, monkeypatch: pytest.MonkeyPatch, number: float) -> None:
    """In the second micro-batch of step 2 the loss has `number` added."""
    original = GRPOTrainer._compute_loss
    monkeypatch.setattr(GRPOTrainer, "_compute_loss", lambda *a: original(*a) + (number if trainer._step == 3 else 0.0))


def in_one_gradient(trainer: Any, monkeypatch: pytest.MonkeyPatch, number: float) -> None:
    """In the first micro-batch of step 2 one entry of one parameter's gradient is `number`."""

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        spoilt = gradient.clone()
        if trainer._step == 2:
            spoilt.view(-1)[3] = number
        return spoilt

    next(trainer.model.parameters()).register_hook(spoil)


@pytest.mark.parametrize("norm", [0.0, 0.5], ids=["no clipping", "clipping"])
@pytest.mark.parametrize("number", [math.nan, -math.inf])
@pytest.mark.parametrize("inject", [at_the_loss, in_one_gradient])
def test_a_step_with_a_nan_changes_nothing(
    inject: Callable[..., None],
    number: float,
    norm: float,
    checkpoint: Path,
    workspaces: WorkspaceCache,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept, log = Weights(), tmp_path / "metrics.jsonl"
    trainer = trainer_of(
        RetrieverTrainer, checkpoint, workspaces, tmp_path, callbacks=[kept, MetricsLog(log, Live())], max_steps=3,
        per_device_train_batch_size=4, gradient_accumulation_steps=2, max_grad_norm=norm, weight_decay=0.1,
    )  # fmt: skip
    inject(trainer, monkeypatch, number)
    trainer.train()
    assert moved(kept) == [False, True]
    assert all(bool(tensor.isfinite().all()) for tensor in kept.after[-1].values())
    rows = read_metrics(log)
    assert [row["nonfinite"] for row in rows] == [0.0, 1.0, 0.0]
    assert [sorted({"loss", "grad_norm"} - row.keys()) for row in rows] == [[], ["grad_norm"], []]
    assert all(value is None or math.isfinite(value) for row in rows for value in row.values() if value != [])
    moments = [state["exp_avg"] for state in trainer.optimizer.state.values()]
    assert all(bool(moment.isfinite().all()) for moment in moments)
    assert {int(state["step"]) for state in trainer.optimizer.state.values()} == {2}


def test_an_alarm_saves_and_stops(
    checkpoint: Path, workspaces: WorkspaceCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Two steps in a row with a NaN: the run ends with a checkpoint whose weights are those before."""
    rules = AlarmConfig(nonfinite=Rule(threshold=0.5, patience=2, action="stop"))
    log = MetricsLog(tmp_path / "metrics.jsonl", Live(), Alarms(rules))
    trainer = trainer_of(
        RetrieverTrainer, checkpoint, workspaces, tmp_path, callbacks=[log], max_steps=9, save_strategy="steps",
        save_steps=100,
    )  # fmt: skip
    original = GRPOTrainer._compute_loss
    monkeypatch.setattr(GRPOTrainer, "_compute_loss", lambda *a: original(*a) * math.nan)
    trainer.train()
    assert trainer.state.global_step == 2
    assert str(log.stopped_by).startswith("alarm nonfinite at step 2: 1 is above 0.5 for 2 steps; ")
    assert f"horma-rl: {log.stopped_by}\n" in capsys.readouterr().err
    assert [row.get("alarms") for row in read_metrics(tmp_path / "metrics.jsonl")] == [None, ["nonfinite"]]
    saved = tmp_path / "out" / "checkpoint-2"
    assert is_complete(saved)
    assert same_weights(saved, checkpoint)


def test_figures_of_a_sampler_that_is_off_by_a_constant(
    checkpoint: Path, workspaces: WorkspaceCache, tmp_path: Path
) -> None:
    """Episodes whose log-probabilities are the model's own, half of them 0.5 nats too low."""

    class Shifted(RetrieverTrainer):
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            batch = super()._generate_and_score_completions(inputs)
            ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
            seen = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
            with torch.no_grad():
                logps, _, _ = self._get_per_token_logps_and_entropies(
                    self.model, ids, seen, batch["completion_ids"].shape[1]
                )
            batch["sampling_per_token_logps"] = torch.where(batch["tool_mask"] == 1, logps, -7.0)
            batch["sampling_per_token_logps"][: len(logps) // 2] -= 0.5
            self.own = [int(part.sum()) for part in (batch["tool_mask"] * batch["completion_mask"]).split(4)]
            return batch

    log = tmp_path / "metrics.jsonl"
    trainer = trainer_of(
        Shifted, checkpoint, workspaces, tmp_path, callbacks=[MetricsLog(log, Live())], max_steps=2,
        learning_rate=1e-2, start_model=lambda: AutoModelForCausalLM.from_pretrained(checkpoint),
    )  # fmt: skip
    trainer.train()
    first, second = read_metrics(log)
    low, same = trainer.own
    assert first["logprob_diff"] == pytest.approx(0.5 * low / (low + same), rel=1e-3)
    weight = math.exp(0.5)
    expected = (low * weight + same) ** 2 / ((low + same) * (low * weight**2 + same))
    assert first["ess"] == pytest.approx(expected, rel=1e-3)
    assert first["kl_start"] == pytest.approx(0.0, abs=1e-9)
    assert abs(second["kl_start"]) > 1e-4


class StopAfter(TrainerCallback):
    """Saves and stops after a step, as an interrupt does."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        if state.global_step == self.step:
            control.should_save = control.should_training_stop = True
        return control


@pytest.mark.parametrize("stop", [1, 2, 3, 4])
def test_episodes_that_serve_several_steps_are_resumed(
    stop: int, checkpoint: Path, workspaces: WorkspaceCache, tmp_path: Path
) -> None:
    """Two steps to a generation, each generation used twice: wherever it stops, the weights end the same."""
    options: dict[str, Any] = {
        "max_steps": 6, "per_device_train_batch_size": 4, "steps_per_generation": 2, "num_iterations": 2,
        "save_strategy": "steps", "save_steps": 100, "shuffle_dataset": True, "tasks": world().train[:6],
    }  # fmt: skip

    def trainer(folder: Path, *callbacks: Any) -> Any:
        folder.mkdir(exist_ok=True)
        return trainer_of(RetrieverTrainer, checkpoint, workspaces, folder, callbacks=callbacks, **options)

    whole = trainer(tmp_path / "whole")
    whole.train()
    trainer(tmp_path / "cut", StopAfter(stop)).train()
    newest = newest_checkpoint(tmp_path / "cut" / "out")
    assert newest is not None
    assert (newest / "pending_0.pt").is_file() == (stop % 4 != 0)
    resumed = trainer(tmp_path / "cut")
    resumed.train(resume_from_checkpoint=str(newest))
    assert json.loads((newest / "trainer_state.json").read_text())["global_step"] == stop
    assert resumed.state.global_step == 6
    for (name, tensor), other in zip(whole.model.named_parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(tensor, other), name
