"""`horma-rl memory`: build, check and draw memory workspaces, and learn to build better ones."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import yaml

from horma_rl.commands import refine
from horma_rl.errors import UserError, nearest

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

    from horma_rl.benchmarks.types import Conversation, Split
    from horma_rl.memory import BuildReport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Four actions: `build`, `check`, `tree`, `refine`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    build = actions.add_parser("build", help="write workspaces from conversations, one folder each; safe to run again")
    build.add_argument("source", help="locomo, generated, or a file of conversations (FILE.jsonl)")
    build.add_argument("--out", type=Path, required=True, metavar="DIR", help="the memory dir: DIR/<conversation>/")
    build.add_argument(
        "--notes", "--manager", default="outline", metavar="KIND", help="outline (default), observations or llm"
    )
    build.add_argument("--llm", type=Path, metavar="CONFIG", help="llm notes: the model (configs/llm/*.yaml)")
    build.add_argument("--manager-config", type=Path, metavar="FILE", help="llm notes: sizes of what is asked")
    build.add_argument("--skills", type=Path, metavar="FILE", help="llm notes: a skill library for the prompt")
    build.add_argument("--workers", type=int, default=4, metavar="N", help="llm notes: conversations at a time (4)")
    build.add_argument("--shard", default="1/1", metavar="i/n", help="every n-th conversation, from the i-th on")
    build.add_argument("--only", default="", metavar="NAMES", help="these conversations, e.g. conv-26,conv-30")
    build.add_argument("--split", default="all", metavar="SPLIT", help="train, eval or all (default)")
    build.add_argument(
        "--set", nargs="+", default=[], metavar="key=value", help="options of the source, e.g. seed=3 train=4"
    )
    check = actions.add_parser("check", help="validate workspaces; exit code 1 if something is wrong")
    check.add_argument("dir", type=Path, metavar="DIR", help="a workspace, or a folder of workspaces")
    tree = actions.add_parser("tree", help="draw a workspace, or a folder of workspaces")
    tree.add_argument("dir", type=Path, metavar="DIR")
    tree.add_argument("--depth", type=int, default=2, metavar="N", help="levels to draw (default 2)")
    refine.add_arguments(actions.add_parser("refine", help="learn how to file from tasks that memory fails"))


def run(args: argparse.Namespace) -> int | None:
    """Run the action that was named."""
    actions = {"build": _build, "check": _check, "tree": _tree, "refine": refine.run}
    return actions[args.action](args)


def _build(args: argparse.Namespace) -> int | None:
    from horma_rl.memory.build import build_all, check_notes, shard

    check_notes(args.notes)
    managed = args.notes == "llm"
    if managed != (args.llm is not None):
        raise UserError("--manager llm and --llm CONFIG go together: the config names the model that writes the notes")
    if args.workers < 1:
        raise UserError("--workers must be at least 1")
    begin = time.monotonic()
    conversations = shard(_only(_conversations(args.source, args.set, args.split), args.only), args.shard)
    with _progress(conversations) as advance:
        if managed:
            return _build_managed(args, conversations, advance, begin)
        sizes = {conversation.name: len(conversation.turn_ids()) for conversation in conversations}
        reports = build_all(
            conversations, args.out, args.notes, lambda report: advance(report.name, sizes[report.name])
        )
    for report in reports:
        for warning in report.warnings:
            print(f"{report.name}: {warning}", file=sys.stderr)
    print(json.dumps(_summary(args, reports, time.monotonic() - begin)))
    return None


@contextlib.contextmanager
def _progress(conversations: Sequence[Conversation]) -> Iterator[Callable[[str, int], None]]:
    """A bar on a terminal; what it gives is called with a conversation's name and how many more turns are done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("turns"))
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("building", total=sum(len(conversation.turn_ids()) for conversation in conversations))
        yield lambda name, turns: bar.update(task, advance=turns, description=name)


def _build_managed(
    args: argparse.Namespace,
    conversations: Sequence[Conversation],
    advance: Callable[[str, int], None],
    begin: float,
) -> int | None:
    """Build with a language model. Exit code 75 when the budget is spent, 1 when the model cannot be asked: the same
    command goes on from there."""
    import asyncio

    from horma_rl.config import load_config
    from horma_rl.llm.client import Llm
    from horma_rl.llm.config import LlmConfig
    from horma_rl.llm.types import LlmError
    from horma_rl.memory.manager.config import ManagerConfig
    from horma_rl.memory.manager.manager import Writer
    from horma_rl.memory.manager.run import ManagedBuild, build_managed
    from horma_rl.memory.skills.library import load_library
    from horma_rl.memory.skills.render import render_skills

    llm_config = load_config(args.llm, [], LlmConfig)
    config = load_config(args.manager_config, [], ManagerConfig) if args.manager_config else ManagerConfig()
    skills = render_skills(load_library(args.skills), config.skills_tokens).text if args.skills else ""

    async def build() -> tuple[ManagedBuild, dict[str, Any]]:
        async with Llm(llm_config) as llm:
            writer = Writer(llm, llm_config.model, config, skills)
            built = await build_managed(conversations, args.out, writer, args.workers, advance)
            return built, llm.ledger.as_json()["total"]

    try:
        built, spent = asyncio.run(build())
    except LlmError as error:
        print(f"horma-rl: {error}; what was filed is on disk, and the same command goes on from there", file=sys.stderr)
        return 1
    if built.stopped:
        print(f"stopped: {built.stopped}; the same command goes on from here", file=sys.stderr)
    summary = _summary(args, built.reports, time.monotonic() - begin) | built.tally.as_json()
    tokens = {"prompt": spent["prompt_tokens"], "completion": spent["completion_tokens"], "lost": spent["lost_tokens"]}
    summary |= {
        "requests": spent["requests"],
        "requests_cached": spent["cached"],
        "tokens": tokens,
        "cost": round(spent["cost"], 6),
        "complete": built.stopped is None,
    }
    print(json.dumps(summary))
    return 75 if built.stopped else None


def _summary(args: argparse.Namespace, reports: Sequence[BuildReport], seconds: float) -> dict[str, Any]:
    """`turns` and `notes` count what the workspaces hold now, `archived`, `written` and `removed` what this run did."""
    counts = ("turns", "archived", "notes", "written", "removed", "bytes")
    return {
        "out": str(args.out),
        "source": args.source,
        "notes_kind": args.notes,
        "workspaces": len(reports),
        **{name: sum(getattr(report, name) for report in reports) for name in counts},
        "warnings": sum(len(report.warnings) for report in reports),
        "wall_s": round(seconds, 3),
    }


def _conversations(source: str, settings: Sequence[str], split: str) -> list[Conversation]:
    """The conversations of a benchmark (those that the split's tasks ask about), or of a file."""
    from horma_rl.benchmarks.registry import BENCHMARKS, load_benchmark
    from horma_rl.benchmarks.storage import load_conversations
    from horma_rl.benchmarks.types import check_split

    check_split(split)
    if source in BENCHMARKS:
        benchmark = load_benchmark(source, **_options(settings))
        return (
            list(benchmark.conversations)
            if split == "all"
            else benchmark.conversations_of(benchmark.tasks(cast("Split", split)))
        )
    if not Path(source).is_file():
        raise UserError(
            f"'{source}' is neither a benchmark ({', '.join(BENCHMARKS)}) nor a file{nearest(source, BENCHMARKS)}; "
            "`horma-rl data generate` writes a conversations.jsonl"
        )
    if settings or split != "all":
        raise UserError(f"{source} is a file: it takes neither --split nor --set")
    return load_conversations(Path(source))


def _options(settings: Sequence[str]) -> dict[str, Any]:
    """`key=value` pairs; values are YAML."""
    options: dict[str, Any] = {}
    for pair in settings:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise UserError(f"'{pair}' is not of the form key=value")
        try:
            options[key] = yaml.safe_load(text)
        except yaml.YAMLError:
            raise UserError(f"'{pair}': the value is not YAML") from None
    return options


def _only(conversations: list[Conversation], names: str) -> list[Conversation]:
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = [conversation.name for conversation in conversations]
    for name in wanted:
        if name not in known:
            raise UserError(
                f"--only: no conversation '{name}'{nearest(name, known)}: there are {', '.join(known[:20])}"
            )
    return [conversation for conversation in conversations if not wanted or conversation.name in wanted]


def _check(args: argparse.Namespace) -> int:
    folders = _workspaces(args.dir)
    problems = 0
    for folder in folders:
        for problem in _problems(folder):
            print(f"{folder}: {problem}")
            problems += 1
    print(json.dumps({"workspaces": len(folders), "problems": problems}))
    return 1 if problems else 0


def _problems(folder: Path) -> list[str]:
    """What the validator finds, and a manifest that is missing or does not match: a build that was cut short."""
    from horma_rl.memory import read_manifest
    from memory_shell.workspace import Workspace, WorkspaceError

    try:
        workspace = Workspace.load(folder)
    except WorkspaceError as error:
        return [str(error)]
    found = workspace.problems()
    try:
        manifest = read_manifest(folder)
    except UserError as error:
        return [*found, str(error)]
    if manifest.get("turns") != len(workspace.turns):
        found.append(f"horma.json counts {manifest.get('turns')} turns, raw_logs/ holds {len(workspace.turns)}")
    return found


def _workspaces(folder: Path) -> list[Path]:
    from memory_shell.cache import is_workspace, workspace_names

    if is_workspace(folder):
        return [folder]
    names = workspace_names(folder)
    if not names:
        raise UserError(f"{folder} is no workspace and holds none; `horma-rl memory build` makes them")
    return [folder / name for name in names]


def _tree(args: argparse.Namespace) -> None:
    from rich.console import Console
    from rich.tree import Tree

    if not args.dir.is_dir():
        raise UserError(f"{args.dir} is not a folder")
    if args.depth < 1:
        raise UserError("--depth must be at least 1")
    tree = Tree(_label(args.dir, str(args.dir)))
    _grow(tree, args.dir, args.depth)
    Console().print(tree)


def _grow(tree: Tree, folder: Path, depth: int) -> None:
    """Add what is in `folder`, folders first; links are shown and not followed."""
    children = sorted(folder.iterdir(), key=lambda child: (not _is_folder(child), child.name))
    for child in children:
        branch = tree.add(_label(child, child.name))
        if _is_folder(child) and depth > 1:
            _grow(branch, child, depth - 1)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _label(path: Path, name: str) -> Text:
    """A name as it can be shown safely, with the number of entries or the size behind it."""
    from rich.text import Text

    shown = "".join(char if char.isprintable() else "\ufffd" for char in name)
    if path.is_symlink():
        return Text.assemble(shown, (" (link)", "dim"))
    if path.is_dir():
        return Text.assemble((f"{shown}/", "bold"), (f" {sum(1 for _ in path.iterdir()):,}", "dim"))
    return Text.assemble(shown, (f" {path.lstat().st_size:,} B", "dim"))
