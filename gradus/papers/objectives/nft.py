"""NFT: learns from wrong answers by maximum likelihood, because the policy of wrong answers follows from the policy of right answers.

    pi_old = r_q pi_plus + (1 - r_q) pi_minus
    loss_t = -w(q) log R_t, quad "or for wrong answers" quad loss_t = -w(q) log(max_v((1 - r_q R_t) / (1 - r_q), epsilon))
    R_t = (pi(a_t)) / (pi_old(a_t)), quad w(q) = 1 - r_q

$r_q$ is the share of right answers to question q, within [0.02, 0.98]. The sampling policy $pi_old$ is a mixture of $pi_plus$, the distribution of
right answers, and $pi_minus$, the distribution of wrong answers. The trained policy pi is the model of $pi_plus$, so the mixture gives a model of
$pi_minus$ without a further parameter. The function $max_v$ bounds the value from below at epsilon = 1. The gradient is the gradient of the unbounded
expression, divided by the bounded value. So a wrong token with R above 1 has the loss 0, and the gradient still lowers R.

With the odds $r_q / (1 - r_q)$ the expression is 1 - odds (R - 1). Right answers get the advantage 1, and wrong answers get minus the odds. At R = 1 the
gradient is the gradient of -A log pi. The factor w(q) makes hard questions count more, and A w is the advantage of dr_grpo. With `--credit.weight
deviation`, w is `sqrt((1 - r_q) / r_q)` and A w is GRPO's advantage, so one update per batch gives GRPO's gradient. Only groups with right and wrong
answers enter the update. Each batch is cut into 16 mini-batches. Metric: clamped_share (tokens of wrong answers with a bounded value).

Use if: a verifier judges answers, a batch is used for many updates, and imitation of right answers alone makes the policy settle too early.
Avoid if: answers have graded scores (see grpo), or the policy should learn only from right answers (see expert_iteration).
Reference: Chen et al., Bridging Supervised Learning and Reinforcement Learning in Math Reasoning, arXiv:2505.18116: the implicit negative policy, the
token form, the weights of questions, the equality with GRPO. The released scripts have 16 answers to each of 512 questions, 16 mini-batches, epsilon 1,
sums of tokens divided by 1,000, and groups drawn as in DAPO without its penalty for length.
Departures: The sums are also divided by the number of answers, so a limit on the norm of the gradient acts less often. The expression is computed from
the odds, which gives the same numbers. The released code also has a sequence form, with R as the product over the answer; this form is absent here. Like the
released code, this file bounds log R at 10. For large models the code suggests a factor 0.5 on wrong answers (`--credit.negative 0.5`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from gradus.objectives.aggregation import ConstantLength
from gradus.objectives.ratios import Probability
from gradus.papers.bases.dapo import dapo
from gradus.recipe.claim import Claim, same_weights
from gradus.rewards.verified import Verified
from gradus.types import Group
from gradus.types.batch import Batch
from gradus.types.parts import Credited, Signals
from gradus.types.ranges import check_ranges
from gradus.types.signals import Signal
from gradus.types.tally import Tally, check_same_shape, tally

QuestionWeight = Literal["hard", "deviation", "none"]


def question_weight(rate: float, kind: QuestionWeight) -> float:
    """Returns w(q) of a question with success rate `rate`: 1 - rate ("hard"), sqrt((1 - rate) / rate) ("deviation"), or 1 ("none")."""
    return {"hard": 1 - rate, "deviation": ((1 - rate) / rate) ** 0.5, "none": 1.0}[kind]


@dataclass(frozen=True)
class SuccessRate:
    """Gives right answers the advantage 1, and wrong answers minus the odds of success. The weight of an action is the weight of its question.

    The rate of success is the share of right answers of the group, within [margin, 1 - margin]. `negative` is a further factor on wrong answers;
    0 is imitation of right answers.
    """

    weight: QuestionWeight = "hard"
    negative: float = 1.0
    margin: float = 0.02
    needs: ClassVar[tuple[Signal, ...]] = ()
    asks_right: ClassVar[str] = "GroupRelative"  # the part to use instead if no answer is marked as right

    def __post_init__(self) -> None:
        check_ranges(self, negative="[0, inf)", margin="(0, 0.5]")

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        return [self._group(group) for group in groups]

    def _group(self, group: Group) -> list[Credited]:
        right = np.array([t.right for t in group.trajectories], dtype=np.float64)
        rate = float(np.clip(right.mean(), self.margin, 1 - self.margin))
        weight = question_weight(rate, self.weight)
        made = ((1.0, weight) if good else (-rate / (1 - rate), self.negative * weight) for good in right)
        return [Credited(np.full(t.actions, a), weights=np.full(t.actions, w)) for t, (a, w) in zip(group.trajectories, made, strict=True)]


def negative_likelihood(log_ratio: Tensor, odds: Tensor, *, floor: float) -> Tensor:
    """Returns -log max_v(1 - odds (R - 1), floor) with R = exp(log_ratio): the value is bounded, the gradient passes through the bound.

    Args: `log_ratio` [A] nats, with gradient; `odds` [A], at least 0, without gradient. Returns: [A], not averaged.
    """
    check_same_shape(log_ratio=log_ratio, odds=odds)
    share = 1 - odds * (log_ratio.exp() - 1)
    bounded = share.detach().clamp(min=floor)
    return -bounded.log() - (share - share.detach()) / bounded


@dataclass(frozen=True)
class ImplicitNegative:
    """The loss -A log R if A > 0, else -log max_v(1 + A (R - 1), floor): the likelihood under the policy, or under its implicit negative policy."""

    floor: float = 1.0  # smallest value of pi_minus / pi_old
    limit: float = 10.0  # largest log R, in nats; a larger log R counts as the limit and has no gradient
    separable: ClassVar[bool] = True
    not_ratios: ClassVar[tuple[type, ...]] = (Probability,)  # the mixture needs the ratio to the sampling policy

    def __post_init__(self) -> None:
        check_ranges(self, floor="(0, 1]", limit="(0, inf]")

    def losses(self, log_ratio: Tensor, advantages: Tensor, batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        held, wrong = log_ratio.clamp(max=self.limit), advantages < 0
        odds = (-advantages).clamp(min=0)
        losses = torch.where(wrong, negative_likelihood(held, odds, floor=self.floor), -advantages * held)
        clamped = wrong & (1 - odds * (held.detach().exp() - 1) < self.floor)
        return losses, {"clamped_share": tally(clamped)}


nft = dapo.derive(
    "nft",
    "Wrong answers are learned from by maximum likelihood, under a negative policy that is written in terms of the policy itself.",
    family="objectives",
    reward=Verified(),
    credit=SuccessRate(),
    objective__policy__trust=ImplicitNegative(),
    objective__policy__average=ConstantLength(1000),
)

claims = (
    same_weights(
        says="With one update per batch and the weight sqrt((1 - r) / r), the final weights are those of DAPO's clip and GRPO's advantages.",
        source="arXiv:2505.18116, the equality with GRPO on-policy; pairs of answers, so that all numbers are exact, are ours",
        against="dapo --reward Verified --objective.policy.average ConstantLength(length=1000)",
        own={"credit.weight": "deviation"},
        fields={"prompts": "8", "group": "2", "update.count": "1", "study": "none"},
    ),
    Claim(
        says="Where problems have many right answers, wrong answers keep the entropy after training at least 0.05 nats above imitation of right ones.",
        source="arXiv:2505.18116, the entropy of NFT above that of rejection fine-tuning; the size of the effect and the task are ours",
        against="nft --credit.negative 0",
        measure="entropy:last",
        better_by=0.05,
        ground="many_ways",
        fields={"update.count": "4"},
    ),
    Claim(
        says="The accuracy after training is at least 0.03 above that of imitation of right answers alone.",
        source="arXiv:2505.18116, NFT above rejection fine-tuning on six benchmarks; the task is ours",
        against="nft --credit.negative 0",
        measure="accuracy",
        better_by=0.03,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "8", "group": "8", "learning_rate": "3e-4", "update.count": "4", "warmup": "0", "study": "none"},
        budget="steps=20",
    ),
    Claim(
        says="The accuracy after training is at least 0.95 times that of DAPO.",
        source="arXiv:2505.18116, NFT beside DAPO; the factor and the task are ours",
        against="dapo",
        measure="accuracy",
        at_least=0.95,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "8", "group": "8", "learning_rate": "3e-4", "update.count": "4", "warmup": "0", "study": "none"},
        budget="steps=20",
    ),
)
