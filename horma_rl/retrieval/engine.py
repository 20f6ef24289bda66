"""The rollout engine: many episodes at once, each a state machine, with no barrier between turns.

When an episode's response ends, its tool calls run at once and its next turn is queued, while the other episodes go on
decoding. Training, evaluation and serving all run episodes through here.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from horma_rl.errors import UserError
from horma_rl.retrieval.prompt import ChatCodec
from horma_rl.retrieval.seeds import turn_seed
from horma_rl.retrieval.types import Completion, Generator, Request, Trajectory, TurnRecord
from memory_shell.types import Result, Stop, Task, ToolCall

if TYPE_CHECKING:
    from memory_shell.episode import MemoryShell


@dataclass(frozen=True, slots=True)
class RolloutConfig:
    """Limits of an episode, all independent, and how many run at once."""

    max_turns: int = 10
    """Responses an episode may take (paper: 10). The last one's calls do run. The shell's own cap holds as well."""
    max_response_tokens: int = 2048
    """Tokens of one response (paper: 2,048). A longer one is cut, answered with an error, and costs its turn."""
    max_context_tokens: int = 8192
    """Tokens of prompt, responses and observations together."""
    max_completion_tokens: int | None = None
    """Sampled tokens of all responses of an episode together; None: no limit of its own."""
    max_episode_s: float | None = None
    """Wall time of an episode, seconds, checked after every few tokens; None: no limit."""
    concurrency: int = 64
    """Episodes in flight at once."""
    mask_truncated: bool = False
    """Take the tokens of cut responses out of the loss (mask 0) instead of training on them."""

    def __post_init__(self) -> None:
        for name in ("max_turns", "max_response_tokens", "max_context_tokens", "concurrency"):
            if getattr(self, name) < 1:
                raise UserError(f"rollout.{name} must be at least 1, not {getattr(self, name)}")
        if self.max_completion_tokens is not None and self.max_completion_tokens < 1:
            raise UserError(
                f"rollout.max_completion_tokens must be at least 1, or null, not {self.max_completion_tokens}"
            )
        if self.max_episode_s is not None and self.max_episode_s <= 0:
            raise UserError(f"rollout.max_episode_s must be above 0, or null, not {self.max_episode_s}")


@dataclass(frozen=True, slots=True)
class EpisodeSpec:
    """One episode to run. `shell` is an idle shell over the task's workspace, or a function that makes one."""

    task: Task
    shell: MemoryShell | Callable[[], MemoryShell]
    seed: int
    index: int = 0


@dataclass(slots=True)
class _Episode:
    """An episode in flight. `number`: its name for the generator. `context`: the ids that the next response continues.

    `overflow`: why the response now being written may not reach its own cap; None when it may.
    """

    number: int
    spec: EpisodeSpec
    trajectory: Trajectory
    started: float
    shell: MemoryShell | None = None
    context: list[int] = field(default_factory=list)
    overflow: Stop | None = None
    ended: bool = False


class RolloutEngine:
    """Runs episodes through `generator` with the conversation format of `codec`.

    A fault of one environment ends that episode alone: `Stop.ERROR`, no reward, and the fault's text in `error`. If the
    generator itself fails, the episodes in flight end that way; its `UserError` (a server that is gone) ends the run.
    """

    def __init__(
        self,
        generator: Generator,
        codec: ChatCodec,
        config: RolloutConfig | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.generator = generator
        self.codec = codec
        self.config = config or RolloutConfig()
        self._clock = clock
        self._numbers = itertools.count()
        self.environment_s = 0.0
        """Seconds that shells took so far: to begin episodes and to run commands."""
        self.sampled_tokens = 0
        """Tokens that the generator gave back so far."""

    def run(self, specs: Iterable[EpisodeSpec], until: float | None = None) -> Iterator[Trajectory]:
        """Run every episode and yield its trajectory when it ends; `in_order` restores the order of `specs`.

        `specs` is read as places become free. Closing the iterator early closes every episode in flight. Once the clock
        passes `until`, episodes in flight or still to begin are dropped: `Stop.TIME_CAP` and no reward.
        """
        waiting = iter(specs)
        active: dict[int, _Episode] = {}
        try:
            while True:
                late = until is not None and self._clock() >= until
                for spec in itertools.islice(waiting, self.config.concurrency - len(active)):
                    episode = self._open(spec)
                    active[episode.number] = episode
                    if not late:
                        self._guarded(episode, self._begin)
                for episode in active.values():
                    if late and not episode.ended:
                        self._drop(episode)
                ended = [episode for episode in active.values() if episode.ended]
                for episode in ended:
                    del active[episode.number]
                    self._close(episode)
                    yield episode.trajectory
                if ended:
                    continue
                if not active:
                    return
                self._advance(active)
        finally:
            for episode in active.values():
                self._close(episode)

    def _open(self, spec: EpisodeSpec) -> _Episode:
        trajectory = Trajectory(spec.task, spec.seed, [], index=spec.index)
        return _Episode(next(self._numbers), spec, trajectory, self._clock())

    def _begin(self, episode: _Episode) -> None:
        spec = episode.spec
        with self._in_environment():
            episode.shell = spec.shell() if callable(spec.shell) else spec.shell
            first = episode.shell.reset(spec.task, spec.seed).text
        episode.trajectory.first_observation = first
        episode.trajectory.prompt_ids = self.codec.start(first)
        episode.context = list(episode.trajectory.prompt_ids)
        self._ask(episode, [])

    def _advance(self, active: dict[int, _Episode]) -> None:
        """Let the generator work, then take each finished response through its episode."""
        try:
            completions = list(self.generator.poll())
            if not completions and not self.generator.pending:
                raise RuntimeError("the generator has no request left, but episodes wait for their responses")
        except UserError:
            raise
        except Exception as error:
            for episode in active.values():
                self._fail(episode, error)
            return
        for completion in completions:
            if completion.episode in active:
                self._guarded(active[completion.episode], self._receive, completion)
        for episode in active.values():
            if not episode.ended and self._out_of_time(episode):
                self._guarded(episode, self._end, Stop.TIME_CAP)

    def _ask(self, episode: _Episode, observed: list[int]) -> None:
        """Append the observation and queue the next response, or end the episode when there is no room for one."""
        config, trajectory = self.config, episode.trajectory
        room = config.max_context_tokens - len(episode.context) - len(observed)
        total = config.max_completion_tokens
        left = room if total is None else total - sum(turn.completion_tokens for turn in trajectory.turns)
        if left < 1 or room < 1:
            self._end(episode, Stop.CONTEXT_FULL if room < 1 else Stop.TOKEN_CAP)
            return
        self._append(episode, observed, 0, [0.0] * len(observed))
        budget = min(config.max_response_tokens, room, left)
        episode.overflow = None
        if budget < config.max_response_tokens:
            episode.overflow = Stop.CONTEXT_FULL if budget == room else Stop.TOKEN_CAP
        seed = turn_seed(episode.spec.seed, len(trajectory.turns))
        self.generator.submit(Request(episode.number, tuple(episode.context), budget, seed))

    def _receive(self, episode: _Episode, completion: Completion) -> None:
        """Take one response: keep its ids, run its calls, and ask for the next response or end."""
        if completion.error is not None:
            raise RuntimeError(f"the generator failed: {completion.error}")
        assert episode.shell is not None
        self.sampled_tokens += len(completion.token_ids)
        cut = not completion.finished
        learnt = 0 if cut and self.config.mask_truncated else 1
        logprobs = completion.logprobs if learnt else [0.0] * len(completion.token_ids)
        self._append(episode, completion.token_ids, learnt, logprobs)
        text = self.codec.decode(completion.token_ids)
        calls = [self._cut_message()] if cut else self.codec.format.parse(text)
        turn = TurnRecord(text, [_as_json(call) for call in calls], "", False, len(completion.token_ids), not cut)
        episode.trajectory.turns.append(turn)
        if cut and episode.overflow is not None:
            self._end(episode, episode.overflow)
            return
        with self._in_environment():
            results = episode.shell.step(calls)
        turn.observation = "\n".join(result.text for result in results)
        turn.ok = all(result.ok for result in results)
        if results[-1].terminated or results[-1].truncated:
            self._finish(episode, Stop.DONE if results[-1].terminated else Stop.TURN_CAP, results[-1])
        elif len(episode.trajectory.turns) >= self.config.max_turns:
            self._end(episode, Stop.TURN_CAP)
        elif self._out_of_time(episode):
            self._end(episode, Stop.TIME_CAP)
        else:
            # A response that was cut, or that ended with another end token, still needs the one that ends its turn.
            closing = [] if completion.token_ids[-1] == self.codec.end_id else self.codec.close_unfinished()
            self._ask(episode, closing + self.codec.observe([result.text for result in results]))

    @contextmanager
    def _in_environment(self) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.environment_s += time.perf_counter() - started

    def _append(self, episode: _Episode, ids: Sequence[int], mask: int, logprobs: Sequence[float]) -> None:
        """Ids go to the context and, after the prompt, to the trajectory, with their mask and log-probabilities."""
        episode.context += ids
        episode.trajectory.completion_ids += ids
        episode.trajectory.mask += [mask] * len(ids)
        episode.trajectory.logprobs += logprobs

    def _cut_message(self) -> str:
        return f"Error: the response was cut at {self.config.max_response_tokens} tokens. Call a tool sooner."

    def _out_of_time(self, episode: _Episode) -> bool:
        limit = self.config.max_episode_s
        return limit is not None and self._clock() - episode.started > limit

    def _end(self, episode: _Episode, stop: Stop) -> None:
        """End an episode that the shell did not end, and score what is selected so far."""
        assert episode.shell is not None
        self._finish(episode, stop, episode.shell.end(stop))

    def _finish(self, episode: _Episode, stop: Stop, last: Result) -> None:
        assert episode.shell is not None
        trajectory = episode.trajectory
        trajectory.coverage = episode.shell.coverage()
        trajectory.stop, trajectory.reward = stop, last.reward
        if last.reward is not None and not math.isfinite(last.reward):
            trajectory.reward, trajectory.error = None, f"the score is {last.reward}"
        self._settle(episode)

    def _fail(self, episode: _Episode, error: Exception) -> None:
        trajectory = episode.trajectory
        trajectory.stop, trajectory.reward = Stop.ERROR, None
        trajectory.error = f"{type(error).__name__}: {error}"
        self._settle(episode)

    def _drop(self, episode: _Episode) -> None:
        """End an episode unscored: how far it came says more about this machine than about the policy."""
        episode.trajectory.stop, episode.trajectory.reward = Stop.TIME_CAP, None
        episode.trajectory.error = "dropped: the time for all episodes together was over"
        self._settle(episode)

    def _settle(self, episode: _Episode) -> None:
        trajectory, shell = episode.trajectory, episode.shell
        trajectory.wall_s = self._clock() - episode.started
        episode.ended = True
        if shell is not None:
            trajectory.selected = list(shell.selection)
            trajectory.commands, trajectory.invalid = shell.commands, shell.invalid

    def _guarded(self, episode: _Episode, action: Callable[..., None], *args: object) -> None:
        try:
            action(episode, *args)
        except Exception as error:
            self._fail(episode, error)

    def _close(self, episode: _Episode) -> None:
        """Give everything back. A fault here is told in the trajectory, and keeps no other episode from closing."""
        closing = [partial(self.generator.release, episode.number)]
        if episode.shell is not None:
            closing.append(partial(episode.shell.close))
        for close in closing:
            try:
                close()
            except Exception as error:
                episode.trajectory.error = episode.trajectory.error or f"closing: {type(error).__name__}: {error}"


def in_order(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """Trajectories by the index of their spec, whatever the order in which they ended."""
    return sorted(trajectories, key=lambda trajectory: trajectory.index)


def _as_json(call: ToolCall | str) -> dict[str, str]:
    return {"error": call} if isinstance(call, str) else {"name": call.name, "args": call.args}
