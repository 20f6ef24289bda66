"""Exported models are evaluated as they were trained: settings that the config leaves out come from `horma.json`."""

from __future__ import annotations

from horma_rl.errors import UserError
from horma_rl.evaluation.config import EvalConfig, PolicyConfig
from horma_rl.retrieval.manifest import PROMPT, Manifest, shown


def as_trained(config: EvalConfig) -> EvalConfig:
    """`config` with every policy's settings settled.

    Raises:
        UserError: the config contradicts what a model was trained with.
    """
    return config.model_copy(update={"policies": {name: settle(p, config) for name, p in config.policies.items()}})


def settle(policy: PolicyConfig, config: EvalConfig) -> PolicyConfig:
    """`policy` with the settings of its model's manifest, if it has one. Raises UserError as `as_trained` does."""
    manifest = Manifest.read(policy.model)
    if manifest is None:
        return policy
    trained = {name: getattr(manifest, name) for name in PROMPT}
    for name, value in trained.items():
        if name in policy.model_fields_set and getattr(policy, name) != value:
            raise UserError(
                f"{policy.model} was trained with {name}: {shown(value)}, the config says "
                f"{shown(getattr(policy, name))}: set that, or leave it out of the policy"
            )
    if not policy.other_limits and (
        found := manifest.other_limits(config.shell.overview, config.shell.caps, config.rollout)
    ):
        raise UserError(
            f"{policy.model}: {'; '.join(found)}: take those of training, or set `other_limits: true` for this policy"
        )
    return policy.model_copy(update=trained)
