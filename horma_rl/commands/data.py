"""`horma-rl data`: fetch, generate, index and describe datasets."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from horma_rl.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Four actions: `fetch`, `generate`, `index`, `stats`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    fetch = actions.add_parser("fetch", help="download a dataset to the cache, checksum verified")
    fetch.add_argument("name", help="locomo, memory_arena")
    fetch.add_argument(
        "--from", dest="local", type=Path, metavar="FILE", help="take this file (or folder) instead of downloading"
    )
    generate = actions.add_parser("generate", help="make memories and questions about them")
    generate.add_argument("--out", type=Path, required=True, metavar="DIR", help="conversations.jsonl and tasks.jsonl")
    generate.add_argument("--memories", type=int, default=8, metavar="N", help="how many (default 8)")
    generate.add_argument("--seed", type=int, default=0, metavar="S", help="default 0")
    generate.add_argument("settings", nargs="*", metavar="key=value", help="e.g. part=eval sessions=12 mix.trap=0")
    index = actions.add_parser("index", help="index products or documents for MemoryArena's shopping and search")
    index.add_argument("kind", choices=("products", "documents"), help="WebShop records, or texts with an id")
    index.add_argument("files", nargs="+", type=Path, metavar="FILE", help="JSON arrays, or .jsonl with one a line")
    index.add_argument("--out", type=Path, required=True, metavar="DB", help="the index, one file")
    stats = actions.add_parser("stats", help="count what a dataset holds, irregularities included")
    stats.add_argument("name", help="locomo, longmemeval, or a folder made by `generate`")
    stats.add_argument("--path", type=Path, metavar="FILE", help="read this file (locomo, longmemeval)")
    stats.add_argument("--json", action="store_true", help="one JSON object")
    stats.add_argument(
        "--set",
        nargs="+",
        default=[],
        metavar="key=value",
        help="surrogate haystacks (longmemeval): tokens=115000 seed=0",
    )


def run(args: argparse.Namespace) -> int | None:
    """Run the action that was named."""
    actions = {"fetch": _fetch, "generate": _generate, "index": _index, "stats": _stats}
    return actions[args.action](args)


def _fetch(args: argparse.Namespace) -> None:
    from horma_rl.benchmarks.sources import fetch_all

    fetched = fetch_all(args.name, args.local)
    for wanted, path in fetched:
        print(f"{wanted.title}: {path}")
    first = fetched[0][0]
    if first.note:
        print(f"note: {first.note}")
    print(f"licence: {first.licence}; {first.homepage}")


def _generate(args: argparse.Namespace) -> None:
    from horma_rl.benchmarks.generator import iterate
    from horma_rl.benchmarks.registry import generator_config
    from horma_rl.benchmarks.storage import save_conversations, save_tasks

    config = generator_config({"memories": args.memories, "seed": args.seed, **_settings(args.settings)})
    memories = list(iterate(config))
    save_conversations((memory.conversation for memory in memories), args.out / "conversations.jsonl")
    count = save_tasks((task for memory in memories for task in memory.tasks), args.out / "tasks.jsonl")
    print(f"{args.out}: {len(memories)} conversations, {count} tasks ({config.part} vocabulary, seed {config.seed})")


def _index(args: argparse.Namespace) -> None:
    from memory_arena.index import build_index, read_documents
    from memory_arena.products import read_products

    skipped = _Skipped()
    started = time.monotonic()
    documents = read_products(args.files, skipped) if args.kind == "products" else read_documents(args.files)
    try:
        built = build_index(documents, args.out, _indexed)
    except ValueError as error:
        raise UserError(f"{error}{f' ({skipped.told})' if skipped.count else ''}") from None
    if skipped.count:
        print(skipped.told, file=sys.stderr)
    report = {"index": str(args.out), **dataclasses.asdict(built), "skipped": skipped.count}
    print(json.dumps({**report, "wall_s": round(time.monotonic() - started, 1)}))


class _Skipped:
    """How many records were left out, and why the first one was."""

    def __init__(self) -> None:
        self.count, self.first = 0, ""

    @property
    def told(self) -> str:
        return f"{self.count} skipped; the first: {self.first}"

    def __call__(self, reason: str) -> None:
        self.first = self.first or reason
        self.count += 1


def _indexed(done: int) -> None:
    if sys.stderr.isatty():
        print(f"{done:,} read", file=sys.stderr)


def _settings(pairs: Sequence[str]) -> dict[str, Any]:
    """`key=value` pairs; values are YAML, and `mix.KIND=WEIGHT` changes one weight of the default mix."""
    from horma_rl.benchmarks.generator.config import MIX

    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise UserError(f"'{pair}' is not of the form key=value")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            raise UserError(f"'{pair}': the value is not YAML") from None
        if key.startswith("mix."):
            settings.setdefault("mix", dict(MIX))[key.removeprefix("mix.")] = value
        else:
            settings[key] = value
    return settings


def _stats(args: argparse.Namespace) -> None:
    if args.name == "longmemeval":
        report = _longmemeval_report(args.path, _settings(args.set))
    else:
        report = _locomo_report(args.path) if args.name == "locomo" else _folder_report(Path(args.name))
    print(json.dumps(report, indent=2, ensure_ascii=False) if args.json else "\n".join(_lines(report)))


def _locomo_report(path: Path | None) -> dict[str, Any]:
    from horma_rl.benchmarks.locomo import load_locomo
    from horma_rl.benchmarks.locomo_report import describe
    from horma_rl.benchmarks.sources import find_locomo

    return describe(load_locomo(find_locomo(path)))


def _longmemeval_report(path: Path | None, settings: dict[str, Any]) -> dict[str, Any]:
    from horma_rl.benchmarks.longmemeval import find_longmemeval
    from horma_rl.benchmarks.longmemeval.report import describe
    from horma_rl.benchmarks.registry import longmemeval_options

    return describe(find_longmemeval(path), longmemeval_options(settings))


def _folder_report(folder: Path) -> dict[str, Any]:
    from horma_rl.benchmarks.statistics import describe
    from horma_rl.benchmarks.storage import load_conversations, load_tasks

    if not (folder / "tasks.jsonl").is_file():
        raise UserError(
            f"'{folder}' is neither 'locomo', 'longmemeval' nor a folder with conversations.jsonl and tasks.jsonl"
        )
    return describe(load_conversations(folder / "conversations.jsonl"), load_tasks(folder / "tasks.jsonl"))


def _lines(report: dict[str, Any], indent: str = "") -> list[str]:
    """The report as indented text; lists of objects take a line each."""
    lines: list[str] = []
    for key, value in report.items():
        if isinstance(value, dict):
            lines += [f"{indent}{key}:", *_lines(value, indent + "  ")]
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            lines += [f"{indent}{key}:"] + [f"{indent}  {_inline(row)}" for row in value]
        else:
            lines.append(f"{indent}{key}: {', '.join(map(str, value)) if isinstance(value, list) else value}")
    return lines


def _inline(row: dict[str, Any]) -> str:
    return "  ".join(
        f"{key}={'/'.join(map(str, value)) if isinstance(value, list) else value}" for key, value in row.items()
    )
