"""`horma-rl plan`: memory, time, the verdict, what to change first, and the command."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from horma_rl.cli import main
from horma_rl.config import load_config
from horma_rl.errors import UserError
from horma_rl.planning.advice import _candidates, with_overrides
from horma_rl.planning.facts import Facts, facts
from horma_rl.planning.hardware import hardware
from horma_rl.planning.memory import Memory, memory, shortfall, vllm_sequences
from horma_rl.planning.plan import Plan, make_plan
from horma_rl.planning.timing import prefix_block, timing
from horma_rl.planning.workload import longest_played, measured
from horma_rl.training.config import TrainConfig

PAPER = "configs/train/qwen3_5_4b_4xh200.yaml"
TINY = "configs/train/tiny_cpu.yaml"
GIB = 2**30


def config(path: str = PAPER, *overrides: str) -> TrainConfig:
    return load_config(path, overrides, TrainConfig)


def given(*overrides: str, gpu: str = "h200") -> Facts:
    return facts(config(PAPER, *overrides), hardware(gpu))


def row(planned: Memory, name: str) -> tuple[float, float]:
    return next(((r.rollout, r.update) for r in planned.rows if r.name == name), (0.0, 0.0))


def seconds(run: Facts) -> dict[str, float]:
    return {phase.name: phase.seconds for phase in timing(run)}


# What is read off a config -------------------------------------------------------------------------------------------


def test_the_papers_config_is_read_as_it_is_meant() -> None:
    run = given()
    assert (run.engine, run.world, run.rollouts, run.group) == ("zero2", 4, "colocate", 8)
    assert run.episodes * run.world == 128
    assert (run.element, run.checkpointing, run.reference, run.scored) == (2, True, 0.125, True)
    assert run.workload.longest == 32768


@pytest.mark.parametrize(
    ("overrides", "engine"),
    [
        (("launch.config=null",), "ddp"),
        (("launch.config=null", "launch.processes=1"), "single"),
        (("launch.config=configs/accelerate/zero3.yaml",), "zero3"),
        (("launch.config=configs/accelerate/fsdp2.yaml",), "fsdp2"),
    ],
)
def test_engines_are_read_off_the_launch_section(overrides: tuple[str, ...], engine: str) -> None:
    assert given(*overrides).engine == engine


def test_a_cpu_run_is_planned_in_fp32_without_checkpointing() -> None:
    run = facts(config(TINY), hardware("cpu"))
    assert (run.element, run.checkpointing, run.rollouts, run.scored) == (4, False, "transformers", False)


def test_old_and_new_names_of_checkpointing_are_read() -> None:
    assert facts(config(TINY, "grpo.gradient_checkpointing=true"), hardware("cpu")).checkpointing
    assert facts(config(TINY, "grpo.activation_checkpointing=true"), hardware("cpu")).checkpointing


def test_a_field_that_is_no_number_is_refused() -> None:
    with pytest.raises(UserError, match=r"grpo\.num_iterations is 'two'"):
        given("grpo.num_iterations=two")


# Memory --------------------------------------------------------------------------------------------------------------


def test_states_of_zero_2_add_up() -> None:
    planned = memory(given())
    count = 4_205_751_296
    assert row(planned, "weights") == (2 * count, 2 * count)
    assert row(planned, "optimiser states")[0] == 12 * count / 4
    assert row(planned, "vLLM's reservation")[0] == pytest.approx(0.35 * 140 * GIB)
    assert planned.peak == max(planned.rollout, planned.update)


def test_zero_3_spreads_the_weights_and_gathers_them_for_rollouts_by_transformers() -> None:
    overrides = ("launch.config=configs/accelerate/zero3.yaml", "grpo.use_vllm=false")
    planned = memory(given(*overrides))
    count = 4_205_751_296
    assert row(planned, "weights")[0] == 2 * count / 4
    assert row(planned, "weights, gathered or cast")[0] == 2 * count


def test_adapters_hold_optimiser_states_for_themselves_alone() -> None:
    run = given("lora.rank=16")
    assert row(memory(run), "optimiser states")[0] == 12 * run.trained / 4
    assert run.trained < run.shape.parameters / 100


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ((), ("launch.config=null",)),
        ((), ("grpo.activation_checkpointing=false",)),
        ((), ("grpo.per_device_train_batch_size=4", "grpo.gradient_accumulation_steps=8")),
        ((), ("grpo.bf16=false",)),
        (("lora.rank=16",), ()),
        (("rollout.max_context_tokens=8192",), ()),
        (("launch.config=configs/accelerate/zero3.yaml",), ()),
        (("alarms.kl.action=off",), ()),
    ],
)
def test_what_needs_more_memory_is_planned_with_more(less: tuple[str, ...], more: tuple[str, ...]) -> None:
    assert memory(given(*less)).peak < memory(given(*more)).peak


def test_a_server_leaves_the_trainers_memory_alone() -> None:
    planned = memory(given("grpo.vllm_mode=server"))
    assert row(planned, "vLLM's reservation") == (0.0, 0.0)


def test_processes_on_a_cpu_share_its_memory() -> None:
    one = facts(config(TINY), hardware("cpu")).capacity
    two = facts(config(TINY, "launch.processes=2"), hardware("cpu")).capacity
    assert two == one / 2


# Time ----------------------------------------------------------------------------------------------------------------


def test_checkpointing_costs_a_forward_pass() -> None:
    with_it, without = seconds(given())["update"], seconds(given("grpo.activation_checkpointing=false"))["update"]
    assert with_it == pytest.approx(without * 4 / 3, rel=0.1)


def test_twice_the_episodes_take_twice_the_update() -> None:
    once, twice = seconds(given()), seconds(given("grpo.gradient_accumulation_steps=64"))
    assert twice["update"] == pytest.approx(2 * once["update"])


def test_nothing_is_scored_again_when_the_sampler_is_the_trained_model() -> None:
    assert seconds(given("grpo.use_vllm=false", "alarms.kl.action=off"))["logprobs"] == 0
    assert seconds(given())["logprobs"] > 0


def test_a_faster_gpu_takes_less_time() -> None:
    assert sum(seconds(given(gpu="h200")).values()) < sum(seconds(given(gpu="a100-80gb")).values())


def test_longer_episodes_take_longer() -> None:
    run = given()
    longer = replace(run, workload=replace(run.workload, turns=9.0))
    assert all(seconds(longer)[name] >= value for name, value in seconds(run).items())


def test_vllm_reads_what_is_new_and_half_a_block_of_a_model_with_recurrent_layers() -> None:
    run = given()
    load = replace(run.workload, prompt=1000.0, turns=5.0, response=50.0, observation=300.0, flat=0.0)
    assert prefix_block(run) == 528
    read = (1000 - 528) + 528 / 8 + 4 * (300 + 528 / 2)
    assert timing(replace(run, workload=load))[0].note == f"{run.episodes * read:,.0f} tokens read"
    # An episode that is shorter than a block is read from its start.
    short = replace(load, prompt=10.0, turns=2.0, response=5.0, observation=20.0)
    assert timing(replace(run, workload=short))[0].note == f"{run.episodes * 2 * (10 + 12.5):,.0f} tokens read"


def test_prefixes_of_attention_alone_are_kept_whole() -> None:
    run = given("model=Qwen/Qwen3-4B")
    load = run.workload
    assert prefix_block(run) == 0
    read = load.prompt / 8 + (load.turns - 1) * load.observation
    assert timing(run)[0].note == f"{(1 + 0.4 * (run.resample > 0)) * run.episodes * read:,.0f} tokens read"


# Verdict and advice --------------------------------------------------------------------------------------------------


def plan(*overrides: str, gpu: str, path: str = PAPER) -> tuple[Plan, TrainConfig]:
    chosen = config(path, *overrides)
    return make_plan(chosen, hardware(gpu)), chosen


def test_the_papers_run_fits_on_the_papers_gpus_and_needs_no_change() -> None:
    planned, _ = plan(gpu="h200")
    assert planned.fits
    assert not planned.changes


@pytest.mark.parametrize("gpu", ["h100", "l40s", "a100-40gb", "l4"])
@pytest.mark.parametrize("overrides", [(), ("launch.config=null",), ("grpo.use_vllm=false",)])
def test_changes_do_what_they_say(gpu: str, overrides: tuple[str, ...]) -> None:
    planned, changed = plan(*overrides, gpu=gpu)
    missing = shortfall(planned.facts)
    assert planned.fits == (missing == 0)
    for change in planned.changes:
        changed = with_overrides(changed, change.overrides)
        again = facts(changed, hardware(gpu))
        assert shortfall(again) == change.missing < missing
        assert memory(again).peak == change.peak
        missing = change.missing
    if planned.changes and planned.changes[-1].fits:
        assert make_plan(changed, hardware(gpu)).fits


def test_one_change_is_enough_where_one_is() -> None:
    planned, _ = plan("grpo.vllm_gpu_memory_utilization=0.8", gpu="h200")
    assert [change.fits for change in planned.changes] == [True]


def test_a_reservation_that_holds_no_episode_is_no_fit_and_is_raised() -> None:
    planned, _ = plan("grpo.vllm_gpu_memory_utilization=0.07", gpu="h200")
    assert vllm_sequences(planned.facts) < 1
    assert not planned.fits
    assert planned.changes[-1].fits


def test_too_few_places_in_vllm_are_warned_about() -> None:
    assert any(
        "episodes of the longest kind" in line for line in plan("rollout.concurrency=64", gpu="h100")[0].warnings
    )
    assert not plan(gpu="h200")[0].warnings


@pytest.mark.parametrize(
    ("processes", "more"),
    [(2, {"launch.processes=4"}), (4, {"launch.processes=8"}), (8, {"launch.nodes=2"}), (128, set())],
)
def test_more_hardware_is_whole_nodes_beyond_eight_gpus(processes: int, more: set[str]) -> None:
    chosen = config(PAPER, f"launch.processes={processes}")
    found = {word for words, _ in _candidates(chosen, facts(chosen, hardware("l4"))) for word in words}
    assert {word for word in found if word.startswith(("launch.processes", "launch.nodes"))} == more


def test_a_context_beyond_the_models_window_is_noted() -> None:
    within, beyond = ("model=Qwen/Qwen3-4B", "rollout.max_context_tokens=40960"), "rollout.max_context_tokens=40961"
    assert not any("positions" in line for line in plan(*within, gpu="h200")[0].warnings)
    assert any("40,961, more than the 40,960" in line for line in plan(within[0], beyond, gpu="h200")[0].warnings)


# Episodes of an earlier run ------------------------------------------------------------------------------------------


def played(folder: Path) -> Path:
    rows = [
        {
            "step": step,
            "prompt_tokens": 50,
            "completion_tokens": length,
            "model_tokens": 20 * turns,
            "turns": [{}] * turns,
        }
        for step, (length, turns) in enumerate([(150, 2), (350, 4), (250, 3)])
    ]
    text = "\n".join(json.dumps(row) for row in rows) + '\n{"step": 3, "prom'
    (folder / "trajectories.jsonl").write_text(text, encoding="utf-8")
    (folder / "metrics.jsonl").write_text('{"step": 1, "flat_groups": 0.25}\n', encoding="utf-8")
    return folder


def test_lengths_are_taken_from_a_run(tmp_path: Path) -> None:
    load = measured(played(tmp_path), longest=400)
    assert (load.prompt, load.turns, load.response, load.flat) == (50, 3, 20, 0.25)
    assert load.observation == pytest.approx((110 + 270 + 190) / 3 / 2)
    assert longest_played(tmp_path) == 400


def test_a_folder_without_episodes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no played episodes"):
        measured(tmp_path, 100)


# The command ---------------------------------------------------------------------------------------------------------


def test_exit_codes_tell_whether_it_fits(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", PAPER, "--hardware", "h200"]) == 0
    assert "fits:" in capsys.readouterr().out
    assert main(["plan", PAPER, "--hardware", "l4"]) == 1
    assert "change first:" in capsys.readouterr().out
    assert main(["plan", PAPER, "model=nobody/knows"]) == 2


def test_json_holds_everything(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["plan", PAPER, "--hardware", "h100", "--json", "--turns", "7", "--like", str(played(tmp_path))]) == 1
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert told["fits"] is False
    assert told["peak_gib"] == max(
        sum(part[phase] for part in told["memory_gib"].values()) for phase in ("rollout", "update")
    )
    assert told["step_s"] == pytest.approx(sum(told["seconds"].values()))
    assert told["workload"]["turns"] == 7
    assert told["workload"]["prompt"] == 50
    assert told["changes"][-1]["fits"]


@pytest.mark.parametrize("path", sorted(Path("configs/train").glob("*.yaml")), ids=lambda path: path.name)
def test_every_shipped_config_can_be_planned(path: Path) -> None:
    assert main(["plan", str(path), "--hardware", "h200"]) == 0


@pytest.mark.parametrize("flag", ["--turns", "--response", "--observation"])
@pytest.mark.parametrize("value", ["nan", "inf", "-3", "0", "1e300"])
def test_lengths_that_no_episode_has_are_refused(flag: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", PAPER, "--hardware", "h200", f"{flag}={value}"]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert f"{flag} {float(value):g}: give a number above 0 and at most" in told.err


def test_a_run_without_grpo_has_no_step_to_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", PAPER, "grpo.max_steps=0"]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert "no step to plan" in told.err


def test_the_prefix_cache_is_told_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", PAPER, "--hardware", "h200", "--json"]) == 0
    said = [line for line in json.loads(capsys.readouterr().out)["assumptions"] if line.startswith("vLLM")]
    assert len(said) == 1
    assert "every 528 tokens (mamba cache mode align" in said[0]


def test_the_help_reads_no_config() -> None:
    code = (
        "import argparse, sys; from horma_rl.commands import plan; plan.add_arguments(argparse.ArgumentParser()); "
        "sys.exit(3 if {'pydantic', 'yaml', 'rich'} & set(sys.modules) else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_plan_imports_no_torch() -> None:
    code = (
        "import sys; from horma_rl.cli import main; "
        f"code = main(['plan', {PAPER!r}, '--hardware', 'h200']); "
        "sys.exit(3 if {'torch', 'transformers', 'trl'} & set(sys.modules) else code)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0
