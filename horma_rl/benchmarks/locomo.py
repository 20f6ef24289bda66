"""LoCoMo (Maharana et al., 2024): the released file `locomo10.json`, read whole, with every irregularity counted.

Categories follow `task_eval/evaluation.py` of the release: 1 multi-hop, 2 temporal, 3 open-domain, 4 single-hop,
5 adversarial. The split is HORMA's: first seven conversations in file order train, the rest evaluate, categories
2, 4 and 5 (1,089 and 519 questions).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from horma_rl.benchmarks.evidence import CLEAN_ID, Repair, repair_ids
from horma_rl.benchmarks.types import Conversation, Observation, RawTurn, Session, Split, check_split
from horma_rl.errors import UserError, nearest
from memory_shell.types import Task

CATEGORIES: Mapping[int, str] = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
PAPER_CATEGORIES: tuple[str, ...] = ("temporal", "single-hop", "adversarial")
TRAIN_CONVERSATIONS = 7
DATE_FORMAT = "%I:%M %p on %d %B, %Y"
LICENCE = "CC BY-NC 4.0 (non-commercial)"

T = TypeVar("T")

_SESSION_KEY = re.compile(r"session_(\d+)")
_DATE_KEY = re.compile(r"session_(\d+)_date_time")
_OBSERVATION_KEY = re.compile(r"session_(\d+)_observation")


@dataclass(frozen=True, slots=True)
class Question:
    """One row of `qa`: the task, and what had to be mended to make it."""

    task: Task
    category: int
    labels: tuple[str, ...]
    repair: Repair
    integer_answer: bool
    has_answer: bool
    has_adversarial_answer: bool


@dataclass(frozen=True, slots=True)
class Locomo:
    """The whole file. `dates_without_session` counts date keys that no session goes with, by conversation;
    `observation_repairs` are the labels of annotated facts that were not one turn id as they stood."""

    path: Path
    conversations: tuple[Conversation, ...]
    questions: tuple[Question, ...]
    dates_without_session: Mapping[str, int]
    observation_repairs: tuple[tuple[str, tuple[str, ...]], ...]

    def tasks(self, split: Split = "all", categories: Sequence[str] | None = PAPER_CATEGORIES) -> list[Task]:
        """Tasks in file order. `categories` are names of CATEGORIES; None means all five.

        Raises UserError for an unknown split or category.
        """
        check_split(split)
        wanted = _check_categories(categories)
        training = {conversation.name for conversation in self.conversations[:TRAIN_CONVERSATIONS]}
        return [
            question.task
            for question in self.questions
            if question.task.category in wanted
            and (split == "all" or (question.task.workspace in training) == (split == "train"))
        ]


def _check_categories(categories: Sequence[str] | None) -> set[str]:
    known = set(CATEGORIES.values())
    if categories is None:
        return known
    if isinstance(categories, str):
        raise UserError(f"LoCoMo categories must be a list of names, not the text '{categories}'")
    for name in categories:
        if name not in known:
            raise UserError(
                f"unknown LoCoMo category '{name}'{nearest(str(name), known)}: use {', '.join(CATEGORIES.values())}"
            )
    return set(categories)


def load_locomo(path: Path) -> Locomo:
    """Read `path`. Raises UserError, which says where, when it is not LoCoMo as released."""
    rows = _read_json(path)
    if not isinstance(rows, list) or not rows:
        raise UserError(f"{path}: expected a list of conversations, found {_kind(rows)}; is this locomo10.json?")
    conversations: list[Conversation] = []
    questions: list[Question] = []
    unmatched: dict[str, int] = {}
    repairs: list[tuple[str, tuple[str, ...]]] = []
    for number, row in enumerate(rows):
        at = f"{path}: conversation {number}"
        name = _get(row, "sample_id", str, at)
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
            raise UserError(f"{at}: sample_id {name!r} cannot be a folder name")
        if name in unmatched:
            raise UserError(f"{at}: a second conversation named '{name}'")
        at = f"{at} ({name})"
        conversation, unmatched[name], mended = _conversation(row, name, at)
        conversations.append(conversation)
        repairs.extend(mended)
        known = frozenset(conversation.turn_ids())
        for index, qa in enumerate(_get(row, "qa", list, at)):
            questions.append(_question(qa, f"{name}/qa-{index}", name, known, f"{at}, qa[{index}]"))
    return Locomo(path, tuple(conversations), tuple(questions), unmatched, tuple(repairs))


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; `horma-rl data fetch locomo` gets it") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text (byte {error.start}); is this locomo10.json?") from None
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path}: not JSON (line {error.lineno}, column {error.colno}: {error.msg}); "
            "fetch it again with `horma-rl data fetch locomo`"
        ) from None
    except RecursionError:
        raise UserError(f"{path}: JSON nested too deeply; is this locomo10.json?") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


def _kind(value: object) -> str:
    return "an empty list" if value == [] else type(value).__name__


def _get(row: Any, key: str, kind: type[T], at: str) -> T:
    """`row[key]`, which must be there and of `kind`."""
    if not isinstance(row, dict):
        raise UserError(f"{at}: expected an object, found {_kind(row)}")
    if key not in row:
        raise UserError(f"{at}: '{key}' is missing")
    value = row[key]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise UserError(f"{at}: '{key}' must be {kind.__name__}, found {_kind(value)}")
    return value


def _optional(row: Mapping[str, Any], key: str, at: str) -> str | None:
    """A text that may be missing or empty."""
    return _get(row, key, str, at).strip() or None if row.get(key) is not None else None


def _conversation(
    row: dict[str, Any], name: str, at: str
) -> tuple[Conversation, int, list[tuple[str, tuple[str, ...]]]]:
    """One conversation, its date keys without a session, and the annotated labels that had to be mended."""
    talk = _get(row, "conversation", dict, at)
    speakers = (_get(talk, "speaker_a", str, at), _get(talk, "speaker_b", str, at))
    numbers = _numbers(talk, _SESSION_KEY)
    if not numbers:
        raise UserError(f"{at}: no 'session_<n>' in 'conversation'")
    sessions = tuple(_session(talk, number, speakers, f"{at}, session_{number}") for number in numbers)
    ids = [turn.id for session in sessions for turn in session.turns]
    if len(set(ids)) < len(ids):
        twice = next(turn for place, turn in enumerate(ids) if turn in ids[:place])
        raise UserError(f"{at}: two turns have the dia_id '{twice}'")
    observations, mended = _observations(row.get("observation", {}), frozenset(ids), f"{at}, observation")
    dates = set(_numbers(talk, _DATE_KEY))
    return Conversation(name, speakers, sessions, tuple(observations)), len(dates - set(numbers)), mended


def _numbers(row: Mapping[str, Any], key: re.Pattern[str]) -> list[int]:
    return sorted(int(match[1]) for match in map(key.fullmatch, row) if match)


def _session(talk: dict[str, Any], number: int, speakers: Sequence[str], at: str) -> Session:
    written = _get(talk, f"session_{number}_date_time", str, at)
    try:
        time = datetime.strptime(written, DATE_FORMAT)
    except ValueError:
        raise UserError(f"{at}: date {written!r} is not like '1:56 pm on 8 May, 2023'") from None
    rows = _get(talk, f"session_{number}", list, at)
    return Session(number, time, tuple(_turn(turn, speakers, f"{at}[{place}]") for place, turn in enumerate(rows)))


def _turn(row: Any, speakers: Sequence[str], at: str) -> RawTurn:
    turn_id = _get(row, "dia_id", str, at)
    if not CLEAN_ID.fullmatch(turn_id):
        raise UserError(f"{at}: dia_id {turn_id!r} is not like 'D3:12'")
    speaker = _get(row, "speaker", str, at)
    if speaker not in speakers:
        raise UserError(f"{at}: speaker {speaker!r} is neither of {', '.join(speakers)}")
    urls = _get(row, "img_url", list, at) if "img_url" in row else []
    return RawTurn(
        id=turn_id,
        speaker=speaker,
        text=_get(row, "text", str, at).strip(),
        caption=_optional(row, "blip_caption", at),
        image_url=str(urls[0]) if urls else None,
        image_query=_optional(row, "query", at),
    )


def _observations(
    rows: Any, known: frozenset[str], at: str
) -> tuple[list[Observation], list[tuple[str, tuple[str, ...]]]]:
    """Annotated facts; a fact's sources are one id, several in one text, or a list of ids."""
    if not isinstance(rows, dict):
        raise UserError(f"{at}: expected an object, found {_kind(rows)}")
    found: list[Observation] = []
    mended: list[tuple[str, tuple[str, ...]]] = []
    for number in _numbers(rows, _OBSERVATION_KEY):
        by_speaker = _get(rows, f"session_{number}_observation", dict, at)
        for speaker in by_speaker:
            for place, fact in enumerate(_get(by_speaker, speaker, list, f"{at}, session {number}")):
                here = f"{at}, session {number}, {speaker}[{place}]"
                if not isinstance(fact, list) or len(fact) != 2 or not isinstance(fact[0], str):
                    raise UserError(f"{here}: expected [text, dia_id]")
                repair = repair_ids(_labels(fact[1], here), known)
                mended.extend(repair.repaired)
                found.append(Observation(number, speaker, fact[0].strip(), repair.ids))
    return found, mended


def _labels(value: Any, at: str) -> list[str]:
    labels = [value] if isinstance(value, str) else value
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise UserError(f"{at}: evidence must be a list of texts like 'D3:12'")
    return labels


def _question(row: Any, task_id: str, workspace: str, known: frozenset[str], at: str) -> Question:
    category = _get(row, "category", int, at)
    if category not in CATEGORIES:
        raise UserError(f"{at}: category {category} is not 1 to 5")
    labels = _labels(_get(row, "evidence", list, at), at)
    answer = row.get("answer")
    if answer is None and category != 5:
        raise UserError(f"{at}: 'answer' is missing")
    trap = row.get("adversarial_answer")
    repair = repair_ids(labels, known)
    task = Task(
        id=task_id,
        question=_get(row, "question", str, at).strip(),
        evidence=repair.ids,
        workspace=workspace,
        answer=None if answer is None else str(answer),
        category=CATEGORIES[category],
        meta={} if trap is None else {"adversarial_answer": str(trap)},
    )
    return Question(
        task, category, tuple(labels), repair, isinstance(answer, int), answer is not None, trap is not None
    )
