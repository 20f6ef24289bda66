"""LongMemEval as conversations and tasks: one workspace a question. It is never trained on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from horma_rl.benchmarks.longmemeval.reader import load_items, load_sittings
from horma_rl.benchmarks.longmemeval.surrogate import TOKENS, make_pool, surrogate
from horma_rl.benchmarks.longmemeval.types import PAPER_TYPES, Item, Sitting
from horma_rl.benchmarks.sources import data_folders
from horma_rl.benchmarks.types import Benchmark, Conversation, RawTurn, Session
from horma_rl.errors import UserError
from horma_rl.tokens import TokenCounter, token_counter
from memory_shell.types import Task

FOLDER = "longmemeval"
OFFICIAL = ("longmemeval_s_cleaned.json", "longmemeval_s.json")
EVIDENCE = "longmemeval_evidence_500.jsonl"
HAYSTACKS = "longmemeval_s_*item*.json"
HOMEPAGE = "https://github.com/xiaowu0162/LongMemEval"
LICENCE = "MIT"

Haystack = Literal["surrogate", "file"]


class LongMemEvalOptions(BaseModel):
    """Options of "longmemeval"."""

    model_config = ConfigDict(extra="forbid")

    path: Path | None = Field(None, description="An official file, or the evidence file; found when not given.")
    haystack: Haystack = Field("surrogate", description="`file`: the sessions that the file holds, and no others.")
    distractors: Sequence[Path] | None = Field(None, description="Files with haystacks; null takes those beside path.")
    tokens: int = Field(TOKENS, ge=1, description="Tokens of a surrogate haystack.")
    tokenizer: Path | None = Field(None, description="A tokenizer.json to count with; null estimates.")
    seed: int = Field(0, description="Seed of the surrogate haystacks.")
    subset: Literal["paper", "all"] = Field("paper", description="`paper`: all types but multi-session, 367 questions.")
    only: Sequence[str] | None = Field(None, description="Ids of the questions to keep.")


def longmemeval(options: LongMemEvalOptions) -> Benchmark:
    """The benchmark that `options` ask for. Surrogates say that they are in the names of benchmark and workspaces.

    Raises:
        UserError: a file is missing or wrong, or an option does not go with it.
    """
    path = find_longmemeval(options.path)
    every = load_items(path)
    chosen = _chosen(every, options, path)
    if options.haystack == "file":
        if all(item.complete for item in chosen):
            return _benchmark("longmemeval", chosen, "", _about(path, ""), {"haystack": "file"})
        facts: dict[str, object] = {"haystack": "evidence"}
        return _benchmark("longmemeval-evidence", chosen, ".evidence", _about(path, "evidence"), facts)
    counter = token_counter(options.tokenizer)
    label = surrogate_label(options.tokens, options.seed)
    facts = {"haystack": "surrogate", "tokens": options.tokens, "seed": options.seed, "counted_by": counter.name}
    items = list(surrogates(every, chosen, options, path, counter))
    return _benchmark("longmemeval-surrogate", items, f".{label}", _about(path, "surrogate"), facts)


def surrogates(
    every: Sequence[Item], chosen: Sequence[Item], options: LongMemEvalOptions, path: Path, counter: TokenCounter
) -> Iterator[Item]:
    """The `chosen` questions of a file, each with its surrogate haystack; distractors come from `every` question.

    Raises:
        UserError: the file holds whole haystacks already, or the distractors do not suffice.
    """
    if any(item.complete for item in every):
        raise UserError(f"{path} holds whole haystacks: set haystack: file (surrogates are for files without)")
    files = options.distractors
    if files is None:
        files = sorted(path.parent.glob(HAYSTACKS))
    if not files:
        raise UserError(f"no haystacks beside {path}: name files with whole sessions as `distractors`")
    pool = make_pool(every, [found for file in files for found in load_sittings(file)], counter)
    for item in chosen:
        yield surrogate(item, pool, options.tokens, options.seed)


def surrogate_label(tokens: int, seed: int) -> str:
    """What the names of surrogate workspaces end in: `surrogate-115000-s0`."""
    return f"surrogate-{tokens}-s{seed}"


def find_longmemeval(path: Path | None = None) -> Path:
    """`path` when given; else the evidence file, or the official S file, in a data folder.

    Raises:
        UserError: there is none; the message says where the official files are.
    """
    if path is not None:
        if path.is_file():
            return path
        raise UserError(f"{path}: no such file")
    for folder in data_folders():
        for name in (EVIDENCE, *OFFICIAL):
            if (folder / FOLDER / name).is_file():
                return folder / FOLDER / name
    raise UserError(
        "LongMemEval is not on this machine: download longmemeval_s_cleaned.json as "
        f"{HOMEPAGE} says, and give it as option `path`, or put it into {FOLDER}/ of the folder that HORMA_DATA names"
    )


def conversation(item: Item, suffix: str = "") -> Conversation:
    """The haystack as a conversation: sessions numbered by date from 1, turns `D<session>:<turn>`."""
    sessions = tuple(_session(number, sitting) for number, sitting in enumerate(item.sittings, 1))
    speakers = tuple(dict.fromkeys(turn.role for sitting in item.sittings for turn in sitting.turns))
    return Conversation(f"{item.id}{suffix}", speakers, sessions)


def task(item: Item, suffix: str = "", meta: dict[str, object] | None = None) -> Task:
    """The question as a task. Evidence is what the file annotates: nothing for many unanswerable questions."""
    evidence = tuple(
        _turn_id(number, place)
        for number, sitting in enumerate(item.sittings, 1)
        for place, turn in enumerate(sitting.turns, 1)
        if turn.has_answer
    )
    return Task(
        id=item.id,
        question=item.question,
        evidence=evidence,
        workspace=f"{item.id}{suffix}",
        answer=item.answer,
        category=item.type,
        asked_at=item.asked_at.isoformat(timespec="minutes"),
        meta={"abstention": item.abstention, **(meta or {})},
    )


def _session(number: int, sitting: Sitting) -> Session:
    turns = (RawTurn(_turn_id(number, place), turn.role, turn.text) for place, turn in enumerate(sitting.turns, 1))
    return Session(number, sitting.time, tuple(turns))


def _turn_id(session: int, turn: int) -> str:
    return f"D{session}:{turn}"


def _chosen(every: Sequence[Item], options: LongMemEvalOptions, path: Path) -> list[Item]:
    kept = [item for item in every if options.subset == "all" or item.type in PAPER_TYPES]
    if options.only is None:
        return kept
    known = {item.id for item in kept}
    for name in options.only:
        if name not in known:
            raise UserError(f"{path}: no question '{name}' in subset '{options.subset}'")
    return [item for item in kept if item.id in set(options.only)]


def _about(path: Path, label: str) -> str:
    kinds = {
        "": "haystacks as the file has them",
        "evidence": "EVIDENCE ONLY: annotated turns or sessions, without a haystack",
        "surrogate": "SURROGATE haystacks (evidence among distractor sessions), not the official ones",
    }
    return f"LongMemEval ({HOMEPAGE}), {path.name}; {kinds[label]}; zero-shot, nothing of it is trained on"


def _benchmark(name: str, items: Sequence[Item], suffix: str, provenance: str, facts: dict[str, object]) -> Benchmark:
    return Benchmark(
        name=name,
        conversations=tuple(conversation(item, suffix) for item in items),
        train=(),
        eval=tuple(task(item, suffix, {"haystack": facts["haystack"]}) for item in items),
        provenance=provenance,
        licence=LICENCE,
        details=facts,
    )
