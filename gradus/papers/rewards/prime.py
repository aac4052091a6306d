"""PRIME: a process reward model trained online, from outcome labels only, gives every token its own reward.

    r_(i,t) = beta (log pi_prm(y_(i,t)) - log pi_ref(y_(i,t)))
    A_(i,t) = c sum_(s >= t) (r_(i,s) - b_i) + o_i - 1/(G - 1) sum_(j != i) o_j
    b_i = 1/(G - 1) sum_(j != i) 1/|y_j| sum_s r_(j,s)
    loss = mean over tokens of -min(rho A, clip(rho, 1 - 0.2, 1 + 0.2) A)
    loss_prm = mean over answers of BCE(sigmoid(sum_t r_(i,t)), o_i)

$y_i$ is answer i of a group of G, and $o_i$ is its outcome. The process reward $r_(i,t)$ compares the process model $pi_prm$, before the step's update,
with the reference; beta is 0.05. For the advantage all r are first divided by the largest $|sum_(s >= t) r_s|$ of the batch. For both parts of the
advantage the baseline is the mean of the other answers of the group; c is the field `process_coef`, here 1. The sum of both parts is whitened over
the batch. The process model learns by the cross-entropy BCE between the sigmoid of its summed rewards (without the division above) and the outcome.
The symbol rho is the token ratio; the policy has no KL term and no critic.

The policy and the process model learn only from groups with a mean reward in [0.2, 0.8]. A group of one answer gets advantage zero before whitening.
The method assumes that the outcome lies in [0, 1]. Process model and reference start as copies of the policy, so every process reward is zero in the
first step. A batch is used for one update, as in the released configuration, so rho is 1 and the clip never acts; `--update.count` sets more updates.

Use if: answers have many steps, only their outcome can be labelled, and the memory is large enough for a process model and a reference.
Avoid if: answers are so short that the outcome is enough (see rloo, grpo), or rewards lie outside [0, 1].
Reference: Cui et al., Process Reinforcement through Implicit Rewards, arXiv:2502.01456, algorithm 1; implicit rewards: Yuan et al., arXiv:2412.01981.
The division by the largest return, and scoring before the update, are as in the released code.
Departures: Whitening divides by the standard deviation of the population. The policy and the process model learn at the setting's rate; the paper has
1e-6 for the process model and 5e-7 for the policy. The released code centres by $K/(K - 1) r_s$ - sum of means/(K-1), with K answers per group. That
centring has the same mean as the centring here, but the values of single tokens differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from gradus.credit.gae import discounted, whiten
from gradus.credit.groups import leave_one_out
from gradus.objectives.aggregation import TokenMean, pulling
from gradus.objectives.trust import Clip
from gradus.papers.bases.rloo import rloo
from gradus.recipe.claim import Claim
from gradus.selection.filters import MeanReward
from gradus.types import Frozen, Group, UserError
from gradus.types.batch import Batch, segment_sum
from gradus.types.parts import Credited, Signals
from gradus.types.players import Copy, Player
from gradus.types.ranges import check_ranges
from gradus.types.signals import LogProb, LogProbs, Signal, Want
from gradus.types.tally import Tally, check_same_shape, tally


def process_advantages(rewards: Sequence[np.ndarray], *, gamma: float) -> list[np.ndarray]:
    """Computes the process advantages of a group: one array [A_i] per answer, from the arrays of token rewards.

    The function computes the mean token reward of each other answer, and subtracts the mean of these numbers from each token reward. Then the
    function sums the rewards (discounted) to the end of the answer. A group of one answer gets zeros.
    """
    means = np.array([r.mean() for r in rewards])
    if len(rewards) < 2:
        return [np.zeros_like(r) for r in rewards]
    others = (means.sum() - means) / (len(means) - 1)
    return [discounted(r - b, gamma=gamma) for r, b in zip(rewards, others, strict=True)]


def bounded(rewards: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Divides all rewards by the largest absolute sum of rewards from any token to the end of its answer. Rewards that are all zero are unchanged."""
    largest = max((float(np.abs(discounted(r, gamma=1.0)).max()) for r in rewards), default=0.0)
    return [r / largest if largest > 0 else r for r in rewards]


@dataclass(frozen=True)
class ImplicitProcess:
    """The sum of two leave-one-out advantages: the advantage of the outcome, and the advantage of the implicit process rewards."""

    beta: float = 0.05
    gamma: float = 1.0
    process_coef: float = 1.0
    bound: bool = True  # whether process rewards are divided by the batch's largest absolute return
    whitened: bool = True  # whether the advantages are whitened over all tokens of the batch
    model: str = "prm"
    reference: str = "reference"

    def __post_init__(self) -> None:
        check_ranges(self, beta="(0, inf)", gamma="[0, 1]", process_coef="[0, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (LogProbs(player=self.model), LogProbs(player=self.reference))

    def assign(self, groups: Sequence[Group], signals: Signals) -> list[list[Credited]]:
        ours, theirs = (signals[need] for need in self.needs)
        rewards = [self.beta * (ours[t.id].astype(np.float64) - theirs[t.id]) for g in groups for t in g.trajectories]
        left = iter(bounded(rewards) if self.bound else rewards)
        rows: list[np.ndarray] = []
        for group in groups:
            process = process_advantages([next(left) for _ in group.trajectories], gamma=self.gamma)
            rows += [self.process_coef * p + o for p, o in zip(process, leave_one_out(group.rewards), strict=True)]
        done = iter(whiten(rows) if self.whitened else rows)
        return [[Credited(next(done)) for _ in g.trajectories] for g in groups]


def outcome_losses(log_ratios: Tensor, outcomes: Tensor, *, beta: float) -> Tensor:
    """Computes, for each answer, the cross-entropy between sigmoid(beta log_ratio) and the outcome of the answer.

    Args: `log_ratios` [N]: the sum over the answer of log pi_prm - log pi_ref, nats, with gradient; `outcomes` [N] in [0, 1]. Returns: [N].
    """
    check_same_shape(log_ratios=log_ratios, outcomes=outcomes)
    return torch.nn.functional.binary_cross_entropy_with_logits(beta * log_ratios, outcomes, reduction="none")


@dataclass(frozen=True)
class Outcome:
    """The process model's loss: mean over answers of the cross-entropy between its summed log-ratio and the answer's reward."""

    beta: float = 0.05
    reference: str = "reference"
    source: str = "policy"
    separable: ClassVar[bool] = False  # the loss depends on all tokens of an answer together
    wants: ClassVar[tuple[Want, ...]] = (LogProb(),)

    def __post_init__(self) -> None:
        check_ranges(self, beta="(0, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return (LogProbs(player=self.reference),)

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        ratios = pulling(outputs[LogProb()], batch.weight) - batch.signals[LogProbs(player=self.reference)]
        ids = batch.trajectory.unique()
        sums = segment_sum(ratios, batch.trajectory, len(batch.trajectories)).index_select(0, ids)
        outcomes = sums.new_tensor([outcome_of(batch.trajectories[int(i)].value) for i in ids])
        right = (sums.detach() > 0) == (outcomes > 0.5)
        return outcome_losses(sums, outcomes, beta=self.beta).mean(), {"outcome_accuracy": tally(right)}


def outcome_of(reward: float) -> float:
    """Returns the reward as a label. Raises UserError if the reward is outside [0, 1]."""
    if not 0.0 <= reward <= 1.0:
        raise UserError(f"the process reward model learns from outcomes from 0 to 1, but a reward is {reward}; scale the reward to this range")
    return reward


prime = rloo.derive(
    "prime",
    "A process reward model, trained online from outcomes only, gives every token a reward.",
    family="rewards",
    selection=MeanReward(0.2, 0.8),
    credit=ImplicitProcess(),
    objective__policy__trust=Clip(0.2, 0.2),
    objective__policy__average=TokenMean(),
    players__prm=Player(Copy("policy"), objective=Frozen(outcome=Outcome()), learns_from="policy"),
    players__reference=Player(Copy("policy")),
)

claims = (
    Claim(
        says="Implicit process rewards give a mean accuracy over 15 steps at least 0.02 above that of RLOO with the outcome alone.",
        source="arXiv:2502.01456, the comparison with RLOO under outcome rewards alone; the size of the effect and the task are ours",
        against="rloo",
        measure="accuracy:mean",
        better_by=0.02,
        task="arithmetic",
        options={"level": "2"},
        fields={"prompts": "4", "group": "8", "warmup": "0", "study": "none", "learning_rate": "3e-4"},
        budget="steps=15",
    ),
)
