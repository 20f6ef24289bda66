"""Exports from every kind of checkpoint: the same weights, the same episodes, a folder that stands by itself."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

import peft
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from horma_rl.cli import main
from horma_rl.errors import UserError
from horma_rl.retrieval.manifest import Manifest
from horma_rl.serving.source import find_checkpoint, load_model, read_run
from horma_rl.training.checkpoints import mark_complete
from tests.export_parts import STEP, eval_config, export, last_json, make_run
from tests.rollout_parts import tiny_qwen3_5_vision
from tests.training_parts import codec, memory, partly_trained, same_weights, tokenizer


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("start")
    return partly_trained(folder, memory(folder / "memory"), steps=40)


@pytest.fixture(scope="module")
def run(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("plain"), start, checkpoint=start)


@pytest.fixture(scope="module")
def adapter(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose checkpoint is a LoRA adapter that changes what the model does."""
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_pretrained(start)
    lora = peft.LoraConfig(task_type="CAUSAL_LM", r=2, init_lora_weights=False, target_modules=["q_proj", "up_proj"])
    folder = tmp_path_factory.mktemp("lora")
    peft.get_peft_model(model, lora).save_pretrained(folder / "adapter")
    tokenizer().save_pretrained(folder / "adapter")
    return make_run(folder, start, checkpoint=folder / "adapter", lora={"rank": 2})


def test_an_export_stands_by_itself_and_plays_as_the_checkpoint_does(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert export(run, out, "--check") == 0
    told = capsys.readouterr()
    result = last_json(told.out)
    assert (result["kind"], result["dtype"], result["check"]["episodes"]) == ("plain", "float32", 20)
    assert (result["check"]["same"], result["check"]["parted"]) == (20, [])
    assert result["check"]["tokens"] > 200
    assert "20 of 20 episodes are the same to the last token" in told.err
    assert same_weights(out, run / "model")
    assert "lm_head.weight" not in load_file(out / "model.safetensors")  # tied, and loaded as tied
    model = AutoModelForCausalLM.from_pretrained(out)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert AutoTokenizer.from_pretrained(out).chat_template == tokenizer().chat_template
    generation = GenerationConfig.from_pretrained(out)
    assert (generation.eos_token_id, generation.pad_token_id) == (list(codec().eos_ids), tokenizer().pad_token_id)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert {stat.S_IMODE(path.stat().st_mode) & 0o444 for path in out.iterdir()} == {0o444}


def test_the_manifest_and_the_card_say_how_it_was_trained(run: Path, tmp_path: Path) -> None:
    config = read_run(run)
    summary = {
        "tasks": 3, "benchmark": "generated", "decoding": "greedy", "before": 0.25, "after": 0.5, "delta": 0.25,
        "ci95": [0.125, 0.375], "n": 3,
        "systems": {"after": {"given": "the question alone", "all": {"jaccard": {"mean": 0.5, "ci95": [0.4, 0.6]}}}},
    }  # fmt: skip
    (run / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    assert export(run, tmp_path / "out", "--checkpoint", str(STEP)) == 0
    manifest = Manifest.read(tmp_path / "out")
    assert manifest is not None
    assert (manifest.prompt, manifest.tools, manifest.thinking) == (config.prompt, config.tools, config.thinking)
    assert manifest.shell.model_dump() == config.shell.model_dump()
    assert manifest.rollout == config.rollout
    assert (manifest.trained_from.run, manifest.trained_from.step) == ("run", STEP)
    assert set(manifest.files) == {path.name for path in (tmp_path / "out").iterdir()} - {"README.md", "horma.json"}
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    _, front, body = card.split("---\n", 2)
    assert yaml.safe_load(front)["library_name"] == "transformers"
    assert "| after | 0.500 | 0.400 to 0.600 | the question alone |" in body
    assert "Change from before to after training: +0.250 (+0.125 to +0.375, paired over 3 questions)." in body
    assert f"of the run's final model, not of step {STEP}" in body
    assert "Licence: Apache-2.0" in body
    assert yaml.safe_load(body.partition("```yaml\n")[2].partition("```")[0])["name"] == "run"


def test_a_smaller_type_is_told_and_where_episodes_part_is_told(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Weights so coarse that greedy episodes part: the exit code is 1, and each parting is one that really happens."""
    out = tmp_path / "out"
    assert export(run, out, "--dtype", "bf16", "--max-shard-size", "60KB") == 0
    assert "weights were float32 in training and are bfloat16 here" in capsys.readouterr().err
    assert len(list(out.glob("model-*.safetensors"))) > 1
    assert {t.dtype for path in out.glob("model-*") for t in load_file(path).values()} == {torch.bfloat16}
    code = export(run, out, "--check")
    result = last_json(capsys.readouterr().out)["check"]
    assert result["same"] + len(result["parted"]) == 20
    assert code == (1 if result["parted"] else 0)
    for parting in result["parted"]:
        assert parting["margin_trained"] >= 0 >= parting["margin_exported"]
        assert parting["token_trained"] != parting["token_exported"]
        assert 1 <= parting["turn"] <= 4


def test_a_check_finds_another_models_weights(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The control of `--check`: a folder that is sound in itself, but holds a changed model, parts."""
    other = make_run(tmp_path / "other", run / "model", checkpoint=run / "model")
    path = other / "model" / "model.safetensors"
    torch.manual_seed(0)
    save_file({k: v + 0.3 * v.std() * torch.randn_like(v) for k, v in load_file(path).items()}, path, {"format": "pt"})
    assert export(other, tmp_path / "out") == 0
    shutil.rmtree(other / "model")
    shutil.copytree(run / "model", other / "model")
    capsys.readouterr()
    assert export(other, tmp_path / "out", "--check") == 1
    told = capsys.readouterr()
    assert len(last_json(told.out)["check"]["parted"]) > 10
    assert "parted: gen-" in told.err


@pytest.mark.parametrize("options", [("--merge-lora",), ()])
def test_an_adapter_is_merged_or_kept(
    options: tuple[str, ...], adapter: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert export(adapter, out, "--checkpoint", str(STEP), "--check", *options) == 0
    result = last_json(capsys.readouterr().out)
    assert (result["kind"], result["check"]["same"]) == ("lora", 20)
    manifest = Manifest.read(out)
    assert manifest is not None
    if options:
        assert manifest.adapter_of is None
        assert not list(out.glob("adapter*"))
        expected = load_model(find_checkpoint(read_run(adapter), str(STEP))).merge_and_unload().state_dict()
        found = AutoModelForCausalLM.from_pretrained(out).state_dict()
        assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
        assert not torch.equal(
            found["model.layers.0.mlp.up_proj.weight"],
            AutoModelForCausalLM.from_pretrained(adapter / "model").state_dict()["model.layers.0.mlp.up_proj.weight"],
        )
    else:
        assert manifest.adapter_of == str(Path(read_run(adapter).model).resolve())
        assert not list(out.glob("model*.safetensors"))
        assert "--enable-lora" in (out / "README.md").read_text(encoding="utf-8")


def test_a_vision_models_language_part_is_exported(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Qwen3.5's class: its language model alone, under the names of Qwen3_5ForCausalLM, which vLLM knows too."""
    whole = tiny_qwen3_5_vision(len(tokenizer()))
    whole.save_pretrained(tmp_path / "start")
    tokenizer().save_pretrained(tmp_path / "start")
    made = make_run(tmp_path / "made", tmp_path / "start")
    assert export(made, tmp_path / "out", "--check") == 0
    assert last_json(capsys.readouterr().out)["check"]["same"] == 20
    weights = load_file(tmp_path / "out" / "model.safetensors")
    assert not any("visual" in name for name in weights)
    assert all(name.startswith(("model.layers.", "model.embed_tokens.", "model.norm.", "lm_head.")) for name in weights)
    config = json.loads((tmp_path / "out" / "config.json").read_text(encoding="utf-8"))
    assert (config["architectures"], config["model_type"]) == (["Qwen3_5ForCausalLM"], "qwen3_5_text")
    text = whole.model.language_model.state_dict()
    assert all(torch.equal(weights[f"model.{name}"], tensor) for name, tensor in text.items())


def test_nothing_is_overwritten_or_half_done(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    assert export(run, taken) == 2
    assert f"{taken} exists: an export never overwrites" in capsys.readouterr().err
    monkeypatch.setattr("horma_rl.serving.card.write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    assert export(run, tmp_path / "out") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_the_best_checkpoint_is_the_one_that_the_run_chose(run: Path, tmp_path: Path) -> None:
    evaluation = {"limit": 3, "episodes_shown": 1, "every": 1, "during": 2, "best": True}
    saved = tmp_path / "saved"
    shutil.copytree(run / "model", saved)
    state = {"global_step": 2, "best_global_step": 2, "best_metric": 0.5}
    (saved / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")
    made = read_run(make_run(tmp_path / "made", run / "model", checkpoint=saved, evaluation=evaluation))
    (made.run_dir / "checkpoints" / "checkpoint-1.corrupt-2").mkdir()
    best = find_checkpoint(made, "best")
    assert (best.folder.name, best.step, find_checkpoint(made).step) == ("checkpoint-2", 2, 2)
    (made.run_dir / "checkpoints" / "checkpoint-3").mkdir()  # being saved by a run that goes on
    shutil.rmtree(made.run_dir / "model")
    with pytest.raises(UserError, match="has no checkpoint 'best': there are 2, 3"):
        find_checkpoint(made, "best")
    with pytest.raises(UserError, match="is no whole checkpoint"):
        find_checkpoint(made, "3")
    assert (made.run_dir / "checkpoints" / "checkpoint-3").is_dir()


def test_faults_of_the_run_are_one_line(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(tmp_path, tmp_path / "out") == 2
    assert "is no run's folder" in capsys.readouterr().err
    assert export(run, tmp_path / "out", "--checkpoint", "7") == 2
    assert f"has no checkpoint '7': there are final, {STEP}" in capsys.readouterr().err
    assert export(run, tmp_path / "out", "--merge-lora") == 2
    assert "trained whole weights, not a LoRA adapter" in capsys.readouterr().err
    moved = make_run(tmp_path / "moved", run / "model", checkpoint=run / "model", start=tmp_path / "gone")
    (moved / "checkpoints" / f"checkpoint-{STEP}" / "tokenizer_config.json").unlink()
    mark_complete(moved / "checkpoints" / f"checkpoint-{STEP}")
    assert export(moved, tmp_path / "out", "--checkpoint", str(STEP)) == 2
    assert (
        f"needs the checkpoint that its run started from, which is not at {tmp_path / 'gone'}"
        in capsys.readouterr().err
    )
    assert export(moved, tmp_path / "kept") == 0
    damaged = make_run(tmp_path / "damaged", run / "model", checkpoint=run / "model")
    with (damaged / "checkpoints" / f"checkpoint-{STEP}" / "model.safetensors").open("r+b") as file:
        file.truncate(1000)
    assert export(damaged, tmp_path / "out", "--checkpoint", str(STEP)) == 2
    assert "is no whole checkpoint (model.safetensors has 1000 bytes" in capsys.readouterr().err


def test_an_exported_model_is_evaluated_as_it_was_trained(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The config says nothing of the prompt (its default is `full`): it comes from the export. A contradiction is
    refused, whether it is of the prompt or of a limit; limits may be set free."""
    make_run(tmp_path, run / "model")
    out = tmp_path / "out"
    assert export(run, out) == 0
    assert main(["eval", str(eval_config(tmp_path, out))]) == 0
    said = yaml.safe_load((tmp_path / "evaluated" / "config.yaml").read_text(encoding="utf-8"))
    assert said["policies"]["it"]["prompt"] == "compact"
    capsys.readouterr()
    clash = {"it": {"model": str(out), "prompt": "full"}}
    assert main(["eval", str(eval_config(tmp_path, out, policies=clash))]) == 2
    assert "was trained with prompt: compact, the config says full" in capsys.readouterr().err
    assert main(["eval", str(eval_config(tmp_path, out)), "shell.caps.lines=9"]) == 2
    assert "shell.caps.lines is 9, in training 6: take those of training" in capsys.readouterr().err
    free = ["shell.caps.lines=9", "policies.it.other_limits=true", f"out={tmp_path / 'free'}"]
    assert main(["eval", str(eval_config(tmp_path, out)), *free]) == 0


def test_training_from_an_export_keeps_its_prompt(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert export(run, out) == 0
    make_run(tmp_path / "next", run / "model")
    overrides = [f"model={out}", "name=another", "prompt=full"]
    assert main(["train", str(tmp_path / "next" / "train.yaml"), *overrides]) == 2
    assert "was trained with prompt: compact, the config says full" in capsys.readouterr().err
