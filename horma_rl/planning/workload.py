"""How long episodes are: what a plan has to assume before the first one was played, or what an earlier run showed."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from horma_rl.errors import UserError
from horma_rl.retrieval.prompt import SYSTEM
from horma_rl.training.config import TrainConfig
from memory_shell.tools import schemas

_TOKEN_CHARACTERS = 4
"""Characters of one token of English text, roughly, in the vocabularies of today's models."""
_TURNS = 5.1
"""Calls of an episode: what the paper reports for its trained Qwen3.5-4B on LoCoMo (5.12) and LongMemEval (5.22)."""
_LINE_TOKENS = 30
"""Tokens of a line of a note."""


@dataclass(frozen=True)
class Workload:
    """The episodes of a step: means in tokens and turns. `longest`: tokens of the longest one that memory must hold.

    `spread`: model tokens of a step's longest episode over the mean. `flat`: share of groups whose rewards are all the
    same, which are drawn again where the config says so. `source` says where the figures come from.
    """

    prompt: float
    turns: float
    response: float
    observation: float
    longest: int
    spread: float
    flat: float
    source: str

    @property
    def model_tokens(self) -> float:
        """Tokens that the model writes in an episode."""
        return self.turns * self.response

    @property
    def tokens(self) -> float:
        """Tokens of an episode: prompt, responses, observations."""
        return self.prompt + self.model_tokens + max(0.0, self.turns - 1) * self.observation


def assumed(config: TrainConfig) -> Workload:
    """The episodes to expect from a config alone: the paper's number of turns, and half of what a command may print."""
    caps, rollout = config.shell.caps, config.rollout
    turns = min(caps.turns, rollout.max_turns)
    response = min(rollout.max_response_tokens, 400 if config.thinking else 16 if config.prompt == "compact" else 60)
    fixed = (len(SYSTEM) + len(json.dumps(schemas(config.tools)))) // _TOKEN_CHARACTERS
    prompt = 60 + (fixed if config.prompt == "full" else 0)
    most = min(caps.lines * _LINE_TOKENS, caps.bytes // _TOKEN_CHARACTERS)
    capped = prompt + turns * (rollout.max_response_tokens + caps.bytes // _TOKEN_CHARACTERS)
    return Workload(
        prompt=prompt,
        turns=min(turns, _TURNS),
        response=response,
        observation=10 + most / 2,
        longest=min(rollout.max_context_tokens, capped),
        spread=2.0,
        flat=0.4,
        source="assumed: no run to go by (--like RUN takes an earlier run's episodes)",
    )


def measured(run: Path, longest: int) -> Workload:
    """The episodes that a run has played, from its `trajectories.jsonl` and `metrics.jsonl`; `longest` as planned.

    Raises:
        UserError: the folder holds no played episodes.
    """
    steps: dict[int, list[dict[str, int]]] = defaultdict(list)
    for row in _rows(run / "trajectories.jsonl"):
        kept = {key: int(row[key]) for key in ("prompt_tokens", "completion_tokens", "model_tokens")}
        steps[int(row["step"])].append({**kept, "turns": len(row["turns"])})
    played = [episode for step in steps.values() for episode in step]
    if not played:
        raise UserError(f"--like: {run} holds no played episodes (trajectories.jsonl)")
    turns = mean(episode["turns"] for episode in played)
    written = mean(episode["model_tokens"] for episode in played)
    observed = mean(episode["completion_tokens"] - episode["model_tokens"] for episode in played)
    longest_written = mean(max(episode["model_tokens"] for episode in step) for step in steps.values())
    flat = [float(row["flat_groups"]) for row in _rows(run / "metrics.jsonl") if "flat_groups" in row]
    return Workload(
        prompt=mean(episode["prompt_tokens"] for episode in played),
        turns=turns,
        response=written / max(turns, 1.0),
        observation=observed / max(turns - 1, 1.0),
        longest=longest,
        spread=longest_written / max(written, 1.0),
        flat=mean(flat) if flat else 0.0,
        source=f"measured: {len(played)} episodes of {run}",
    )


def longest_played(run: Path) -> int:
    """Tokens of the longest episode that a run has played. Raises UserError when there is none."""
    lengths = [int(row["prompt_tokens"]) + int(row["completion_tokens"]) for row in _rows(run / "trajectories.jsonl")]
    if not lengths:
        raise UserError(f"--like: {run} holds no played episodes (trajectories.jsonl)")
    return max(lengths)


def _rows(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    rows: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:  # a last line that a kill cut short
            continue
    return rows
