"""Whether ALFWorld's games play as they should through our environment:

    python scripts/check_household.py [--data FOLDER] [--split valid_seen] [--processes 1] [--games N] [--rollback 20]
                                      [--official 0]

Each game's shipped walkthrough is played twice, as `move X to Y` and as `put X in/on Y`; both must win, at the last
command and not before, and a bad command before each of them must be told `Nothing happens.` without effect. In
`--rollback` games, spread over the split, the environment goes back by replay from the end to every prefix of the
walkthrough, and must show at each the same observation, and the same admissible commands, as at first. `--official`
games are also played through ALFWorld's own stack, and every text and every list of admissible commands is compared.

The last line on standard output is one JSON object; exit code 0 when nothing failed. FOLDER defaults to $ALFWORLD_DATA.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.progress import Progress

from household.environment import HouseholdEnv, HouseholdSuite
from interactive_env.types import EnvTask, Start

BAD = "go to the moon 1"
_MOVE = re.compile(r"move (.+) to (.+)")


@dataclass
class Report:
    """What was found in one game."""

    id: str
    family: str
    rolled_back: bool = False
    boundaries: int = 0
    official: bool = False
    faults: list[str] = field(default_factory=list)

    def expect(self, holds: bool, fault: str) -> None:
        """Note `fault` unless it holds."""
        if not holds:
            self.faults.append(fault)


def check_game(job: tuple[EnvTask, bool, bool]) -> Report:
    """All checks of one game. The job says whether to roll it back, and whether to compare it with ALFWorld's stack."""
    task, roll_back, official = job
    report = Report(task.id, task.family)
    walkthrough: Sequence[str] = task.data["walkthrough"]
    env = HouseholdEnv()
    try:
        play(env, task, walkthrough, report)
        play(env, task, [_MOVE.sub(r"Put \1 in/on \2.", command) for command in walkthrough], report)
        if roll_back:
            report.rolled_back = True
            report.boundaries = check_rollback(env, task, walkthrough, report)
        if official:
            report.official = True
            check_official(task, walkthrough, report)
    except Exception as error:
        report.faults.append(f"{type(error).__name__}: {error}")
    finally:
        env.close()
    return report


def play(env: HouseholdEnv, task: EnvTask, commands: Sequence[str], report: Report) -> None:
    """Play `commands`, with a bad one before each: it must be refused, and they must win with the last."""
    env.reset(task)
    for number, command in enumerate(commands, 1):
        bad = env.step(BAD)
        report.expect(bad.observation == "Nothing happens." and not bad.valid, f"{BAD!r} was told {bad.observation!r}")
        report.expect(not env.success and env.progress < 1, f"won before {command!r}")
        outcome = env.step(command)
        report.expect(outcome.valid, f"{command!r} was refused")
        report.expect(outcome.terminated == (number == len(commands)), f"terminated is wrong after {command!r}")
    report.expect(env.success and env.progress == 1, f"not won by {commands[-1]!r}")


def check_rollback(env: HouseholdEnv, task: EnvTask, commands: Sequence[str], report: Report) -> int:
    """Go back from the end to every prefix of `commands`. Returns the number of them."""
    first = list(replay(env, task, commands))
    for length in range(len(commands) + 1):
        again = list(replay(env, task, commands[:length]))
        report.expect(again == first[: length + 1], f"another state after going back to step {length}")
        for command in commands[length:]:  # on to the end again, which the next one goes back from
            env.step(command)
    return len(commands) + 1


def replay(env: HouseholdEnv, task: EnvTask, commands: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """All that shows after a reset and after each command."""
    start: Start = env.reset(task)
    yield start, env.progress, admissible(env)
    for command in commands:
        yield env.step(command), env.success, env.progress, admissible(env)


def check_official(task: EnvTask, commands: Sequence[str], report: Report) -> None:
    """Compare with ALFWorld's own stack, with a look, an inventory, a help and a bad command after each command."""
    import textworld.gym
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler, AlfredInfos

    infos = textworld.EnvInfos(won=True, admissible_commands=True, extras=["gamefile"])
    wrappers = [AlfredDemangler(), AlfredInfos]
    name = textworld.gym.register_games(
        [task.data["file"]], infos, batch_size=1, asynchronous=False, max_episode_steps=500, wrappers=wrappers
    )
    theirs = textworld.gym.make(name)
    texts, seen = theirs.reset()
    env = HouseholdEnv(max_steps=500)
    start = env.reset(task)
    ours = f"-= Welcome to TextWorld, ALFRED! =-\n\n{start.observation}\n\n{start.instruction}"
    report.expect(texts[0] == ours, "another text at the start")
    for command in commands:
        for written in (command, "look", "inventory", "help", BAD):
            report.expect(seen["admissible_commands"][0] == admissible(env), f"other commands before {written!r}")
            texts, _, _, seen = theirs.step([written])
            outcome = env.step(written)
            report.expect(texts[0].strip() == outcome.observation, f"another text after {written!r}")
            report.expect(bool(seen["won"][0]) == env.success, f"won differs after {written!r}")
            if outcome.terminated:
                break
    theirs.close()
    env.close()


def admissible(env: HouseholdEnv) -> list[str]:
    """The commands that can be done now, which no policy is shown."""
    assert env._game is not None
    return env._game.admissible


def spread(count: int, total: int) -> set[int]:
    """`count` of the indices below `total`, evenly spread."""
    count = min(count, total)
    return {index * total // count for index in range(count)}


def jobs(suite: HouseholdSuite, options: argparse.Namespace) -> list[tuple[EnvTask, bool, bool]]:
    """The games to check, and what to check of each."""
    tasks = list(suite.tasks(options.split))
    tasks = [tasks[index] for index in sorted(spread(options.games or len(tasks), len(tasks)))]
    rolled, compared = spread(options.rollback, len(tasks)), spread(options.official, len(tasks))
    return [(task, index in rolled, index in compared) for index, task in enumerate(tasks)]


def summary(reports: Sequence[Report], seconds: float) -> dict[str, Any]:
    """The last line."""
    rolled = [report for report in reports if report.rolled_back]
    return {
        "games": len(reports),
        "won": sum(not report.faults for report in reports),
        "families": dict(sorted(Counter(report.family for report in reports).items())),
        "rollback_games": len(rolled),
        "rollback_boundaries": sum(report.boundaries for report in rolled),
        "identical": all(not report.faults for report in rolled) if rolled else None,
        "official_games": sum(report.official for report in reports),
        "failed": sum(bool(report.faults) for report in reports),
        "seconds": round(seconds, 1),
    }


def main() -> int:
    """Check a split."""
    parser = argparse.ArgumentParser(description="Plays ALFWorld's walkthroughs through the household environment.")
    parser.add_argument("--data", help="folder of the games (default: $ALFWORLD_DATA)")
    parser.add_argument("--split", default="valid_seen")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--games", type=int, default=0, help="this many games, spread over the split; 0 is all")
    parser.add_argument("--rollback", type=int, default=20, help="games that are rolled back to every step")
    parser.add_argument("--official", type=int, default=0, help="games compared with ALFWorld's own stack")
    options = parser.parse_args()
    began, console = time.monotonic(), Console(stderr=True)
    try:
        work = jobs(HouseholdSuite(options.data), options)
    except ValueError as error:
        console.print(f"error: {error}", markup=False)
        return 2
    reports: list[Report] = []
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool, Progress(console=console) as bar:
        row = bar.add_task(options.split, total=len(work))
        for report in pool.imap_unordered(check_game, work):
            reports.append(report)
            bar.advance(row)
            for fault in report.faults[:5]:
                bar.console.print(f"{report.id}: {fault}", markup=False, highlight=False)
    print(json.dumps(summary(reports, time.monotonic() - began)))
    return int(not reports or any(report.faults for report in reports))


if __name__ == "__main__":
    sys.exit(main())
