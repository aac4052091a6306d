"""GRPO-lambda: length costs reward only in the groups with the most right answers. All other groups keep the plain reward, so accuracy does not
collapse.

    c_q = "share of right answers to question" q
    E = "the" floor(lambda n) "questions with the largest" c_q > 0
    r_i = [o_i "right"] (1 - alpha sigma((l_i - mu_q) / s_q)) "if" q in E, quad "else" [o_i "right"]
    A_i = (r_i - mean(r)) / (std(r))

n is the number of questions in the batch, sigma the sigmoid, and $l_i$ the number of tokens of answer $o_i$. $mu_q$ and $s_q$ are the mean and the
deviation of the lengths of the right answers to q. A group with only right answers still has a gradient if it is in E. A wrong answer always gets 0.
As the policy becomes better, the groups in E become easier for it. If the accuracy falls, the penalty acts only in the few groups with right answers.
Apart from this, the method is GRPO. Metrics: reward/efficient (share of answers with a penalty), reward/length_price.

Use if: right answers are longer than necessary, and a penalty in all groups lowers the accuracy.
Avoid if: a batch has fewer than $1 / lambda$ questions, because E is then empty, or all answers have similar lengths (see grpo).
Reference: Dai et al., Stable Reinforcement Learning for Efficient Reasoning, arXiv:2505.18086. No code was found.
Departures: The numbers lambda = 0.2 and alpha = 0.2 are our own choices, because only the form could be checked in the paper's text, not the numbers.
If groups have equal $c_q$, the group with the shorter mean length comes first. If all right answers have the same length, sigma is 1/2. The deviation
is the population deviation. The rounding down and the condition $c_q > 0$ are our choices. An answer is right if the verdict is 1 or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines, check_reward
from gradus.rewards.length import lengths_of, right_of
from gradus.rewards.reshaped import reshaped
from gradus.rewards.verified import Verified
from gradus.types import Group
from gradus.types.parts import Judgement, Reward, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def efficient(shares: Sequence[float], lengths: Sequence[float], share: float) -> np.ndarray:
    """Returns [n], bool: whether a group is among the floor(share n) groups with the largest `shares` of right answers, all above 0.

    Args: `shares` [n]; `lengths` [n]: mean lengths, which decide between equal shares.

    >>> efficient([1, 0.8, 0.5, 0.2, 0], [9, 9, 9, 9, 9], 0.2).tolist()
    [True, False, False, False, False]
    """
    order = sorted(range(len(shares)), key=lambda q: (-shares[q], lengths[q]))
    chosen = [q for q in order if shares[q] > 0][: int(share * len(shares) + 1e-9)]
    return np.isin(np.arange(len(shares)), chosen)


def prices(lengths: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Returns sigmoid((l - mean) / std) [G] with the mean and deviation of the right answers; 1/2 if they have equal lengths, 0 for wrong answers."""
    if not right.any():
        return np.zeros(len(lengths))
    mean, deviation = lengths[right].mean(), lengths[right].std()
    scaled = (lengths - mean) / deviation if deviation else np.zeros(len(lengths))
    return np.where(right, 1 / (1 + np.exp(-scaled)), 0.0)


@dataclass(frozen=True)
class PricedIfMostlyRight(Combines):
    """In the groups with the most right answers, multiplies the reward of each right answer by 1 - alpha * price."""

    reward: Reward = Verified()
    share: float = 0.2  # lambda, the share of the groups with a price; 1: all groups with a right answer
    alpha: float = 0.2  # alpha, at most 1, so that a right answer keeps a positive reward
    name: ClassVar[str] = "efficient"

    def __post_init__(self) -> None:
        check_ranges(self, share="[0, 1]", alpha="[0, 1]")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.reward.needs

    def check(self, task: Task) -> None:
        check_reward(self.reward, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return await reshaped(self.reward, groups, signals, world, self.rule)

    def rule(self, groups: Sequence[Group]) -> list[tuple[np.ndarray, dict[str, np.ndarray]]]:
        """Returns, for each judged group, the rewards, and the components "length_price" and "efficient" (1 if the group has a price)."""
        shares = [right_of(g).mean() if g.trajectories else 0.0 for g in groups]
        lengths = [lengths_of(g).mean() if g.trajectories else 0.0 for g in groups]
        modes = efficient(shares, lengths, self.share)
        found = [prices(lengths_of(g), right_of(g)) * mode for g, mode in zip(groups, modes, strict=True)]
        return [
            (g.rewards * (1 - self.alpha * price), {"length_price": price, "efficient": np.full(len(price), float(mode))})
            for g, price, mode in zip(groups, found, modes, strict=True)
        ]


grpo_lambda_length = grpo.derive(
    "grpo_lambda_length",
    "Length costs reward only in the groups with the most right answers.",
    family="thinking",
    reward=PricedIfMostlyRight(),
)

claims = (
    same_weights(
        says="With the share 0 no group has a price, and the final weights are those of GRPO.",
        source="arXiv:2505.18086, accuracy mode alone",
        against="grpo",
        own={"reward.share": "0"},
        options={"level": "2"},
        fields={"prompts": "8", "group": "4", "study": "none", "warmup": "0", "learning_rate": "1e-4"},
    ),
    Claim(
        says="Answers have at most 0.75 times the length that they have without the price.",
        source="arXiv:2505.18086, abstract (shorter by about half at higher accuracy); the ground and the size of the effect are ours",
        against="grpo_lambda_length --reward.share 0",
        measure="length",
        at_most=0.75,
        ground="wordy",
        budget="steps=40",
    ),
    Claim(
        says="With five times the alpha, the accuracy is at least 3 points above that of the same price in all groups.",
        source="arXiv:2505.18086, collapse of a price in all groups; the ground, the factor 5 and the size of the effect are ours",
        against="grpo_lambda_length --reward.share 1",
        measure="accuracy",
        better_by=0.03,
        ground="wordy",
        fields={"reward.alpha": "1"},
        budget="steps=40",
    ),
)
