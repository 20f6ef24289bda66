"""Answer metrics against values that the public evaluators gave (tests/golden/answer_metrics.json names them)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from horma_rl.answers.judges import says_yes
from horma_rl.answers.metrics import adv_abstain, adv_trap, f1_locomo, f1_mem0
from horma_rl.benchmarks.locomo import CATEGORIES

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "answer_metrics.json"


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    return json.loads(GOLDEN.read_text(encoding="utf-8"))


def test_f1_locomo_equals_the_public_evaluator(golden: dict[str, Any]) -> None:
    pairs = golden["pairs"]
    assert len(pairs) == 500
    assert {pair["category"] for pair in pairs} == set(CATEGORIES)
    for pair in pairs:
        ours = f1_locomo(pair["prediction"], pair["gold"], CATEGORIES[pair["category"]])
        assert ours == pytest.approx(pair["f1_locomo"], abs=1e-12), pair


def test_f1_mem0_equals_the_public_evaluator(golden: dict[str, Any]) -> None:
    for pair in golden["pairs"]:
        assert f1_mem0(pair["prediction"], pair["gold"]) == pytest.approx(pair["f1_mem0"], abs=1e-12), pair


def test_adversarial_metrics_equal_the_public_evaluator(golden: dict[str, Any]) -> None:
    adversarial = [pair for pair in golden["pairs"] if pair["category"] == 5]
    assert len(adversarial) == 100
    for pair in adversarial:
        assert adv_abstain(pair["prediction"]) == pair["f1_locomo"], pair
        assert adv_trap(pair["prediction"], pair["gold"]) == pytest.approx(pair["one_minus_f1"], abs=1e-12), pair


def test_verdicts_are_read_as_the_public_evaluator_reads_them(golden: dict[str, Any]) -> None:
    assert len(golden["replies"]) == 500
    for row in golden["replies"]:
        assert says_yes(row["reply"]) == row["label"], row


def test_the_two_token_scores_are_told_apart_by_what_they_ignore() -> None:
    assert f1_locomo("The hikes", "a hiking", "single-hop") == 1.0
    assert f1_mem0("The hikes", "a hiking") == 0.0
    assert f1_locomo("dog dog", "dog", "single-hop") < f1_mem0("dog dog", "dog") == 1.0


def test_a_trap_is_never_gold() -> None:
    trap = "a red bicycle"
    assert f1_locomo(trap, trap, "adversarial") == 0.0
    assert adv_trap(trap, trap) == 0.0
    assert adv_trap("She never said anything of the kind", trap) == 1.0
    assert adv_abstain("She never said anything of the kind") == 0.0
