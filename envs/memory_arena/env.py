"""One row as an interactive environment, whatever its domain: subtask after subtask, each under a step cap."""

from __future__ import annotations

from typing import Any

from interactive_env.types import Capabilities, EnvTask, Outcome, Start
from memory_arena.domain import Domain, Play, Score
from memory_arena.metrics import RowResult
from memory_arena.rows import Row


class GradingError(RuntimeError):
    """The grader failed: the episode has no score, and is an error to run again, never a 0."""


class MemoryArenaEnv:
    """One episode of one row.

    A finished subtask's observation brings the next one's prompt. A subtask whose steps run out is scored as it is,
    and the next one begins; the last one's cap truncates the episode. Going back is by replay: all is deterministic
    given the grader's answers, and these are kept (`domain.remembered`), so a replay asks nothing twice.

    Args:
        domain: where rows are played.
        task: of the suite; `data["row"]` is its row.
        show_results: whether observations tell if a subtask passed.
    """

    def __init__(self, domain: Domain, task: EnvTask, show_results: bool = False) -> None:
        self._domain = domain
        self._show_results = show_results
        self._row = _row(task)
        self._play: Play | None = None
        self._scores: list[Score] = []
        self._used = 0
        self._fault: GradingError | None = None

    @property
    def capabilities(self) -> Capabilities:
        """Actions and tools are the domain's; the episode's cap is that of a subtask for each one."""
        steps = self._domain.step_cap * len(self._row.questions)
        return Capabilities(self._domain.actions, "replay", steps, tuple(self._domain.tools))

    @property
    def row(self) -> Row:
        """The row that is played."""
        return self._row

    @property
    def scores(self) -> tuple[Score, ...]:
        """Scores of the subtasks that ended, in order. Raises GradingError when one of them could not be graded."""
        if self._fault is not None:
            raise self._fault
        return tuple(self._scores)

    @property
    def success(self) -> bool:
        """SR of the row: every subtask passed (shopping, travel), or the last one (search, formal)."""
        scores = self.scores
        if len(scores) < len(self._row.questions):
            return False
        return all(score.passed for score in scores) if self._domain.decides == "all" else scores[-1].passed

    @property
    def progress(self) -> float:
        """PS of the row: subtasks passed / subtasks."""
        return sum(score.passed for score in self.scores) / len(self._row.questions)

    def result(self) -> RowResult:
        """The row's scores, for `metrics`. Of an episode that was stopped, subtasks that did not end count as not
        answered. Raises GradingError as `scores` does."""
        scores, unplayed = list(self.scores), self._domain.play(self._row)
        for index in range(len(scores), len(self._row.questions)):
            unplayed.begin(index)
            scores.append(unplayed.score())
        return RowResult(self._row.id, self._domain.name, self._domain.decides, tuple(scores))

    def reset(self, task: EnvTask) -> Start:
        """Start the row anew."""
        row = _row(task)
        self._play = self._domain.play(row)
        self._row = row
        self._scores, self._used, self._fault = [], 0, None
        return Start(self._play.instruction, self._headed(self._play.begin(0)))

    def step(self, action: str) -> Outcome:
        """Do `action`. Raises GradingError when the grader fails, and RuntimeError before `reset` and after the end."""
        if self._play is None:
            raise RuntimeError("reset the environment first")
        if self._fault is not None or len(self._scores) == len(self._row.questions):
            raise RuntimeError("the episode is over: reset the environment")
        reply = self._play.act(action)
        self._used += 1
        if reply.ended:
            return self._end(self._play, reply.observation, reply.valid, capped=False)
        if self._used >= self._domain.step_cap:
            told = f"{reply.observation}\n\nThe {self._domain.step_cap} steps of this subtask are used up."
            return self._end(self._play, told, reply.valid, capped=True)
        return Outcome(reply.observation, valid=reply.valid)

    def snapshot(self) -> object:
        """Not supported: go back by replay."""
        raise NotImplementedError("rewind is by replay")

    def restore(self, snapshot: object) -> None:
        """Not supported: go back by replay."""
        raise NotImplementedError("rewind is by replay")

    def close(self) -> None:
        """Free the play; tables are the domain's."""
        self._play = None

    def _end(self, play: Play, observation: str, valid: bool, capped: bool) -> Outcome:
        score = self._scored(play)
        index = len(self._scores)
        self._scores.append(score)
        self._used = 0
        if self._show_results:
            observation += f"\n\nSubtask {index + 1} {'passed' if score.passed else 'failed'}."
        info: dict[str, Any] = {"subtask": index, "passed": score.passed, "answered": score.answered, "capped": capped}
        info["figures"] = dict(score.figures)
        over = index + 1 == len(self._row.questions)
        if not over:
            observation += "\n\n" + self._headed(play.begin(index + 1))
        return Outcome(observation, over and not capped, over and capped, valid, subtask=True, info=info)

    def _scored(self, play: Play) -> Score:
        try:
            return play.score()
        except Exception as error:
            index = len(self._scores)
            self._fault = GradingError(f"row {self._row.id}, subtask {index + 1}: the grader failed ({error})")
            raise self._fault from error

    def _headed(self, prompt: str) -> str:
        return f"Subtask {len(self._scores) + 1} of {len(self._row.questions)}\n{prompt}"


def _row(task: EnvTask) -> Row:
    row: Row = task.data["row"]
    return row
