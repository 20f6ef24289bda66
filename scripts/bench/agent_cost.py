"""What the agent itself costs in long episodes: many agents at once, with an instant actor and an instant environment.

    .venv/bin/python scripts/bench/agent_cost.py [--agents 100] [--steps 1000] [--repeats 5] [--systems mage,full]

`recent`: no memory but the last steps, the control: what it gains or loses is the machine's doing. `mage`: the
execution state, with a summary every ten steps. `mage_horma`: also the workspace, with a retrieval at every boundary by
a retriever that takes no time, so that what is measured is reading the workspace. `full`: every step in the prompt, the
contrast. All are measured in the same run, each in a process of its own, with the cycle collector as `horma-rl eval`
sets it. Times are CPU time of all threads per step, by tenths of the episodes, so that waiting for other work on the
machine does not count; memory is the growth of the resident set, and what one agent alone holds at its end
(tracemalloc).

A machine's own speed drifts by a third within minutes: `--repeats` measures every system that often, in turns.

The last line is one JSON object: by system, of all repeats the median, `us_per_step` (ten numbers), `ratio` (last fifth
to first), `rss_mb`, `agent_kb`, `last_prompt_tokens`; and `ratios`, one a repeat.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import psutil

from horma_rl.agent.config import SystemConfig
from horma_rl.agent.episode import Parts, StepRow, play
from horma_rl.agent.types import Act, Decision, Mark, Pair, Summarised, Verdict, View
from horma_rl.collector import rare_collections
from horma_rl.tokens import Estimate
from interactive_env.types import Capabilities, EnvTask, Outcome, Start
from memory_shell.types import Turn
from memory_shell.workspace import Workspace

SYSTEMS = {
    "recent": SystemConfig(state="recent", horma=False),
    "mage": SystemConfig(horma=False),
    "mage_horma": SystemConfig(),
    "full": SystemConfig(state="full", horma=False),
}
SUBGOAL = 10
"""Steps that a summary covers."""
_TENTHS = 10
_RECALLED = 3


class Corridor:
    """An environment without an end before its step cap: every action brings a new room."""

    def __init__(self, steps: int) -> None:
        self._steps, self._room = steps, 0

    @property
    def capabilities(self) -> Capabilities:
        """It can be restored."""
        return Capabilities("go on - to the next room", "restore", self._steps)

    def reset(self, task: EnvTask) -> Start:
        """The first room."""
        self._room = 0
        return Start("Walk through the rooms, and note what lies in each.", self._observation())

    def step(self, action: str) -> Outcome:
        """The next room."""
        self._room += 1
        return Outcome(self._observation(), truncated=self._room >= self._steps)

    @property
    def success(self) -> bool:
        """Never."""
        return False

    @property
    def progress(self) -> float:
        """The part of the way."""
        return self._room / self._steps

    def snapshot(self) -> object:
        """The room."""
        return self._room

    def restore(self, snapshot: object) -> None:
        """Back to a room."""
        assert isinstance(snapshot, int)
        self._room = snapshot

    def close(self) -> None:
        """Nothing to free."""

    def _observation(self) -> str:
        return f"You are in room {self._room}. On the shelf lie lamp {self._room * 7 % 101} and key {self._room % 13}."


class Walker:
    """Goes on, and sums up every `SUBGOAL` steps; also the judge, the summariser and the retriever, all instant."""

    def __init__(self) -> None:
        self._since = 0
        self._total = 0

    async def act(self, view: View) -> Decision:
        """The next move."""
        if self._since == SUBGOAL and "compress" in view.moves:
            self._since = 0
            return Decision(Mark(f"Rooms {self._total - SUBGOAL + 1} to {self._total} are seen."))
        self._since += 1
        self._total += 1
        return Decision(Act(f"go on from room {self._total - 1}"))

    async def validate(self, instruction: str, trace: Sequence[Pair], summary: str) -> Verdict:
        """Right."""
        return Verdict(True)

    async def summarise(self, instruction: str, trace: Sequence[Pair]) -> Summarised:
        """The last observation."""
        return Summarised(trace[-1].observation)

    async def recall(self, workspace: Workspace, question: str) -> Sequence[Turn]:
        """The first turns."""
        return list(workspace.turns.values())[:_RECALLED]


class Clock:
    """Notes the CPU time of this process at each tenth of `steps` steps, of whichever agents, and the last prompt."""

    def __init__(self, steps: int) -> None:
        self._edges = {index * steps // _TENTHS for index in range(1, _TENTHS + 1)}
        self._steps = steps
        self._done = 0
        self.tokens = 0
        self.times = [time.process_time()]

    def log(self, row: StepRow) -> None:
        """Count a step."""
        if row.kind != "act":
            return
        self._done += 1
        self.tokens = row.prompt_tokens
        if self._done in self._edges:
            self.times.append(time.process_time())

    @property
    def us_per_step(self) -> list[float]:
        """By tenths, microseconds of CPU time a step."""
        return [
            1e6 * (end - begin) * _TENTHS / self._steps for begin, end in zip(self.times, self.times[1:], strict=False)
        ]


async def walk(system: SystemConfig, steps: int, folder: Path, log: Callable[[StepRow], None]) -> None:
    """One agent's episode."""
    walker = Walker()
    parts = Parts(walker, Estimate(), walker, walker, walker)
    await play(Corridor(steps), EnvTask(folder.name), system, parts, folder, log)


async def walk_together(system: SystemConfig, agents: int, steps: int, root: Path) -> Clock:
    """`agents` agents at once."""
    clock = Clock(agents * steps)
    await asyncio.gather(*(walk(system, steps, root / f"agent-{number}", clock.log) for number in range(agents)))
    return clock


def measure(name: str, agents: int, steps: int) -> dict[str, Any]:
    """The figures of one system, in this process."""
    system = SYSTEMS[name]
    with tempfile.TemporaryDirectory(prefix="agent-cost-") as folder:
        asyncio.run(walk_together(system, 2, 2 * SUBGOAL, Path(folder) / "warm"))
        before = psutil.Process().memory_info().rss
        with rare_collections():
            clock = asyncio.run(walk_together(system, agents, steps, Path(folder) / "together"))
        grown = psutil.Process().memory_info().rss - before
        held = _held(system, steps, Path(folder) / "alone")
    per_step = clock.us_per_step
    return {
        "us_per_step": [round(value, 1) for value in per_step],
        "ratio": round(sum(per_step[-2:]) / sum(per_step[:2]), 2),
        "rss_mb": round(grown / 2**20, 1),
        "agent_kb": round(held / 2**10, 1),
        "last_prompt_tokens": clock.tokens,
    }


def _held(system: SystemConfig, steps: int, folder: Path) -> int:
    """Bytes that one agent holds at its last step."""
    held = 0

    def log(row: StepRow) -> None:
        nonlocal held
        if row.step == steps and row.kind == "act":
            gc.collect()
            held = tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    asyncio.run(walk(system, steps, folder, log))
    tracemalloc.stop()
    return held


def middle(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The median of each figure, and of each tenth."""
    figures = {name: _median(run[name] for run in runs) for name in runs[0] if name != "us_per_step"}
    tenths = zip(*(run["us_per_step"] for run in runs), strict=True)
    return {"us_per_step": [_median(tenth) for tenth in tenths], **figures}


def _median(values: Iterable[float]) -> float:
    return round(statistics.median(values), 2)


def main(argv: list[str] | None = None) -> int:
    """Measure and print; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--steps", type=int, default=1_000, help="of each agent; at least 10")
    parser.add_argument("--repeats", type=int, default=1, help="measurements of each system")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="names with commas between them")
    parser.add_argument("--one", choices=SYSTEMS, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.one:
        print(json.dumps(measure(args.one, args.agents, args.steps)))
        return 0
    names = args.systems.split(",")
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for name in args.repeats * names:
        command = [sys.executable, __file__, "--one", name, f"--agents={args.agents}", f"--steps={args.steps}"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        run = json.loads(done.stdout.splitlines()[-1])
        runs[name].append(run)
        tenths = " ".join(f"{value:8.1f}" for value in run["us_per_step"])
        print(f"{name:<12} us a step by tenths: {tenths}   last fifth/first {run['ratio']:.2f}", flush=True)
        print(f"{'':<12} {run['rss_mb']} MB grown, {run['agent_kb']} KB an agent", flush=True)
    found = {name: {**middle(runs[name]), "ratios": [run["ratio"] for run in runs[name]]} for name in names}
    print(json.dumps({"agents": args.agents, "steps": args.steps, **found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
