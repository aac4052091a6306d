"""RL-PLUS: a worked solution joins each group, with a bounded weight of two policies. Right tokens that the policy finds unlikely get more advantage.

    A_i = (R_i - mean(R_own)) / (std(R_own))
    loss = -1/Z [sum_own min(rho A, clip(rho, 1 - 0.2, 1 + 0.2) A) + sum_given r A (1 - pi(y_t))^0.5]
    r = (2 pi(y_t)) / (pi_old(y_t) + pi_w(y_t)), quad pi_w = 1/2 pi_old + 1/2

The group's mean and standard deviation are over the policy's own answers alone; a deviation of 0 is replaced by 1. So a right solution among wrong answers
has advantage 1, and the wrong answers have advantage 0. Z counts the tokens of all answers. rho is the ratio of the policy's own token to the sampling
policy.

The policy that wrote the solution is unknown, so the probability of a token under this policy is unknown, too. The estimate $pi_w$ of this
probability is the mean of $pi_old$ and of 1, the value of greatest uncertainty. The weight r = 4 pi / (1 + 3 pi_old) is at most 4, so it needs no
clip. In the second sum only r has a gradient; the factor (1 - pi)^0.5 is a constant. A batch is cut into two mini-batches, so the clip acts in the
second one. A group of 8 has seven sampled answers and one solution.

Use if: problems come with worked solutions, and RL alone no longer widens the range of problems that the policy solves.
Avoid if: no solutions exist (see grpo), or the solutions are in the policy's own style (see sft, luffy).
Reference: Dong et al., RL-PLUS: Countering Capability Boundary Collapse of LLMs in Reinforcement Learning with Hybrid-policy Optimization, arXiv:2508.00222,
section 3: multiple importance sampling, and the advantage for exploration with gamma 0.5. We read the released code (YihongDong/RL-PLUS).
Departures: The released script differs from the formula above in four points. The script has no division by the deviation (`--credit.scale none`) and
no clip (`--objective.policy.trust Unclipped`). The script has one constant in place of Z (8,192 per GPU; `ConstantTotal(8192)` in both terms), and an
entropy bonus of 0.001. The code's deviation is the sample's deviation plus 1e-6. In the code, a solution is cut at 8,192 tokens, and a cut solution
has reward 0. If a group has a single answer of the policy, this answer has advantage 0; in the code its advantage is its reward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from gradus.credit.groups import Scale, spread
from gradus.objectives.aggregation import Joint, TokenMean
from gradus.objectives.ratios import Probability
from gradus.objectives.terms import PolicyGradient
from gradus.papers.bases.grpo import grpo
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.mixed_policy import MixedPolicy
from gradus.types import Group
from gradus.types.batch import Batch
from gradus.types.parts import Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.signals import LogProb, Signal
from gradus.types.tally import Tally, check_same_shape, tally


def against_own(group: Group, *, scale: Scale = "population") -> np.ndarray:
    """A_i = (r_i - mean) / std with mean and std over the group's trajectories of the source "policy". A std of 0 counts as 1. Returns: float64 [G].

    A group without such trajectories gets zeros.
    """
    own = np.array([t.value for t in group.trajectories if t.source == "policy"], dtype=np.float64)
    if not len(own):
        return np.zeros(len(group.trajectories))
    if np.all(own == own[0]):
        return np.asarray(group.rewards - own[0])
    deviation = 1.0 if scale == "none" else own.std(ddof=int(scale == "sample"))
    return np.asarray((group.rewards - own.mean()) / (deviation if deviation > 1e-12 * np.abs(own).max() else 1.0))


@dataclass(frozen=True)
class AgainstOwn:
    """The reward standardised by the mean and deviation of the policy's own answers in the group. The given answers do not count."""

    scale: Scale = "population"
    needs: ClassVar[tuple[Signal, ...]] = ()

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return spread(groups, [against_own(g, scale=self.scale) for g in groups])


def balanced_weight(logprobs: Tensor, old: Tensor) -> Tensor:
    """Returns 2 pi / (pi_old + (pi_old + 1) / 2), at most 4. Args: `logprobs` [A] nats, with gradient; `old` [A] nats. Returns: [A]."""
    check_same_shape(logprobs=logprobs, old=old)
    return 4 * logprobs.exp() / (1 + 3 * old.exp())


@dataclass(frozen=True)
class TwoPolicies:
    """The loss -r A (1 - pi)^gamma, where r is the weight of `balanced_weight` and (1 - pi)^gamma has no gradient. Use the ratio `Probability`."""

    gamma: float = 0.5  # exponent of 1 - pi; 0: the advantage does not depend on the token
    separable: ClassVar[bool] = True
    ratios: ClassVar[tuple[type, ...]] = (Probability,)

    def __post_init__(self) -> None:
        check_ranges(self, gamma="[0, inf)")

    def losses(self, log_ratio: Tensor, advantages: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        old = batch.old.get(LogProb(), log_ratio.detach())
        weight = balanced_weight(log_ratio, old)
        unlikely = torch.pow(-torch.expm1(log_ratio.detach().clamp(max=0)), self.gamma)
        return -weight * advantages * unlikely, {"given_weight": tally(weight.detach())}


rl_plus = grpo.derive(
    "rl_plus",
    "A worked solution joins each group, with a bounded weight of two policies and more advantage for its unlikely tokens.",
    family="guidance",
    rollout=MixedPolicy(),
    credit=AgainstOwn(),
    objective__policy__average=Joint(TokenMean()),
    objective__expert=PolicyGradient(ratio=Probability(), trust=TwoPolicies(), average=Joint(TokenMean()), source="expert"),
    objective__kl=None,
    players__reference=None,
    update__count=2,
    requires=frozenset({"solution"}),
)

claims = (
    same_weights(
        says="Without solutions the final weights are those of GRPO without a KL term and with a mean over all tokens.",
        source="arXiv:2508.00222, the objective without external data",
        against="grpo --objective.kl none --players.reference none --objective.policy.average Joint --update.count 2",
        own={"rollout": "Auto"},
    ),
    Claim(
        says="Where the policy almost never solves a problem, accuracy after 5 steps is at least 0.1 above that of GRPO with as many answers per group.",
        source="arXiv:2508.00222, abstract (problems beyond the base model); the ground and the size of the effect are ours",
        against="grpo --objective.kl none --players.reference none --update.count 2",
        measure="accuracy",
        better_by=0.1,
        ground="weak_to_strong",
        seeds=3,
    ),
    Claim(
        says="On the same ground, accuracy after 5 steps is at least 0.05 above that of LUFFY, whose weight also favours unlikely tokens.",
        source="arXiv:2508.00222, table of main results (above LUFFY); the ground and the size of the effect are ours",
        against="luffy",
        measure="accuracy",
        better_by=0.05,
        ground="weak_to_strong",
        seeds=3,
    ),
)
