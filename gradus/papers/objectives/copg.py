"""CoPG: fits differences of log-ratios to differences of rewards. So answers of any sampler can be used again and again, without importance ratios.

    R_beta(y) = R(y) - beta sum_t [log pi(y_t) - log pi_ref(y_t)]
    -grad loss = (R_beta(y) - R_beta(y')) grad log pi(y) + (R_beta(y') - R_beta(y)) grad log pi(y')
    loss = 1/(2 beta) (R_beta(y) - R_beta(y'))^2

y and y' are two answers to one problem, with tokens $y_t$. R is the reward, and $pi_ref$ the start model. The baseline of an answer is the
regularised reward $R_beta$ of the other answer. The second line takes $R_beta$ as a constant; it is the gradient of the third line. With k answers the loss
is the mean over their pairs. The weight of answer i is then 2/k times a difference: $R_beta(y_i)$ minus the mean $R_beta$ of the other answers. The penalty
beta is 0.1, and `coefficient` is $1/(2 beta)$.

The policy proportional to $pi_ref exp(R/beta)$ is the only minimum, provided that the sampler can give every answer that $pi_ref$ can give. A policy
gradient without a ratio has no such property: its baseline does not remove the sampler's preferences. With rewards 1/4 and -1/4 for a better and a
worse answer, the loss is as in IPO. With answers of the policy itself and a small beta, the gradient of the loss is twice the gradient of RLOO.

Stage `collect`: the start model answers each problem twice; no weight changes. Stage `fit`: the policy learns ten times from each of these fixed
pairs. Recorded answers of another sampler can replace the first stage: use a data file with the columns `answers` and `rewards`, and `--schedule
ConstantSchedule`. Metrics: fit_error, fit_log_ratio.

Use if: scored answers exist already, or a reward is too slow to be computed during training.
Avoid if: rewards are fast and fresh samples are affordable, because fixed answers never include the answers of a better policy (see rloo, grpo).
Reference: Flet-Berliac et al., Contrastive Policy Gradient: Aligning LLMs on sequence-level scores in a supervised-friendly fashion,
arXiv:2406.19185: the sample loss and its gradient, the theorem on its minimum, the bandit.
Departures: The start model is the sampler, with two answers per problem, ten passes, and beta 0.1. The mean over pairs is our rule for more than two
answers. A later report of the same authors divides the sum over pairs by k - 1, which is k/2 times the loss here. No code of the authors was found.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import torch
from torch import Tensor

from gradus.credit.reward_to_go import RewardToGo
from gradus.curricula.shuffled_epochs import ShuffledEpochs
from gradus.objectives.aggregation import pulling
from gradus.objectives.preference import members
from gradus.objectives.regression import fitted_loss
from gradus.objectives.scores import trajectory_means, trajectory_sums
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim, same_weights
from gradus.rollouts.auto import Auto
from gradus.rollouts.recorded_answers import RecordedAnswers
from gradus.schedules.harvests import AnswersAndRewards
from gradus.schedules.stages import Stage, Stages
from gradus.types import Frozen
from gradus.types.batch import Batch
from gradus.types.moments import Steps
from gradus.types.players import Copy, Player
from gradus.types.ranges import check_ranges
from gradus.types.signals import LogProb, LogProbs, Signal, Want
from gradus.types.tally import Tally


@dataclass(frozen=True)
class PairRegression:
    """The loss is `coefficient` times (difference of the targets - beta * difference of the log-ratios)^2, averaged over the pairs of a group, then over
    the groups.

    Target and log-ratio of a trajectory are those of `LogRatioRegression`. Any part of a target that is equal in the whole group cancels, so the target can
    be the reward itself. A group with one trajectory has no pairs and counts as a group with loss 0.
    """

    beta: float = 0.1  # temperature of the KL, in units of the reward per nat
    player: str = "reference"
    coefficient: float = 5.0  # 1 / (2 beta)
    source: str = "expert"
    separable: ClassVar[bool] = False
    unit: ClassVar[str] = "group"
    wants: ClassVar[tuple[Want, ...]] = (LogProb(),)

    def __post_init__(self) -> None:
        check_ranges(self, beta="(0, inf)", coefficient="[0, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (LogProbs(player=self.player),)

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        log_ratios = pulling(outputs[LogProb()], batch.weight) - batch.signals[LogProbs(player=self.player)]
        means, sums = trajectory_means(batch.advantages, batch), trajectory_sums(log_ratios, batch)
        groups = [list(combinations(ids, 2)) for ids in members(batch)]
        pairs = torch.tensor([pair for group in groups for pair in group], dtype=torch.long).reshape(-1, 2)
        alike = means.new_tensor([len(group) for group in groups for _ in group])
        gap, lead = (x.index_select(0, pairs[:, 0]) - x.index_select(0, pairs[:, 1]) for x in (means, sums))
        weights = 1.0 / (alike * max(batch.counts[self.source].groups, 1))
        return fitted_loss(gap, lead, weights, beta=self.beta, coefficient=self.coefficient)


COLLECT = Frozen({"curriculum": ShuffledEpochs(group=2), "rollout": Auto(), "objective": None, "credit": None})
"""The fields that differ in stage `collect`: two answers per problem, and nothing learns."""

copg = reinforce.derive(
    "copg",
    "A regression of log-ratios on differences of rewards learns from fixed pairs of answers of any sampler.",
    family="objectives",
    rollout=RecordedAnswers(),
    credit=RewardToGo(whitened=False),
    objective=Frozen(policy=PairRegression(beta=0.1, coefficient=5.0)),
    players__reference=Player(Copy("policy")),
    schedule=Stages(
        Frozen(
            collect=Stage(until=Steps(16), changes=COLLECT, makes=AnswersAndRewards()),
            fit=Stage(until=Steps(160), task="made:collect"),
        )
    ),
)

claims = (
    same_weights(
        says="On best and worst answers with rewards 1 and 0 it is IPO with half of beta as tau, in one loss of equal scale: the weights are equal.",
        source="arXiv:2406.19185, the relation to IPO (there with rewards 1/4 and -1/4)",
        against="ipo --objective.given none --objective.sampled.beta 0.05",
        own={
            "schedule": "ConstantSchedule",
            "rollout": "Auto",
            "selection": "BestAndWorst",
            "objective.policy.source": "policy",
            "objective.policy.coefficient": "100",
            "steps": "3",
        },
        within=1e-5,
        options={"level": "2"},
        fields={"prompts": "4", "group": "4", "warmup": "0", "study": "none", "learning_rate": "1e-4"},
    ),
    Claim(
        says="On the same fixed answers of the start model, the share of best arms is at least 0.05 above that of a policy gradient without baseline.",
        source="arXiv:2406.19185, the bandit with fixed data (CoPG reaches the optimum, plain policy gradient does not); the task and the size are ours",
        against=(
            "copg --objective.policy PolicyGradient --objective.policy.trust Unclipped --objective.policy.average SequenceSum "
            "--objective.policy.source expert --objective.policy.coefficient 1"
        ),
        measure="accuracy",
        better_by=0.05,
        ground="table",
        budget="steps=66",
    ),
)
