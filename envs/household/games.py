"""Game files: where a split's games lie below `$ALFWORLD_DATA`, and what is read of one."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

SPLITS = ("valid_seen", "valid_unseen", "train", "valid_train")
FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        "pick_and_place_simple": "Pick & Place",
        "look_at_obj_in_light": "Examine in Light",
        "pick_clean_then_place_in_recep": "Clean & Place",
        "pick_heat_then_place_in_recep": "Heat & Place",
        "pick_cool_then_place_in_recep": "Cool & Place",
        "pick_two_obj_and_place": "Pick Two & Place",
    }
)
"""The six task families: the first part of a game's folder name, and the name in the ALFWorld paper's tables
(arXiv:2010.03768)."""

GAME_FILE = "game.tw-pddl"
LARGEST = 5_000_000
"""Bytes of the largest game file that is read; the released ones have 0.05 to 0.15 million."""
_TASK = re.compile(r'"Your task is to: ([^"\\\n]{1,300})"')


@dataclass(frozen=True, slots=True)
class GameFile:
    """What is read of a game file. The file's own domain and grammar are not: see docs/household.md."""

    problem: str
    """The scene and the goal, in PDDL."""
    task: str
    """The task in words, as the game says it after `Your task is to: `."""
    walkthrough: tuple[str, ...]
    """Commands that win, in the file's own grammar; empty if the file has none."""
    solvable: bool


def data_folder(folder: str | Path | None) -> Path:
    """The folder of the games: `folder`, or `$ALFWORLD_DATA`. Raises ValueError if there is none."""
    chosen = folder or os.environ.get("ALFWORLD_DATA")
    if not chosen:
        raise ValueError("where are ALFWorld's games? Set ALFWORLD_DATA, or give the folder (see docs/household.md)")
    path = Path(chosen).expanduser()
    if not path.is_dir():
        raise ValueError(f"no folder {path} with ALFWorld's games: set ALFWORLD_DATA, or give the folder")
    return path


def split_files(root: Path, split: str) -> list[Path]:
    """The game files of a split, sorted by path: `ROOT/json_*/SPLIT/TASK/TRIAL/game.tw-pddl`, or without `json_*`.

    Leaves out what ALFWorld itself leaves out (movable receptacles, sliced objects) and unknown families. Raises
    ValueError, with what there is, for a split that is not there or empty.
    """
    if split not in SPLITS:
        raise ValueError(f"no split {split!r}: there are {', '.join(SPLITS)}")
    folders = [folder for folder in (root / split, *sorted(root.glob(f"json_*/{split}"))) if folder.is_dir()]
    if not folders:
        present = [name for name in SPLITS if (root / name).is_dir() or any(root.glob(f"json_*/{name}"))]
        raise ValueError(f"no split {split} below {root}: it has {', '.join(present) or 'none of the splits'}")
    files = sorted(_games(folders[0]))
    if not files:
        raise ValueError(f"no {GAME_FILE} in {folders[0]}: one is expected in each TASK/TRIAL folder")
    return files


def family(path: Path) -> str:
    """The family's name in its folder: what stands before the first `-`."""
    return path.parent.parent.name.partition("-")[0]


def read_game(path: Path) -> GameFile:
    """Read a game file of either grammar. Raises ValueError, with the path, for what is none."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
        if len(raw) > LARGEST:
            raise ValueError(f"it has more than {LARGEST:,} bytes")
        return _game(json.loads(raw))
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ValueError(f"{path} is no ALFWorld game: {reason or type(error).__name__}") from None


def _games(folder: Path) -> Iterator[Path]:
    for path in folder.glob(f"*/*/{GAME_FILE}"):
        task = path.parent.parent.name
        if family(path) in FAMILIES and "movable" not in task and "Sliced" not in task:
            yield path


def _game(data: Any) -> GameFile:
    if not isinstance(data, dict):
        raise ValueError("it holds no JSON object")
    problem, grammar = data.get("pddl_problem"), data.get("grammar")
    if not isinstance(problem, str) or not isinstance(grammar, str):
        raise ValueError("its pddl_problem or its grammar is missing")
    task = _TASK.search(grammar)
    if task is None:
        raise ValueError("its grammar does not say `Your task is to: ...`")
    walkthrough = data.get("walkthrough") or []
    if not (isinstance(walkthrough, list) and all(isinstance(command, str) for command in walkthrough)):
        raise ValueError("its walkthrough is no list of commands")
    return GameFile(problem, task[1].strip(), tuple(walkthrough), data.get("solvable") is True)
