"""One ALFWorld game being played, through the package's own domain, grammar, state and names.

TextWorld translates a scene's PDDL for its planner at every load and reset, twice each time, and renders every
admissible command at every step through a grammar parser. Here a scene is translated once, what is translated is kept
for the next reset, and commands are rendered from their templates. See docs/household.md for what that saves.

Importing this module imports textworld and alfworld (about 1.5 s).
"""

from __future__ import annotations

import re
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import fast_downward
from alfworld.agents.utils.misc import Demangler
from alfworld.info import ALFRED_PDDL_PATH, ALFRED_TWL2_PATH
from textworld.envs.pddl.logic import GameLogic, PddlState
from textworld.generator.game import EntityInfo

from household.goal import Facts

KEPT = 32
"""Translated scenes kept in memory: about 2 MB each for a kitchen, 0.2 MB for a bathroom."""

# textworld's parsers keep the text they are at in themselves, and the translator sets sys.argv and takes sys.stdout.
_LOCK = threading.RLock()
_TRANSLATIONS: OrderedDict[str, tuple[Any, str]] = OrderedDict()
# The planner's library keeps one game's state in global variables: each game that is open has a copy of its own. Copies
# are reused, because the memory of a C++ library does not come back when it is closed.
_FREE_LIBRARIES: list[Any] = []
_CONDITIONAL = re.compile(r"\[\{(\w+)\.name \|[^}]*\}\]")


class Game:
    """One game: a scene and its state. Methods may be called from any thread, and take turns.

    `room` is what is seen at the start.
    """

    def __init__(self, problem: str) -> None:
        """Load a scene (PDDL). Raises ValueError for what cannot be translated."""
        self._problem = problem
        self._library = _take_library()
        self._admissible: dict[str, Any] | None = None
        try:
            self._state = self._fresh_state()
            self._entities = _entities(self._state)
            self.room = self._told("#look.feedback#", {})
        except BaseException:
            self.close()
            raise

    def restart(self) -> None:
        """Go back to the start."""
        with _LOCK:
            self._state = self._fresh_state()
            self._admissible = None

    def do(self, command: str) -> str | None:
        """Do an admissible command and say what is seen; None, without effect, for any other text."""
        with _LOCK:
            action = self._actions().get(command)
            if action is None:
                return None
            self._state.apply(action)
            self._admissible = None
            return self._told(action.feedback_rule, action.mapping)

    @property
    def admissible(self) -> list[str]:
        """The commands that can be done now, sorted."""
        with _LOCK:
            return sorted(self._actions())

    @property
    def won(self) -> bool:
        """Whether the goal holds."""
        return bool(self._state.check_goal())

    @property
    def facts(self) -> Facts:
        """What holds now."""
        with _LOCK:
            return frozenset((fact.name, *(variable.name for variable in fact.arguments)) for fact in self._state.facts)

    @property
    def things(self) -> dict[str, list[str]]:
        """The names of things in the scene, by type (`agent`, `receptacle`, `object`, ...)."""
        found: dict[str, list[str]] = {}
        for info in self._entities.values():
            found.setdefault(info.type, []).append(info.id)
        return found

    def close(self) -> None:
        """Give the library back. The game cannot be played any more."""
        if self._library is not None:
            _FREE_LIBRARIES.append(self._library)
        self._library = None

    def _fresh_state(self) -> Any:
        with _LOCK, _translating_once():
            return PddlState(self._library, self._problem, _logic())

    def _actions(self) -> dict[str, Any]:
        """Actions by command; of two with the same command, the first, as TextWorld takes it."""
        if self._admissible is None:
            self._admissible = {}
            for action in self._state.all_applicable_actions():
                self._admissible.setdefault(self._command(action), action)
        return self._admissible

    def _command(self, action: Any) -> str:
        names = {
            placeholder.name: self._entities[variable.name].name for placeholder, variable in action.mapping.items()
        }
        return _templates()[action.name].format(**names)

    def _told(self, rule: str, mapping: Any) -> str:
        context = {
            "state": self._state,
            "facts": list(self._state.facts),
            "variables": {placeholder.name: self._entities[variable.name] for placeholder, variable in mapping.items()},
            "mapping": mapping,
            "entity_infos": self._entities,
        }
        with _LOCK:
            return str(_logic().grammar.derive(rule, context)).strip()


@cache
def _domain() -> str:
    return Path(ALFRED_PDDL_PATH).read_text(encoding="utf-8")


@cache
def _logic() -> Any:
    """The package's grammar. One for all games: they differ in the task's words only, which are not told through it."""
    return GameLogic(domain=_domain(), grammar=Path(ALFRED_TWL2_PATH).read_text(encoding="utf-8"))


@cache
def _templates() -> dict[str, str]:
    """Command templates by action. `go to` looks its receptacle's name up in the facts; it is the action's own."""
    return {name: _CONDITIONAL.sub(r"{\1}", action.template) for name, action in _logic().actions.items()}


def _entities(state: Any) -> dict[str, Any]:
    """What the grammar knows of each thing, under the names that ALFWorld gives them (`cabinet 4`)."""
    infos = {
        variable.name: EntityInfo(variable.name, variable.type) for fact in state.facts for variable in fact.arguments
    }
    names = Demangler(game_infos=infos)
    for info in infos.values():
        info.name = names.demangle_alfred_name(info.id)
        info.definite, info.indefinite = "the", "a"
    return infos


def _take_library() -> Any:
    with _LOCK:
        return _FREE_LIBRARIES.pop() if _FREE_LIBRARIES else fast_downward.load_lib()


@contextmanager
def _translating_once() -> Iterator[None]:
    """Within, TextWorld's states take their translation from the kept ones. The lock is held."""
    original = fast_downward.pddl2sas

    def translate(domain: str, problem: str, verbose: bool = False, optimize: bool = False) -> tuple[Any, str]:
        """`optimize` is for replanning, which is never asked for here: the plain translation serves."""
        if problem not in _TRANSLATIONS:
            arguments = sys.argv
            try:
                _TRANSLATIONS[problem] = original(domain, problem, verbose=verbose)
            except (Exception, SystemExit) as error:
                raise ValueError(f"the scene's PDDL cannot be translated: {type(error).__name__}") from error
            finally:
                sys.argv = arguments
        _TRANSLATIONS.move_to_end(problem)
        while len(_TRANSLATIONS) > KEPT:
            _TRANSLATIONS.popitem(last=False)
        return _TRANSLATIONS[problem]

    fast_downward.pddl2sas = translate
    try:
        yield
    finally:
        fast_downward.pddl2sas = original
