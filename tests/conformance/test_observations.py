"""What the models and the sampler say of observation tokens never reaches the loss, under every loss that a config may
choose."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from horma_rl.retrieval.engine import EpisodeSpec
from horma_rl.retrieval.types import Trajectory
from horma_rl.training.grpo_rules import check_grpo
from horma_rl.training.trainer import RetrieverTrainer, trimmed
from memory_shell.cache import WorkspaceCache
from tests.trainer_parts import apart, episode, loss_and_gradient, played, trainer_of
from tests.training_parts import memory, tiny_model

STALE = {"steps_per_generation": 2, "per_device_train_batch_size": 4}
VLLM = {"vllm_importance_sampling_correction": True}
CASES: dict[str, dict[str, Any]] = {
    "dapo": {},
    "grpo": {"loss_type": "grpo"},
    "dr_grpo": {"loss_type": "dr_grpo"},
    "cispo": {"loss_type": "cispo", "epsilon_high": 5.0, **STALE},
    "sapo": {"loss_type": "sapo", **STALE},
    "luspo": {"loss_type": "luspo", "importance_sampling_level": "sequence", **STALE},
    "GSPO": {"loss_type": "grpo", "importance_sampling_level": "sequence", **STALE},
    "sapo by sequence": {"loss_type": "sapo", "importance_sampling_level": "sequence", **STALE},
    "stale": STALE,
    "two-sided clipping": {"delta": 2.0, **STALE},
    "KL": {"beta": 0.1},
    "KL, corrected": {"beta": 0.1, "use_bias_correction_kl": True, **STALE},
    "entropy bonus": {"entropy_coef": 0.1},
    "high entropies only": {"top_entropy_quantile": 0.5},
    "off-policy mask": {"off_policy_mask_threshold": 0.5, **STALE},
    "token_truncate": {"vllm_importance_sampling_mode": "token_truncate", **VLLM},
    "token_mask": {"vllm_importance_sampling_mode": "token_mask", **VLLM},
    "token_mask, KL": {"vllm_importance_sampling_mode": "token_mask", "beta": 0.1, **VLLM},
}


@pytest.fixture(scope="module")
def workspaces(tmp_path_factory: pytest.TempPathFactory) -> WorkspaceCache:
    return memory(tmp_path_factory.mktemp("memory"))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tiny_model().save_pretrained(folder)
    return folder


def sampled(spec: EpisodeSpec, noise: float = 0.0) -> Trajectory:
    """An episode whose log-probabilities are near those of an untrained model, with `noise` on observation tokens."""
    made, rng = episode(spec), random.Random(spec.index)
    made.logprobs = [-7.9 + rng.random() if own else noise * rng.gauss(0, 3) for own in made.mask]
    return made


class NoisyTrainer(RetrieverTrainer):
    """Adds noise to what every forward pass says of tokens that are not the model's own: the policy in the loss, the
    policy before the update, and the reference."""

    noise: torch.Tensor
    hidden: torch.Tensor

    def _generate(self, prompts: Any) -> Any:
        generated = super()._generate(prompts)
        masks = [torch.tensor(mask) for mask in generated[2]]
        self.hidden = torch.nn.utils.rnn.pad_sequence(masks, batch_first=True, padding_value=1) == 0
        return generated

    def _get_per_token_logps_and_entropies(self, *args: Any, **others: Any) -> Any:
        scored = self._scored
        logps, entropies, aux = super()._get_per_token_logps_and_entropies(*args, **others)
        if scored is None:
            return logps + 3 * torch.randn_like(logps) * self.hidden, entropies, aux
        hidden = (scored[:, : logps.shape[1]] == 0).float()
        self.noise = (3 * torch.randn_like(logps)).requires_grad_()
        return logps + self.noise * hidden, entropies + 5 * hidden, aux


@pytest.mark.parametrize("name", CASES)
def test_observation_tokens_never_reach_the_loss(
    name: str, checkpoint: Path, workspaces: WorkspaceCache, tmp_path: Path
) -> None:
    check_grpo({"num_generations": 4, "per_device_train_batch_size": 8, **CASES[name]})

    def made(kind: type[RetrieverTrainer], play: Callable[[EpisodeSpec], Trajectory]) -> Any:
        trainer = trainer_of(kind, checkpoint, workspaces, tmp_path, play, **CASES[name])
        if "vllm_importance_sampling_mode" in CASES[name]:  # the episodes are made up: there is no engine to update
            trainer.use_vllm, trainer._last_loaded_step = True, trainer.state.global_step
        return trainer

    quiet, noisy = made(RetrieverTrainer, sampled), made(NoisyTrainer, lambda spec: sampled(spec, noise=1.0))
    batch, changed = played(quiet), played(noisy)
    compared = {"old_per_token_logps", "ref_per_token_logps", "sampling_per_token_logps"} & batch.keys()
    assert all(not torch.allclose(batch[key], changed[key], atol=0.5) for key in compared)
    assert ("importance_sampling_ratio" in batch) == quiet.use_vllm
    loss, gradient = loss_and_gradient(quiet, batch)
    noisy_loss, noisy_gradient = loss_and_gradient(noisy, changed)
    assert noisy_loss == pytest.approx(loss, abs=1e-6)
    assert apart(gradient, noisy_gradient) < 1e-6
    assert noisy.noise.grad is not None
    own = trimmed(batch)["tool_mask"] * trimmed(batch)["completion_mask"] == 1
    assert float(noisy.noise.grad[~own].abs().max()) == 0.0
    for metric in quiet._metrics["train"].keys() & {"entropy", "clip_ratio/region_mean", "kl", "cispo_clip_ratio"}:
        assert noisy._metrics["train"][metric][-1] == pytest.approx(quiet._metrics["train"][metric][-1], abs=1e-6)
    figures, noisy_figures = (each._watch.take(lambda sums: sums) for each in (quiet, noisy))
    assert noisy_figures == pytest.approx(figures, abs=1e-6)
    assert figures["logprob_diff"] > 0.1
