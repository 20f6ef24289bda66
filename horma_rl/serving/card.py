"""The model card (README.md) of an exported folder: what it is, how it was trained and measured, how to call it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from horma_rl.benchmarks.registry import load_benchmark
from horma_rl.config import dump
from horma_rl.errors import UserError
from horma_rl.retrieval.manifest import Manifest
from horma_rl.serving.source import Checkpoint
from horma_rl.training.config import TrainConfig

FILE = "README.md"


def write(folder: Path, config: TrainConfig, checkpoint: Checkpoint, manifest: Manifest) -> None:
    """Write the card of the export in `folder`."""
    sections = [
        _front_matter(config, manifest),
        _introduction(config, checkpoint, manifest),
        _calling(manifest),
        _prompting(manifest),
        _metrics(config, checkpoint),
        _licences(config),
        f"## Training config\n\n```yaml\n{dump(config)}```\n",
    ]
    (folder / FILE).write_text("\n".join(sections), encoding="utf-8")


def _front_matter(config: TrainConfig, manifest: Manifest) -> str:
    fields: dict[str, Any] = {
        "library_name": "peft" if manifest.adapter_of else "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["horma", "memory-retrieval", "tool-use", "grpo"],
    }
    if not Path(config.model).is_dir():
        fields["base_model"] = config.model
    return f"---\n{yaml.safe_dump(fields, sort_keys=False)}---\n"


def _introduction(config: TrainConfig, checkpoint: Checkpoint, manifest: Manifest) -> str:
    made = f"run `{config.name}`, checkpoint `{checkpoint.name}` ({checkpoint.step} steps of GRPO)"
    what = f"a LoRA adapter of `{manifest.adapter_of}`" if manifest.adapter_of else "whole weights"
    cast = manifest.precision
    changed = (
        "" if cast.trained == cast.exported else f", converted from {cast.trained}: outputs may differ from training"
    )
    return (
        f"# {config.name}\n\n"
        'A retriever for HORMA (arXiv:2606.11680): a language model that answers "what should the agent see now?" by '
        "walking a directory tree of notes with shell commands and selecting the turns that hold the answer. It was "
        f"trained with GRPO on episodes in that shell, starting from `{config.model}`.\n\n"
        f"From {made}. This folder holds {what} in {cast.exported}{changed}.\n"
    )


def _calling(manifest: Manifest) -> str:
    engine = (
        f"vLLM serves it as an adapter: `vllm serve {manifest.adapter_of} --enable-lora --lora-modules retriever=DIR`."
        if manifest.adapter_of
        else "vLLM serves it: `vllm serve DIR --host 127.0.0.1`."
    )
    return (
        "## How to call it\n\n"
        "```\n"
        'horma-rl retrieve --model DIR --memory WORKSPACE "Where does Herbert grow courgettes?"\n'
        "```\n\n"
        "or, in Python,\n\n"
        "```python\n"
        "from pathlib import Path\n"
        "from horma_rl.serving.retrieve import Retriever, open_memory\n\n"
        'retriever = Retriever.load(Path("DIR"))\n'
        'answer = retriever.ask(open_memory(Path("WORKSPACE")), "Where does Herbert grow courgettes?")\n'
        "```\n\n"
        f"{engine} `AutoModelForCausalLM.from_pretrained` loads it too. Either way the model expects exactly the token "
        "ids of `horma_rl.retrieval.prompt.ChatCodec` with the settings below, and what `memory_shell` prints.\n"
    )


def _prompting(manifest: Manifest) -> str:
    caps = manifest.shell.caps
    rows = {
        "prompt": f"`{manifest.prompt}`, version {manifest.prompt_version}",
        "thinking": "on" if manifest.thinking else "off",
        "tools": "six, one a verb" if manifest.tools == "six" else "one `shell`",
        "overview in the first observation": f"`{manifest.shell.overview}`",
        "turns": min(caps.turns, manifest.rollout.max_turns),
        "tokens a response": manifest.rollout.max_response_tokens,
        "tokens of context": manifest.rollout.max_context_tokens,
        "lines, bytes a command": f"{caps.lines}, {caps.bytes}",
        "memory": f"`{manifest.memory.notes}` notes, workspace format {manifest.memory.format}",
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    return (
        "## How it is prompted\n\n"
        f"| setting | trained with |\n|---|---|\n{table}\n\n"
        "`horma.json` holds these settings with the SHA-256 of every file; `horma-rl` refuses the folder under another "
        "prompt.\n"
    )


def _metrics(config: TrainConfig, checkpoint: Checkpoint) -> str:
    path = config.run_dir / "summary.json"
    if not path.is_file():
        return "## Evaluation\n\nThis run was not evaluated.\n"
    summary = json.loads(path.read_text(encoding="utf-8"))
    of = "" if checkpoint.name == "final" else f" They are of the run's final model, not of step {checkpoint.step}."
    return (
        "## Evaluation\n\n"
        f"Mean Jaccard of selected and annotated turns on {summary['tasks']} held-out questions of "
        f"`{summary['benchmark']}`, {summary['decoding']}, with 95% bootstrap intervals.{of}\n\n"
        "| system | Jaccard | interval | given |\n|---|---|---|---|\n"
        + "".join(_system_rows(summary))
        + _change(summary)
    )


def _system_rows(summary: Mapping[str, Any]) -> Iterator[str]:
    for name, system in summary["systems"].items():
        jaccard = system["all"]["jaccard"]
        yield f"| {name} | {_number(jaccard['mean'])} | {_interval(jaccard['ci95'])} | {system['given']} |\n"


def _change(summary: Mapping[str, Any]) -> str:
    if "delta" not in summary:
        return ""
    return (
        f"\nChange from before to after training: {_number(summary['delta'], '+')} "
        f"({_interval(summary['ci95'], '+')}, paired over {summary['n']} questions).\n"
    )


def _number(value: float | None, sign: str = "") -> str:
    return "n/a" if value is None else f"{value:{sign}.3f}"


def _interval(bounds: list[float] | None, sign: str = "") -> str:
    return "n/a" if not bounds else " to ".join(_number(bound, sign) for bound in bounds)


def _licences(config: TrainConfig) -> str:
    try:
        benchmark = load_benchmark(config.benchmark, **config.options)
        data = f"Training data: {benchmark.provenance}. Licence: {benchmark.licence}."
    except UserError:
        data = f"Training data: `{config.benchmark}`, which is not on the machine of this export; its licence holds."
    return (
        f"## Licences\n\n{data}\n\n"
        f"Starting model: `{config.model}`. The weights here derive from it, so its licence holds for them.\n"
    )
