"""`horma-rl llm up|check`: a small language model on this machine, and what an endpoint can do."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from horma_rl.errors import UserError
from horma_rl.llm.config import DEFAULT_KEY_VARIABLE, DEFAULT_MODEL, DEFAULT_PORT, LlmConfig

if TYPE_CHECKING:
    from horma_rl.llm.local.serve import ServeOptions
    from horma_rl.llm.probe import Finding


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The two actions and theirs."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    up = actions.add_parser("up", help="serve a model at 127.0.0.1, OpenAI-compatible, until interrupted")
    up.add_argument("--model", default=DEFAULT_MODEL, metavar="PATH", help="a model folder, or smollm2 (default)")
    up.add_argument("--port", type=int, default=DEFAULT_PORT, help=f"default {DEFAULT_PORT}; 0 takes a free one")
    up.add_argument("--backend", choices=("transformers", "vllm"), default="transformers")
    up.add_argument("--token-file", type=Path, metavar="FILE", help="write the token there (mode 0600), not print it")
    up.add_argument("--device", default="auto", help="auto, cpu, cuda or a torch device name")
    up.add_argument(
        "--slots", type=int, default=4, help="requests decoded together; with 1 an answer never depends on the others"
    )
    up.add_argument("--context", type=int, help="tokens of prompt and answer (default: what the model knows)")
    check = actions.add_parser("check", help="show what an endpoint can do")
    check.add_argument("config", nargs="?", help="a YAML file (default: the server of `horma-rl llm up`)")
    check.add_argument("overrides", nargs="*", default=[], metavar="key=value", help="override a field of the config")
    check.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Serve, or check. `check` exits with 1 when the endpoint does not answer."""
    return _up(args) if args.action == "up" else _check(args)


def _up(args: argparse.Namespace) -> int:
    from horma_rl.llm.local.serve import ServeOptions, new_token, serve

    if args.slots < 1 or (args.context is not None and args.context < 1):
        raise UserError("llm up: --slots and --context are at least 1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    token = new_token(DEFAULT_KEY_VARIABLE)
    options = ServeOptions(
        args.model, args.port, token, args.token_file, args.device, args.slots, args.context
    )  # fmt: skip
    if args.backend == "vllm":
        return _up_vllm(options, _announce(options))
    serve(options, _announce(options))
    return 0


def _announce(options: ServeOptions) -> Callable[[int, str], None]:
    """Say where the server is and how it is used."""

    def announce(port: int, name: str) -> None:
        print(f"serving {name} at http://127.0.0.1:{port}/v1", flush=True)
        if options.token_file:
            print(f"export {DEFAULT_KEY_VARIABLE}=$(cat {options.token_file})", flush=True)
        elif not os.environ.get(DEFAULT_KEY_VARIABLE, "").strip():
            print(f"export {DEFAULT_KEY_VARIABLE}={options.token}", flush=True)

    return announce


def _up_vllm(options: ServeOptions, announce: Callable[[int, str], None]) -> int:
    from horma_rl.llm.local.serve import HOST, model_folder, write_secret

    program = shutil.which("vllm")
    if program is None:
        raise UserError("llm up: vllm is not installed here: pip install 'horma-rl[vllm]', or --backend transformers")
    if options.port == 0:
        raise UserError("llm up: --backend vllm needs a --port")
    folder, name = model_folder(options.model)
    command = [program, "serve", str(folder), "--host", HOST, "--port", str(options.port), "--served-model-name", name]
    if options.context:
        command += ["--max-model-len", str(options.context)]
    if options.token_file:
        write_secret(options.token_file, options.token)
    announce(options.port, name)
    # By the environment: other users of the machine can read a command line.
    return subprocess.run(command, env={**os.environ, "VLLM_API_KEY": options.token}, check=False).returncode


def _check(args: argparse.Namespace) -> int:
    import yaml

    from horma_rl.config import load_config, validate
    from horma_rl.llm.probe import probe

    overrides = list(args.overrides)
    if args.config is not None and "=" in args.config:  # overrides of the default, and no file
        overrides.insert(0, str(args.config))
        args.config = None
    if args.config is None:
        given = {key: yaml.safe_load(value) for key, _, value in (pair.partition("=") for pair in overrides)}
        config = validate(given, LlmConfig, "llm check")
    else:
        config = load_config(Path(args.config), overrides, LlmConfig)
    findings = asyncio.run(probe(config))
    works = all(finding.ok for finding in findings if finding.needed)
    if args.json:
        told = {"base_url": config.base_url, "model": config.model, "works": works}
        print(json.dumps({**told, "findings": [asdict(finding) for finding in findings]}))
    else:
        _show(config, findings)
    return 0 if works else 1


def _show(config: LlmConfig, findings: list[Finding]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from memory_shell.text import neutralise

    table = Table(title=f"{escape(config.model)} at {escape(config.base_url)}", title_justify="left")
    for column in ("", "", ""):
        table.add_column(column)
    for finding in findings:
        word = "yes" if finding.ok else "[red]no[/red]" if finding.needed else "no"
        table.add_row(finding.name, word, escape(neutralise(finding.told)))
    Console(highlight=False).print(table)
