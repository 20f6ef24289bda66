"""Reward options: what training adds to, or takes from, the overlap that an evaluation reports. No torch is imported.

With J the overlap (Jaccard) of the episode, and every option off by default, the reward that advantages are made of is

    r = J * (1 - turn_cost * turns / T - token_cost * tokens / W) + format_bonus * valid

`turns` and `tokens`: responses, and tokens that the model wrote; T and W: the most that the limits of an episode allow.
`valid`: the share of its commands that were readable and ran, 0 without any.

A cost is a share of what was earned, never a fine: r is in [0, 1 + format_bonus]. Were it negative, an episode that
does nothing would beat siblings that tried and failed, and a policy learns to do nothing (HORMA, arXiv:2606.11680, has
the overlap alone).
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field, model_validator

from horma_rl.config import StrictModel
from horma_rl.errors import UserError
from horma_rl.evaluation.config import ShellConfig
from horma_rl.retrieval.engine import RolloutConfig
from horma_rl.retrieval.types import Trajectory


class RewardConfig(StrictModel):
    """Options of the training reward; the reported overlap stays as it is. `shell.zero_on_cap` is another one."""

    turn_cost: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Share of its reward that an episode loses which takes all its turns; fewer turns cost in proportion."""
    token_cost: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Share of its reward that an episode loses which writes as many tokens as it may; fewer cost in proportion."""
    format_bonus: float = Field(default=0.0, ge=0.0, le=1.0)
    """Added for commands that are readable and run: all of it when all are. Small, or it is worth more than finding."""

    @model_validator(mode="after")
    def _never_negative(self) -> RewardConfig:
        if self.turn_cost + self.token_cost >= 1:
            raise UserError(
                f"reward.turn_cost={self.turn_cost} and reward.token_cost={self.token_cost} together must be below 1: "
                "a found answer must stay worth more than none"
            )
        return self

    @property
    def shapes(self) -> bool:
        """Whether the training reward is another one than the overlap."""
        return self.turn_cost > 0 or self.token_cost > 0 or self.format_bonus > 0


@dataclass(frozen=True, slots=True)
class TrainingReward:
    """The reward that training uses. `turns` and `tokens`: T and W of the module's formula."""

    options: RewardConfig
    turns: int
    tokens: int

    @classmethod
    def of(cls, options: RewardConfig, rollout: RolloutConfig, shell: ShellConfig) -> TrainingReward:
        """With the limits of a run's episodes."""
        return cls(options, min(rollout.max_turns, shell.caps.turns), most_written(rollout))

    def __call__(self, trajectory: Trajectory) -> float | None:
        """The reward of one finished episode; None where scoring failed."""
        if trajectory.reward is None or not self.options.shapes:
            return trajectory.reward
        options, commands = self.options, trajectory.commands
        written = sum(turn.completion_tokens for turn in trajectory.turns)
        cost = options.turn_cost * min(1.0, len(trajectory.turns) / self.turns)
        cost += options.token_cost * min(1.0, written / self.tokens)
        valid = (commands - trajectory.invalid) / commands if commands else 0.0
        return trajectory.reward * (1.0 - cost) + options.format_bonus * valid


def plain_reward(trajectory: Trajectory) -> float | None:
    """The overlap alone: what an episode was scored with at its end."""
    return trajectory.reward


def most_written(rollout: RolloutConfig) -> int:
    """The most tokens that a model may write in an episode."""
    limits = [rollout.max_turns * rollout.max_response_tokens, rollout.max_context_tokens]
    return min(limits + ([] if rollout.max_completion_tokens is None else [rollout.max_completion_tokens]))
