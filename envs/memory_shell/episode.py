"""One episode in the memory shell: a question, at most `Caps.turns` turns of commands, and the reward at its end.

The workspace is shared and immutable. An episode owns its current folder, its selection and its counters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from memory_shell.commands import split_words
from memory_shell.coverage import CoverageLog
from memory_shell.overview import Overview
from memory_shell.overview import overview as describe
from memory_shell.reward import episode_reward
from memory_shell.selection import Selection
from memory_shell.text import neutralise
from memory_shell.tools import Surface, schemas
from memory_shell.types import Caps, Coverage, Result, Stop, Task, ToolCall, Unit
from memory_shell.verbs import Output, execute, render
from memory_shell.workspace import Workspace

DEFAULT_CAPS = Caps()
NO_CALL = "no tool call in the response: call one of ls, cd, grep, cat, select, done"
OVER = "the episode is over: no more commands run"


class MemoryShell:
    """A retrieval episode over one workspace: used again through `reset`, never shared by episodes in flight.

    `overview` (none, tree, terms) is what the first observation says about the memory: see `memory_shell.overview`.
    `unit` and `zero_on_cap` choose the reward: see `memory_shell.reward`.
    """

    def __init__(
        self,
        workspace: Workspace,
        caps: Caps = DEFAULT_CAPS,
        unit: Unit = "turn",
        overview: Overview = "none",
        zero_on_cap: bool = False,
    ) -> None:
        self.workspace = workspace
        self.caps = caps
        self.unit = unit
        self.overview = overview
        self.zero_on_cap = zero_on_cap
        self._begin(None, seed=0)

    def _begin(self, task: Task | None, seed: int) -> None:
        self.task = task
        self.seed = seed
        self.cwd = ""
        self.turns_used = 0
        self.commands = 0
        self.invalid = 0
        self.stop: Stop | None = None
        self._selection = Selection()
        self._coverage = CoverageLog(self.workspace)

    def reset(self, task: Task, seed: int = 0) -> Result:
        """Start an episode. The result's text is the first observation: the question, when it was asked, the overview.

        `seed` is kept for the record: the shell itself draws nothing.
        """
        self._begin(task, seed)
        lines = [f"Question: {task.question}"]
        if task.asked_at:
            lines.append(f"Asked on: {task.asked_at}")
        about = describe(self.workspace, task.question, self.overview)
        return Result(text=neutralise("\n".join([*lines, about] if about else lines)))

    def run(self, command: str) -> Result:
        """Run one command line (`grep -i kiln sessions`) as a whole turn."""
        return self.step([ToolCall.of(command)])[-1]

    def step(self, calls: Sequence[ToolCall | str]) -> list[Result]:
        """Take one model response: one turn, however many calls it makes. One result comes back for each call that ran.

        A `str` stands for a call that could not be read, and comes back as an error. Calls run in order, up to `done`;
        those of the last allowed turn do run. Commands never raise; RuntimeError when there was no `reset`.
        """
        if self.task is None:
            raise RuntimeError("reset the episode before the first step")
        if self.stop is not None:
            return [self._refusal(OVER)]
        self.turns_used += 1
        results = [] if calls else [self._error(NO_CALL)]
        for call in calls:
            results.append(self._error(call) if isinstance(call, str) else self._call(call))
            if self.stop is not None:
                break
        if self.stop is None and self.turns_used >= self.caps.turns:
            self.stop = Stop.TURN_CAP
        if self.stop is not None:
            results[-1] = self._final(results[-1])
        return results

    def end(self, stop: Stop) -> Result:
        """End the episode from outside (token, time or context cap, error) and score what was selected so far."""
        if self.task is None:
            raise RuntimeError("reset the episode before its end")
        if self.stop is not None:
            return self._refusal(OVER)
        self.stop = stop
        return self._final(Result(text=f"the episode ended: {stop.value}"))

    @staticmethod
    def tools(surface: Surface = "six") -> list[dict[str, Any]]:
        """The JSON tool schemas of a surface, OpenAI function format: the six verbs, or one `shell` whose `command` is
        for `ToolCall.of`."""
        return schemas(surface)

    @property
    def selection(self) -> tuple[str, ...]:
        """The turn ids selected so far, in order of selection, each once."""
        return tuple(self._selection.provenance)

    @property
    def provenance(self) -> Mapping[str, str]:
        """For each selected id, the target that selected it, as typed."""
        return self._selection.provenance

    def coverage(self) -> Coverage:
        """What the episode has looked at so far, and the folders it never did."""
        return self._coverage.report()

    def score(self) -> float:
        """The reward if the episode ended now; after its end, its reward. 0.0 before the first `reset`."""
        if self.task is None:
            return 0.0
        return episode_reward(
            self._selection.provenance,
            self.task.evidence,
            self.unit,
            self.workspace,
            zero_on_cap=self.zero_on_cap,
            capped=self.stop not in (None, Stop.DONE),
        )

    def close(self) -> None:
        """Forget the episode. Safe to call any number of times; `reset` starts another."""
        self._begin(None, seed=0)

    def _call(self, call: ToolCall) -> Result:
        line = f"{call.name} {call.args}".strip()
        output = execute(self.workspace, self.cwd, line)
        self.commands += 1
        self._coverage.add(output)
        if output.cwd is not None:
            self.cwd = output.cwd
        if output.done:
            self.stop = Stop.DONE
            return Result(text=f"done ({len(self.selection)} selected)")
        if output.evidence:
            output = self._select(output)
        found_nothing = output.status == 1 and line.startswith("grep")
        if found_nothing and not output.text:
            return Result(text=_miss(line, len(output.searched)))
        ok = output.status == 0 or found_nothing
        self.invalid += not ok
        return Result(text=self._show(output), ok=ok)

    def _select(self, output: Output) -> Output:
        """Take the evidence that `output` found, and say so in few words; what it could not resolve is still told."""
        errors = [line for line in output.text.splitlines() if line.startswith("select: ")]
        return replace(output, text="\n".join([*errors, self._selection.take(output.evidence)]), status=0)

    def _error(self, message: str) -> Result:
        self.commands += 1
        self.invalid += 1
        return Result(text=self._show(Output(message or NO_CALL)), ok=False)

    def _show(self, output: Output) -> str:
        return render(output, self.caps).rstrip("\n") or "(empty)"

    def _refusal(self, message: str) -> Result:
        done = self.stop is Stop.DONE
        return Result(text=message, terminated=done, truncated=not done, ok=False)

    def _final(self, result: Result) -> Result:
        done = self.stop is Stop.DONE
        info = {
            "stop": self.stop,
            "selection": self.selection,
            "coverage": self.coverage(),
            "turns": self.turns_used,
            "commands": self.commands,
            "invalid": self.invalid,
        }
        return replace(result, reward=self.score(), terminated=done, truncated=not done, info=info)


def _miss(line: str, files: int) -> str:
    """What a search without a match says. A phrase is often no line's own wording: it gets a suggestion."""
    searched = f"no match in {files} {'file' if files == 1 else 'files'}"
    has_phrase = any(" " in word.text for word in split_words(line))
    return f"{searched}; try fewer or other words" if has_phrase else searched
