"""`horma-rl retrieve --model DIR --memory WORKSPACE "question"`: what an exported model selects for a question."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from horma_rl.errors import UserError
from horma_rl.quiet import quieten_deepspeed
from memory_shell.text import neutralise

if TYPE_CHECKING:
    from horma_rl.retrieval.manifest import Manifest
    from horma_rl.serving.retrieve import Answer
    from memory_shell.workspace import Workspace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the memory, the question, and how to show the answer."""
    parser.add_argument("question", help="the question; `-` reads one a line from standard input")
    parser.add_argument("--model", type=Path, required=True, metavar="DIR", help="a folder that `horma-rl export` made")
    parser.add_argument("--memory", type=Path, required=True, metavar="WORKSPACE", help="a workspace folder")
    parser.add_argument("--asked-at", metavar="DATE", help="when the question is asked (2024-05-31), for `last week`")
    parser.add_argument("--trace", action="store_true", help="show the commands and what they printed")
    parser.add_argument("--json", action="store_true", help="print one JSON object a question")
    parser.add_argument("--server", metavar="URL", help="let `vllm serve DIR` decode, as in http://127.0.0.1:8000")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or a torch device name")


def run(args: argparse.Namespace) -> int:
    """Answer. The answers go to standard output, notes to standard error."""
    from horma_rl.serving.retrieve import QuestionError, Retriever, check_date, open_memory, read_model

    _quieten()
    check_date(args.asked_at)
    manifest = read_model(args.model)
    workspace = open_memory(args.memory, manifest)
    if args.question != "-" and not args.question.strip():
        raise UserError("the question is empty")
    _tell_other_notes(workspace, manifest)
    server = {"backend": "server", "server": args.server} if args.server is not None else {}
    retriever = Retriever.load(args.model, args.device, **server)
    failed = False
    for question in _questions(args.question):
        try:
            answer = retriever.ask(workspace, question, args.asked_at)
        except (RuntimeError, QuestionError) as error:
            if args.question != "-" and isinstance(error, QuestionError):
                raise
            print(f"horma-rl: {question[:200]}: {error}", file=sys.stderr)
            failed = True
            continue
        if args.json:
            print(json.dumps(answer.as_json(args.trace), ensure_ascii=False), flush=True)
        else:
            print("\n".join(_lines(answer, args.trace)), flush=True)
    return int(failed)


def _tell_other_notes(workspace: Workspace, manifest: Manifest) -> None:
    from horma_rl.memory.build import read_manifest

    notes = read_manifest(workspace.root).get("notes")
    if notes != manifest.memory.notes:
        print(f"note: {workspace.name} has {notes} notes, the model knows {manifest.memory.notes}", file=sys.stderr)


def _questions(given: str) -> Iterator[str]:
    if given != "-":
        yield given
        return
    for line in sys.stdin.buffer:
        if text := line.decode("utf-8", "replace").strip():
            yield text


def _lines(answer: Answer, trace: bool) -> Iterator[str]:
    """The answer as people read it. Text of the memory cannot move the cursor or colour the terminal."""
    if trace:
        yield from _trace(answer)
    yield f"{len(answer.turns)} {'turn' if len(answer.turns) == 1 else 'turns'} selected: {answer.question}"
    for turn in answer.turns:
        caption = f" (shares {turn.caption})" if turn.caption else ""
        said = neutralise(" ".join(f"{turn.speaker}: {turn.text}{caption}".split()))
        yield f"  [{turn.id}] {turn.time or 'undated'} {said}"
    if not answer.stopped:
        yield f"  (cut off: {answer.trajectory.stop.value})"
    yield f"  looked at {len(answer.looked_at)} of {len(answer.looked_at) + len(answer.left)} files{_left(answer)}"


def _left(answer: Answer) -> str:
    """The folders of which nothing was looked at."""
    seen = {path.partition("/")[0] for path in answer.looked_at}
    folders = dict.fromkeys(path.partition("/")[0] for path in answer.left if "/" in path)
    never = [f"{folder}/" for folder in folders if folder not in seen]
    return f"; nothing in {', '.join(never)}" if never else ""


def _trace(answer: Answer) -> Iterator[str]:
    yield answer.trajectory.first_observation
    for turn in answer.trajectory.turns:
        for call in turn.calls:
            yield "> " + neutralise(call.get("error") or f"{call['name']} {call['args']}".strip())
        yield turn.observation


def _quieten() -> None:
    """Keep notes that libraries write for their callers off the terminal."""
    import os

    quieten_deepspeed()
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
