"""ConfClip: the verdict is scaled by the policy's own clipped confidence, so answers with equal verdicts have different rewards.

    c = exp(1/|y| sum_t log pi_old(y_t))
    c' = min(max(c, c_low), c_high)
    R = c' "if the answer is right, else" -c'
    A_i = (R_i - mean(R)) / (std(R)) "if" std(R) >= 0.01 "else" R_i - mean(R)

pi_old is the policy that sampled the answer y, and no gradient flows through c. A right and confident answer earns more than a right but uncertain
answer; a wrong and confident answer loses most. The clip keeps very confident and very uncertain answers from dominating. Groups in which all answers
are right, or all are wrong, have a gradient, too. The bounds are 0.5 and 0.95. If the confidence of nearly all answers is above the upper bound, set
the bounds from the metric `confidence`. Apart from this, the method is GRPO.

Use if: many groups have equal verdicts, and the policy's confidence differs between its answers.
Avoid if: the policy is sure of its mistakes in whole groups, or the entropy should stay high. This reward makes confident answers more confident; for the
opposite, see unlikeliness_reward.
Reference: Zhang et al., ConfClip: Confidence-Weighted and Clipped Reward for Reinforcement Learning in LLMs, arXiv:2509.17730: the abstract names the
product of verdict and confidence, the clip, and the use with several methods. No code of the authors was found.
Departures: All formulas beyond the abstract are our choices: the confidence over the whole answer, signed rewards, both bounds, and the least
deviation (0.01). Rewards with a smaller deviation are not divided, because the division would enlarge noise. The deviation is the population
deviation.
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
from gradus.types import Group, Trajectory, UserError
from gradus.types.parts import Credited, Judgement, Reward, Signals, Task, World
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


@dataclass(frozen=True)
class ClippedConfidence(Combines):
    """The reward is the clipped confidence for a right answer, and minus the clipped confidence for a wrong answer."""

    reward: Reward = Verified()  # says which answers are right
    low: float = 0.5
    high: float = 0.95
    name: ClassVar[str] = "clipped_confidence"

    def __post_init__(self) -> None:
        check_ranges(self, low="[0, 1]", high="[0, 1]")
        if self.low > self.high:
            raise UserError(f"ClippedConfidence.low is {self.low}, which is above ClippedConfidence.high ({self.high}); set `low` to {self.high} or less")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.reward.needs

    def check(self, task: Task) -> None:
        """Raises UserError if `reward` does not fit the task."""
        check_reward(self.reward, task)

    async def score(self, groups: Sequence[Group], signals: Signals, world: World) -> list[list[Judgement]]:
        return await reshaped(self.reward, groups, signals, world, by_group(self.paid))

    def paid(self, answers: Sequence[Trajectory]) -> list[tuple[float, Mapping[str, float]]]:
        """Returns the rewards of a group's answers, and the confidence before the clip as the component `confidence`."""
        sure = [confidence(t) for t in answers]
        clipped = [min(max(c, self.low), self.high) for c in sure]
        return [(k if t.right else -k, {"confidence": c}) for t, c, k in zip(answers, sure, clipped, strict=True)]


def floored_relative(rewards: np.ndarray, *, floor: float) -> np.ndarray:
    """Returns r - mean r [G], divided by the deviation if the deviation is at least `floor`; zeros for a group of one."""
    return group_relative(rewards, scale="population" if rewards.std() >= floor else "none")


@dataclass(frozen=True)
class FlooredRelative:
    """The reward standardised within the group. A group whose rewards have a deviation below `floor` is only centred."""

    floor: float = 0.01
    needs: ClassVar[tuple[Signal, ...]] = ()

    def __post_init__(self) -> None:
        check_ranges(self, floor="[0, inf)")

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return spread(groups, [floored_relative(g.rewards, floor=self.floor) for g in groups])


confclip = grpo.derive(
    "confclip",
    "The verdict is scaled by the policy's own clipped confidence, so groups with equal verdicts have a gradient.",
    family="rewards",
    reward=ClippedConfidence(),
    credit=FlooredRelative(),
)

_TERMS = {"prompts": "8", "group": "8", "learning_rate": "2e-4", "warmup": "0", "eval_every": "0", "study.problems": "100", "study.greedy": "false"}

claims = (
    same_weights(
        says="With both bounds at 1, rewards are 1 and -1, and the final weights are those of GRPO.",
        source="arXiv:2509.17730, without confidence; the limit is ours",
        against="grpo",
        own={"reward": "ClippedConfidence(low=1,high=1)"},
        within=1e-5,
    ),
    Claim(
        says="The share of groups with unequal rewards is at least 1.3 times that of GRPO.",
        source="arXiv:2509.17730, abstract (finer feedback than the verdict); task, sizes and the factor are ours",
        against="grpo",
        measure="informative:mean",
        at_least=1.3,
        task="string_ops",
        options={"level": "4"},
        fields={**_TERMS, "study": "none"},
        budget="steps=10",
    ),
    Claim(
        says="After 20 steps held-out accuracy is at least 0.02 above that of GRPO.",
        source="arXiv:2509.17730, abstract (better results than the verdict alone); task, sizes and the size of the effect are ours",
        against="grpo",
        measure="held_out/accuracy:last",
        better_by=0.02,
        task="string_ops",
        options={"level": "3"},
        fields=_TERMS,
        budget="steps=20",
    ),
    Claim(
        says="The mean length of held-out answers after 20 steps is below that of GRPO by at least 0.1 tokens.",
        source="arXiv:2509.17730, abstract (token use); task, sizes and the size of the effect are ours",
        against="grpo",
        measure="held_out/length:last",
        better_by=-0.1,
        task="string_ops",
        options={"level": "3"},
        fields=_TERMS,
        budget="steps=20",
    ),
)
