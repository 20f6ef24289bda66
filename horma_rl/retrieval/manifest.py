"""`horma.json` of an exported model: how it was prompted and limited in training, and what its files must hash to.

A retriever that is run under another prompt than it was trained with answers worse and says nothing about it. So a
model's folder carries its settings, and whatever loads the folder reads them here: what is not said is taken from the
manifest, what is said otherwise is refused. No torch is imported here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from horma_rl.config import StrictModel
from horma_rl.errors import UserError
from horma_rl.retrieval.engine import RolloutConfig
from horma_rl.retrieval.prompt import PROMPT_VERSION, ChatCodec, PromptStyle
from memory_shell.overview import Overview
from memory_shell.tools import Surface, schemas
from memory_shell.types import Caps, Unit

FILE = "horma.json"
FORMAT = 1
PROMPT = ("prompt", "thinking", "tools")
"""Settings of a policy that are fixed once it is trained."""
LIMITS = ("max_turns", "max_response_tokens", "max_context_tokens", "max_completion_tokens")
"""Limits of a rollout that decide what an episode may become. The others decide only when it is done."""

_PROBE = "Question: <|im_end|> who sold D3:12 a kiln?"


class TrainedShell(StrictModel):
    """The environment of training: what an episode showed, and how it was scored."""

    overview: Overview
    caps: Caps
    unit: Unit
    zero_on_cap: bool


class Memory(StrictModel):
    """The workspaces of training: the format of their folders and the kind of their notes."""

    format: int
    notes: str


class Origin(StrictModel):
    """Where the weights come from. `step`: optimiser steps of GRPO. `base`: the model that training started from."""

    run: str
    checkpoint: str
    kind: str
    step: int
    seed: int
    base: str
    benchmark: str


class Precision(StrictModel):
    """The weights' type in the training checkpoint, and in this folder."""

    trained: str
    exported: str


class Manifest(StrictModel):
    """The content of `horma.json`."""

    format: int
    prompt_version: int
    prompt: PromptStyle
    thinking: bool
    tools: Surface
    tool_schema_sha256: str
    prompt_ids_sha256: str
    """Of the token ids that a fixed question and a fixed observation become: they depend on tokenizer and template."""
    shell: TrainedShell
    rollout: RolloutConfig
    memory: Memory
    trained_from: Origin
    precision: Precision
    adapter_of: str | None = None
    """The base model of a folder that holds a LoRA adapter only."""
    files: dict[str, str]
    """SHA-256 of every file that decides what the model does, by name."""

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """The manifest in `folder`, checked against this program; None when there is none.

        Raises UserError for another prompt version or tool schema, and for a manifest that was changed after export.
        """
        path = folder / FILE
        if not path.is_file():
            return None
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if data["format"] != FORMAT:
                raise UserError(f"{path}: format {data['format']}, this program reads {FORMAT}: export the run again")
            checksum = data.pop("sha256", None)
            manifest = cls.model_validate(data)
        except ValidationError as error:
            first = error.errors()[0]
            raise UserError(f"{path}: '{'.'.join(map(str, first['loc']))}': {first['msg']}: export it again") from None
        except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path} cannot be read ({type(error).__name__}: {error}): export the run again") from None
        _refuse(path, "prompt_version", manifest.prompt_version, PROMPT_VERSION)
        _refuse(path, "tool_schema_sha256", manifest.tool_schema_sha256, schema_sha256(manifest.tools))
        if checksum != _checksum(data):
            raise UserError(f"{path} was changed after the export (sha256 {checksum}, not {_checksum(data)})")
        return manifest

    def write(self, folder: Path) -> None:
        """Write `horma.json` into `folder`."""
        data = self.model_dump(mode="json")
        text = json.dumps({**data, "sha256": _checksum(data)}, indent=1, ensure_ascii=False)
        (folder / FILE).write_text(text + "\n", encoding="utf-8")

    def check_files(self, folder: Path) -> None:
        """Raise UserError for a file that is missing or not the exported one."""
        for name, expected in self.files.items():
            path = folder / name
            if not path.is_file():
                raise UserError(f"{path} is missing, {FILE} lists it: export the run again")
            if (found := file_sha256(path)) != expected:
                raise UserError(f"{path} is not the exported file: its sha256 is {found}, {FILE} says {expected}")

    def check_prompt(self, codec: ChatCodec, folder: Path) -> None:
        """Raise UserError when `codec` gives the model other ids than in training."""
        for name in PROMPT:
            _refuse(folder / FILE, name, getattr(self, name), getattr(codec, name))
        _refuse(folder / FILE, "prompt_ids_sha256", self.prompt_ids_sha256, ids_sha256(codec))

    def other_limits(self, overview: Overview, caps: Caps, rollout: RolloutConfig) -> list[str]:
        """What differs from the limits of training, each as `shell.caps.turns is 10, in training 4`."""
        found = [("shell.overview", overview, self.shell.overview)]
        trained = asdict(self.shell.caps)
        found += [(f"shell.caps.{name}", value, trained[name]) for name, value in asdict(caps).items()]
        found += [(f"rollout.{name}", getattr(rollout, name), getattr(self.rollout, name)) for name in LIMITS]
        return [f"{name} is {shown(now)}, in training {shown(then)}" for name, now, then in found if now != then]


def schema_sha256(surface: Surface) -> str:
    """The fingerprint of a surface's tool schemas."""
    return hashlib.sha256(_canonical(schemas(surface))).hexdigest()


def ids_sha256(codec: ChatCodec) -> str:
    """The fingerprint of all that a codec adds to a text, and of how its tokenizer reads one."""
    return hashlib.sha256(_canonical([codec.start(_PROBE), codec.observe([_PROBE, "no match"])])).hexdigest()


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_files(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """SHA-256 by name, in the order of the names."""
    return {name: file_sha256(folder / name) for name in sorted(names)}


def _refuse(path: Path, name: str, trained: object, here: object) -> None:
    if trained != here:
        raise UserError(
            f"{path}: {name} is {shown(trained)}, but here it is {shown(here)}: this model would run under another "
            "prompt than it was trained with"
        )


def shown(value: object) -> str:
    """A setting as YAML writes it."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _checksum(data: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical(data)).hexdigest()


def _canonical(data: object) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
