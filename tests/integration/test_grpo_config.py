"""The `grpo` section: what reaches TRL, and what is refused before anything is built."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from trl import GRPOConfig

from horma_rl.cli import main
from horma_rl.config import load_config
from horma_rl.errors import UserError
from horma_rl.training.config import TrainConfig
from horma_rl.training.grpo_config import OWNED, grpo_args
from horma_rl.training.grpo_rules import DEFAULTS, OURS, RULES, check_grpo
from horma_rl.training.make_tiny import TinyRecipe
from tests.conftest import REPOSITORY

TINY = REPOSITORY / "configs/train/tiny_cpu.yaml"
SIZES = {"generation_batch_size", "steps_per_generation"}  # TRL fills them in


def made(*overrides: str) -> Any:
    return grpo_args(load_config(TINY, overrides, TrainConfig))


def test_fields_reach_trl_with_their_types() -> None:
    args = made("grpo.learning_rate=3e-5", "grpo.max_steps=7", "grpo.beta=0", "grpo.loss_type=dr_grpo", "seed=5")
    assert (args.learning_rate, args.max_steps, args.loss_type, args.seed) == (3e-5, 7, "dr_grpo", 5)
    assert isinstance(args.beta, float)
    assert args.output_dir == "runs/tiny_cpu/checkpoints"


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("grpo.learnin_rate=1e-4", ("unknown key 'grpo.learnin_rate'", "did you mean 'learning_rate'?")),
        ("grpo.learning_rate=fast", ("'grpo.learning_rate' is 'fast'", "number")),
        ("grpo.max_steps=2.5", ("'grpo.max_steps' is 2.5", "integer")),
        ("grpo.bf16=perhaps", ("'grpo.bf16' is 'perhaps'", "boolean")),
        ("grpo.top_p=0.9", ("grpo.top_p", "bias")),
        ("grpo.top_k=5", ("grpo.top_k", "bias")),
        ("grpo.save_total_limit=1", ("grpo.save_total_limit", "at least 2")),
        ("grpo.num_generations=7", ("grpo.num_generations=7", "whole groups")),
        ("grpo.fp16=true grpo.bf16=true", ("grpo: ", "bf16")),
    ],
)
def test_a_fault_is_named(override: str, expected: tuple[str, ...]) -> None:
    with pytest.raises(UserError) as error:
        made(*override.split())
    assert "\n" not in str(error.value)
    for part in expected:
        assert part in str(error.value)


def test_dr_grpo_divides_by_what_the_policy_may_write() -> None:
    limits = ("rollout.max_turns=3", "rollout.max_response_tokens=40", "rollout.max_context_tokens=900")
    assert made("grpo.loss_type=dr_grpo", *limits).max_completion_length == 120
    assert made(*limits).max_completion_length == 900


def test_the_rules_know_the_defaults() -> None:
    """Where a config is silent, a rule looks at TRL's default, or at ours, which has to be the one in force."""
    args = made()
    assert {key: getattr(args, key) for key in OURS} == OURS
    theirs = {field.name: field.default for field in fields(GRPOConfig)}
    assert {**{key: theirs[key] for key in DEFAULTS}, **OURS} == DEFAULTS
    assert {rule.key for rule in RULES} <= theirs.keys()


def test_no_rule_refuses_the_defaults() -> None:
    args = made()
    check_grpo({rule.key: getattr(args, rule.key) for rule in RULES if rule.key not in SIZES})


@pytest.mark.parametrize("key", OWNED)
def test_owned_fields_name_the_key_to_use(key: str) -> None:
    with pytest.raises(UserError, match=f"use the key '{OWNED[key]}'"):
        made(f"grpo.{key}=1")


@pytest.mark.parametrize("path", sorted(REPOSITORY.glob("configs/train/[!t]*.yaml")), ids=lambda path: path.name)
def test_shipped_configs_pass_the_dry_run(path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(path), "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("name: ")


def test_the_shipped_recipe_is_valid() -> None:
    assert load_config(REPOSITORY / "configs/tiny_model.yaml", [], TinyRecipe).sft.steps > 0
