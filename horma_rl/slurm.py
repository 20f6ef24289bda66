"""`scripts/submit.sh CONFIG [key=value ...]`: fills in a template of `slurm/` and hands it to Slurm. No torch is
imported here."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from horma_rl.ablation.config import AblationConfig, cell_runs, folder_of
from horma_rl.config import StrictModel, dump, load_config
from horma_rl.errors import UserError
from horma_rl.evaluation.agents.config import AgentsConfig
from horma_rl.training.config import TrainConfig
from horma_rl.training.identity import same_run

TEMPLATES = Path("slurm")
CPUS_PER_GPU = 8
_CPUS_PER_SHARD = 2
"""An evaluation of agents waits for a server of language models most of the time."""
ENVIRONMENT = {
    "partition": "SBATCH_PARTITION", "account": "SBATCH_ACCOUNT", "qos": "SBATCH_QOS", "time": "SBATCH_TIMELIMIT",
}  # fmt: skip
"""Options whose default is one of sbatch's own variables. sbatch would put a variable above what the script says."""

_NAMES = re.compile(r"[A-Za-z0-9_][\w.@+-]*(,[A-Za-z0-9_][\w.@+-]*)*", re.ASCII)
"""A name of a partition, an account or a quality of service, or several with commas between them."""
_TIME = re.compile(
    r"\d{1,9}(:\d{1,2}){0,2}|\d{1,6}-\d{1,2}(:\d{1,2}){0,2}|UNLIMITED|INFINITE", re.ASCII | re.IGNORECASE
)
"""The time limits that sbatch takes."""


@dataclass(frozen=True)
class Node:
    """What a job asks of each of its nodes."""

    gpus: int
    cpus: int


@dataclass(frozen=True)
class Job:
    """A job to submit. `folder`: where its script, its config and its logs go; `array`: the number of its tasks."""

    template: str
    name: str
    config: StrictModel
    folder: Path
    node: Node
    nodes: int = 1
    array: int = 0


def build_parser() -> argparse.ArgumentParser:
    """The arguments of `scripts/submit.sh`."""
    parser = argparse.ArgumentParser(prog="submit.sh", description="Fill in a template of slurm/ and submit it.")
    parser.add_argument("config", type=Path, help="a train config, an ablation, or an evaluation of agents")
    parser.add_argument("overrides", nargs="*", default=[], metavar="key=value", help="override a field of the config")
    does = parser.add_mutually_exclusive_group()
    does.add_argument("--dry-run", action="store_true", help="print the script, and submit nothing")
    does.add_argument("--test-only", action="store_true", help="let Slurm check the script, and submit nothing")
    for name, variable in ENVIRONMENT.items():
        default = os.environ.get(variable) or ("1-00:00:00" if name == "time" else None)
        parser.add_argument(f"--{name}", default=default, help=f"default: ${variable}")
    parser.add_argument(
        "--gpus", type=int, metavar="N", help="GPUs a node (default: one a process; none with `threads`)"
    )
    parser.add_argument("--cpus", type=int, metavar="N", help=f"CPUs a node (default: {CPUS_PER_GPU} a GPU)")
    parser.add_argument("--shards", type=int, default=1, metavar="N", help="parts of an evaluation of agents (1)")
    parser.add_argument("--at-once", type=int, metavar="N", help="tasks of an array at once (default: all)")
    parser.add_argument(
        "--requeues", type=int, default=20, metavar="N", help="times the job may queue itself again (20)"
    )
    parser.add_argument("--lead", type=int, default=120, metavar="S", help="seconds before the end to stop at (120)")
    parser.add_argument("--preflight", type=int, default=115, metavar="S", help="seconds for the preflight (115)")
    parser.add_argument("--sbatch", action="append", default=[], metavar="OPTION", help="more: --sbatch=--mem=400G")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Submit, or show what would be. Exit codes: 0 done, 1 Slurm refused, 2 the input is at fault."""
    args = build_parser().parse_intermixed_args(argv)
    try:
        return run(args)
    except UserError as error:
        print(f"submit: {error}", file=sys.stderr)
        return 2


def run(args: argparse.Namespace) -> int:
    """Fill in the script, then print, check or submit it. Raises UserError."""
    _check(args)
    job = read_job(args.config, args.overrides, args.gpus, args.cpus, args.shards)
    script = fill(job, args)
    if args.dry_run:
        print(script, end="")
        return 0
    sbatch = shutil.which("sbatch")
    if sbatch is None:
        raise UserError("there is no sbatch here: submit from a login node of the cluster (--dry-run works anywhere)")
    kept = {name: value for name, value in os.environ.items() if name not in ENVIRONMENT.values()}
    if args.test_only:
        return subprocess.run([sbatch, "--test-only"], input=script, text=True, env=kept, check=False).returncode
    job.folder.mkdir(parents=True, exist_ok=True)
    _write(_frozen(job), dump(job.config))
    _write(job.folder / job.template, script)
    done = subprocess.run(
        [sbatch, "--parsable"], input=script, text=True, env=kept, stdout=subprocess.PIPE, check=False
    )
    if done.returncode:
        return 1
    number = done.stdout.strip().partition(";")[0]
    log = job.folder / (f"{number}_*.out" if job.array else f"{number}.out")
    print(f"job {number}: {_described(job)}; log {log}", file=sys.stderr)
    print(json.dumps({"job": number, "name": job.name, "log": str(log)}))
    return 0


def read_job(
    path: Path, overrides: Sequence[str], gpus: int | None = None, cpus: int | None = None, shards: int = 1
) -> Job:
    """The job of a config, sized by its section `launch`. Raises UserError.

    A config that sets `threads` is for CPUs: `threads` of them for each process, and no GPU. Any other asks for a GPU
    for each process. `gpus` and `cpus`, a node, say otherwise.
    """
    keys = _keys(path)
    if "cells" in keys:
        return _ablation_job(path, overrides, gpus, cpus)
    if keys.get("kind") == "agent":
        agents = load_config(path, overrides, AgentsConfig)
        node = Node(gpus or 0, cpus or _CPUS_PER_SHARD)
        return Job("eval_array.sbatch", f"horma-{agents.name}", agents, agents.out_dir / "slurm", node, array=shards)
    config = load_config(path, overrides, TrainConfig)
    _check_free(config)
    several = config.launch.nodes > 1
    return Job(
        template="train_multinode.sbatch" if several else "train.sbatch",
        name=f"horma-{config.name}",
        config=config,
        folder=config.run_dir / "slurm",
        node=_node(config, gpus, cpus),
        nodes=config.launch.nodes,
    )


def fill(job: Job, args: argparse.Namespace) -> str:
    """The template of `job` with every `{{word}}` replaced. Raises UserError."""
    options = [f"--time={args.time}", *([f"--gpus-per-node={job.node.gpus}"] if job.node.gpus else [])]
    options += [f"--{name}={getattr(args, name)}" for name in ("partition", "account", "qos") if getattr(args, name)]
    at_once = f"%{args.at_once}" if args.at_once else ""
    words = {
        "name": job.name, "nodes": job.nodes, "cpus": job.node.cpus,
        "options": shlex.join([*options, *args.sbatch]), "lead": args.lead, "requeues": args.requeues,
        "preflight": args.preflight,
        "array": f"0-{job.array - 1}{at_once}", "shards": job.array, "root": shlex.quote(str(Path.cwd())),
        "logs": shlex.quote(str(job.folder.absolute()).replace("%", "%%")),
        "config": shlex.quote(str(_frozen(job))), "horma": shlex.join([sys.executable, "-m", "horma_rl.cli"]),
    }  # fmt: skip
    path = TEMPLATES / job.template
    if not path.is_file():
        raise UserError(f"there is no {path} here: run this in the repository's folder")
    return _filled(path.read_text(encoding="utf-8"), words)


def _filled(text: str, words: Mapping[str, object]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda found: str(words[found[1]]), text)


def _check(args: argparse.Namespace) -> None:
    least = {"shards": 1, "gpus": 0, "cpus": 1, "at_once": 1, "requeues": 0, "lead": 1, "preflight": 1}
    for name, value in least.items():
        given = getattr(args, name)
        if given is not None and given < value:
            raise UserError(f"--{name.replace('_', '-')} {given}: give at least {value}")
    for name in ENVIRONMENT:
        if re.search(r"\s", getattr(args, name) or ""):
            raise UserError(f"--{name} '{getattr(args, name)}': remove the space")
    _check_time(args.time)
    for name in ("partition", "account", "qos"):
        given = getattr(args, name)
        if given and not _NAMES.fullmatch(given):
            raise UserError(f"--{name} '{given}': give a plain name: letters, digits and any of _ . - + @")


def _check_time(given: str) -> None:
    """Raise UserError when `given` is no time limit of Slurm."""
    if not _TIME.fullmatch(given):
        raise UserError(
            f"--time '{given}': give minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes, "
            "days-hours:minutes:seconds or UNLIMITED"
        )


def _check_free(config: TrainConfig) -> None:
    """Raise UserError when the run's folder holds another run: the job would only find out once it has its nodes."""
    path = config.run_dir / "config.yaml"
    if path.is_file() and not same_run(path.read_text(encoding="utf-8"), dump(config)):
        raise UserError(f"{config.run_dir} holds a run with other settings: choose another name (name=...)")


def _keys(path: Path) -> Mapping[str, Any]:
    """The keys that the file itself has, which tell what it is a config of; what is wrong with it is told when it is
    read as one."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return data if isinstance(data, dict) else {}


def _ablation_job(path: Path, overrides: Sequence[str], gpus: int | None, cpus: int | None) -> Job:
    config = load_config(path, overrides, AblationConfig)
    configs = [run.config() for run in cell_runs(config)]
    for each in configs:
        _check_free(each)
        if each.launch.nodes > 1:
            raise UserError(
                f"{path}: the run {each.name} asks for {each.launch.nodes} nodes; an ablation's run gets one"
            )
    nodes = [_node(each, gpus, cpus) for each in configs]
    return Job(
        template="ablation_array.sbatch",
        name=f"horma-{config.name}",
        config=config,
        folder=folder_of(config) / "slurm",
        node=Node(max(node.gpus for node in nodes), max(node.cpus for node in nodes)),
        array=len(configs),
    )


def gpus_asked(config: TrainConfig) -> int:
    """GPUs a node that a run needs: one a process, and none with `threads`, which only a run on CPUs sets."""
    return 0 if config.threads else config.launch.processes


def _node(config: TrainConfig, gpus: int | None, cpus: int | None) -> Node:
    processes = config.launch.processes
    if gpus is None:
        gpus = gpus_asked(config)
    return Node(gpus, cpus or (CPUS_PER_GPU * gpus if gpus else processes * (config.threads or 1)))


def _frozen(job: Job) -> Path:
    """The resolved config that the job reads, named after its text: the file that it was made from may change while the
    job waits, and another job of that name may be submitted."""
    digest = hashlib.sha256(dump(job.config).encode()).hexdigest()
    return job.folder.absolute() / f"config-{digest[:8]}.yaml"


def _described(job: Job) -> str:
    tasks = f"{job.array} runs, each on " if job.array else ""
    gpus = f", {job.node.gpus} GPUs" if job.node.gpus else ""
    return f"{tasks}{job.nodes} node{'s' * (job.nodes > 1)} with {job.node.cpus} CPUs{gpus}"


def _write(path: Path, text: str) -> None:
    unfinished = path.with_name(f".{path.name}.tmp")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)


if __name__ == "__main__":
    sys.exit(main())
