"""DRPO: a preference for short answers acts only among the right answers of a group, so a long right answer never gets a negative signal.

    J = 1/Q sum_q [sum_(i in P_q) w_i s_i - tau log sum_(j in N_q) exp(s_j / tau)]
    w_i prop exp((1 - |o_i| / L) / lambda), quad sum_(i in P_q) w_i = 1
    s_i = 1/|o_i| sum_t log pi(o_(i,t))
    loss = -J + beta/2 max(K - delta, 0)^2, quad K = "mean over tokens of" log pi_old - log pi

$P_q$ are the right and $N_q$ the wrong answers to question q. The weights w are the distribution that maximises the mean length reward $1 - |o| / L$
minus lambda times the KL to the distribution of the old right answers. So w only decides how much more likely each right answer becomes; every $w_i$ is
positive. Wrong answers are lowered in proportion to $softmax(s / tau)$. With lambda near infinity, w is uniform. With a length reward in GRPO, the reward of
a long right answer can be below the mean of its group. The answer then becomes less likely, like a wrong answer. Q counts the questions with right and wrong
answers; the others are left out. There is no clip. K is the KL to the policy at the start of the step; from the second update on, the term with K limits the
change of the policy. A step has four updates. Metrics: gap_right, gap_wrong (mean scores), step_kl.

Use if: answers should become shorter, and long right answers to hard questions must keep their probability.
Avoid if: nearly all groups have only right answers, because they have no gradient here (see kimi_k1_5, grpo_lambda_length).
Reference: Li et al., DRPO: Efficient Reasoning via Decoupled Reward Policy Optimization, arXiv:2510.04474. The released code (Optimization-AI/DRPO) has
lambda 0.1, tau 10, delta 0.0001, beta 1000, L 8192, 8 answers at temperature 0.6, and mini-batches of a quarter of the batch.
Departures: Q and K are over a mini-batch, and Q counts only its mixed questions. The released code takes both over a micro-batch of all devices, and
divides by the number of all questions of the micro-batch. The loss is the objective above. The value of the released loss differs, but its gradient
is the same. The released L is the padded length of an answer; here L is a field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from gradus.credit.groups import Constant
from gradus.objectives.aggregation import pulling
from gradus.objectives.preference import members
from gradus.objectives.scores import MeanLogProb, Score, scored
from gradus.papers.bases.reinforce import reinforce
from gradus.recipe.claim import Claim, same_weights
from gradus.selection.filters import Mixed
from gradus.types import Frozen
from gradus.types.batch import Batch
from gradus.types.ranges import check_ranges
from gradus.types.signals import LogProb, Signal, Want
from gradus.types.tally import Tally, tally


def length_weights(lengths: Sequence[float] | np.ndarray, *, lam: float, most: float) -> np.ndarray:
    """Returns weights [P], which add up to 1, proportional to exp((1 - length / most) / lam).

    >>> length_weights([0.25, 0.5], lam=0.1, most=1.0).round(5).tolist()
    [0.92414, 0.07586]
    """
    rewards = (1 - np.asarray(lengths, np.float64) / most) / lam
    raised = np.exp(rewards - rewards.max())
    return raised / raised.sum()


@dataclass(frozen=True)
class ScoreGap:
    """Minus the gap of a group: the weighted mean score of its right answers, minus tau * log sum exp(score / tau) of its wrong answers.

    The loss is the mean over groups. A group without right or without wrong answers has the loss 0. The term beta / 2 * max(K - delta, 0)^2 is added.
    K is the mean of log pi_old - log pi over all actions of the mini-batch.
    """

    lam: float = 0.1  # small: nearly only the shortest right answer counts
    most: float = 8192  # L, in tokens
    tau: float = 10.0
    beta: float = 1000.0  # 0: no bound
    delta: float = 1e-4  # bound on K, in nats
    score: Score = MeanLogProb()
    source: str = "policy"
    separable: ClassVar[bool] = False
    unit: ClassVar[str] = "group"
    wants: ClassVar[tuple[Want, ...]] = (LogProb(),)

    def __post_init__(self) -> None:
        check_ranges(self, lam="(0, inf)", most="(0, inf)", tau="(0, inf)", beta="[0, inf)", delta="[0, inf)")

    @property
    def needs(self) -> tuple[Signal, ...]:
        return self.score.needs

    def loss(self, outputs: dict[Want, Tensor], batch: Batch) -> tuple[Tensor, dict[str, Tally]]:
        logprobs = pulling(outputs[LogProb()], batch.weight)
        scores = scored(self.score, logprobs, batch)
        right = np.array([t.right for t in batch.trajectories], bool)
        total = 0.0 * scores.sum()
        for ids in map(np.array, members(batch)):
            better, worse = ids[right[ids]], ids[~right[ids]]
            if len(better) and len(worse):
                weights = length_weights([batch.trajectories[i].actions for i in better], lam=self.lam, most=self.most)
                total = total + (scores[better] * scores.new_tensor(weights)).sum() - self.tau * torch.logsumexp(scores[worse] / self.tau, 0)
        mine = batch.trajectory.unique()
        marks = torch.from_numpy(right)[mine]
        apart = batch.old.get(LogProb(), logprobs.detach()) - logprobs
        bound = self.beta / 2 * (apart.mean() - self.delta).clamp(min=0).square()
        seen = {"gap_right": tally(scores.detach()[mine][marks]), "gap_wrong": tally(scores.detach()[mine][~marks]), "step_kl": tally(apart.detach())}
        return bound - total / max(batch.counts[self.source].groups, 1), seen


drpo = reinforce.derive(
    "drpo",
    "Right answers become more likely, short ones most of all, and wrong answers less likely; a bound on the KL limits each step.",
    family="thinking",
    selection=Mixed(),
    credit=Constant(),
    objective=Frozen(gap=ScoreGap()),
    update__count=4,
    setting__temperature=0.6,
)

_SMALL = {"objective.gap.most": "60", "update.count": "4", "temperature": "1"}

claims = (
    same_weights(
        says="With one update per batch the KL bound never acts: the final weights are those without it.",
        source="arXiv:2510.04474, the constraint at the old policy",
        against="drpo --objective.gap.beta 0",
        fields={"update.count": "1", "prompts": "8", "group": "4", "study": "none", "warmup": "0"},
        options={"level": "2"},
    ),
    Claim(
        says="Answers have at most 0.75 times the length that they have with uniform weights of the right answers.",
        source="arXiv:2510.04474, abstract (77 % shorter at a small loss); the ground, L = 60 and the size of the effect are ours",
        against="drpo --objective.gap.lam 1e6",
        measure="length",
        at_most=0.75,
        ground="wordy",
        fields=_SMALL,
        budget="steps=40",
    ),
    Claim(
        says="The accuracy is at least 0.97 times that with uniform weights of the right answers.",
        source="arXiv:2510.04474, abstract (1.1 points lower); the ground and the bound are ours",
        against="drpo --objective.gap.lam 1e6",
        measure="accuracy",
        at_least=0.97,
        ground="wordy",
        fields=_SMALL,
        budget="steps=40",
    ),
)
