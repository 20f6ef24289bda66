"""The config loader: what it reads, what it refuses, and what it says then."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field

from horma_rl.ablation.config import AblationConfig
from horma_rl.commands.eval import read_config
from horma_rl.config import StrictModel, dump, load_config, validate
from horma_rl.errors import UserError
from horma_rl.evaluation.config import EvalConfig
from horma_rl.training.config import TrainConfig
from tests.conftest import REPOSITORY


@dataclass(frozen=True)
class Limits:
    turns: int = 10
    lines: int = 60


class Optimiser(StrictModel):
    learning_rate: float = 1e-6
    kind: Literal["adam", "sgd"] = "adam"


class Config(StrictModel):
    name: str
    steps: int = 100
    optimiser: Optimiser = Field(default_factory=Optimiser)
    limits: Limits = Field(default_factory=Limits)
    models: dict[str, Optimiser] = Field(default_factory=dict)
    other: dict[str, Any] = Field(default_factory=dict)


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1e-6", 1e-6), ("1E-6", 1e-6), ("1e3", 1000.0), ("1.5e-4", 1.5e-4), ("-2e-1", -0.2), ("+.5", 0.5),
        (".5", 0.5), ("1.", 1.0), ("3", 3.0),
    ],
)  # fmt: skip
def test_numbers_are_read_as_people_mean_them(tmp_path: Path, text: str, expected: float) -> None:
    path = write(tmp_path, "a.yaml", f"name: a\noptimiser: {{learning_rate: {text}}}\nother: {{x: {text}}}")
    config = load_config(path, [f"models.m.learning_rate={text}"], Config)
    assert config.optimiser.learning_rate == expected
    assert config.models["m"].learning_rate == expected
    assert config.other["x"] == expected


@pytest.mark.parametrize("text", [".nan", ".inf", "-.inf"])
def test_a_number_has_to_be_finite(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match=r"'optimiser\.learning_rate' is .*finite"):
        load_config(write(tmp_path, "a.yaml", f"name: a\noptimiser: {{learning_rate: {text}}}"), [], Config)


@pytest.mark.parametrize("text", ["1e", "e-6", "1e-6x", "v1.5", "2023-05-08x"])
def test_words_stay_words(tmp_path: Path, text: str) -> None:
    assert load_config(write(tmp_path, "a.yaml", f"name: {text}"), [], Config).name == text


def test_extends_merges_sections_and_the_file_wins(tmp_path: Path) -> None:
    write(tmp_path, "base/far.yaml", "name: far\nsteps: 1\noptimiser: {learning_rate: 1e-2, kind: sgd}")
    write(tmp_path, "base/near.yaml", "extends: far.yaml\nsteps: 2")
    path = write(tmp_path, "runs/a.yaml", "extends: ../base/near.yaml\nname: a\noptimiser: {learning_rate: 1e-3}")
    config = load_config(path, [], Config)
    assert (config.name, config.steps) == ("a", 2)
    assert config.optimiser == Optimiser(learning_rate=1e-3, kind="sgd")


def test_extends_takes_several_files_and_the_last_wins(tmp_path: Path) -> None:
    write(tmp_path, "one.yaml", "steps: 1\nlimits: {turns: 1}")
    write(tmp_path, "two.yaml", "steps: 2\nlimits: {lines: 2}")
    config = load_config(write(tmp_path, "a.yaml", "extends: [one.yaml, two.yaml]\nname: a"), [], Config)
    assert config.steps == 2
    assert config.limits == Limits(turns=1, lines=2)


def test_a_base_may_be_read_twice(tmp_path: Path) -> None:
    write(tmp_path, "base.yaml", "steps: 7")
    write(tmp_path, "one.yaml", "extends: base.yaml")
    write(tmp_path, "two.yaml", "extends: base.yaml")
    assert load_config(write(tmp_path, "a.yaml", "extends: [one.yaml, two.yaml]\nname: a"), [], Config).steps == 7


def test_overrides_come_last_and_in_order(tmp_path: Path) -> None:
    path = write(tmp_path, "a.yaml", "name: a\nsteps: 1\noptimiser: {kind: sgd}")
    config = load_config(path, ["steps=2", "steps=3", "optimiser.learning_rate=1e-1", "name='b=c'"], Config)
    assert (config.steps, config.name) == (3, "b=c")
    assert config.optimiser == Optimiser(learning_rate=0.1, kind="sgd")


def test_a_dumped_config_reads_back_as_itself(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, "a.yaml", "name: a"), ["optimiser.learning_rate=1e-7"], Config)
    assert load_config(write(tmp_path, "b.yaml", dump(config)), [], Config) == config


@pytest.mark.parametrize(
    ("text", "overrides", "expected"),
    [
        ("name: a\nstep: 1", [], ["unknown key 'step'", "did you mean 'steps'?"]),
        ("name: a\noptimiser: {lerning_rate: 1}", [], ["'optimiser.lerning_rate'", "'learning_rate'"]),
        ("name: a\nlimits: {turn: 1}", [], ["'limits.turn'", "'turns'"]),
        ("name: a\nmodels: {m: {kin: adam}}", [], ["'models.m.kin'", "'kind'"]),
        ("steps: 1", [], ["'name' is missing"]),
        ("name: a\nsteps: many", [], ["'steps' is 'many'", "integer"]),
        ("name: a\noptimiser: {kind: lion}", [], ["'optimiser.kind' is 'lion'", "'adam' or 'sgd'"]),
        ("name: a", ["steps"], ["'steps' is not an override", "key=value"]),
        ("name: a", ["=3"], ["'=3' is not an override"]),
        ("name: a", ["name.x=3"], ["'name' is a value, not a section"]),
        ("name: a", ["steps=[1"], ["'steps=[1'", "not valid YAML"]),
        ("- a\n- b", [], ["a mapping of keys to values, not a list"]),
        ("name: [a", [], ["not valid YAML"]),
        ("extends: gone.yaml\nname: a", [], ["no config file at", "gone.yaml"]),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_fault_names_the_place(tmp_path: Path, text: str, overrides: list[str], expected: list[str]) -> None:
    path = write(tmp_path, "a.yaml", text)
    with pytest.raises(UserError) as error:
        load_config(path, overrides, Config)
    message = str(error.value)
    assert "\n" not in message
    assert overrides or str(path.parent) in message
    for part in expected:
        assert part in message


def test_extends_in_a_circle_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "b.yaml", "extends: a.yaml")
    path = write(tmp_path, "a.yaml", "extends: b.yaml\nname: a")
    with pytest.raises(UserError, match="circle"):
        load_config(path, [], Config)


def test_configs_are_frozen(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, "a.yaml", "name: a"), [], Config)
    with pytest.raises(ValueError, match="frozen"):
        config.steps = 3  # type: ignore[misc]


@pytest.mark.parametrize("path", sorted(REPOSITORY.glob("configs/eval/*.yaml")), ids=lambda path: path.name)
def test_shipped_evaluations_are_valid(path: Path) -> None:
    assert read_config(path, []).name


RUNS = sorted(REPOSITORY.glob("configs/train/*.yaml"))


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_shipped_runs_are_valid_and_have_names_of_their_own(path: Path) -> None:
    names = [load_config(other, [], TrainConfig).name for other in RUNS]
    assert names.count(load_config(path, [], TrainConfig).name) == 1


def test_the_retriever_is_evaluated_as_it_was_trained() -> None:
    trained = load_config(REPOSITORY / "configs/train/locomo_cpu.yaml", [], TrainConfig)
    evaluated = load_config(REPOSITORY / "configs/eval/retriever.yaml", [], EvalConfig)
    assert (evaluated.shell, evaluated.rollout) == (trained.shell, trained.rollout)
    assert {policy.prompt for policy in evaluated.policies.values()} == {trained.prompt}


@pytest.mark.parametrize("text", ["extends: 5", "extends: [5]", "extends: {a: b}", "name: 2020-13-45"])
def test_a_bad_base_or_date_is_one_clear_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text + "\n")
    with pytest.raises(UserError, match=r"bad\.yaml: "):
        load_config(path, [], TrainConfig)


@pytest.mark.parametrize("name", ["../../x", "/x", "", "a/b", ".hidden"])
def test_a_run_stays_in_the_folder_of_runs(name: str) -> None:
    with pytest.raises(UserError, match="name"):
        load_config(REPOSITORY / "configs/train/tiny_cpu.yaml", [f"name={name}"], TrainConfig)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("rollout.max_turns=0", "rollout.max_turns must be at least 1"),
        ("rollout.max_completion_tokens=0", "rollout.max_completion_tokens must be at least 1, or null"),
        ("rollout.max_episode_s=-1", "rollout.max_episode_s must be above 0, or null"),
        ("rollout.max_episode_s=.nan", "finite"),
        ("shell.caps.turns=0", "shell.caps.turns must be at least 1"),
        ("shell.caps.line_bytes=-1", "shell.caps.line_bytes must be at least 1"),
    ],
)
def test_limits_under_which_nothing_can_be_played_are_refused(override: str, expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        load_config(REPOSITORY / "configs/train/tiny_cpu.yaml", [override], TrainConfig)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("other: {x: " + "[" * 3000 + "]" * 3000 + "}", "line 1: more than 100 levels of nesting"),
        ("other: &a {x: *a}", r"line 1: \*a stands within itself"),
        (
            "a: &a0 [x]\n" + "".join(f"b{n}: &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]\n" for n in range(9)),
            "more than 100,000 values, aliases written out",
        ),
        ("name: a\nother:\n  x: 1\n  y: 2\n  x: 3", "line 5: the key 'x' stands twice, first in line 3"),
        ("name: a\nsteps: 1\nname: b", "line 3: the key 'name' stands twice"),
    ],
    ids=["deep", "endless", "bomb", "twice", "twice at the top"],
)
def test_yaml_that_is_no_config_is_one_line(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(UserError, match=rf"a\.yaml: not valid YAML: {expected}"):
        load_config(write(tmp_path, "a.yaml", text), [], Config)


def test_an_anchor_may_be_used_again(tmp_path: Path) -> None:
    text = "name: a\nmodels:\n  m: &m {kind: sgd}\n  n: *m\n  o: {<<: *m, learning_rate: 1}"
    models = load_config(write(tmp_path, "a.yaml", text), [], Config).models
    assert models["m"] == models["n"]
    assert (models["o"].kind, models["o"].learning_rate) == ("sgd", 1.0)


@pytest.mark.parametrize(
    ("path", "expected"), [("configs", "configs is a folder"), ("/dev/null", "/dev/null is no file")]
)
def test_what_is_no_file_is_said(path: str, expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        load_config(REPOSITORY / path, [], TrainConfig)


@pytest.mark.parametrize(
    ("path", "model", "expected"),
    [
        ("configs/ablations/reward.yaml", TrainConfig, "looks like an ablation: horma-rl ablate .*reward.yaml"),
        ("configs/ablations/reward.yaml", EvalConfig, "looks like an ablation: horma-rl ablate"),
        ("configs/eval/retriever.yaml", TrainConfig, "looks like an evaluation: horma-rl eval"),
        ("configs/train/tiny_cpu.yaml", EvalConfig, "looks like a training run: horma-rl train"),
        ("configs/train/tiny_cpu.yaml", AblationConfig, "looks like a training run: horma-rl train"),
    ],
)
def test_the_verb_of_a_config_is_said(path: str, model: type[StrictModel], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        load_config(REPOSITORY / path, [], model)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("lora.target_modules=all", "lora.target_modules is 'all': write all-linear, or a list"),
        ("lora.target_modules=[]", r"lora.target_modules is \[\]: write all-linear, or a list"),
        ("lora=16", "'lora' is 16: a section is expected, with some of the keys rank, alpha, target_modules"),
        ("alarms=off", "switch one off with alarms.NAME.action: off"),
        ("alarms.kl=off", "'alarms.kl' is False: a section is expected, with some of the keys threshold"),
        ("name=a/b", "'name' is 'a/b': letters, digits"),
        ("evaluation.baselines=[bm26-1]", "unknown baseline 'bm26-1' .did you mean 'bm25-1'"),
        ("evaluation.temperature=1e300", "'evaluation.temperature' is 1e"),
        ("curriculum.pools=1000000", "'curriculum.pools' is 1000000"),
        ("rollout.max_context_tokens=10", "rollout.max_context_tokens must be at least 64, not 10"),
        ("seed=-1", "'seed' is -1"),
        ("seed=99999999999", "'seed' is 99999999999"),
        ("threads=100000", "'threads' is 100000"),
        ("trackers=[wandb,wandb]", "trackers: wandb, wandb: the same one stands twice"),
    ],
)
def test_a_fault_is_told_in_plain_words(override: str, expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        load_config(REPOSITORY / "configs/train/tiny_cpu.yaml", [override], TrainConfig)


def test_an_ablation_without_cells_is_told_in_plain_words() -> None:
    with pytest.raises(UserError, match=r"'cells' is \{\}: at least 1 must be given"):
        validate({"name": "a", "question": "?", "base": "b", "reference": "c", "cells": {}}, AblationConfig, "a.yaml")
