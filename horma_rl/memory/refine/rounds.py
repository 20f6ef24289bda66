"""One round: from the disagreements of the last memory to new skills, a new memory and its scores.

Every step leaves its results in the round's folder and takes them from there when it is run again, so that a round that
was killed anywhere goes on where it was, and a finished one only reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from horma_rl.benchmarks.types import Conversation
from horma_rl.evaluation.bootstrap import Interval, bootstrap_mean, paired_bootstrap
from horma_rl.evaluation.runner import load_workspaces
from horma_rl.memory.refine.account import Account
from horma_rl.memory.refine.analyst import Analysis, analyse, propose
from horma_rl.memory.refine.config import RefineConfig
from horma_rl.memory.refine.exhibits import collect
from horma_rl.memory.refine.files import Lines, write_json, write_text
from horma_rl.memory.refine.measure import Measure, Measurement, Row
from horma_rl.memory.refine.pairs import Pair, Pairs, sort_pairs
from horma_rl.memory.refine.parts import Parts
from horma_rl.memory.refine.pool import each
from horma_rl.memory.skills import Growth, Library, Rendered, render_skills, save_library
from memory_shell.types import Task

PAIRS, WRITEUPS, LIBRARY, DIFF, PROMPT, ROUND, SPENT = (
    "pairs.jsonl", "writeups.jsonl", "library.json", "library_diff.json", "skills.txt", "round.json", "spent.json",
)  # fmt: skip


@dataclass(frozen=True)
class Data:
    """Conversations and the tasks about them: those that skills are learned from, and those that guard a round."""

    learning: tuple[Conversation, ...]
    tasks: tuple[Task, ...]
    guarding: tuple[Conversation, ...] = ()
    guard_tasks: tuple[Task, ...] = ()


@dataclass(frozen=True)
class State:
    """Where a refinement stands: the library, and the kept memory's measurements on both kinds of tasks."""

    library: Library
    learned: Measurement
    guarded: Measurement | None


class Rounds:
    """Runs rounds of one refinement in `config.out_dir`."""

    def __init__(self, config: RefineConfig, data: Data, parts: Parts, control: Mapping[str, Row]) -> None:
        self._config, self._data, self._parts, self._control = config, data, parts, control
        self._at_once = config.llm_of("actor").concurrency
        self._measure = Measure(parts, config.context_tokens, self._at_once)

    async def first(self, library: Library) -> tuple[State, dict[str, Any]]:
        """Round 0: the memory that the starting library gives, before anything is learned."""
        folder, account = self._open(0)
        rendered = self._render(folder, library)
        learned = await self._learn(folder, rendered.text, account)
        guarded = await self._guard(folder, rendered.text, account)
        _save(library, folder)
        state = State(library, learned, guarded)
        summary = {"round": 0, "kept": True, **self._scores(learned.rows, None), **_skills(library, rendered)}
        return state, self._close(folder, account, summary, learned)

    async def next(self, number: int, state: State) -> tuple[State, dict[str, Any]]:
        """Round `number`, which starts from `state`. Gives the state after it, and the round's summary."""
        folder, account = self._open(number)
        pairs = self._pairs(folder, state.learned.rows)
        analyses = await self._analyse(folder, pairs, state, account)
        proposed = [skill for one in analyses if (skill := propose(one, number, self._config.benchmark)) is not None]
        growth = state.library.grow(proposed, self._config.skills.threshold)
        rendered = self._render(folder, growth.library)
        guarded = await self._guard(folder, rendered.text, account)
        verdict = self._verdict(state.guarded, guarded)
        kept = verdict is None or bool(verdict["kept"])
        if kept:
            learned = await self._learn(folder, rendered.text, account)
            after = State(growth.library, learned, guarded)
        else:
            why = f"round {number} lost on validation"
            after = State(growth.library.withhold(growth.added, why), state.learned, state.guarded)
        _save(after.library, folder)
        write_json(folder / DIFF, _diff(state.library, after.library, growth, rendered))
        summary = {
            "round": number,
            "kept": kept,
            **self._scores(after.learned.rows, state.learned.rows),
            "validation": verdict,
            "pairs": pairs.as_json(),
            "writeups": _writeups(analyses),
            **_skills(after.library, rendered, growth),
        }
        return after, self._close(folder, account, summary, after.learned)

    def _open(self, number: int) -> tuple[Path, Account]:
        folder = self._config.out_dir / f"round_{number:02d}"
        return folder, Account(folder / SPENT, self._parts.purse)

    def _close(self, folder: Path, account: Account, summary: dict[str, Any], learned: Measurement) -> dict[str, Any]:
        account.save()
        built = learned.built
        counts = {"turns": built.turns, "notes": built.notes, "rejected": built.rejected}
        whole = {**summary, "memory": {"path": str(learned.memory), **counts}, "spent": account.total()}
        write_json(folder / ROUND, whole)
        return whole

    def _render(self, folder: Path, library: Library) -> Rendered:
        """What the manager is told; it is kept beside the memory that came of it."""
        budget = self._config.manager.skills_tokens
        rendered = render_skills(library, budget) if self._config.skills.render else Rendered("")
        write_text(folder / PROMPT, rendered.text + "\n" if rendered.text else "")
        return rendered

    async def _learn(self, folder: Path, skills: str, account: Account) -> Measurement:
        return await self._measure.memory(folder, self._data.learning, self._data.tasks, skills, account)

    async def _guard(self, folder: Path, skills: str, account: Account) -> Measurement | None:
        if not self._data.guard_tasks:
            return None
        where = folder / "validation"
        return await self._measure.memory(where, self._data.guarding, self._data.guard_tasks, skills, account)

    def _verdict(self, before: Measurement | None, after: Measurement | None) -> dict[str, Any] | None:
        """Whether the round may stay, by the change on the guard's tasks; None without a guard."""
        if before is None or after is None or self._config.guard is None:
            return None
        change = _change(before.rows, after.rows, self._config.seed)
        kept = change.n == 0 or change.mean >= -self._config.guard.tolerance
        means = {"before": _mean(before.rows, self._config.seed), "after": _mean(after.rows, self._config.seed)}
        return {"kept": kept, **{name: one.as_json() for name, one in means.items()}, "change": change.as_json()}

    def _pairs(self, folder: Path, rows: Mapping[str, Row]) -> Pairs:
        config = self._config
        pairs = sort_pairs(self._data.tasks, self._control, rows, config.margin, config.writeups)
        lines = [json.dumps(pair.as_json(), ensure_ascii=True) + "\n" for pair in pairs.chosen]
        write_text(folder / PAIRS, "".join(lines))
        return pairs

    async def _analyse(self, folder: Path, pairs: Pairs, state: State, account: Account) -> list[Analysis]:
        """The write-ups, in the order of the pairs."""
        lines = Lines(folder / WRITEUPS)
        known = [skill.title for skill in state.library.active]
        tried = [skill.title for skill in state.library.skills if skill.id in state.library.withheld]
        workspaces = load_workspaces(state.learned.memory, [pair.task for pair in pairs.chosen])

        async def one(pair: Pair) -> None:
            exhibits = collect(pair, workspaces.get(pair.task.workspace))
            analysis = await analyse(self._parts.analyst, pair, exhibits, known, tried)
            lines.add(analysis.as_json())
            account.save()

        await each([pair for pair in pairs.chosen if pair.task.id not in lines.rows], one, self._at_once)
        return [Analysis.from_json(lines.rows[pair.task.id]) for pair in pairs.chosen]

    def _scores(self, rows: Mapping[str, Row], before: Mapping[str, Row] | None) -> dict[str, Any]:
        seed = self._config.seed
        scores = {
            "memory": _mean(rows, seed).as_json(),
            "control": _mean(self._control, seed).as_json(),
            "over_control": _change(self._control, rows, seed).as_json(),
            "change": None if before is None else _change(before, rows, seed).as_json(),
            "unscored": sum(row.score is None for row in rows.values()),
            "context_tokens": round(sum(row.context_tokens for row in rows.values()) / max(1, len(rows)), 1),
        }
        return {"scores": scores}


def _mean(rows: Mapping[str, Row], seed: int) -> Interval:
    return bootstrap_mean([row.score for row in rows.values() if row.score is not None], seed=seed)


def _change(before: Mapping[str, Row], after: Mapping[str, Row], seed: int) -> Interval:
    """The paired change over the tasks that both sides have a score for."""
    both = [(before[task].score, row.score) for task, row in after.items()]
    scored = [(one, other) for one, other in both if one is not None and other is not None]
    return paired_bootstrap([one for one, _ in scored], [other for _, other in scored], seed=seed)


def _save(library: Library, folder: Path) -> None:
    save_library(library, folder / LIBRARY)


def _diff(before: Library, after: Library, growth: Growth, rendered: Rendered) -> dict[str, Any]:
    added = [skill.model_dump(mode="json") for skill in after.skills if skill.id in growth.added]
    withheld = {one: why for one, why in after.withheld.items() if one not in before.withheld}
    return {
        "version": [before.version, after.version],
        "added": added,
        "merged": dict(growth.merged),
        "withheld": withheld,
        "rendered": list(rendered.shown),
        "left_out": list(rendered.left_out),
    }


def _writeups(analyses: Sequence[Analysis]) -> dict[str, int]:
    return {
        "written": sum(one.status == "written" for one in analyses),
        "dropped": sum(one.status == "dropped" for one in analyses),
        "sent_back": sum(len(one.sent_back) for one in analyses),
        "without_skill": sum(one.write_up is not None and one.write_up.skill is None for one in analyses),
    }


def _skills(library: Library, rendered: Rendered, growth: Growth | None = None) -> dict[str, Any]:
    return {
        "skills": {
            "all": len(library.skills),
            "active": len(library.active),
            "added": len(growth.added) if growth else 0,
            "merged": len(growth.merged) if growth else 0,
            "rendered": len(rendered.shown),
            "left_out": len(rendered.left_out),
        }
    }
