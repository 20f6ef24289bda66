"""The stages of scripts/vllm_cpu_check.sh, each a process of its own: vLLM keeps one engine a process.

Each stage leaves its figures as JSON in the output folder; `report` prints them in one line and fails when one of them
is not what it must be.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
TINY = ROOT / "data" / "models" / "tiny"
TIE = 1e-4
"""Two tokens whose log-probabilities differ by less may change places with the order in which floats are added."""


def train(out: Path, steps: str, sync: str) -> None:
    """GRPO with TRL's engine in this process; `no-sync`: the same run whose engine keeps its first weights."""
    if sync == "no-sync":
        from trl.generation.vllm_generation import VLLMGeneration

        VLLMGeneration.sync_weights = lambda self: None
    overrides = [
        f"name={sync}", f"runs={out}", f"memory={out / 'memory'}", "grpo.use_vllm=true", "grpo.vllm_mode=colocate",
        f"grpo.max_steps={steps}", "grpo.gradient_accumulation_steps=2", "grpo.save_steps=100", "threads=1",
        "resample_zero_variance=0", "evaluation.baselines=[]",
    ]  # fmt: skip
    config = str(ROOT / "configs" / "train" / "tiny_cpu.yaml")
    for stage in ("prepare", "grpo"):
        _command("train", config, *overrides, "--stage", stage)
    lines = [json.loads(line) for line in (out / sync / "metrics.jsonl").read_text().splitlines()]
    differences = [line["logprob_diff"] for line in lines]
    for step, difference in enumerate(differences, 1):
        print(f"{sync}: step {step}: mean |log p of the trainer - log p of vLLM| {difference:.3e}", file=sys.stderr)
    figures = {"logprob_diff": differences, "ess": [line["ess"] for line in lines]}
    _write(out, f"train_{sync}", {**figures, "tokens_per_s": [round(line["tokens_per_s"], 1) for line in lines]})


def evaluate(out: Path, url: str, tasks: str) -> None:
    """`horma-rl eval` of one checkpoint by two backends; the token ids of their episodes are compared."""
    from horma_rl.evaluation import runner

    played: dict[str, dict[str, Any]] = defaultdict(dict)
    original = runner.run_policy

    def recorded(engine: Any, *args: Any) -> Iterator[Any]:
        for trajectory in original(engine, *args):
            played[type(engine.generator).__name__][trajectory.task.id] = trajectory
            yield trajectory

    runner.run_policy = recorded
    model = out / "sync" / "model"
    config = {
        "extends": str(ROOT / "configs" / "eval" / "retriever.yaml"), "name": "backends", "benchmark": "generated",
        "options": {"seed": 0, "train": 60, "eval": 24}, "limit": int(tasks), "baselines": [], "out": str(out / "eval"),
        "memory": str(out / "memory"), "shell": {"caps": {"turns": 4, "lines": 8}}, "device": "cpu",
        "rollout": {"max_turns": 4, "max_context_tokens": 1200},
        "policies": {
            "before": {"model": str(model), "prompt": "compact"},
            "after": {"model": str(model), "prompt": "compact", "backend": "server", "server": url},
        },
    }  # fmt: skip
    path = out / "eval.yaml"
    path.write_text(json.dumps(config))
    _command("eval", str(path))
    first, second = played["TransformersGenerator"], played["ServerGenerator"]
    assert sorted(first) == sorted(second)
    partings = [parting for name in first if (parting := _parting(model, first[name], second[name]))]
    for parting in partings:
        print(f"parted: {parting}", file=sys.stderr)
    summary = json.loads((out / "eval" / "summary.json").read_text())
    figures = {
        "episodes": len(first),
        "same": len(first) - len(partings),
        "tokens": sum(sum(t.mask) for t in first.values()),
        "largest_logprob_difference": _largest(first, second),
        "errors": sum(t.error is not None for t in [*first.values(), *second.values()]),
        "parted": partings,
        "jaccard": {n: s["all"]["jaccard"]["mean"] for n, s in summary["systems"].items()},
        "backends": {"before": "transformers", "after": "server"},
    }
    _write(out, "evaluate", figures)


def contract(out: Path) -> None:
    """The generator contract on a real engine, as the evaluation loads it."""
    from horma_rl.retrieval.backends.vllm import VllmGenerator, load_llm
    from tests.generator_contract import check_generator

    llm = load_llm(TINY, max_context=1200, concurrency=16)
    eos = [json.loads((TINY / "config.json").read_text())["eos_token_id"]]
    prompts = [tuple(range(100 + 40 * n, 110 + 45 * n)) for n in range(6)]
    check_generator(lambda sampling: VllmGenerator(llm, eos, sampling), prompts, eos)
    _write(out, "contract", {"passed": True, "prefix_cache": _prefix_cache(llm)})


def hybrid(out: Path) -> None:
    """A random Qwen3.5 with a vision tower: its language model alone, exported, loaded in vLLM, run, and synced."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    import torch
    from transformers import AutoModelForCausalLM

    from horma_rl.retrieval.backends.vllm import VllmGenerator, load_llm
    from horma_rl.retrieval.types import Request, Sampling
    from horma_rl.serving.export import Options, export
    from horma_rl.serving.source import Checkpoint
    from horma_rl.training.config import TrainConfig
    from horma_rl.training.generators import plain_cpu_layers
    from horma_rl.training.policies import start_folder

    whole = _random_qwen3_5(out / "qwen3_5")
    config = TrainConfig(name="text_only", model=str(whole), prompt="compact", runs=out)
    start, folder = start_folder(config), out / "qwen3_5_exported"
    shutil.rmtree(folder, ignore_errors=True)
    export(config, Checkpoint(start, "plain", "final", 0, start), folder, Options(), lambda line: None)
    with plain_cpu_layers():
        llm = load_llm(folder, max_context=256, concurrency=4)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval()

    def largest() -> float:
        generator = VllmGenerator(llm, [2], Sampling())
        for episode in range(4):
            generator.submit(Request(episode, tuple(range(10, 50 + 9 * episode)), 24, episode))
        worst = 0.0
        while generator.pending:
            for said in generator.poll():
                prompt = tuple(range(10, 50 + 9 * said.episode))
                worst = max(worst, _difference(model, prompt, said.token_ids, said.logprobs))
        return worst

    figures: dict[str, Any] = {"weights": _names(folder), "prefix_cache": _prefix_cache(llm), "loaded": largest()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    figures["changed"] = largest()
    engine = llm.llm_engine.model_executor.driver_worker.model_runner.model
    for name, parameter in model.named_parameters():  # as TRL sends them: one by one, under the trainer's names
        engine.load_weights([(name, parameter.data)])
    llm.reset_prefix_cache()
    figures["synced"] = largest()
    _write(out, "hybrid", figures)


def report(out: Path) -> None:
    """One JSON line; exit 1 when a figure is not what it must be."""
    found = {
        name: json.loads((out / f"{name}.json").read_text())
        for name in ("train_sync", "train_no-sync", "evaluate", "contract", "hybrid")
    }
    synced, stale = (found[f"train_{kind}"]["logprob_diff"] for kind in ("sync", "no-sync"))
    evaluated, qwen = found["evaluate"], found["hybrid"]
    verdicts = {
        "synced weights agree at every step": max(synced) < 1e-4,
        "without sync the difference grows": all(a < b for a, b in pairwise(stale)),
        "without sync it is at last 20 times larger": stale[-1] > 20 * synced[-1],
        "no episode failed": evaluated["errors"] == 0,
        "greedy tokens are equal, ties apart": all(p["margin"] < TIE for p in evaluated["parted"]),
        "the contract holds": found["contract"]["passed"],
        "Qwen3.5 agrees after loading and after sync": max(qwen["loaded"], qwen["synced"]) < qwen["changed"] / 4,
    }
    for name, held in verdicts.items():
        print(f"{'yes' if held else 'NO '}  {name}", file=sys.stderr)
    print(json.dumps({"passed": all(verdicts.values()), **found}))
    sys.exit(not all(verdicts.values()))


def _command(*args: str) -> None:
    from horma_rl.cli import main

    code = main(list(args))
    if code:
        sys.exit(code)


def _write(out: Path, name: str, figures: dict[str, Any]) -> None:
    (out / f"{name}.json").write_text(json.dumps(figures))


def _prefix_cache(llm: Any) -> str:
    cache = llm.llm_engine.vllm_config.cache_config
    return f"on={cache.enable_prefix_caching} mamba={cache.mamba_cache_mode}"


def _parting(model: Path, first: Any, second: Any) -> dict[str, Any] | None:
    """Where two trajectories of a task part: the place, and how far apart transformers holds the two tokens."""
    ours, theirs = first.completion_ids, second.completion_ids
    if ours == theirs and first.prompt_ids == second.prompt_ids:
        return None
    place = next((i for i, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), None)
    if place is None or first.prompt_ids != second.prompt_ids:
        return {"task": first.task.id, "place": place, "margin": math.inf}
    table = _logprobs(model, [*first.prompt_ids, *ours[:place]])
    return {
        "task": first.task.id,
        "place": place,
        "tokens": [ours[place], theirs[place]],
        "margin": abs(float(table[ours[place]] - table[theirs[place]])),
    }


def _logprobs(folder: Path, ids: Sequence[int]) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval()
    with torch.no_grad():
        return model(torch.tensor([list(ids)])).logits[0, -1].float().log_softmax(-1)


def _largest(first: dict[str, Any], second: dict[str, Any]) -> float:
    """The largest difference of a token's log-probability, over the episodes whose tokens are equal."""
    differences = [
        abs(a - b)
        for name, one in first.items()
        if one.completion_ids == second[name].completion_ids
        for a, b in zip(one.logprobs, second[name].logprobs, strict=True)
    ]
    return max(differences, default=math.inf)


def _difference(model: Any, prompt: Sequence[int], ids: Sequence[int], logprobs: Sequence[float]) -> float:
    """The mean difference to one plain forward of transformers over the same tokens."""
    import torch

    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1].float()
    plain = logits.log_softmax(-1).gather(1, torch.tensor(list(ids))[:, None])[:, 0].tolist()
    return mean(abs(a - b) for a, b in zip(plain, logprobs, strict=True))


def _random_qwen3_5(folder: Path) -> Path:
    """Sizes of a head as vLLM's CPU kernels take them, and 16 bits, the one format that they compute in."""
    import torch
    from transformers import AutoTokenizer, Qwen3_5Config, Qwen3_5ForConditionalGeneration

    tokenizer = AutoTokenizer.from_pretrained(TINY)
    text = {
        "vocab_size": len(tokenizer), "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "linear_num_key_heads": 2,
        "linear_num_value_heads": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "layer_types": ["linear_attention"] * 3 + ["full_attention"], "initializer_range": 0.1,
    }  # fmt: skip
    vision = {"depth": 1, "hidden_size": 16, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 64}
    torch.manual_seed(0)
    model = Qwen3_5ForConditionalGeneration(Qwen3_5Config(text_config=text, vision_config=vision)).bfloat16()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _names(folder: Path) -> list[str]:
    """The first names of the stored weights; none of them is of the vision tower."""
    from safetensors import safe_open

    names: list[str] = []
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as weights:
            names += weights.keys()
    assert not any("visual" in name for name in names)
    return names[:3]


STAGES: dict[str, Callable[..., None]] = {
    "train": train, "evaluate": evaluate, "contract": contract, "hybrid": hybrid, "report": report,
}  # fmt: skip

if __name__ == "__main__":
    STAGES[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
