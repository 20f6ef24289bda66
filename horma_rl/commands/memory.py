"""`horma-rl memory`: build, check and draw memory workspaces."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import yaml

from horma_rl.errors import UserError, nearest

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

    from horma_rl.benchmarks.types import Conversation, Split
    from horma_rl.memory import BuildReport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Three actions: `build`, `check`, `tree`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    build = actions.add_parser("build", help="write workspaces from conversations, one folder each; safe to run again")
    build.add_argument("source", help="locomo, generated, or a file of conversations (FILE.jsonl)")
    build.add_argument("--out", type=Path, required=True, metavar="DIR", help="the memory dir: DIR/<conversation>/")
    build.add_argument("--notes", default="outline", metavar="KIND", help="outline (default) or observations")
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


def run(args: argparse.Namespace) -> int | None:
    """Run the action that was named."""
    actions = {"build": _build, "check": _check, "tree": _tree}
    return actions[args.action](args)


def _build(args: argparse.Namespace) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from horma_rl.memory.build import build_all, check_notes

    check_notes(args.notes)
    begin = time.monotonic()
    conversations = _only(_conversations(args.source, args.set, args.split), args.only)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("turns"))
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as bar:
        sizes = {conversation.name: len(conversation.turn_ids()) for conversation in conversations}
        task = bar.add_task("building", total=sum(sizes.values()))

        def advance(report: BuildReport) -> None:
            bar.update(task, advance=sizes[report.name], description=report.name)

        reports = build_all(conversations, args.out, args.notes, advance)
    for report in reports:
        for warning in report.warnings:
            print(f"{report.name}: {warning}", file=sys.stderr)
    print(json.dumps(_summary(args, reports, time.monotonic() - begin)))


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
