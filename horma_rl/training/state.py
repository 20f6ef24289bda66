"""What a checkpoint holds besides weights, optimiser, scheduler and generators: the state of the parts of a run, such
as a curriculum or the best score so far, as one small JSON file. No torch is imported here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from horma_rl.errors import UserError

STATE = "horma_state.json"


class Stateful(Protocol):
    """A part of a run that a resumed run continues with. Its state is the same in every process."""

    def state_dict(self) -> dict[str, Any]:
        """The state in JSON's types, floats included: JSON keeps them bit for bit."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the state that `state_dict` gave."""
        ...


def write_state(checkpoint: Path, parts: Mapping[str, Stateful]) -> None:
    """Write the state of all `parts` by name. The checkpoint's marker, which is written later, makes it count."""
    states = {name: part.state_dict() for name, part in parts.items()}
    (checkpoint / STATE).write_text(json.dumps(states, indent=1) + "\n", encoding="utf-8")


def read_state(checkpoint: Path, parts: Mapping[str, Stateful]) -> None:
    """Give every one of `parts` its state. Raises UserError when the checkpoint does not hold it."""
    path = checkpoint / STATE
    states = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    for name, part in parts.items():
        if name not in states:
            raise UserError(f"{checkpoint} holds no state of '{name}': start the run anew under another name")
        part.load_state_dict(states[name])
