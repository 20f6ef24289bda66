"""`horma-rl view tree`: draw the state tree of an agent's episode."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from horma_rl.aside import aside
from horma_rl.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One action: `tree`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    tree = actions.add_parser("tree", help="draw the two layers of a state tree, abandoned branches included")
    tree.add_argument("path", type=Path, metavar="PATH", help="an episode's folder, a tree.jsonl, or a run's folder")
    tree.add_argument("--html", type=Path, metavar="FILE", help="write a page instead, with the whole texts")
    tree.add_argument("--width", type=int, metavar="N", help="columns (default: the terminal's)")


def run(args: argparse.Namespace) -> None:
    """Draw the tree, or list the trees below the folder when there are several."""
    from horma_rl.agent.draw import NARROWEST, draw_page, draw_text, one_line
    from horma_rl.agent.events import replay

    if args.width is not None and args.width < NARROWEST:
        raise UserError(f"--width is at least {NARROWEST}")
    logs = _logs(args.path)
    if len(logs) > 1:
        _list(args, logs)
        return
    if args.html is not None:
        _check_page(args.html, logs[0])
    tree = replay(logs[0])
    if args.html is None:
        print(draw_text(tree, args.width or shutil.get_terminal_size().columns), end="")
        return
    _write(args.html, draw_page(tree, f"State tree of {logs[0].resolve().parent.name}"))
    print(f"wrote {one_line(str(args.html))}")


def _logs(path: Path) -> list[Path]:
    from horma_rl.agent.events import TREE_FILE

    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UserError(f"{path}: there is no such file or folder")
    if (path / TREE_FILE).is_file():
        return [path / TREE_FILE]
    found = sorted(log for log in path.rglob(TREE_FILE) if log.is_file())
    if not found:
        raise UserError(f"{path}: no {TREE_FILE} there or below; agents with Mage's memory write one for each episode")
    return found


def _list(args: argparse.Namespace, logs: list[Path]) -> None:
    from horma_rl.agent.draw import one_line

    if args.html is not None:
        raise UserError(f"{args.path} holds {len(logs):,} trees, and a page shows one: name its folder")
    folders = "".join(f"  {one_line(str(log.parent))}\n" for log in logs)
    print(f"{len(logs):,} trees; `horma-rl view tree FOLDER` draws one:\n{folders}", end="")


def _check_page(page: Path, log: Path) -> None:
    from horma_rl.agent.events import TREE_FILE

    if page.is_dir():
        raise UserError(f"--html {page} is a folder; name a file in it")
    if page.exists() and not page.is_file():
        raise UserError(f"--html {page} is a device or a pipe, which the page would replace; name a file")
    if page.name == TREE_FILE or (page.exists() and page.samefile(log)):
        raise UserError(f"--html {page} is the place of a tree's log, which the page would replace; name another file")


def _write(path: Path, text: str) -> None:
    """The whole file or none."""
    with aside(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", errors="replace")
