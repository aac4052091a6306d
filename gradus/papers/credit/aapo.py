"""AAPO: adds the clipped difference between the rewards of policy and start model to the advantage, so groups with equal rewards still have a gradient.

    A_i = (r_i - mean(r)) / (std(r) + 10^(-4)) + m_i
    m_i = clip(r_i - q_i, -0.2, 0.28)
    loss = -1/N sum_i sum_t A_i log pi(y_(i,t))

The policy gives G answers with the rewards $r_i$. The frozen start model gives G answers to the same problem with the rewards $q_i$, sampled with the
same settings; no update uses these answers. Answer i of the policy is paired with answer i of the start model. The advantage momentum $m_i$ is
positive as long as the policy does better than its start. So if all $r_i$ are equal, $A_i = m_i$; in this case GRPO has no gradient. N is the number
of tokens of the batch, and the deviation is the sample deviation. There is no ratio, clip or KL term, so a batch is used for one update. Metric:
sibling_reward, the mean of $q_i$.

Use if: late in training many groups have equal rewards, and the policy does better than its start.
Avoid if: sampling is the bottleneck, because the start model answers as often as the policy (see grpo, dapo), or the start model is often right in groups
with only wrong answers.
Reference: Xiong et al., AAPO: Enhance the Reasoning Capabilities of LLMs with Advantage Momentum, arXiv:2505.14264. The bounds -0.2 and 0.28, the
epsilon, and the mean over tokens are as in the released code (JianxXiong/AAPO). In the released code a group has 6 answers. The temperature is 0.7 for the
1.5B model and 1 for the 7B model.
Departures: The reward comes from the task. The reward of the released 1.5B run is a sum: the format (weight 1), and correctness times a cosine of the length
(weight 2). The 7B run has correctness alone. The momentum is 0 if the start model's answer has no reward. If vLLM samples, the released code takes the
answers of the start model from the policy itself; the code's configuration does not use vLLM. The KL coefficient 0.1 of the code has no
effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gradus.credit.groups import spread
from gradus.objectives.aggregation import TokenMean
from gradus.objectives.ratios import Probability
from gradus.objectives.trust import WeightedLikelihood
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.siblings import SiblingGroups
from gradus.types import Frozen, Group, UserError
from gradus.types.parts import Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal


def momentum(rewards: np.ndarray, others: np.ndarray, *, low: float, high: float) -> np.ndarray:
    """Returns clip(r_i - q_i, -low, high), [G], with q_i from `others`; 0 if q_i is NaN."""
    gap = np.asarray(rewards, np.float64) - np.asarray(others, np.float64)
    return np.where(np.isnan(gap), 0.0, np.clip(gap, -low, high))


@dataclass(frozen=True)
class AdvantageMomentum:
    """The group-relative advantage with the sample standard deviation (n - 1), plus the clipped difference to the reward of the start model's answer (see
    `SiblingGroups`)."""

    low: float = 0.2
    high: float = 0.28
    epsilon: float = 1e-4  # this number is added to the deviation
    needs: ClassVar[tuple[Signal, ...]] = ()
    asks: ClassVar[Mapping[str, str]] = Frozen({"siblings": "--rollout SiblingGroups"})

    def __post_init__(self) -> None:
        check_ranges(self, low="[0, inf)", high="[0, inf)", epsilon="[0, inf)")

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return spread(groups, [self._group(group) for group in groups])

    def _group(self, group: Group) -> np.ndarray:
        if any("sibling" not in t.links for t in group.trajectories):
            raise UserError(f"group {group.key} has an answer without a sibling (an answer of the start model to the same prompt); set --rollout SiblingGroups")
        rewards = group.rewards
        centred = rewards - rewards.mean()
        deviation = rewards.std(ddof=1) if len(rewards) > 1 else 0.0
        relative = centred / (deviation + self.epsilon) if deviation > 1e-12 * np.abs(rewards).max() else np.zeros_like(centred)
        others = np.array([np.nan if t.links["sibling"] is None else t.links["sibling"] for t in group.trajectories])
        return relative + momentum(rewards, others, low=self.low, high=self.high)


aapo = grpo.derive(
    "aapo",
    "The clipped gap to an answer of the start model is added to the advantage, so groups with equal rewards still move.",
    family="credit",
    rollout=SiblingGroups(),
    credit=AdvantageMomentum(),
    objective__policy__ratio=Probability(),
    objective__policy__trust=WeightedLikelihood(),
    objective__policy__average=TokenMean(),
    objective__kl=None,
)

claims = (
    same_weights(
        says="Without momentum and epsilon the final weights are those of the group-relative advantage.",
        source="arXiv:2505.14264, the advantage at bounds of 0",
        against="aapo --rollout Auto --credit GroupRelative --credit.scale sample",
        own={"credit.low": "0", "credit.high": "0", "credit.epsilon": "0"},
    ),
    Claim(
        says="On arithmetic the held-out accuracy after 30 steps is at least 0.02 above that without momentum.",
        source="arXiv:2505.14264, main results (above GRPO with the same data); the task and the size of the effect are ours",
        against="aapo --credit.low 0 --credit.high 0",
        measure="accuracy",
        better_by=0.02,
        task="arithmetic",
        fields={"prompts": "8", "group": "6", "learning_rate": "3e-4", "study": "none"},
        budget="steps=30",
    ),
)
