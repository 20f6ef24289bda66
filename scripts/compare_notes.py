"""One table over notes of three kinds: the same conversations, questions and retrievers, other writers.

    python scripts/compare_notes.py OUT [--llm DIR --llm-log FILE ...] [--retrievers NAME ...] [--split eval]

Builds LoCoMo's workspaces with `outline` and `observations` notes below OUT, takes those with `llm` notes from DIR,
where `horma-rl memory build locomo --manager llm` has finished them, and runs every retriever on every task of the
conversations that all kinds have. FILE is what that build printed: its last line tells seconds and tokens; with several
runs, name the output of each. The last line on standard output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from horma_rl.baselines.registry import make_retrievers
from horma_rl.benchmarks.registry import load_benchmark
from horma_rl.benchmarks.types import Conversation, Split, check_split
from horma_rl.errors import UserError
from horma_rl.evaluation.bootstrap import bootstrap_mean
from horma_rl.evaluation.runner import load_workspaces
from horma_rl.evaluation.systems import plan, run_baseline
from horma_rl.memory import read_manifest
from horma_rl.memory.build import NotesKind, build_all
from memory_shell.cache import WorkspaceCache
from memory_shell.types import Task

RETRIEVERS = ("notes-bm25-1", "notes-bm25-3", "notes-bm25-8", "script-narrow", "script-reply")
BUILT: tuple[NotesKind, ...] = ("outline", "observations")


def built(conversations: Sequence[Conversation], out: Path, kind: NotesKind) -> float:
    """Seconds that building these workspaces took; those that are there take almost none."""
    begin = time.monotonic()
    build_all(conversations, out, kind)
    return round(time.monotonic() - begin, 2)


def told(logs: Sequence[Path]) -> dict[str, Any]:
    """Seconds, tokens and operations of the runs whose output these files hold; None where a number is not known.

    Raises UserError when a file does not end in the JSON line of a build.
    """
    runs = [_last_line(log) for log in logs]
    if not runs:
        return {"build_s": None, "tokens": None, "accepted": None, "rejected": None}
    return {
        "build_s": round(sum(run["wall_s"] for run in runs), 1),
        "tokens": sum(run["tokens"]["prompt"] + run["tokens"]["completion"] for run in runs),
        "accepted": sum(run["operations_accepted"] for run in runs),
        "rejected": sum(run["operations_rejected"] for run in runs),
    }


def _last_line(log: Path) -> dict[str, Any]:
    try:
        line = log.read_text(encoding="utf-8").splitlines()[-1]
        run = json.loads(line)
        if run["tokens"]["prompt"] >= 0 and run["wall_s"] >= 0 and "operations_accepted" in run:
            return cast("dict[str, Any]", run)
    except (OSError, ValueError, IndexError, KeyError, TypeError):
        pass
    raise UserError(f"{log} does not end in the JSON line of `horma-rl memory build --manager llm`")


def finished(folder: Path, conversations: Sequence[Conversation]) -> list[Conversation]:
    """Those whose workspace in `folder` is whole and has `llm` notes."""
    kept = []
    for conversation in conversations:
        try:
            manifest = read_manifest(folder / conversation.name)
        except UserError:
            continue
        if manifest.get("notes") == "llm" and manifest.get("turns") == len(conversation.turn_ids()):
            kept.append(conversation)
    return kept


def measured(names: Sequence[str], tasks: Sequence[Task], workspaces: WorkspaceCache) -> dict[str, Any]:
    """Each retriever's mean Jaccard over the tasks, with its bootstrap interval."""
    scores = {}
    for retriever in make_retrievers(names):
        rewards = [trajectory.reward for trajectory in run_baseline(retriever, plan(tasks, 0), workspaces)]
        scores[retriever.name] = bootstrap_mean([one for one in rewards if one is not None]).as_json()
    return scores


def size(names: Sequence[str], workspaces: WorkspaceCache) -> dict[str, int]:
    """Turns, notes and bytes of notes of these workspaces."""
    found = [workspaces.get(name) for name in names]
    return {
        "turns": sum(len(one.turns) for one in found),
        "notes": sum(len(one.notes) for one in found),
        "bytes": sum(len(one.files[path].data) for one in found for path in one.notes),
    }


def show(rows: dict[str, dict[str, Any]], retrievers: Sequence[str]) -> None:
    """The table, in Markdown."""
    head = ["notes by", "notes", "bytes", "build s", "tokens", *retrievers]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for kind, row in rows.items():
        numbers = [f"{row['notes']:,}", f"{row['bytes']:,}"]
        numbers += ["?" if row[name] is None else f"{row[name]:,}" for name in ("build_s", "tokens")]
        scores = [row["jaccard"][name] for name in retrievers]
        told_scores = [f"{one['mean']:.3f} [{one['ci95'][0]:.3f}, {one['ci95'][1]:.3f}]" for one in scores]
        print(f"| {' | '.join([kind, *numbers, *told_scores])} |")


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT", help="outline and observations are built there")
    parser.add_argument("--llm", type=Path, metavar="DIR", help="finished workspaces with llm notes")
    parser.add_argument("--llm-log", type=Path, nargs="+", default=[], metavar="FILE", help="what their build printed")
    parser.add_argument("--retrievers", nargs="+", default=list(RETRIEVERS), metavar="NAME")
    parser.add_argument("--split", default="eval", help="eval (held out, default), train or all")
    args = parser.parse_args()
    check_split(args.split)
    benchmark = load_benchmark("locomo")
    tasks = benchmark.tasks(cast("Split", args.split))
    conversations = benchmark.conversations_of(tasks)
    wanted = len(conversations)
    if args.llm:
        conversations = finished(args.llm, conversations)
    names = [conversation.name for conversation in conversations]
    tasks = [task for task in tasks if task.workspace in names]
    if not tasks:
        raise UserError(f"{args.llm} has no finished workspace of split {args.split}")
    folders: dict[NotesKind, Path] = {kind: args.out / kind for kind in BUILT}
    rows: dict[str, dict[str, Any]] = {
        kind: {"build_s": built(conversations, folder, kind), "tokens": 0} for kind, folder in folders.items()
    }
    if args.llm:
        folders["llm"], rows["llm"] = args.llm, told(args.llm_log)
    for kind, folder in folders.items():
        workspaces = load_workspaces(folder, tasks)
        rows[kind] |= size(names, workspaces) | {"jaccard": measured(args.retrievers, tasks, workspaces)}
    show(rows, args.retrievers)
    print(json.dumps({"conversations": names, "of": wanted, "tasks": len(tasks), "split": args.split, "kinds": rows}))


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"compare_notes: {error}")
