"""LENS: a wrong answer gets a penalty that grows with the policy's confidence in it, so groups without a right answer have a gradient, too.

    tilde(r)_i = r_i - (1 - r_i) (pi(o_i)) / (D - pi(o_i))
    pi(o) = exp(1/|o| sum_t log pi_old(o_t)), quad D = 2 max_j pi(o_j)
    A_i = (tilde(r)_i - mean(tilde(r))) / (std(tilde(r))), quad "without a right answer" A_i = 0.5 (tilde(r)_i - mean(tilde(r)))

$r_i$ is the verdict of answer $o_i$, 0 or 1. A right answer keeps 1; a wrong answer gets minus its odds. The formula follows from maximum likelihood.
Assume that an answer is right with the chance pi / D. Then the gradient of the likelihood of the verdicts is a policy gradient with this reward. Each
question has its own D, which is smaller for an easy question. Here D is twice the largest confidence of the group, so a penalty is at most 1. No
gradient flows through pi and D. Apart from this, the method is GRPO in groups of 16. Groups without a right answer are kept with the weight 0.5. The
rewards of such groups are only centred, because a division by the small deviation would enlarge noise. Metric: `penalty_spread`, the mean deviation
of the rewards in these groups.

Use if: in many groups all answers are wrong, and the policy is more certain of some wrong answers than of others.
Avoid if: nearly all groups have a right answer (see grpo), or confident answers to hard problems are usually better.
Reference: Feng et al., Don't Waste Mistakes: Leveraging Negative RL-Groups via Confidence Reweighting, arXiv:2510.08696: a reward model that is tied
to the policy, the likelihood of the verdicts, and the calibrated reward. No code of the authors was found.
Departures: Our own choices are the confidence per token and D. For groups without a right answer, the missing division and the weight 0.5 are our
choices, too. The deviation is the population deviation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.credit.groups import group_relative, spread
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.combine import Combines, check_reward
from gradus.rewards.confidence import confidence
from gradus.rewards.reshaped import by_group, reshaped
from gradus.rewards.verified import Verified
from gradus.types import Group, Trajectory
from gradus.types.parts import Credited, Judgement, Reward, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def calibrated(right: np.ndarray, likelihoods: np.ndarray, bound: float) -> np.ndarray:
    """Returns r - (1 - r) p / (D - p) [G]. Args: `right` [G], 0 or 1; `likelihoods` p [G]; `bound` D, above every p."""
    return right - (1 - right) * likelihoods / (bound - likelihoods)


@dataclass(frozen=True)
class WrongByConfidence(Combines):
    """Gives a right answer its reward, and a wrong answer minus p / (D - p), where D is `factor` times the largest confidence p of the group."""

    reward: Reward = Verified()  # says which answers are right
    factor: float = 2.0
    name: ClassVar[str] = "wrong_by_confidence"

    def __post_init__(self) -> None:
        check_ranges(self, factor="(1, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.reward.needs

    def check(self, task: Task) -> None:
        """Raises UserError if `reward` does not fit the task."""
        check_reward(self.reward, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        out = await reshaped(self.reward, groups, signals, world, by_group(self.paid))
        for row in out:
            found = [j.reward for j in row if isinstance(j.reward, int | float)]
            if found and max(found) < 0:
                world.note("penalty_spread", float(np.std(found)))
        return out

    def paid(self, answers: Sequence[Trajectory]) -> list[tuple[float, Mapping[str, float]]]:
        """Returns the rewards of a group's answers, and the confidence as a component."""
        sure = np.array([confidence(t) for t in answers])
        penalties = calibrated(np.zeros(len(sure)), sure, self.factor * float(sure.max(initial=0.0)))
        return [(t.value if t.right else p, {"confidence": c}) for t, c, p in zip(answers, sure.tolist(), penalties.tolist(), strict=True)]


@dataclass(frozen=True)
class CentredFailures:
    """The reward standardised within the group. A group without a right answer is only centred, and multiplied by `weight`."""

    weight: float = 0.5
    needs: ClassVar[tuple[Signal, ...]] = ()
    asks_right: ClassVar[str] = "GroupRelative"  # the part to use instead if no answer is marked as right

    def __post_init__(self) -> None:
        check_ranges(self, weight="[0, inf)")

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return spread(groups, [self.of(g) for g in groups])

    def of(self, group: Group) -> np.ndarray:
        """Returns the advantages [G] of a group."""
        if any(t.right for t in group.trajectories):
            return group_relative(group.rewards)
        return self.weight * group_relative(group.rewards, scale="none")


lens = grpo.derive(
    "lens",
    "A wrong answer gets a penalty that grows with the policy's confidence in it, so groups without a right answer have a gradient.",
    family="rewards",
    reward=WrongByConfidence(),
    credit=CentredFailures(),
    setting__group=16,
)

claims = (
    same_weights(
        says="With the verdict as reward the final weights are those of GRPO.",
        source="arXiv:2510.08696, without penalties",
        against="grpo",
        own={"reward": "Verified"},
    ),
    Claim(
        says="If most groups have no right answer, the share of groups with unequal rewards is at least 0.4 higher than that of GRPO.",
        source="arXiv:2510.08696, abstract (negative groups become informative); the ground and the size of the effect are ours",
        against="grpo",
        measure="informative:mean",
        better_by=0.4,
        ground="sparse",
    ),
    Claim(
        says="If most groups have no right answer, pass@16 after 6 steps is at least 0.02 above that of GRPO.",
        source="arXiv:2510.08696, results on hard problems of MATH; the ground and the size of the effect are ours",
        against="grpo",
        measure="pass@16",
        better_by=0.02,
        ground="sparse",
    ),
)
