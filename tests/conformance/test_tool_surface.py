"""One episode through either tool surface, six verbs or one `shell`: only the text of the calls may differ."""

from __future__ import annotations

from typing import Any

import pytest

from horma_rl.errors import UserError
from horma_rl.retrieval.backends.scripted import ScriptedGenerator
from horma_rl.retrieval.engine import EpisodeSpec, RolloutConfig, RolloutEngine
from horma_rl.retrieval.toolcalls import ToolFormat, detect
from horma_rl.retrieval.types import Trajectory
from memory_shell.commands import VERBS
from memory_shell.episode import MemoryShell
from memory_shell.tools import schemas
from memory_shell.types import Caps, ToolCall
from memory_shell.workspace import Workspace
from tests.rollout_parts import codec, saying
from tests.shell_workspace import TASK, write_workspace

EPISODES = {
    "found": [
        [ToolCall("ls", "-R people"), ToolCall("cd", "sessions")],
        [ToolCall("grep", "-n -e paint --and -e '\\bAna' .")],
        [ToolCall("cat", "session_02.md:6-7"), ToolCall("select", "session_02.md:6")],
        [ToolCall("done"), ToolCall("ls")],
    ],
    "faults": [
        [ToolCall("grep", "-n 'unclosed sessions")],
        [ToolCall("cat", "nowhere.md"), ToolCall("ls", "-Q")],
        [],
        [ToolCall("grep", "   zebra   sessions")],
        [ToolCall("select", "D2:1 D9:9"), ToolCall("select", "D1:1")],
    ],
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.load(write_workspace(tmp_path_factory.mktemp("memory") / "mem"))


def play(workspace: Workspace, surface: str, family: str, turns: list[list[ToolCall]]) -> Trajectory:
    made = codec(family, "full" if family != "simple" else "compact", tools=surface)
    generator = ScriptedGenerator(saying(made, lambda _, turn: made.format.render(turns[turn])), made.eos_ids)
    engine = RolloutEngine(generator, made, RolloutConfig(max_context_tokens=40_000, max_turns=len(turns)))
    (got,) = engine.run([EpisodeSpec(TASK, lambda: MemoryShell(workspace, Caps(turns=len(turns))), 1)])
    return got


@pytest.mark.parametrize("episode", EPISODES)
@pytest.mark.parametrize("family", ["simple", "qwen3_training", "qwen3_5_nothink_training"])
def test_an_episode_is_the_same_through_either_surface(family: str, episode: str, workspace: Workspace) -> None:
    six, shell = (play(workspace, surface, family, EPISODES[episode]) for surface in ("six", "shell"))
    for name in ("reward", "stop", "selected", "commands", "invalid", "coverage", "first_observation", "error"):
        assert getattr(shell, name) == getattr(six, name), name
    assert [(t.observation, t.ok, t.calls) for t in shell.turns] == [(t.observation, t.ok, t.calls) for t in six.turns]
    assert [t.response for t in shell.turns if t.calls] != [t.response for t in six.turns if t.calls]
    assert shell.error is None
    assert (six.reward, six.stop.value) == {"found": (1.0, "done"), "faults": (0.5, "turn_cap")}[episode]


def test_a_model_with_one_tool_is_shown_one_tool_that_names_every_verb() -> None:
    """The schemas in the prompt are those of the surface, and nothing else of the prompt changes."""
    six, shell = (codec("qwen3_training", "full", tools=surface) for surface in ("six", "shell"))
    shown = {made.tools: made.tokenizer.decode(made.start("who?")) for made in (six, shell)}
    assert shown["shell"].count('{"type": "function"') == 1
    assert shown["six"].count('{"type": "function"') == len(VERBS)
    (only,) = MemoryShell.tools("shell")
    assert all(f"{verb}: " in only["function"]["description"] for verb in VERBS)
    assert shown["six"].partition("<tools>")[0] == shown["shell"].partition("<tools>")[0]
    assert shown["six"].rpartition("</tools>")[2] == shown["shell"].rpartition("</tools>")[2]


@pytest.mark.parametrize("syntax", ["json", "xml"])
def test_reading_is_the_inverse_of_writing(syntax: Any) -> None:
    form = ToolFormat(syntax, {"shell": ("command",)})
    calls = [ToolCall("grep", "-rhi -e 'a  b' --and -e \"c\\d\" sessions"), ToolCall("cd"), ToolCall("done")]
    assert form.parse(form.render(calls)) == calls


def test_a_verb_called_as_a_tool_is_answered_with_how_to_call_it() -> None:
    form = ToolFormat("json", {"shell": ("command",)})
    (told,) = form.parse('<tool_call>{"name": "grep", "arguments": {"args": "x"}}</tool_call>')
    assert isinstance(told, str)
    assert "There is no tool 'grep'. The tools are shell." in told
    assert '{"name": "shell", "arguments": {"command": "grep ..."}}' in told
    (told,) = form.parse('<tool_call>{"name": "shell", "arguments": {"args": "ls"}}</tool_call>')
    assert isinstance(told, str)
    assert "it takes one string, command" in told


def test_a_surface_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="use six or shell"):
        schemas("seven")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="no chat template"):
        detect(object(), "shell")
